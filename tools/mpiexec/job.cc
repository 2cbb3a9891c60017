#include "job.h"

#include <fmt/format.h>
#include <signal.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <ctime>

namespace tern::mpiexec {
namespace {
// Ranks may clean up after SIGTERM for so long; with the kill, the job is gone within a second.
constexpr uint64_t kMercyMs = 500;
// Ranks asked for a report (TERN_HANG_REPORT) before a kill may write for so long.
constexpr uint64_t kReportMs = 1000;
constexpr int kTimeoutExitCode = 124;  // as timeout(1)
// Output that our own reader has not taken; beyond it the ranks' pipes are left to fill.
constexpr size_t kOutputHigh = 1 << 20;

bool reports_wanted() {
  const char* wish = getenv("TERN_HANG_REPORT");
  return wish && *wish && strcmp(wish, "0") != 0;
}
}  // namespace

uint64_t Job::now_ms() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return uint64_t(now.tv_sec) * 1000 + uint64_t(now.tv_nsec) / 1'000'000;
}

std::string Job::name_of(int rank) const {
  return fmt::format("rank {} ({})", rank, plan_.apps[size_t(ranks_[size_t(rank)].app)].command[0]);
}

void Job::watch(int descriptor, Source source, int index, uint32_t events) {
  epoll_event event{};
  event.events = events;
  event.data.u64 = uint64_t(source) << 32 | uint32_t(index);
  if (epoll_ctl(epoll_, EPOLL_CTL_ADD, descriptor, &event) != 0 && errno == EEXIST) {
    epoll_ctl(epoll_, EPOLL_CTL_MOD, descriptor, &event);
  }
}

void Job::unwatch(int descriptor) { epoll_ctl(epoll_, EPOLL_CTL_DEL, descriptor, nullptr); }

void Job::loop() {
  epoll_event events[64];
  while (live_ > 0) {
    update_watches();
    int n = epoll_wait(epoll_, events, 64, next_timeout_ms());
    if (n < 0 && errno != EINTR) fail(1, fmt::format("epoll_wait: {}", strerror(errno)));
    // Deaths first: a rank that died is the reason, what its neighbours say about it in the same moment is
    // not.
    for (int i = 0; i < n; ++i) {
      if (Source(events[i].data.u64 >> 32) == Source::signals) on_signals();
    }
    for (int i = 0; i < n; ++i) {
      Source source = Source(events[i].data.u64 >> 32);
      if (source != Source::signals) dispatch(source, int(uint32_t(events[i].data.u64)), events[i].events);
    }
    on_deadlines();
  }
}

void Job::dispatch(Source source, int index, uint32_t events) {
  switch (source) {
    case Source::signals: return on_signals();
    case Source::pmi: return on_pmi(index, events);
    case Source::pipe: return on_pipe(index);
    case Source::sink: return;  // update_watches() writes
    case Source::terminal: return input_.read_terminal();
    case Source::rank_input: return input_.flush();
  }
}

int Job::next_timeout_ms() const {
  uint64_t next = 0;
  for (uint64_t deadline : {timeout_at_ms_, kill_at_ms_, report_until_ms_}) {
    if (deadline != 0 && (next == 0 || deadline < next)) next = deadline;
  }
  if (next == 0) return -1;
  uint64_t now = now_ms();
  return next <= now ? 0 : int(std::min<uint64_t>(next - now, 1'000'000'000));
}

// What is watched follows from who has something to say and who can take it.
void Job::update_watches() {
  Sink* sinks[] = {&out_, &err_};
  for (int i = 0; i < 2; ++i) {
    if (!sinks[i]->flush()) fail(128 + SIGPIPE, "");
    bool wanted = sinks[i]->waiting() > 0;
    if (wanted != sink_watched_[i]) {
      wanted ? watch(sinks[i]->descriptor(), Source::sink, i, EPOLLOUT) : unwatch(sinks[i]->descriptor());
      sink_watched_[i] = wanted;
    }
  }
  bool paused = std::max(out_.waiting(), err_.waiting()) > kOutputHigh;
  if (paused != pipes_paused_) {
    for (size_t i = 0; i < pipes_.size(); ++i) {
      if (pipes_[i].descriptor() < 0) continue;
      paused ? unwatch(pipes_[i].descriptor()) : watch(pipes_[i].descriptor(), Source::pipe, int(i), EPOLLIN);
    }
    pipes_paused_ = paused;
  }
  if (bool wanted = input_.wants_input(); wanted != input_watched_) {
    wanted ? watch(STDIN_FILENO, Source::terminal, 0, EPOLLIN) : unwatch(STDIN_FILENO);
    input_watched_ = wanted;
  }
  if (bool wanted = input_.has_unsent(); wanted != rank_input_watched_) {
    if (wanted) watch(input_.pipe_descriptor(), Source::rank_input, 0, EPOLLOUT);
    if (!wanted && input_.is_open()) unwatch(input_.pipe_descriptor());
    rank_input_watched_ = wanted;
  }
  for (int rank = 0; rank < int(ranks_.size()); ++rank) {
    bool wanted = server_->has_unsent(rank);
    if (wanted == pmi_write_watched_[size_t(rank)]) continue;
    if (server_->descriptor(rank) >= 0) {
      watch(server_->descriptor(rank), Source::pmi, rank, wanted ? EPOLLIN | EPOLLOUT : EPOLLIN);
    }
    pmi_write_watched_[size_t(rank)] = wanted;
  }
}

void Job::on_pmi(int rank, uint32_t events) {
  if (server_->descriptor(rank) < 0) return;  // closed earlier in this round
  if (events & EPOLLOUT) server_->flush(rank);
  if (auto code = server_->serve(rank)) {
    reap();  // a rank that died earlier is the reason, not this one
    abort_asked(rank, *code);
  }
  check_stuck();
}

void Job::on_pipe(int index) { pipes_[size_t(index)].pump(); }

void Job::on_signals() {
  signalfd_siginfo info;
  while (read(signals_, &info, sizeof info) == ssize_t(sizeof info)) {
    switch (int(info.ssi_signo)) {
      case SIGCHLD: reap(); break;
      case SIGUSR1: request_reports(); break;
      case SIGTSTP: on_terminal_stop(); break;
      case SIGCONT: on_terminal_continue(); break;
      default:
        if (interrupted_) {  // asked twice: no mercy
          kill_at_ms_ = now_ms();
        } else {
          interrupted_ = true;
          fail(128 + int(info.ssi_signo), fmt::format("{}; ending the job", sigdescr_np(int(info.ssi_signo))));
        }
    }
  }
}

void Job::on_terminal_stop() {
  signal_ranks(SIGTSTP);
  raise(SIGSTOP);
}

void Job::on_terminal_continue() { signal_ranks(SIGCONT); }

void Job::signal_ranks(int signal) {
  if (guard_.group() > 0) kill(-guard_.group(), signal);
}

void Job::on_deadlines() {
  const uint64_t now = now_ms();
  if (kill_at_ms_ != 0 && now >= kill_at_ms_) {
    // Each by itself, not by the group: the guard is to stay until all are gone.
    for (auto& rank : ranks_) {
      if (rank.pid > 0) kill(rank.pid, SIGKILL);
    }
    kill_at_ms_ = 0;
  }
  if (report_until_ms_ != 0 && now >= report_until_ms_) {
    report_until_ms_ = 0;
    end_ranks("");
  }
  if (timeout_at_ms_ != 0 && now >= timeout_at_ms_) {
    timeout_at_ms_ = 0;
    if (ending_) return;
    exit_code_ = kTimeoutExitCode;  // also when some rank has failed quietly before
    const std::string message =
        fmt::format("time is up after {} s (MPIEXEC_TIMEOUT or -timeout); ending the job", plan_.timeout_s);
    if (reports_wanted()) {
      fmt::print(stderr, "mpiexec: {}\n", message);
      request_reports();
      report_until_ms_ = now + kReportMs;
    } else {
      end_ranks(message);
    }
  }
}

// Every rank that is inside MPI is asked to print what it waits for. Without TERN_HANG_REPORT the ranks do
// not listen to the signal, which would then kill them.
void Job::request_reports() {
  if (!reports_wanted()) {
    fmt::print(stderr, "mpiexec: no reports: the job was started without TERN_HANG_REPORT=1\n");
    return;
  }
  for (size_t rank = 0; rank < ranks_.size(); ++rank) {
    if (ranks_[rank].pid > 0 && server_->is_inside(int(rank))) kill(ranks_[rank].pid, SIGUSR1);
  }
}

void Job::reap() {
  std::vector<int> ended;
  int status;
  for (pid_t pid; (pid = waitpid(-1, &status, WNOHANG)) > 0;) {
    auto rank = std::find_if(ranks_.begin(), ranks_.end(), [&](const Rank& r) { return r.pid == pid; });
    if (rank == ranks_.end()) continue;  // the guard, if somebody killed it
    rank->pid = -1;
    rank->status = status;
    --live_;
    ended.push_back(int(rank - ranks_.begin()));
  }
  if (ended.empty()) return;
  // Of those that ended together, signals count first: they are causes more often than exit codes are.
  std::stable_partition(ended.begin(), ended.end(), [&](int rank) { return WIFSIGNALED(ranks_[size_t(rank)].status); });
  for (int rank : ended) judge(rank);
  check_stuck();
}

void Job::judge(int rank) {
  if (server_->descriptor(rank) >= 0) unwatch(server_->descriptor(rank));
  const std::optional<int> abort_code = server_->rank_ended(rank);
  const bool inside = server_->is_inside(rank);
  const int status = ranks_[size_t(rank)].status;
  if (const int why = failures_[rank]) {
    return fail(why == ENOENT ? 127 : 126, fmt::format("{} cannot be started: {}", name_of(rank), strerror(why)));
  }
  if (abort_code) return abort_asked(rank, *abort_code);
  if (WIFSIGNALED(status)) {
    const int signal = WTERMSIG(status);
    return fail(128 + signal, fmt::format("{} was killed by signal {} (SIG{}, {}){}", name_of(rank), signal,
                                          sigabbrev_np(signal) ? sigabbrev_np(signal) : "?",
                                          sigdescr_np(signal) ? sigdescr_np(signal) : "unknown",
                                          live_ > 0 ? "; ending the others" : ""));
  }
  const int code = WEXITSTATUS(status);
  if (inside && live_ > 0) {
    return fail(code != 0 ? code : 1, fmt::format("{} ended with exit code {} after MPI_Init, without MPI_Finalize; "
                                                  "ending the others",
                                                  name_of(rank), code));
  }
  if (code != 0 && !exit_code_) exit_code_ = code;
}

// All ranks must enter a fence: one that has ended never will.
void Job::check_stuck() {
  if (ending_) return;
  const int stuck = server_->stuck_rank();
  if (stuck < 0) return;
  const int gone = server_->first_ended();
  const int code = WIFEXITED(ranks_[size_t(gone)].status) ? WEXITSTATUS(ranks_[size_t(gone)].status) : 0;
  fail(code != 0 ? code : 1,
       fmt::format("{} ended with exit code {} {}, but {} waits for every rank in MPI_Init or MPI_Finalize; "
                   "ending the others",
                   name_of(gone), code, server_->was_inside(gone) ? "after MPI_Finalize" : "without calling MPI_Init",
                   name_of(stuck)));
}

void Job::abort_asked(int rank, int code) {
  // 256 and the like would read as success.
  const int low = code & 255;
  fail(code != 0 && low == 0 ? 1 : low, fmt::format("{} aborted the job with code {}", name_of(rank), code));
}

void Job::fail(int code, const std::string& message) {
  if (ending_) return;
  if (!exit_code_) exit_code_ = code;
  end_ranks(message);
}

void Job::end_ranks(const std::string& message) {
  if (ending_) return;
  ending_ = true;
  if (!message.empty()) fmt::print(stderr, "mpiexec: {}\n", message);
  signal_ranks(SIGTERM);
  signal_ranks(SIGCONT);  // a stopped rank would not notice
  kill_at_ms_ = now_ms() + kMercyMs;
}

// All ranks are gone, the pipes hold what they wrote last. A reader of ours that does not read is waited for,
// unless the job was ended: then it gets a moment.
void Job::drain_output() {
  for (auto& pipe : pipes_) {
    for (int empty = 0; pipe.descriptor() >= 0 && empty < 64; ++empty) pipe.pump();
    while (pipe.sink().waiting() > 0 && pipe.sink().flush() && pipe.sink().waiting() > 0) {
      if (ending_ && interrupted_) return;
      usleep(1000);
    }
  }
}

}  // namespace tern::mpiexec
