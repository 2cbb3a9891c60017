#include "job.h"
#include "base/system_names.h"

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

namespace tern::mpiexec {
namespace {
// Output that our own reader has not taken; with more, the ranks' pipes are no longer read.
constexpr size_t kOutputHigh = 1 << 20;
}  // namespace

std::string Job::name_of(int rank) const {
  const std::string& program = plan_.apps[size_t(ranks_[size_t(rank)].app)].command[0];
  return is_remote(rank) ? fmt::format("rank {} ({} on {})", rank, program, host_name(rank))
                         : fmt::format("rank {} ({})", rank, program);
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
  while (live_ > 0 || !aborts_.empty()) {
    update_watches();
    turn();
  }
}

// One wait for events.
void Job::turn() {
  epoll_event events[64];
  const int n = epoll_wait(epoll_, events, 64, next_timeout_ms());
  if (n < 0 && errno != EINTR) fail(1, fmt::format("epoll_wait: {}", strerror(errno)));
  // Deaths first: a rank that died is the reason; what its neighbours report in the same moment is a
  // consequence.
  auto urgent = [](Source source) { return source == Source::signals || source == Source::keeper; };
  for (bool now : {true, false}) {
    for (int i = 0; i < n; ++i) {
      const Source source = Source(events[i].data.u64 >> 32);
      if (urgent(source) == now) dispatch(source, int(uint32_t(events[i].data.u64)), events[i].events);
    }
  }
  on_deadlines();
}

void Job::dispatch(Source source, int index, uint32_t events) {
  switch (source) {
    case Source::signals: return on_signals();
    case Source::keeper: return reap();
    case Source::pmi: return on_pmi(index, events);
    case Source::pipe: return on_pipe(index);
    case Source::sink: return;  // update_watches() writes
    case Source::terminal: return input_.read_terminal();
    case Source::rank_input: return input_.flush();
    case Source::spawned: return on_spawned(index);
    case Source::hosts: return on_hosts();
  }
}

int Job::next_timeout_ms() const {
  uint64_t next = 0;
  for (uint64_t deadline :
       {timeout_at_ms_, kill_at_ms_, reports_until_ms_, stalled_at_ms_, drop_at_ms_, look_at_ms_, errors_at_ms_,
        sync_until_ms_, hosts_ ? hosts_->next_ms() : 0, reports_until_ms_ != 0 ? pages_until_ms_ : 0}) {
    if (deadline != 0 && (next == 0 || deadline < next)) next = deadline;
  }
  if (next == 0) return -1;
  uint64_t now = now_ms();
  return next <= now ? 0 : int(std::min<uint64_t>(next - now, 1'000'000'000));
}

void Job::tell(const std::string& message) {
  err_.add("mpiexec: " + message + "\n");
  write_output();
}

void Job::write_output() {
  for (Sink* sink : {&out_, &err_}) {
    if (const int why = sink->flush()) on_output_lost(sink->name(), why);
  }
}

// The descriptors to watch depend on which sources have data and which sinks can take it.
void Job::update_watches() {
  write_output();
  Sink* sinks[] = {&out_, &err_};
  for (int i = 0; i < 2; ++i) {
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
  if (hosts_) hosts_->update(!paused);
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
    keeper_.sync();  // a rank that died earlier is the reason, not this one
    reap();
    abort_later(rank, *code);
  }
  release_remote();
  while (const auto request = server_->take_spawn(rank)) start_spawned(rank, *request);
  answer_parents();
  if (look_at_ms_ == 0 && server_->is_inside(rank)) look_at_ms_ = now_ms();
  check_stuck();
  on_reports();
  watch_stall();
}

void Job::on_pipe(int index) {
  if (const int why = pipes_[size_t(index)].pump()) on_output_lost("a rank's output file", why);
}

void Job::on_signals() {
  signalfd_siginfo info;
  while (read(signals_, &info, sizeof info) == ssize_t(sizeof info)) {
    switch (int(info.ssi_signo)) {
      case SIGCHLD: reap(); break;
      case SIGUSR1: request_reports(false); break;
      case SIGTSTP: on_terminal_stop(); break;
      case SIGCONT: on_terminal_continue(); break;
      default:
        if (interrupted_) {  // the second time: kill at once
          kill_at_ms_ = now_ms();
        } else if (draining_) {
          interrupted_ = true;
          if (!exit_code_) exit_code_ = 128 + int(info.ssi_signo);
        } else {
          interrupted_ = true;
          // The surrounding job ends a spawned one, and reports the reason.
          fail(128 + int(info.ssi_signo),
               parents_ >= 0 ? "" : fmt::format("{}; ending the job", signal_meaning(int(info.ssi_signo))));
        }
    }
  }
}

void Job::on_terminal_stop() {
  signal_all(SIGTSTP);
  if (hosts_) hosts_->update(true);
  raise(SIGSTOP);
}

void Job::on_terminal_continue() { signal_all(SIGCONT); }

void Job::on_deadlines() {
  const uint64_t now = now_ms();
  if (kill_at_ms_ != 0 && now >= kill_at_ms_) {
    signal_all(SIGKILL);
    kill_at_ms_ = 0;
  }
  if (reports_until_ms_ != 0 && pages_until_ms_ != 0 && now >= pages_until_ms_) {
    pages_until_ms_ = 0;
    on_reports();
  }
  if (reports_until_ms_ != 0 && now >= reports_until_ms_) on_reports();
  if (stalled_at_ms_ != 0 && now >= stalled_at_ms_) on_stall();
  if (look_at_ms_ != 0 && now >= look_at_ms_) look_at_activity();
  if (errors_at_ms_ != 0 && now >= errors_at_ms_) on_errors();
  if (hosts_) {
    if (hosts_->next_ms() != 0 && now >= hosts_->next_ms()) hosts_->on_time();
    on_hosts();
  }
  if (timeout_at_ms_ != 0 && now >= timeout_at_ms_) {
    timeout_at_ms_ = 0;
    if (ending_ || cause_said_) return;  // in which case the job ends after some seconds at most
    interrupted_ |= draining_;
    exit_code_ = Plan::kTimeoutExitCode;  // also when some rank has failed quietly before
    const std::string message =
        fmt::format("time is up after {} s (MPIEXEC_TIMEOUT or -timeout); ending the job", plan_.timeout_s);
    if (draining_ || !server_->some_inside()) return end_ranks(message);
    tell(message);
    request_reports(true);
  }
}

}  // namespace tern::mpiexec
