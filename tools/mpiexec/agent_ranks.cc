#include "agent_ranks.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "bind.h"
#include "clock.h"
#include "out_of_memory.h"
#include "own_library.h"
#include "rank_setup.h"

extern char** environ;

namespace tern::mpiexec {
namespace {

// Output on its way that mpiexec has not taken: with more, the ranks wait for its reader.
constexpr size_t kMaxUntaken = 1 << 20;
constexpr uint64_t kLook_ms = 1000;  // as mpiexec looks at its own ranks
constexpr int kKilling_ms = 50;      // the kernel ends a process within some time slices
constexpr size_t kOutputPiece = 1 << 14;

}  // namespace

AgentRanks::AgentRanks(uint32_t host, Keeper& keeper, std::function<void(Frame)> send)
    : host_(host), keeper_(keeper), send_(std::move(send)), null_(open("/dev/null", O_RDWR | O_CLOEXEC)) {}

AgentRanks::~AgentRanks() {
  for (auto& [number, rank] : ranks_) {
    for (int pipe : rank.pipes) {
      if (pipe >= 0) close(pipe);
    }
  }
  for (int descriptor : {null_, input_}) {
    if (descriptor >= 0) close(descriptor);
  }
}

void AgentRanks::send(FrameKind kind, int rank, std::string body) {
  send_({kind, host_, int32_t(rank), std::move(body)});
}

// --- Beginning

int AgentRanks::check_program(size_t number, std::string& why) {
  const ProgramText& program = job_.programs[number];
  if (access(program.directory.c_str(), X_OK) != 0) {
    why = fmt::format("working directory '{}': {}. {}", program.directory, strerror(errno),
                      program.directory_given ? "Make it there" : "Make it there, or name another with -wdir");
    return 1;
  }
  const int verdict = find_program(program.command[0], program.directory, program.search_path, files_[number]);
  if (verdict == 0) return 0;
  const bool path = program.command[0].find('/') != std::string::npos;
  why = fmt::format("{} '{}'{}. Copy it there, or name a folder that all hosts see",
                    verdict == 127 ? "there is no program" : "not an executable program:", program.command[0],
                    path ? fmt::format(" (in {})", program.directory) : " in PATH");
  return verdict;
}

int AgentRanks::prepare(JobText job, std::string& why) {
  job_ = std::move(job);
  killed_before_ = killed_for_memory();
  files_.resize(job_.programs.size());
  for (size_t rank = 0; rank < job_.host_of.size(); ++rank) {
    if (job_.host_of[rank] == host_) ranks_[int(rank)].program = int(job_.program_of[rank]);
  }
  // Relative names of programs begin where mpiexec is, if that folder exists here.
  [[maybe_unused]] const int moved = chdir(job_.directory.c_str());
  for (auto& [number, rank] : ranks_) {
    if (!files_[size_t(rank.program)].empty()) continue;
    if (const int code = check_program(size_t(rank.program), why)) return code;
  }
  return 0;
}

std::vector<std::string> AgentRanks::environment_of(const ProgramText& program) const {
  std::vector<std::string> environment = program.environment;
  const std::vector<std::string>& names = program.own_names;
  const auto allowed = [&names](std::string_view name) {
    return std::any_of(names.begin(), names.end(), [&](const std::string& one) { return one == "*" || one == name; });
  };
  for (char** entry = environ; *entry; ++entry) {
    const std::string_view name = name_of_variable(*entry);
    const bool own = belongs_to_one_host(name) && name != "PWD" && allowed(name);
    if (own && !has_variable(environment, name)) environment.emplace_back(*entry);
  }
  if (allowed("PWD") && !has_variable(environment, "PWD")) environment.push_back("PWD=" + program.directory);
  if (!records_.empty()) {
    set_variable(environment, "TERN_RECORD=" + records_);
    set_variable(environment, fmt::format("TERN_RECORD_EVENTS={}", job_.record_events));
  }
  return environment;
}

void AgentRanks::report_bindings(const Binding& binding) {
  std::string text;
  if (binding.masks.empty()) text = fmt::format("ranks are {}", binding.reason);
  size_t local = 0;
  for (auto& [number, rank] : ranks_) {
    if (local == binding.places.size()) break;
    text += fmt::format("{}rank {} bound to {}", text.empty() ? "" : "\n", number, binding.places[local++]);
  }
  send(FrameKind::say, -1, text);
}

void AgentRanks::start(int universe, int cores, const std::string& records) {
  cores_ = cores;
  records_ = records;
  getrlimit(RLIMIT_NOFILE, &limit_);
  rlimit raised = limit_;
  raised.rlim_cur = raised.rlim_max;
  setrlimit(RLIMIT_NOFILE, &raised);
  Placement placement;
  placement.report = job_.report_bindings;
  if (!job_.map_text.empty()) read_map(job_.map_text, placement);
  if (!job_.bind_text.empty()) read_bind(job_.bind_text, placement);
  const Binding binding = choose_binding(placement, int(ranks_.size()), int(job_.threads), cores_);
  if (placement.report) report_bindings(binding);
  const std::vector<int> programs(job_.program_of.begin(), job_.program_of.end());
  server_.emplace(job_.id, programs, universe, job_.mapping);
  server_->set_upstream([this](int rank, std::string_view line) { lines_.emplace_back(rank, line); });
  std::map<int, std::vector<std::string>> base;
  int local = 0;
  for (auto& [number, rank] : ranks_) {
    auto [at, fresh] = base.try_emplace(rank.program);
    if (fresh) {
      at->second = environment_of(job_.programs[size_t(rank.program)]);
      choose_own_library(at->second, files_[size_t(rank.program)]);
    }
    const cpu_set_t* mask = binding.masks.empty() ? nullptr : &binding.masks[size_t(local)];
    if (!start_rank(number, at->second, mask, local++)) break;
  }
}

// False: it is not possible, and that is said.
bool AgentRanks::start_rank(int number, const std::vector<std::string>& base, const cpu_set_t* cores, int local_rank) {
  Rank& rank = ranks_[number];
  const ProgramText& program = job_.programs[size_t(rank.program)];
  ChildSpec spec;
  spec.file = files_[size_t(rank.program)];
  spec.arguments = program.command;
  spec.directory = program.directory;
  spec.descriptors = limit_;
  spec.keep_as = kept_descriptor(limit_);
  if (cores) spec.cores = *cores;
  spec.standard[0] = null_;
  int why = 0, ends[2];
  const auto pipe_for = [&](int which) {  // the end for the rank is ends[which], ours the other
    if (why == 0 && pipe2(ends, O_CLOEXEC) != 0) why = errno;
    if (why != 0) return -1;
    fcntl(ends[1 - which], F_SETFL, O_NONBLOCK);
    return ends[1 - which];
  };
  if (number == int(job_.input_rank) && (input_ = pipe_for(0)) >= 0) spec.standard[0] = ends[0];
  for (int stream : {0, 1}) {
    if ((rank.pipes[stream] = pipe_for(1)) >= 0) spec.standard[stream + 1] = ends[1];
  }
  if (why == 0 && (spec.keep = server_->open(number)) < 0) why = errno;
  if (why == 0) {
    spec.environment = base;
    add_identity(spec.environment, {number, int(job_.host_of.size()), local_rank, int(ranks_.size()), cores_,
                                    spec.keep_as, job_.id, job_.key});
    // What the rank would write there as it ends, mpiexec may write for all ranks that say the same.
    if (!job_.errors_in_file)
      spec.environment.push_back(fmt::format("{}={}", kStandardErrorVariable, file_name_of(spec.standard[2])));
    if (!keeper_.start_child(number, spec)) why = errno;
  }
  for (int descriptor : {spec.keep, spec.standard[0], spec.standard[1], spec.standard[2]}) {
    if (descriptor >= 0 && descriptor != null_) close(descriptor);
  }
  if (why != 0) {
    send(FrameKind::ended, number, packed(Ended{W_EXITCODE(1, 0), why, 0}));
    return false;
  }
  rank.live = true;
  if (cores) rank.described = ", processors " + core_list(*cores);
  return true;
}

// --- Middle

void AgentRanks::take(const Frame& frame) {
  Unpacker body(frame.body);
  switch (frame.kind) {
    case FrameKind::credit: untaken_ -= std::min(untaken_, size_t(body.number())); return;
    case FrameKind::input: return add_input(frame.body);
    case FrameKind::signal: {
      const int signal = int(body.number());
      if (frame.rank < 0) keeper_.signal_all(signal);
      else keeper_.signal_one(frame.rank, signal);
      return;
    }
    case FrameKind::sync:
      keeper_.sync();
      reap();
      return send(FrameKind::synced, -1);
    default: break;
  }
  if (!server_) return;
  switch (frame.kind) {
    case FrameKind::value: return server_->store(frame.body);
    case FrameKind::release: return server_->release();
    case FrameKind::pmi_answer:
      if (ranks_.contains(frame.rank)) server_->pass_on(frame.rank, frame.body);
      return;
    case FrameKind::ask:
    case FrameKind::look:
      send_looks();
      for (auto& [number, rank] : ranks_) {
        if (frame.kind != FrameKind::ask || !rank.live || !server_->is_inside(number)) continue;
        ask_process(server_->report(number));
      }
      return;
    default: return;
  }
}

void AgentRanks::send_looks() {
  on_time(now_ms());
  std::vector<Look> looks;
  for (auto& [number, rank] : ranks_) {
    looks.push_back(
        {uint32_t(number), rank.activity.alone_ms(now_ms()), rank.live && is_stopped(server_->report(number))});
  }
  send(FrameKind::looks, -1, packed(looks));
}

void AgentRanks::on_time(uint64_t now) {
  bool some = false;
  for (auto& [number, rank] : ranks_) {
    const bool readable = server_ && rank.live && server_->is_inside(number);
    rank.activity.look(readable ? &server_->report(number) : nullptr, now);
    some = some || rank.activity.known();
  }
  look_at_ms_ = some ? now + kLook_ms : 0;
}

void AgentRanks::add_waits(Waits& waits, bool may_read) {
  const bool room = may_read && untaken_ < kMaxUntaken;
  for (auto& [number, rank] : ranks_) {
    const int id = number;
    for (int stream : {0, 1}) {
      if (rank.pipes[stream] >= 0 && room)
        waits.push_back({rank.pipes[stream], POLLIN, [this, id, stream](short) { on_pipe(id, stream); }});
    }
    if (!server_ || server_->descriptor(id) < 0) continue;
    const short events = short(server_->has_unsent(id) ? POLLIN | POLLOUT : POLLIN);
    waits.push_back({server_->descriptor(id), events, [this, id](short come) { on_pmi(id, come); }});
  }
  if (input_ >= 0 && !input_unsent_.empty()) waits.push_back({input_, POLLOUT, [this](short) { flush_input(); }});
}

void AgentRanks::on_pipe(int number, int stream) {
  int& pipe = ranks_[number].pipes[stream];
  if (pipe < 0) return;
  char buffer[kOutputPiece];
  const ssize_t n = read(pipe, buffer, sizeof buffer);
  if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
  const FrameKind kind = stream == 0 ? FrameKind::out : FrameKind::err;
  // Its end is told, too: what it has begun is a line then.
  send(kind, number, std::string(buffer, n > 0 ? size_t(n) : 0));
  if (n > 0) untaken_ += size_t(n);
  else close(std::exchange(pipe, -1));
}

void AgentRanks::send_lines() {
  for (auto& [rank, line] : std::exchange(lines_, {})) send(FrameKind::pmi, rank, line);
}

void AgentRanks::on_pmi(int number, short events) {
  if (server_->descriptor(number) < 0) return;
  if (events & POLLOUT) server_->flush(number);
  const bool aborts = server_->serve(number).has_value();
  if (look_at_ms_ == 0 && server_->is_inside(number)) look_at_ms_ = now_ms();
  if (!aborts) return send_lines();
  // A rank that died earlier is the reason, not this one.
  const auto held = std::exchange(lines_, {});
  keeper_.sync();
  take_reports(number);
  for (auto& [rank, line] : held) send(FrameKind::pmi, rank, line);
  reap();
}

void AgentRanks::add_input(const std::string& bytes) {
  if (bytes.empty()) input_ends_ = true;
  input_unsent_ += bytes;
  flush_input();
}

void AgentRanks::flush_input() {
  size_t done = 0;
  bool broken = input_ < 0;
  while (!broken && done < input_unsent_.size()) {
    const ssize_t n = write(input_, input_unsent_.data() + done, input_unsent_.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == EAGAIN) break;
    broken = n < 0;  // the rank does not read any more
    if (!broken) done += size_t(n);
  }
  if (broken) done = input_unsent_.size();
  if (done > 0) send(FrameKind::taken, -1, Packer().number(done).take());
  input_unsent_.erase(0, done);
  if (input_ >= 0 && (broken || (input_ends_ && input_unsent_.empty()))) close(std::exchange(input_, -1));
}

// --- End

void AgentRanks::reap() { take_reports(-1); }

// Takes the keeper's reports; the end of the rank `but` is told the next time.
void AgentRanks::take_reports(int but) {
  std::vector<Report> ended = std::exchange(later_, {});
  const auto collect = [&] {
    for (Report report; keeper_.next(report);) {
      if (report.kind == ReportKind::started) {
        const std::string& more = ranks_[report.id].described;
        send(FrameKind::started, report.id, Packer().number(uint64_t(report.pid)).text(more).take());
      }
      if (report.kind == ReportKind::ended || report.kind == ReportKind::failed) ended.push_back(report);
    }
  };
  collect();
  // The connections of a rank that is killed are closed before it counts as ended: another may have noticed, and ended
  // before that. The killed one is the cause.
  const auto left_inside = [&](const Report& report) {
    return !WIFSIGNALED(report.status) && server_ && server_->is_inside(report.id);
  };
  for (int i = 0; i < kKilling_ms && std::any_of(ended.begin(), ended.end(), left_inside); ++i) {
    const bool others = keeper_.some_end_soon();
    keeper_.sync();
    collect();
    if (!others) break;
    usleep(1000);
  }
  std::stable_partition(ended.begin(), ended.end(), [](const Report& report) { return WIFSIGNALED(report.status); });
  for (const Report& report : ended) {
    if (report.id == but) later_.push_back(report);
    else send_ended(report);
  }
}

// Behind all that the rank has said.
void AgentRanks::send_ended(const Report& report) {
  Rank& rank = ranks_[report.id];
  constexpr int kPieces = 16;  // of a pipe: more than it holds
  for (int stream : {0, 1}) {
    for (int i = 0; i < kPieces && rank.pipes[stream] >= 0 && untaken_ < kMaxUntaken; ++i) on_pipe(report.id, stream);
  }
  if (server_) server_->rank_ended(report.id);
  send_lines();
  rank.live = false;
  const uint64_t now = killed_for_memory();
  const int status = report.kind == ReportKind::failed ? W_EXITCODE(1, 0) : report.status;
  send(FrameKind::ended, report.id, packed(Ended{status, report.error, now - std::min(now, killed_before_)}));
}

void AgentRanks::drain() {
  reap();
  constexpr int kPieces = 1 << 10;  // a writer that was not killed could go on for ever
  for (auto& [number, rank] : ranks_) {
    for (int stream : {0, 1}) {
      for (int i = 0; i < kPieces && rank.pipes[stream] >= 0; ++i) {
        pollfd ready{rank.pipes[stream], POLLIN, 0};
        if (poll(&ready, 1, 0) != 1) break;
        on_pipe(number, stream);
      }
    }
  }
}

}  // namespace tern::mpiexec
