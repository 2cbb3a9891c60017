// The ranks on an agent's host: their processes, their output and input, and their connections for PMI-1.
// Thread rule: the event loop.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "channel_messages.h"
#include "keeper.h"
#include "pmi_server.h"
#include "rank_watch.h"

namespace tern::mpiexec {

/// A descriptor to wait for, and who is called then.
struct Wait {
  int descriptor;
  short events;  ///< of poll()
  std::function<void(short)> then;
};
using Waits = std::vector<Wait>;

class AgentRanks {
 public:
  /// `host`: this one's number. `send`: passes a frame up.
  AgentRanks(uint32_t host, Keeper& keeper, std::function<void(Frame)> send);
  ~AgentRanks();
  AgentRanks(const AgentRanks&) = delete;
  AgentRanks& operator=(const AgentRanks&) = delete;

  /// Checks whether the job can be started here. 0, or an exit code and `why` not.
  int prepare(JobText job, std::string& why);
  /// Starts the ranks of this host. `cores`: processors for all of them. `records`: a folder for what they leave;
  /// empty: none.
  void start(int universe, int cores, const std::string& records);
  /// Frames to ranks: FrameKind::value, release, pmi_answer, signal, ask, look, input, credit, sync.
  void take(const Frame& frame);

  /// `may_read`: output may be read; else the ranks wait.
  void add_waits(Waits& waits, bool may_read);
  void reap();
  /// Since when ranks have not communicated is looked at from time to time.
  void on_time(uint64_t now_ms);
  uint64_t next_ms() const { return look_at_ms_; }
  /// All processes have been killed: passes on what their pipes still hold.
  void drain();

 private:
  struct Rank {
    int program = 0;
    bool live = false;
    int pipes[2] = {-1, -1};  ///< our ends of its output and errors
    RankActivity activity{};
    std::string described{};
  };

  int check_program(size_t number, std::string& why);
  std::vector<std::string> environment_of(const ProgramText& program) const;
  bool start_rank(int rank, const std::vector<std::string>& base, const cpu_set_t* cores, int local_rank);
  void report_bindings(const struct Binding& binding);
  void on_pipe(int rank, int stream);
  void on_pmi(int rank, short events);
  void send_lines();
  void take_reports(int but);
  void send_ended(const Report& report);
  void send_looks();
  void add_input(const std::string& bytes);
  void flush_input();
  void send(FrameKind kind, int rank, std::string body = {});

  uint32_t host_;
  Keeper& keeper_;
  std::function<void(Frame)> send_;
  JobText job_;
  std::vector<std::string> files_;  ///< of each program; empty: none of its ranks is here
  std::map<int, Rank> ranks_;       ///< those of this host
  std::optional<PmiServer> server_;
  std::vector<std::pair<int, std::string>> lines_;  ///< to be passed up
  std::vector<Report> later_;                       ///< ends to be told after something else
  rlimit limit_{};
  int cores_ = 1, null_ = -1;
  int input_ = -1;  ///< to the rank that gets it; -1: none, or closed
  std::string input_unsent_{};
  bool input_ends_ = false;
  std::string records_{};
  uint64_t killed_before_ = 0, look_at_ms_ = 0;
  size_t untaken_ = 0;  ///< bytes of output that were sent and not taken
};

}  // namespace tern::mpiexec
