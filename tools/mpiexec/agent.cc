#include "agent.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <vector>

#include "agent_ranks.h"
#include "agents.h"
#include "base/system_names.h"
#include "clock.h"
#include "records.h"
#include "streams.h"

namespace tern::mpiexec {
namespace {

#ifndef TERN_VERSION
#error "TERN_VERSION comes from the build"
#endif

// mpiexec pings every two seconds (agents.cc). One that was stopped by a debugger does not; one that is stopped by
// Ctrl-Z says so before. Longer: its host, or the network to it, is down. Nobody sleeps two seconds longer than it
// asked for, unless it was stopped.
constexpr uint64_t kParentSilence_ms = 60'000;
constexpr uint64_t kWasStopped_ms = 2000;
// Frames that the way up does not take: with more, nothing is read that would make more.
constexpr size_t kMaxUnsent = 4 << 20;
constexpr size_t kRecordPiece = 1 << 18;

/// The files that ranks have left, piece by piece.
class RecordSender {
 public:
  explicit RecordSender(const std::string& folder) {
    std::error_code failure;
    for (const auto& entry : std::filesystem::directory_iterator(folder, failure)) {
      if (entry.is_regular_file(failure)) files_.push_back(entry.path());
    }
  }
  /// The next piece; false: there is none.
  bool next(RecordPiece& piece) {
    for (; !files_.empty(); files_.pop_back(), at_ = 0) {
      if (at_ == 0) file_ = std::ifstream(files_.back(), std::ios::binary);
      piece = {files_.back().filename(), at_, std::string(kRecordPiece, '\0')};
      file_.read(piece.bytes.data(), std::streamsize(kRecordPiece));
      piece.bytes.resize(size_t(file_.gcount()));
      at_ += piece.bytes.size();
      if (!piece.bytes.empty()) return true;
    }
    return false;
  }

 private:
  std::vector<std::filesystem::path> files_;
  std::ifstream file_;
  uint64_t at_ = 0;
};

class Agent {
 public:
  Agent(int in, int out, int signals, char** argv) : up_(in, out), signals_(signals), argv_(argv) {}
  int run();

 private:
  void add_waits(Waits& waits);
  int timeout_ms() const;
  void on_parent();
  void on_signals();
  void on_time();
  void take(const Frame& frame);
  void take_own(const Frame& frame);
  void open(const Frame& frame);
  void prepare(const Frame& frame);
  void start(const Frame& frame);
  void end_all();
  void pass_up();
  void send_records();
  bool is_over() const { return parent_gone_ || (all_ended_ && up_.unsent() == 0 && below_.all_ended()); }
  void send(FrameKind kind, std::string body = {}) { up_.send({kind, self_.id, -1, std::move(body)}); }

  Channel up_;
  int signals_;
  char** argv_;
  HostName self_{};
  Keeper keeper_;
  RecordFolder records_;
  Agents below_;
  std::unique_ptr<AgentRanks> ranks_;
  std::unique_ptr<RecordSender> sender_;
  std::vector<pid_t> left_;  ///< processes that the kernel does not end
  uint64_t record_events_ = 0;
  bool wants_records_ = false, paused_ = false, parent_gone_ = false, ending_ = false, all_ended_ = false;
};

int Agent::run() {
  while (!is_over()) {
    Waits waits;
    add_waits(waits);
    std::vector<pollfd> polled;
    for (const Wait& wait : waits) polled.push_back({wait.descriptor, wait.events, 0});
    poll(polled.data(), polled.size(), timeout_ms());
    for (size_t i = 0; i < waits.size(); ++i) {
      if (polled[i].revents != 0) waits[i].then(polled[i].revents);
    }
    on_time();
    pass_up();
    send_records();
    if (!up_.flush()) parent_gone_ = true;
  }
  return all_ended_ ? 0 : 1;
}

void Agent::add_waits(Waits& waits) {
  waits.push_back({signals_, POLLIN, [this](short) { on_signals(); }});
  waits.push_back({up_.descriptor(), POLLIN, [this](short) { on_parent(); }});
  if (up_.unsent() > 0) waits.push_back({up_.out_descriptor(), POLLOUT, [](short) {}});
  const bool room = up_.unsent() < kMaxUnsent;
  // Deaths before what others say in the same moment: they are the reason.
  if (keeper_.descriptor() >= 0) {
    waits.push_back({keeper_.descriptor(), POLLIN, [this](short) {
                       if (ranks_) ranks_->reap();
                     }});
  }
  if (ranks_) ranks_->add_waits(waits, room);
  if (below_.keeper_descriptor() >= 0)
    waits.push_back({below_.keeper_descriptor(), POLLIN, [this](short) { below_.on_keeper(); }});
  for (size_t child = 0; child < below_.size(); ++child) {
    const int channel = below_.channel_descriptor(child), errors = below_.error_descriptor(child);
    const short out = below_.unsent(child) > 0 ? POLLOUT : 0;
    if (channel >= 0 && (room || out)) {
      waits.push_back({channel, short((room ? POLLIN : 0) | out), [this, child](short come) {
                         if (come & ~POLLOUT) below_.on_channel(child);
                       }});
    }
    if (errors >= 0) waits.push_back({errors, POLLIN, [this, child](short) { below_.on_errors(child); }});
  }
}

int Agent::timeout_ms() const {
  if (sender_ && up_.unsent() < kMaxUnsent) return 0;
  uint64_t next = paused_ ? 0 : up_.heard_ms() + kParentSilence_ms;
  for (uint64_t one : {below_.next_ms(), ranks_ ? ranks_->next_ms() : 0}) {
    if (one != 0 && (next == 0 || one < next)) next = one;
  }
  const uint64_t now = now_ms();
  return next == 0 ? -1 : next <= now ? 0 : int(next - now);
}

void Agent::on_time() {
  const uint64_t now = now_ms();
  const uint64_t silent_at_ms = up_.heard_ms() + kParentSilence_ms;
  if (!paused_ && now >= silent_at_ms) {
    // Much later than poll() was to end: this process was stopped itself, or its machine was.
    if (now >= silent_at_ms + kWasStopped_ms) up_.forgive_silence();
    else parent_gone_ = true;
  }
  if (ranks_ && ranks_->next_ms() != 0 && now >= ranks_->next_ms()) ranks_->on_time(now);
  if (below_.next_ms() != 0 && now >= below_.next_ms()) below_.on_time();
  below_.flush();
}

// Frames that have come before the end of the channel are of no use any more.
void Agent::on_parent() {
  const bool open = up_.receive();
  Frame frame;
  FrameReader::Next next = FrameReader::Next::none;
  while (!parent_gone_ && (next = up_.next(frame)) == FrameReader::Next::frame) take(frame);
  if (!open && !up_.reader().begun() && up_.reader().noise().empty())
    say("as an agent of another mpiexec: what has started this program gives no standard input");
  if (!open || next == FrameReader::Next::broken) parent_gone_ = true;
}

void Agent::on_signals() {
  signalfd_siginfo info;
  while (read(signals_, &info, sizeof info) == ssize_t(sizeof info)) {
    if (info.ssi_signo == SIGCHLD) {  // with the keeper killed the ranks are this process's children
      if (ranks_) ranks_->reap();
      continue;
    }
    say(fmt::format("signal {} (SIG{}) has ended the agent", info.ssi_signo, signal_name(int(info.ssi_signo))));
    parent_gone_ = true;
  }
}

void Agent::take(const Frame& frame) {
  if (frame.kind == FrameKind::ping) return send(FrameKind::pong);
  if (frame.kind == FrameKind::open) return open(frame);
  if (frame.host == kEveryHost || frame.host != self_.id) below_.send(frame);
  if (frame.host == kEveryHost || frame.host == self_.id) take_own(frame);
}

void Agent::take_own(const Frame& frame) {
  switch (frame.kind) {
    case FrameKind::job: return prepare(frame);
    case FrameKind::start: return start(frame);
    case FrameKind::end_all: return end_all();
    case FrameKind::signal:
      if (frame.rank < 0) paused_ = Unpacker(frame.body).number() == SIGTSTP;
      break;
    default: break;
  }
  if (ranks_) ranks_->take(frame);
  else if (frame.kind == FrameKind::sync) send(FrameKind::synced);
}

void Agent::open(const Frame& frame) {
  Opening opening;
  const bool sound = unpack(frame.body, opening);
  self_ = opening.self;
  char path[4096];
  const ssize_t length = readlink("/proc/self/exe", path, sizeof path);
  send(FrameKind::greeting, packed(Greeting{TERN_VERSION, std::string(path, length > 0 ? size_t(length) : 0)}));
  // The other side says which versions have met.
  if (!sound || opening.version != TERN_VERSION) return;
  if (!keeper_.start(argv_) || !below_.start(opening.below, opening.command, argv_)) {
    send(FrameKind::refused,
         Packer().number(1).text(fmt::format("the agent cannot begin: {}", strerror(errno))).take());
  }
}

void Agent::prepare(const Frame& frame) {
  JobText job;
  std::string why;
  int code = 1;
  if (!unpack(frame.body, job)) why = "mpiexec's description of the job has not come whole";
  wants_records_ = job.records;
  record_events_ = job.record_events;
  if (why.empty()) {
    ranks_ = std::make_unique<AgentRanks>(self_.id, keeper_, [this](const Frame& said) { up_.send(said); });
    code = ranks_->prepare(std::move(job), why);
  }
  if (code != 0) return send(FrameKind::refused, Packer().number(uint64_t(code)).text(why).take());
  send(FrameKind::ready, packed(own_cores()));
}

void Agent::start(const Frame& frame) {
  if (!ranks_) return;
  if (wants_records_) {
    const char* temporary = getenv("TMPDIR");
    const std::string prefix = std::string(temporary && *temporary ? temporary : "/tmp") + "/tern-records-";
    if (!records_.make(prefix, [this](const std::string& path) { keeper_.sweep(path); }))
      send(FrameKind::say, fmt::format("no folder '{}...' for the ranks' records: {}", prefix, strerror(errno)));
  }
  Unpacker body(frame.body);
  const int universe = int(body.number()), cores = int(body.number());
  ranks_->start(universe, cores, records_.path());
}

void Agent::end_all() {
  if (std::exchange(ending_, true)) return;
  left_ = keeper_.end_all();
  if (ranks_) ranks_->drain();
  sender_ = std::make_unique<RecordSender>(records_.path());
}

void Agent::pass_up() {
  Frame frame;
  while (below_.next(frame)) up_.send(frame);
}

void Agent::send_records() {
  if (!sender_) return;
  RecordPiece piece;
  while (up_.unsent() < kMaxUnsent) {
    if (!sender_->next(piece)) {
      sender_.reset();
      Packer left;
      left.numbers({left_.begin(), left_.end()});
      send(FrameKind::all_ended, left.take());
      all_ended_ = true;
      return;
    }
    send(FrameKind::record, packed(piece));
  }
}

}  // namespace

int run_agent(char** argv) {
  // Nothing but the protocol goes to the channel.
  const int in = fcntl(0, F_DUPFD_CLOEXEC, 3), out = fcntl(1, F_DUPFD_CLOEXEC, 3);
  const int null = open("/dev/null", O_RDWR | O_CLOEXEC);
  if (in < 0 || out < 0 || null < 0) return 1;
  dup2(null, 0);
  dup2(null, 1);
  sigset_t handled;
  sigemptyset(&handled);
  for (int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGCHLD}) sigaddset(&handled, signal);
  sigprocmask(SIG_BLOCK, &handled, nullptr);
  const int signals = signalfd(-1, &handled, SFD_CLOEXEC | SFD_NONBLOCK);
  if (signals < 0) return 1;
  return Agent(in, out, signals, argv).run();
}

}  // namespace tern::mpiexec
