// The hosts below this process: for each an agent, which is the same mpiexec, started by ssh or what stands in its
// place:
//
//   mpiexec  -- its keeper --  ssh h1  ......  mpiexec (agent) on h1  --  its ranks
//                              ssh h2  ......  mpiexec (agent) on h2  --  its ranks, and ssh h9, ssh h10 ...
//
// One process starts at most AgentCommand::width hosts; the rest is started by those, so that the hosts are a tree.
// Each process watches the hosts that it has started itself: the end of ssh, and silence. Its own frame `lost` says so
// upwards. Frames of hosts further down are passed on as they come.
// Thread rule: the event loop.
#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "channel.h"
#include "keeper.h"

namespace tern::mpiexec {

class Agents {
 public:
  Agents() = default;
  ~Agents() = default;
  Agents(const Agents&) = delete;
  Agents& operator=(const Agents&) = delete;

  /// Starts agents for all of them. `argv` of main, for the keeper of the ssh processes; may be null. False: errno.
  bool start(const std::vector<HostName>& hosts, const AgentCommand& command, char** argv);

  size_t size() const { return children_.size(); }
  /// Descriptors to watch for reading, -1: none; the channel's for writing, when it has something unsent.
  int channel_descriptor(size_t child) const { return children_[child]->channel->descriptor(); }
  int error_descriptor(size_t child) const { return children_[child]->errors; }
  int keeper_descriptor() const { return keeper_.descriptor(); }
  size_t unsent(size_t child) const { return children_[child]->channel->unsent(); }
  void on_channel(size_t child);
  void on_errors(size_t child);
  void on_keeper();
  /// Sends what can be sent now.
  void flush();
  /// Pings, and notices silence. To be called from time to time, at the latest at next_ms() (0: never).
  void on_time();
  uint64_t next_ms() const;

  /// To its host, or to every host.
  void send(const Frame& frame);
  /// The next frame from below, that of a lost host included.
  bool next(Frame& frame);
  /// All have greeted; none is lost.
  bool all_greeted() const;
  /// No child is left: the frames of all have come.
  bool all_ended() const;

 private:
  struct Child {
    HostName host;
    std::vector<HostName> below;
    std::unique_ptr<Channel> channel;
    int errors = -1;   ///< standard error of ssh
    std::string said;  ///< there
    bool greeted = false, lost = false, silent = false;
    std::optional<std::string> other_version{};
    std::optional<int> status{};
    int error = 0;
    uint64_t closed_ms = 0;  ///< its channel was closed; 0: not
  };

  int start_child(Child& child, int id);
  bool take(Child& child, const Frame& frame);
  void close_channel(Child& child);
  void lose(Child& child);
  Child* child_of(uint32_t host);
  uint64_t greetings_until_ms() const;
  void forgive_silence();

  Keeper keeper_;
  AgentCommand command_;
  std::vector<std::unique_ptr<Child>> children_;
  std::deque<Frame> come_;
  uint64_t progress_ms_ = 0, ping_ms_ = 0, looked_ms_ = 0;
};

}  // namespace tern::mpiexec
