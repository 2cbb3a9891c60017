// The end of a job: which rank has ended and why, what that means for the others, and cleaning up.
#include <fmt/format.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <map>
#include <utility>

#include "base/system_names.h"
#include "job.h"
#include "linked_mpi.h"
#include "out_of_memory.h"
#include "process/launch/spawn_command.h"
#include "ranges.h"

namespace tern::mpiexec {
namespace {
// Time for ranks to clean up after SIGTERM; together with the kill, the job has ended within a second.
constexpr uint64_t kTermGrace_ms = 500;
// When a signal ends the job and all ranks are gone, our reader gets so long to take the remaining output; with the
// above less than a second.
constexpr uint64_t kLastOutput_ms = 200;
// The kernel ends a process within a few milliseconds, on a busy machine within some time slices.
constexpr int kEnding_ms = 50;
}  // namespace

// Takes the keeper's reports.
void Job::reap() {
  std::vector<int> ended;
  for (Report report; keeper_.next(report);) {
    if (report.kind == ReportKind::started) on_started(report.id, report.pid);
    if (report.kind != ReportKind::ended && report.kind != ReportKind::failed) continue;
    if (report.id >= int(ranks_.size())) {
      on_spawned_ended(report.id - int(ranks_.size()), report.error != 0 ? W_EXITCODE(1, 0) : report.status);
      continue;
    }
    Rank& rank = ranks_[size_t(report.id)];
    rank.live = false;
    rank.status = report.status;
    rank.failure = report.error;
    --live_;
    ended.push_back(report.id);
  }
  judge_all(std::move(ended));
}

void Job::judge_all(std::vector<int> ended) {
  if (ended.empty()) return;
  // One that has asked for the end of the job is judged when it is known what was before (abort_later).
  std::erase_if(ended, [this](int rank) { return has_aborted(rank); });
  // Among those that ended together, signals count first: they are causes more often than exit codes are.
  std::stable_partition(ended.begin(), ended.end(), [&](int rank) { return WIFSIGNALED(ranks_[size_t(rank)].status); });
  for (int rank : ended) {
    if (awaits_killed_ && !WIFSIGNALED(ranks_[size_t(rank)].status)) ended_meanwhile_.push_back(rank);
    else judge(rank);
  }
  if (awaits_killed_) return;
  for (int rank : std::exchange(ended_meanwhile_, {})) judge(rank);
  check_stuck();
  on_reports();
}

void Job::judge(int rank) {
  if (server_->descriptor(rank) >= 0) unwatch(server_->descriptor(rank));
  const std::optional<int> abort_code = server_->rank_ended(rank);
  const bool inside = server_->is_inside(rank);
  const int status = ranks_[size_t(rank)].status;
  if (const int why = ranks_[size_t(rank)].failure) {
    // No process was made: the machine lacks some resource.
    const int code = status == 0 ? 1 : why == ENOENT ? 127 : 126;
    not_started_ = true;
    return fail(code, fmt::format("{} cannot be started: {}", name_of(rank), strerror(why)));
  }
  if (abort_code) return abort_asked(rank, *abort_code);
  if (WIFSIGNALED(status)) {
    const int signal = WTERMSIG(status);
    return fail(128 + signal,
                fmt::format("{} was killed by signal {} (SIG{}, {}){}{}", name_of(rank), signal,
                            signal_name(signal) ? signal_name(signal) : "?",
                            signal_meaning(signal) ? signal_meaning(signal) : "unknown",
                            signal == SIGKILL ? lack_of_memory(rank) : "", live_ > 0 ? "; ending the others" : ""));
  }
  const int code = WEXITSTATUS(status);
  if (inside) {
    if (!is_remote(rank)) await_killed();
    const char* what = server_->init_failed(rank) ? ": its MPI_Init failed" : " after MPI_Init, without MPI_Finalize";
    return fail(code != 0 ? code : 1, fmt::format("{} ended with exit code {}{}{}", name_of(rank), code, what,
                                                  live_ > 0 ? "; ending the others" : ""));
  }
  if (code != 0 && !exit_code_) exit_code_ = code;
}

// What the kernel says of SIGKILL: it counts the processes that it kills for lack of memory, but does not name them.
std::string Job::lack_of_memory(int rank) const {
  const uint64_t now = killed_for_memory();
  const uint64_t killed = is_remote(rank) ? ranks_[size_t(rank)].lack_memory : now - std::min(now, killed_before_);
  if (killed == 0) return "";
  return fmt::format(
      ", probably because memory ran out: the kernel has killed {} process{} for that since the job began (oom_kill in "
      "/proc/vmstat). Start fewer ranks on this host, or ask for more memory",
      killed, killed == 1 ? "" : "es");
}

// The connections of a rank that is killed are closed before it counts as ended: another rank may have noticed, and
// ended before that. The killed one is the cause.
void Job::await_killed() {
  if (ending_ || cause_said_) return;
  awaits_killed_ = true;
  for (int i = 0; i < kEnding_ms; ++i) {
    const bool others = keeper_.some_end_soon();
    keeper_.sync();
    reap();
    if (ending_ || cause_said_ || !others) break;
    usleep(1000);
  }
  awaits_killed_ = false;
}

// All ranks must enter a fence; a rank that has ended never will.
void Job::check_stuck() {
  if (ending_ || cause_said_) return;
  const int stuck = server_->stuck_rank();
  if (stuck < 0) return;
  const int gone = server_->first_ended();
  const int code = WIFEXITED(ranks_[size_t(gone)].status) ? WEXITSTATUS(ranks_[size_t(gone)].status) : 0;
  const char* when = server_->init_failed(gone)  ? " (its MPI_Init failed)"
                     : server_->was_inside(gone) ? " after MPI_Finalize"
                                                 : " without calling MPI_Init";
  fail(code != 0 ? code : 1,
       fmt::format("{} ended with exit code {}{}, but {} waits for every rank in MPI_Init or MPI_Finalize; "
                   "ending the others",
                   name_of(gone), code, when, name_of(stuck)));
}

void Job::abort_asked(int rank, int code) {
  // 256 and multiples would read as success.
  const int low = code & 255;
  const int others = live_ - ranks_[size_t(rank)].live;
  if (server_->report(rank).differs() && others > 0 && !ending_ && !cause_said_ && parents_ < 0) {
    exit_code_ = exit_code_.value_or(low == 0 ? 1 : low);
    cause_said_ = true;
    print_errors();
    tell(fmt::format("{} aborted the job with code {}, since the ranks do not call the same collective operations",
                     name_of(rank), code));
    return request_reports(true);
  }
  fail(code != 0 && low == 0 ? 1 : low, fmt::format("{} aborted the job with code {}", name_of(rank), code));
}

void Job::fail(int code, const std::string& message) {
  if (ending_ || cause_said_ || failing_) return;
  if (!exit_code_) exit_code_ = code;
  if (parents_ >= 0 && !parents_answered_) {
    refuse(code, message);
    return end_ranks("");
  }
  tell_parents(kSpawnBroken);
  if (!some_error()) return end_ranks(message);
  failing_ = message;
  on_errors();
}

void Job::end_ranks(const std::string& message) {
  if (ending_) return;
  ending_ = true;
  if (!message.empty()) tell(message);
  signal_all(SIGTERM);
  signal_all(SIGCONT);  // a stopped rank would not handle the signal
  kill_at_ms_ = now_ms() + kTermGrace_ms;
}

// Our own reader has gone, or has no room. Losing messages that cannot be read is harmless.
void Job::on_output_lost(const char* name, int why) {
  if (!passes_through()) return;
  if (why == EPIPE) return fail(128 + SIGPIPE, "");
  if (std::exchange(output_lost_, true)) return;
  tell(fmt::format("{}: {}; output of the ranks is lost", name, strerror(why)));
}

// Several copies of a program that is linked with another MPI library are worlds of one each, of which nothing tells.
void Job::warn_of_other_library() {
  if (ranks_.size() < 2 || server_->some_called_init() || parents_ >= 0 || interrupted_ || not_started_) return;
  for (size_t app = 0; app < files_.size(); ++app) {
    const std::string library = linkage_of(files_[app]).mpi;
    // A program that ends with an error before MPI_Init has said why.
    const bool standard = library.starts_with("libmpi_abi");
    if (library.empty() || (standard && exit_code_)) continue;
    return tell(fmt::format("no rank has called MPI_Init of Tern: {} is linked with {}. {}", plan_.apps[app].command[0],
                            library,
                            standard ? "ldd shows whose it is"
                                     : "Compile it with Tern's mpicc, or start it with the mpiexec of that library"));
  }
}

// No rank is left. Ends processes that they have left behind, and passes their last output on.
void Job::finish() {
  on_errors();
  print_errors();
  std::vector<std::string> left;
  if (hosts_) {  // first: without a keeper all our descendants are killed, those that lead to the hosts, too
    end_hosts();
    left = hosts_->left();
  }
  for (pid_t process : keeper_.end_all()) left.push_back(std::to_string(process));
  if (!left.empty()) {
    tell(
        fmt::format("these processes of the job do not end although they were killed, as in a system call that waits "
                    "for a dead device: {}",
                    fmt::join(left, ", ")));
  }
  if (plan_.print_exit_codes) print_exit_codes();
  warn_of_other_library();
  drain_output();
  // From here on a signal ends mpiexec in the usual way.
  ::signal(SIGUSR1, SIG_IGN);
  sigprocmask(SIG_SETMASK, &signals_before_, nullptr);
}

// "exit codes: 0 of ranks 0-2, SIGSEGV of rank 3".
void Job::print_exit_codes() {
  std::map<std::string, std::vector<int>> ranks_of;
  for (size_t rank = 0; rank < ranks_.size(); ++rank) {
    const int status = ranks_[rank].status;
    ranks_of[WIFSIGNALED(status) ? fmt::format("SIG{}", signal_name(WTERMSIG(status)))
                                 : std::to_string(WEXITSTATUS(status))]
        .push_back(int(rank));
  }
  std::string text;
  for (auto& [code, ranks] : ranks_of) {
    text += fmt::format("{}{} of rank{} {}", text.empty() ? "exit codes: " : ", ", code, ranks.size() > 1 ? "s" : "",
                        ranges(ranks));
  }
  tell(text);
}

// A reader that does not read is awaited, unless the job is being ended: then it gets kLastOutput_ms.
void Job::drain_output() {
  for (size_t i = 0; i < pipes_.size(); ++i) {
    for (int empty = 0; pipes_[i].descriptor() >= 0 && empty < 64; ++empty) on_pipe(int(i));
  }
  draining_ = true;
  while (true) {
    update_watches();
    if (out_.waiting() + err_.waiting() == 0) break;
    if (interrupted_ && drop_at_ms_ == 0) drop_at_ms_ = now_ms() + kLastOutput_ms;
    if (drop_at_ms_ != 0 && now_ms() >= drop_at_ms_) break;
    turn();
  }
  if (const size_t bytes = out_.waiting(); bytes > 0) {
    err_.drop();
    tell(fmt::format("{} bytes of output were not taken by the reader of {}", bytes, out_.name()));
  }
}

}  // namespace tern::mpiexec
