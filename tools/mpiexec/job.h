// One job from its first process to its last: starts the ranks, serves them, notices how they end, ends them
// all. One thread, one event loop (epoll over the ranks' sockets, a signalfd, the output pipes).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "plan.h"
#include "pmi_server.h"
#include "spawn.h"
#include "streams.h"

namespace tern::mpiexec {

class Job {
 public:
  explicit Job(const Plan& plan);
  ~Job();
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;
  /// Runs the job to its end; the exit code of mpiexec.
  int run();

 private:
  struct Rank {
    int app = 0;
    pid_t pid = -1;  ///< -1: not started, or ended and waited for
    int status = 0;  ///< of waitpid, once ended
  };
  enum class Source : uint32_t { signals, pmi, pipe, sink, terminal, rank_input };

  // Beginning (job_start.cc)
  int find_programs();
  bool open_descriptors();
  bool start_ranks();
  std::vector<std::string> base_environment() const;
  std::vector<std::string> rank_environment(int rank, int descriptor, const std::vector<std::string>& base) const;
  int standard_input(int rank);

  // Middle (job.cc)
  void loop();
  void dispatch(Source source, int index, uint32_t events);
  void on_signals();
  void on_terminal_stop();
  void on_terminal_continue();
  void on_pmi(int rank, uint32_t events);
  void on_pipe(int index);
  void on_deadlines();
  int next_timeout_ms() const;
  void watch(int descriptor, Source source, int index, uint32_t events);
  void unwatch(int descriptor);
  void update_watches();

  // End (job.cc)
  void reap();
  void judge(int rank);
  void check_stuck();
  void abort_asked(int rank, int code);
  void fail(int code, const std::string& message);
  void end_ranks(const std::string& message);
  void request_reports();
  void signal_ranks(int signal);
  void drain_output();
  std::string name_of(int rank) const;
  static uint64_t now_ms();

  const Plan& plan_;
  std::vector<std::string> files_;  ///< resolved program of each app
  std::vector<Rank> ranks_;
  int live_ = 0;
  std::string job_id_, job_key_;
  int cores_ = 1;
  rlimit descriptor_limit_{};
  int* failures_ = nullptr;  ///< shared with the children until they exec: one errno per rank (spawn.h)
  Guard guard_;
  std::optional<PmiServer> server_;
  Sink out_{1}, err_{2};
  std::vector<LabelledPipe> pipes_;  ///< with labels: two per rank, stdout and stderr
  TerminalInput input_;
  bool input_watched_ = false, rank_input_watched_ = false, pipes_paused_ = false;
  bool sink_watched_[2] = {false, false};
  std::vector<bool> pmi_write_watched_;
  int epoll_ = -1, signals_ = -1, null_ = -1;
  std::optional<int> exit_code_;  ///< of the first failure
  bool ending_ = false;           ///< the ranks have been told to end
  bool interrupted_ = false;
  uint64_t timeout_at_ms_ = 0, kill_at_ms_ = 0, report_until_ms_ = 0;  ///< 0: not set
};

}  // namespace tern::mpiexec
