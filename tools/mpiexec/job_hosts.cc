#include "job_hosts.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "clock.h"

namespace tern::mpiexec {

JobHosts::JobHosts(const RankHosts& places, std::string records)
    : places_(places), records_(std::move(records)), hosts_(places.names.size()), epoll_(epoll_create1(EPOLL_CLOEXEC)) {
  hosts_[0].ready = hosts_[0].synced = hosts_[0].over = true;
}

JobHosts::~JobHosts() {
  if (epoll_ >= 0) close(epoll_);
}

bool JobHosts::start(const AgentCommand& command, const JobText& job, char** argv) {
  std::vector<HostName> hosts;
  for (size_t id = 1; id < places_.names.size(); ++id) hosts.push_back({uint32_t(id), places_.names[id]});
  if (epoll_ < 0 || !agents_.start(hosts, command, argv)) return false;
  if (agents_.keeper_descriptor() >= 0) watch(agents_.keeper_descriptor(), Source::keeper, 0, EPOLLIN);
  const bool has_input = job.input_rank < places_.of_rank.size() && places_.of_rank[job.input_rank] != 0;
  if (has_input) {
    input_ = std::make_unique<RemoteInput>();
    input_rank_ = int(job.input_rank);
  }
  heard_ms_ = now_ms();
  send_all(FrameKind::job, packed(job));
  return true;
}

void JobHosts::add_stream(int rank, int stream, OutputPipe pipe) {
  streams_.try_emplace({rank, stream}, std::move(pipe));
}

template <typename Test>
bool JobHosts::all(Test test) const {
  return std::all_of(hosts_.begin(), hosts_.end(), [&](const Host& host) { return host.lost || test(host); });
}

bool JobHosts::all_ready() const {
  return all([](const Host& host) { return host.ready; });
}

bool JobHosts::all_synced() const {
  return all([](const Host& host) { return host.synced; });
}

bool JobHosts::all_over() const {
  return all([](const Host& host) { return host.over; });
}

std::vector<std::string> JobHosts::not_over() const {
  std::vector<std::string> names;
  for (size_t id = 0; id < hosts_.size(); ++id) {
    if (!hosts_[id].lost && !hosts_[id].over) names.push_back(places_.names[id]);
  }
  return names;
}

void JobHosts::watch(int descriptor, Source source, size_t index, uint32_t events) {
  epoll_event event{};
  event.events = events;
  event.data.u64 = uint64_t(source) << 32 | uint32_t(index);
  auto [known, fresh] = watched_.try_emplace(descriptor, ~events);
  if (known->second == events) return;
  known->second = events;
  // The end of a stream would be told for ever.
  if (events == 0) epoll_ctl(epoll_, EPOLL_CTL_DEL, descriptor, nullptr);
  if (events == 0) return;
  if (epoll_ctl(epoll_, EPOLL_CTL_ADD, descriptor, &event) != 0 && errno == EEXIST)
    epoll_ctl(epoll_, EPOLL_CTL_MOD, descriptor, &event);
}

// A descriptor that was closed is no longer watched; its number may be in use again.
void JobHosts::watch_agents() {
  std::map<int, uint32_t> open;
  const auto keep = [&](int descriptor) {
    if (auto known = watched_.find(descriptor); known != watched_.end()) open.insert(*known);
  };
  keep(agents_.keeper_descriptor());
  keep(STDIN_FILENO);
  for (size_t child = 0; child < agents_.size(); ++child) {
    keep(agents_.channel_descriptor(child));
    keep(agents_.error_descriptor(child));
  }
  watched_ = std::move(open);
  for (size_t child = 0; child < agents_.size(); ++child) {
    const uint32_t events = agents_.unsent(child) > 0 ? EPOLLIN | EPOLLOUT : EPOLLIN;
    if (const int channel = agents_.channel_descriptor(child); channel >= 0)
      watch(channel, Source::channel, child, events);
    if (const int errors = agents_.error_descriptor(child); errors >= 0) watch(errors, Source::errors, child, EPOLLIN);
  }
}

void JobHosts::on_events() {
  epoll_event events[64];
  const int n = epoll_wait(epoll_, events, 64, 0);
  for (int i = 0; i < n; ++i) {
    const auto index = size_t(uint32_t(events[i].data.u64));
    switch (Source(events[i].data.u64 >> 32)) {
      case Source::channel:
        if (events[i].events & ~uint32_t{EPOLLOUT}) agents_.on_channel(index);
        break;
      case Source::errors: agents_.on_errors(index); break;
      case Source::keeper: agents_.on_keeper(); break;
      case Source::input: give_input(); break;
    }
  }
}

bool JobHosts::next(Frame& frame) {
  for (Frame come; come_.empty() && agents_.next(come);) take(come);
  if (come_.empty()) return false;
  frame = std::move(come_.front());
  come_.pop_front();
  return true;
}

bool JobHosts::has_rank(const Frame& frame) const {
  return frame.rank >= 0 && size_t(frame.rank) < places_.of_rank.size() &&
         places_.of_rank[size_t(frame.rank)] == frame.host;
}

void JobHosts::take(Frame& frame) {
  if (frame.host == 0 || frame.host >= hosts_.size()) return;  // nobody's
  heard_ms_ = now_ms();
  Host& host = hosts_[frame.host];
  Unpacker body(frame.body);
  switch (frame.kind) {
    case FrameKind::ready:
      (void)unpack(frame.body, host.cores);  // of the same release
      host.ready = true;
      return;
    case FrameKind::out:
    case FrameKind::err: return take_output(frame);
    case FrameKind::record: return take_record(frame);
    case FrameKind::all_ended: return take_end(frame);
    case FrameKind::synced: host.synced = true; return;
    case FrameKind::taken:
      if (input_) input_->taken(size_t(body.number()));
      return;
    case FrameKind::lost:
      if (host.over) return;  // as it should be
      host.lost = true;
      break;
    default: break;
  }
  come_.push_back(std::move(frame));
}

void JobHosts::take_output(const Frame& frame) {
  hosts_[frame.host].untaken += frame.body.size();
  const auto stream = streams_.find({frame.rank, frame.kind == FrameKind::out ? 1 : 2});
  if (stream == streams_.end() || !has_rank(frame)) return;
  const int why = frame.body.empty() ? (stream->second.end(), 0) : stream->second.take(frame.body);
  if (why != 0)
    come_.push_back({FrameKind::say, 0, frame.rank, fmt::format("a rank's output file: {}", strerror(why))});
}

void JobHosts::take_record(const Frame& frame) {
  RecordPiece piece;
  if (records_.empty() || !unpack(frame.body, piece)) return;
  // Names of ranks' records are their own on each host only.
  const std::string path = fmt::format("{}/{}-{}", records_, frame.host, piece.name);
  const int file = open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
  bool good = file >= 0;
  for (size_t done = 0; good && done < piece.bytes.size();) {
    const ssize_t n = pwrite(file, piece.bytes.data() + done, piece.bytes.size() - done, off_t(piece.at + done));
    good = n > 0;
    if (good) done += size_t(n);
  }
  if (!good && piece.at == 0)
    come_.push_back({FrameKind::say, 0, -1, fmt::format("the record '{}': {}", path, strerror(errno))});
  if (file >= 0) close(file);
}

void JobHosts::take_end(const Frame& frame) {
  hosts_[frame.host].over = true;
  for (uint32_t process : Unpacker(frame.body).numbers())
    left_.push_back(fmt::format("{} on {}", process, places_.names[frame.host]));
}

void JobHosts::give_input() {
  std::string bytes;
  if (!input_->wanted() || !input_->read(bytes)) return;
  send(input_rank_, FrameKind::input, bytes);
}

void JobHosts::update(bool may_take) {
  for (size_t id = 1; may_take && id < hosts_.size(); ++id) {
    if (const uint64_t bytes = std::exchange(hosts_[id].untaken, 0); bytes != 0)
      agents_.send({FrameKind::credit, uint32_t(id), -1, Packer().number(bytes).take()});
  }
  if (input_ && all_ready()) {
    if (input_->can_be_watched()) watch(STDIN_FILENO, Source::input, 0, input_->wanted() ? uint32_t{EPOLLIN} : 0);
    else if (input_->wanted()) give_input();
  }
  agents_.flush();
  watch_agents();
}

std::vector<HostCores> JobHosts::cores(const HostCores& own) const {
  std::vector<HostCores> all{own};
  for (size_t id = 1; id < hosts_.size(); ++id) all.push_back(hosts_[id].cores);
  return all;
}

void JobHosts::start_ranks(int universe, const std::vector<int>& cores) {
  for (size_t id = 1; id < hosts_.size(); ++id) {
    std::string body = Packer().number(uint64_t(universe)).number(uint64_t(cores[id])).take();
    agents_.send({FrameKind::start, uint32_t(id), -1, std::move(body)});
  }
}

void JobHosts::release(const std::vector<std::string>& values) {
  for (const std::string& value : values) send_all(FrameKind::value, value);
  send_all(FrameKind::release);
}

void JobHosts::send(int rank, FrameKind kind, std::string body) {
  agents_.send({kind, places_.of_rank[size_t(rank)], rank, std::move(body)});
}

void JobHosts::send_all(FrameKind kind, std::string body) { agents_.send({kind, kEveryHost, -1, std::move(body)}); }

void JobHosts::signal_all(int signal) { send_all(FrameKind::signal, Packer().number(uint64_t(signal)).take()); }

void JobHosts::sync() {
  for (size_t id = 1; id < hosts_.size(); ++id) hosts_[id].synced = false;
  send_all(FrameKind::sync);
}

void JobHosts::end_all() {
  heard_ms_ = now_ms();
  send_all(FrameKind::end_all);
}

}  // namespace tern::mpiexec
