#include "agents.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <utility>

#include "agent_command.h"
#include "clock.h"

extern char** environ;

namespace tern::mpiexec {
namespace {

#ifndef TERN_VERSION
#error "TERN_VERSION comes from the build"
#endif

// A greeting shows that the other agents, which share its processor and its network, may still come: the limit counts
// from the last greeting on. With ssh's own limit for the connection (agent_command.cc) less than ten seconds in all.
constexpr uint64_t kGreeting_ms = 9000;
constexpr uint64_t kPing_ms = 2000;
// An agent sleeps until something comes, and answers within milliseconds.
constexpr uint64_t kSilence_ms = 8000;
// ssh ends within milliseconds after its connection; its exit code and last words say why.
constexpr uint64_t kLastWords_ms = 1000;
constexpr size_t kMaxSaid = 1 << 14;

}  // namespace

bool Agents::start(const std::vector<HostName>& hosts, const AgentCommand& command, char** argv) {
  command_ = command;
  progress_ms_ = ping_ms_ = looked_ms_ = now_ms();
  if (hosts.empty()) return true;
  if (!keeper_.start(argv)) return false;
  // Even parts; the first of each is started here, and starts the rest of its part.
  const size_t parts = std::min<size_t>(command.width, hosts.size());
  for (size_t part = 0; part < parts; ++part) {
    const size_t begin = hosts.size() * part / parts, end = hosts.size() * (part + 1) / parts;
    auto child = std::make_unique<Child>();
    child->host = hosts[begin];
    child->below.assign(hosts.begin() + ptrdiff_t(begin) + 1, hosts.begin() + ptrdiff_t(end));
    children_.push_back(std::move(child));
    if (const int why = start_child(*children_.back(), int(part)); why != 0) {
      children_.pop_back();
      errno = why;
      return false;
    }
  }
  flush();
  return true;
}

int Agents::start_child(Child& child, int id) {
  int ends[2], errors[2] = {-1, -1};
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) return errno;
  if (pipe2(errors, O_CLOEXEC) != 0) {
    const int why = errno;
    close(ends[0]);
    close(ends[1]);
    return why;
  }
  ChildSpec spec;
  spec.arguments = command_for(command_, child.host.name);
  if (const int verdict = find_program(spec.arguments[0], "", "", spec.file); verdict != 0)
    child.error = verdict == 127 ? ENOENT : EACCES;
  for (char** entry = environ; *entry; ++entry) spec.environment.emplace_back(*entry);
  spec.standard[0] = spec.standard[1] = ends[1];
  spec.standard[2] = errors[1];
  getrlimit(RLIMIT_NOFILE, &spec.descriptors);
  const int why = child.error != 0 || keeper_.start_child(id, spec) ? 0 : errno;
  close(ends[1]);
  close(errors[1]);
  child.errors = errors[0];
  fcntl(child.errors, F_SETFL, O_NONBLOCK);
  child.channel = std::make_unique<Channel>(ends[0], ends[0]);
  child.channel->send(
      {FrameKind::open, child.host.id, -1, packed(Opening{TERN_VERSION, child.host, child.below, command_})});
  if (child.error != 0) {
    child.status = W_EXITCODE(1, 0);
    close_channel(child);
  }
  return why;
}

Agents::Child* Agents::child_of(uint32_t host) {
  for (auto& child : children_) {
    if (child->host.id == host) return child.get();
    for (const HostName& below : child->below) {
      if (below.id == host) return child.get();
    }
  }
  return nullptr;
}

void Agents::send(const Frame& frame) {
  if (frame.host == kEveryHost) {
    for (auto& child : children_) child->channel->send(frame);
  } else if (Child* child = child_of(frame.host)) {
    child->channel->send(frame);
  }
}

void Agents::flush() {
  for (auto& child : children_) {
    if (child->channel->unsent() > 0 && !child->channel->flush()) close_channel(*child);
  }
}

// False: it is not to be passed on.
bool Agents::take(Child& child, const Frame& frame) {
  if (frame.kind == FrameKind::pong) return false;
  if (frame.kind != FrameKind::greeting || frame.host != child.host.id) return true;
  Greeting greeting;
  const bool sound = unpack(frame.body, greeting);
  progress_ms_ = now_ms();
  if (sound && greeting.version == TERN_VERSION) {
    child.greeted = true;
  } else {
    child.other_version = greeting.version;
    close_channel(child);
  }
  return false;
}

void Agents::on_channel(size_t index) {
  Child& child = *children_[index];
  const bool open = child.channel->receive();
  Frame frame;
  FrameReader::Next next;
  while ((next = child.channel->next(frame)) == FrameReader::Next::frame) {
    if (take(child, frame)) come_.push_back(std::move(frame));
  }
  if (!open || next == FrameReader::Next::broken) close_channel(child);
}

void Agents::on_errors(size_t index) {
  Child& child = *children_[index];
  char buffer[4096];
  ssize_t n;
  while (child.errors >= 0 && (n = read(child.errors, buffer, sizeof buffer)) != 0) {
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return;
    child.said.append(buffer, size_t(n));
    if (child.said.size() > kMaxSaid) child.said.erase(0, child.said.size() - kMaxSaid);
  }
  if (child.errors >= 0) close(std::exchange(child.errors, -1));
}

void Agents::on_keeper() {
  for (Report report; keeper_.next(report);) {
    if (report.kind != ReportKind::ended && report.kind != ReportKind::failed) continue;
    Child& child = *children_[size_t(report.id)];
    child.status = report.kind == ReportKind::ended ? report.status : W_EXITCODE(1, 0);
    child.error = report.error;
    // What it has written is still in the socket: on_channel closes it. A process that holds the other end open
    // was left behind by ssh, and is no agent.
    if (child.closed_ms == 0) on_channel(size_t(report.id));
    close_channel(child);
  }
}

void Agents::close_channel(Child& child) {
  if (child.closed_ms == 0) child.closed_ms = now_ms();
  child.channel->close();
  if (child.status) lose(child);
}

void Agents::lose(Child& child) {
  if (std::exchange(child.lost, true)) return;
  for (size_t i = 0; i < children_.size(); ++i) {
    if (children_[i].get() == &child) on_errors(i);
  }
  if (child.errors >= 0) close(std::exchange(child.errors, -1));
  AgentEnd end{child.host.name, child.greeted, child.silent,       child.status,
               child.error,     child.said,    child.other_version};
  if (!child.channel->reader().begun()) end.said = child.channel->reader().noise() + end.said;
  const std::string why = why_lost(end, command_, TERN_VERSION);
  come_.push_back({FrameKind::lost, child.host.id, -1, why});
  // Those that it has started end with it.
  for (const HostName& host : child.below) come_.push_back({FrameKind::lost, host.id, -1, ""});
}

bool Agents::next(Frame& frame) {
  if (come_.empty()) return false;
  frame = std::move(come_.front());
  come_.pop_front();
  return true;
}

bool Agents::all_greeted() const {
  return std::all_of(children_.begin(), children_.end(), [](auto& child) { return child->greeted && !child->lost; });
}

bool Agents::all_ended() const {
  return come_.empty() &&
         std::all_of(children_.begin(), children_.end(), [](auto& child) { return child->closed_ms != 0; });
}

void Agents::forgive_silence() {
  for (auto& child : children_) child->channel->forgive_silence();
  progress_ms_ = now_ms();
}

// Between its attempts ssh waits for a second.
uint64_t Agents::greetings_until_ms() const {
  return progress_ms_ + kGreeting_ms + 1000 * uint64_t(connection_attempts(command_) - 1);
}

uint64_t Agents::next_ms() const {
  if (!come_.empty()) return 1;  // there is something to do already
  uint64_t next = 0;
  for (auto& child : children_) {
    if (child->lost) continue;
    uint64_t at = child->closed_ms != 0 ? child->closed_ms + kLastWords_ms : ping_ms_ + kPing_ms;
    if (!child->greeted && child->closed_ms == 0) at = std::min(at, greetings_until_ms());
    if (next == 0 || at < next) next = at;
  }
  return next;
}

void Agents::on_time() {
  const uint64_t now = now_ms();
  // This process was stopped itself, or its machine was: the silence of others is no sign.
  if (now >= looked_ms_ + 2 * kPing_ms) forgive_silence();
  looked_ms_ = now;
  const bool ping = now >= ping_ms_ + kPing_ms;
  if (ping) ping_ms_ = now;
  for (size_t i = 0; i < children_.size(); ++i) {
    Child& child = *children_[i];
    if (child.lost) continue;
    if (child.closed_ms != 0) {
      if (now < child.closed_ms + kLastWords_ms) continue;
      keeper_.signal_one(int(i), SIGKILL);
      lose(child);
      continue;
    }
    const auto is_late = [&] {
      return child.greeted ? now >= child.channel->heard_ms() + kSilence_ms : now >= greetings_until_ms();
    };
    // What has come while this process did something else is no silence.
    if (is_late()) on_channel(i);
    if (child.closed_ms == 0 && is_late()) {
      child.silent = true;
      keeper_.signal_one(int(i), SIGKILL);
      child.channel->close();
      child.closed_ms = now;
      lose(child);
    } else if (ping && child.closed_ms == 0) {
      child.channel->send({FrameKind::ping, child.host.id});
    }
  }
  flush();
}

}  // namespace tern::mpiexec
