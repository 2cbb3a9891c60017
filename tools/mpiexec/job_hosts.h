// The other hosts of a job, as its supervisor (job.h) sees them: agents (agents.h), what they are told, the output and
// input of ranks there, and their records. What it decides nothing about comes out again as frames.
// Thread rule: the event loop.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "agents.h"
#include "placing.h"
#include "remote_input.h"
#include "streams.h"

namespace tern::mpiexec {

class JobHosts {
 public:
  /// `places`: the first host is this machine, and has no agent. `records`: the folder for what ranks leave; empty:
  /// none.
  JobHosts(const RankHosts& places, std::string records);
  ~JobHosts();
  JobHosts(const JobHosts&) = delete;
  JobHosts& operator=(const JobHosts&) = delete;

  /// Starts the agents and tells them the job. False: errno.
  bool start(const AgentCommand& command, const JobText& job, char** argv);
  /// Of an output stream (1, 2) of a rank there.
  void add_stream(int rank, int stream, OutputPipe pipe);

  /// Readable when on_events() has something to do.
  int descriptor() const { return epoll_; }
  void on_events();
  /// Sends what waits, and changes what is watched. `may_take`: our reader takes output.
  void update(bool may_take);
  void on_time() { agents_.on_time(); }
  uint64_t next_ms() const { return agents_.next_ms(); }
  /// For the job: greeting, ready, output, input and records are dealt with already.
  bool next(Frame& frame);
  /// Whether the frame's host has this rank.
  bool has_rank(const Frame& frame) const;

  bool all_ready() const;
  /// Of each host, the first one's being `own`.
  std::vector<HostCores> cores(const HostCores& own) const;
  /// `cores`: for the ranks of each host.
  void start_ranks(int universe, const std::vector<int>& cores);
  void release(const std::vector<std::string>& values);
  void send(int rank, FrameKind kind, std::string body);
  void send_all(FrameKind kind, std::string body = {});
  void signal_all(int signal);
  /// Asks whether more has happened already; all_synced() when every host has answered.
  void sync();
  bool all_synced() const;
  /// Kills what is left; all_over() when every host has said what it still had to say.
  void end_all();
  bool all_over() const;
  /// When any of them said something for the last time.
  uint64_t heard_ms() const { return heard_ms_; }
  const std::string& name(uint32_t host) const { return places_.names[host]; }
  /// Processes that the kernel there does not end: "4711 on node2".
  const std::vector<std::string>& left() const { return left_; }
  /// Hosts that have not said that they are over.
  std::vector<std::string> not_over() const;

 private:
  struct Host {
    bool ready = false, lost = false, synced = false, over = false;
    HostCores cores{};
    uint64_t untaken = 0;  ///< bytes of output for which no credit was given yet
  };
  enum class Source : uint32_t { channel, errors, keeper, input };

  void take(Frame& frame);
  void take_output(const Frame& frame);
  void take_record(const Frame& frame);
  void take_end(const Frame& frame);
  void watch(int descriptor, Source source, size_t index, uint32_t events);
  void watch_agents();
  void give_input();
  /// Whether `test` holds for all hosts that are not lost.
  template <typename Test>
  bool all(Test test) const;

  RankHosts places_;
  std::string records_;
  Agents agents_;
  std::vector<Host> hosts_;
  std::map<std::pair<int, int>, OutputPipe> streams_;  ///< by rank and stream
  std::deque<Frame> come_;
  std::vector<std::string> left_;
  std::unique_ptr<RemoteInput> input_;
  int input_rank_ = -1;
  int epoll_ = -1;
  uint64_t heard_ms_ = 0;
  std::map<int, uint32_t> watched_;  ///< events, by descriptor
};

}  // namespace tern::mpiexec
