// One job from its first process to its last: starts the ranks, serves them, notices how they end, ends them
// all. One thread, one event loop (epoll over the keeper's and the ranks' sockets, a signalfd, the output pipes).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "clock.h"
#include "debugger.h"
#include "hang_page.h"
#include "job_hosts.h"
#include "keeper.h"
#include "placing.h"
#include "plan.h"
#include "pmi_server.h"
#include "rank_watch.h"
#include "streams.h"

namespace tern::mpiexec {

class Job {
 public:
  /// The keeper has been started; it and the plan outlive the job. `argv` of main.
  Job(const Plan& plan, Keeper& keeper, char** argv);
  ~Job();
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;
  /// Runs the job to its end; the exit code of mpiexec.
  int run();

 private:
  struct Rank {
    int app = 0;
    bool live = false;         ///< ordered from the keeper, and not ended
    int status = 0;            ///< of waitpid, once ended
    int failure = 0;           ///< the errno with which it could not become its program
    uint64_t lack_memory = 0;  ///< on another host: processes killed there for lack of memory
  };
  /// A job that a rank has spawned: an mpiexec of its own, which the keeper knows by the numbers behind the ranks'.
  struct SpawnedJob {
    int parent = -1;  ///< the rank that waits for an answer
    int answer = -1;  ///< our end of its socket
    bool answered = false;
    bool refused = false;  ///< the answer was that nothing runs
    std::string said{};    ///< what it has said, up to the last newline seen
  };
  enum class Source : uint32_t { signals, keeper, pmi, pipe, sink, terminal, rank_input, spawned, hosts };

  // Beginning (job_start.cc)
  int find_programs();
  bool open_descriptors();
  /// Of all hosts, which are ready.
  void learn_cores();
  void start_ranks();
  bool start_rank(int rank, const std::vector<std::string>& base, const cpu_set_t* cores);
  int standard_output(int rank, int stream);
  bool passes_through() const { return plan_.label || (!plan_.files.folder.empty() && plan_.files.copy); }
  int threads_per_rank() const;
  void report_bindings(const Binding& binding);
  bool is_in_file_alone(int stream) const;
  std::vector<std::string> base_environment(const App& app) const;
  std::vector<std::string> rank_environment(int rank, const std::vector<std::string>& base) const;
  int standard_input(int rank);

  // Middle (job.cc)
  void loop();
  void turn();
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
  void write_output();
  void tell(const std::string& message);
  void on_started(int rank, pid_t pid);

  // Ranks on other hosts (job_remote.cc)
  bool is_remote(int rank) const { return places_.of_rank[size_t(rank)] != 0; }
  bool runs_here(size_t app) const;
  std::string host_name(int rank) const { return places_.names[places_.of_rank[size_t(rank)]]; }
  bool start_hosts();
  void start_remote_ranks(int universe);
  JobText text_for_agents() const;
  OutputPipe remote_stream(int rank, int stream);
  void on_hosts();
  void on_frame(const Frame& frame, std::vector<int>& ended);
  void on_remote_end(const Frame& frame, std::vector<int>& ended);
  void lose_host(const Frame& frame);
  void release_remote();
  void answer_spawn(int rank, std::string_view failure);
  void ask_agents(FrameKind kind);
  void signal_all(int signal);
  std::string host_list() const;
  void abort_later(int rank, int code);
  bool has_aborted(int rank) const;
  void settle_aborts();
  void end_hosts();

  // Spawned jobs, as parent and as child (spawned.cc)
  void start_spawned(int parent, const SpawnRequest& request);
  int start_child_job(int number, SpawnRequest request, int& answer);
  void on_spawned(int number);
  void on_spawned_ended(int number, int status);
  void answer_parents();
  void tell_parents(std::string_view word);
  int refuse(int code, const std::string& why);

  // What the ranks wait for (job_hang.cc)
  void request_reports(bool then_end);
  void look_at_activity();
  void ask_rank(int rank);
  bool has_answered(int rank);
  std::vector<RankView> rank_views();
  void on_reports();
  void watch_stall();
  void on_stall();

  // What ranks say as they end (job_errors.cc)
  bool some_error();
  void print_errors();
  void on_errors();

  // End (job_end.cc)
  void reap();
  void judge(int rank);
  std::string lack_of_memory(int rank) const;
  void judge_all(std::vector<int> ended);
  void await_killed();
  void on_output_lost(const char* name, int why);
  void check_stuck();
  void abort_asked(int rank, int code);
  void fail(int code, const std::string& message);
  void end_ranks(const std::string& message);
  void warn_of_other_library();
  void finish();
  void drain_output();
  void print_exit_codes();
  std::string name_of(int rank) const;

  const Plan& plan_;
  Keeper& keeper_;
  const int parents_;  ///< where we answer, as a spawned job (process/launch/spawn_command.h); -1: we are none
  bool parents_answered_ = false;
  const uint64_t killed_before_;  ///< out_of_memory.h, when the job began
  std::vector<SpawnedJob> spawned_;
  std::vector<std::string> files_;  ///< resolved program of each app
  std::vector<Rank> ranks_;
  std::vector<RankActivity> activity_;  ///< of each rank
  int live_ = 0;
  std::string job_id_, job_key_;
  CoreShares cores_{};
  rlimit descriptor_limit_{};
  sigset_t signals_before_{};
  std::optional<PmiServer> server_;
  Sink out_{1}, err_{2};
  bool output_lost_ = false;
  std::vector<OutputPipe> pipes_;          ///< when output passes through us: two per rank
  std::optional<ProcessTable> processes_;  ///< of the ranks here, for debuggers; none: no rank is here
  std::vector<std::string> described_;     ///< with -v: a line about each rank, printed when it has started
  TerminalInput input_;
  bool input_watched_ = false, rank_input_watched_ = false, pipes_paused_ = false;
  bool sink_watched_[2] = {false, false};
  std::vector<bool> pmi_write_watched_;
  int epoll_ = -1, signals_ = -1, null_ = -1;
  char** argv_;
  RankHosts places_;
  std::unique_ptr<JobHosts> hosts_;            ///< null: all ranks are on this machine
  std::vector<Look> remote_looks_;             ///< of each rank on another host
  std::vector<std::pair<int, int>> aborts_{};  ///< ranks and codes, until all hosts have said what was before
  std::optional<int> exit_code_;               ///< of the first failure
  bool ending_ = false;                        ///< the ranks have been told to end
  bool interrupted_ = false;
  bool hosts_ready_ = false;  ///< all other hosts could start their ranks
  bool not_started_ = false;  ///< a rank for which no process could be made
  bool draining_ = false;     ///< no rank is left, but our reader has not taken all output
  bool end_after_reports_ = false, reports_extended_ = false, stall_said_ = false;
  bool awaits_killed_ = false;          ///< in await_killed
  std::vector<int> ended_meanwhile_;    ///< ranks that were not killed, to be judged after it
  std::optional<std::string> failing_;  ///< what ends the job is known, and said after the ranks' errors
  uint64_t errors_until_ms_ = 0,
           errors_at_ms_ = 0;    ///< how long ranks that say the same are awaited; next look; 0: not
  uint64_t pages_until_ms_ = 0;  ///< spawned jobs print their pages so long; 0: there are none
  size_t errors_said_ = 0;       ///< so many ranks had said something at the last look
  bool cause_said_ = false;      ///< why the job ends; the ranks are asked before they are ended
  uint64_t timeout_at_ms_ = 0, kill_at_ms_ = 0, reports_until_ms_ = 0, stalled_at_ms_ = 0, drop_at_ms_ = 0,
           look_at_ms_ = 0, sync_until_ms_ = 0;  ///< 0: not set
};

}  // namespace tern::mpiexec
