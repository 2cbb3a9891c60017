// A simulated machine: N ranks on fibers, a network between them, a launcher, and a run from begin to end with its
// report. It knows nothing of Process; world.h puts one into each rank.
//
// Seeds: everything that is drawn in a run is drawn from WorldOptions::seed, so the same options give the same run.
// Thread rule: one thread per machine; several machines may run on several threads.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/tunables.h"
#include "sim/adapter_model.h"
#include "sim/datagrams.h"
#include "sim/event_thread.h"
#include "sim/faults.h"
#include "sim/launcher.h"
#include "sim/network.h"
#include "sim/node_segments.h"
#include "sim/path.h"
#include "sim/rank_time.h"
#include "sim/scheduler.h"
#include "sim/shared_memory.h"
#include "sim/stream_model.h"

namespace tern {
class StreamPort;
}
namespace tern::rdma {
class Hca;
}

namespace tern::sim {

struct WorldOptions {
  uint32_t ranks = 2;
  uint32_t ranks_per_node = 1;
  uint32_t cores_per_node = 0;  ///< for ranks and their event threads; 0: unlimited
  uint64_t seed = 1;
  NetworkModel network;
  AdapterModel adapter;
  bool segments = true;    ///< ranks of a node can share memory (NodeSegments)
  bool rdma = false;       ///< ranks talk over their adapters (RdmaPath), not over SimPath
  bool node_path = false;  ///< but those of a node over SimPath, beside `rdma`, `udp` and `tcp` for the others
  bool shm = false;        ///< those of a node over the path of real ranks (ShmPath), in every world
  SharedMemoryModel shared_memory;
  bool adapter_share = true;  ///< ranks of a node count together what they use of the adapter, as in real memory
  bool udp = false;           ///< ranks talk by datagrams (UdpPath, of Tunables::udp); with `rdma`: where that is lost
  bool tcp = false;           ///< ranks talk by byte streams (TcpPath); with the others: where those are lost
  bool udp_first = false;     ///< before rdma
  bool tcp_first = false;     ///< before both
  DatagramModel datagrams;
  StreamModel streams;
  /// Registrations of user memory are kept between transfers. For programs that keep their buffers: addresses of memory
  /// that is freed and allocated again depend on more than the seed.
  bool keep_registrations = false;
  Faults faults;
  AdapterFaults adapter_faults;
  DatagramFaults datagram_faults;
  StreamFaults stream_faults;
  Tunables tunables;
  size_t stack_bytes = 256 * 1024;
  /// Virtual time and events; a longer run has failed (a livelock). The longest test needs a tenth of that.
  Scheduler::Limits limits{60'000'000'000, 200'000'000};
  bool keep_trace = false;  ///< every event, not only the hash
  bool crash_notes = true;  ///< a crash is reported as one of the simulator (crash_note.h)
  /// See RdmaOptions::channel_changed; the first rank is the one that is told. Null: nobody asks.
  std::function<void(PeerId rank, PeerId peer, const char* channel, uint64_t now_ns)> channel_changed;
  /// See Strand::OnSwitch.
  Strand::OnSwitch on_switch;
};

class SimAdapters;
class StreamHosts;

struct RankExit {
  bool finished = false;  ///< its body returned
  bool lost = false;      ///< it was killed by Faults::losses
  uint64_t at_ns = 0;     ///< when it returned, or was last seen
  std::string error;      ///< what it threw
};

struct Report {
  uint64_t seed = 0;
  uint64_t virtual_ns = 0;
  uint64_t events = 0;
  uint64_t packets = 0;
  uint64_t trace_hash = 0;
  std::vector<TraceEntry> trace;
  std::vector<RankExit> ranks;
  bool deadlock = false;
  std::string failure;  ///< empty: every rank that was not lost has finished; else for people, with the seed
  bool ok() const { return failure.empty(); }
};

class Machine {
 public:
  /// Parts of one rank, for the code that runs on it. They live until the run is over.
  struct Rank {
    Machine& machine;
    Strand& strand;
    uint64_t seed;  ///< this rank's own
    EventStation& station;
    SimPath* path = nullptr;  ///< for the report of a deadlock

    std::unique_ptr<Clock> make_clock() {
      return std::make_unique<SimClock>(strand, station, machine.options().network);
    }
    std::unique_ptr<EventPort> make_event_port(Driving& lock, ProgressEngine& engine) {
      return std::make_unique<SimEventThread>(station, lock, engine);
    }
    std::unique_ptr<WaitPort> make_wait_port();
    std::unique_ptr<Launcher> make_launcher();
    /// The rank's path with its faults around it.
    std::unique_ptr<Path> make_path(Sink& sink, Clock& clock, SimPath::Reach reach = SimPath::Reach::all);
    /// Wraps the machine's faults around any path. `poll_ns`: what a poll of it takes, if the path does not know.
    std::unique_ptr<Path> with_faults(std::unique_ptr<Path> inner, Clock& clock, bool may_be_cut = true,
                                      uint64_t poll_ns = 0);
    /// The rank's end of the memory of its node; once. `engine`: of that message engine's (p2p/engines.h), from 1 on.
    std::unique_ptr<ShmNode> make_shm_node(uint32_t engine = 0);
    /// The rank's end of a network that carries datagrams.
    std::unique_ptr<DatagramPort> make_datagram_port();
    /// The rank's view of its host's byte streams; destroyed before the machine.
    std::unique_ptr<StreamPort> make_stream_port();
    /// The rank's own view of its node's RDMA adapter; destroyed before the machine.
    std::unique_ptr<rdma::Hca> make_hca();
    /// Memory that the ranks of its node share.
    std::unique_ptr<NodeSegments> make_segments();
    uint32_t index() const { return strand.rank(); }
  };
  using Body = std::function<void(Rank&)>;

  explicit Machine(WorldOptions options);
  ~Machine();

  /// Runs `body` on every rank until all have returned, or something fails. Once per machine.
  Report run(const Body& body);
  const WorldOptions& options() const { return options_; }
  Network& network() { return network_; }
  Scheduler& scheduler() { return scheduler_; }
  SimAdapters& adapters() { return *adapters_; }
  StreamHosts& streams() { return *streams_; }
  SegmentTable& segments() { return segments_; }
  const NoticeBoard& board() const { return board_; }

 private:
  void rank_main(Rank& rank, const Body& body);
  void kill(const Faults::Loss& loss);
  void note_loss(PeerId rank);
  SharedMemory& shared_memory_of(PeerId rank, uint32_t engine = 0);
  std::string explain_deadlock() const;

  /// A rank's death in the queue of events.
  struct Death final : EventTarget {
    void on_event(EventKind, uint64_t noticed) override;
    Machine* machine = nullptr;
    Strand* strand = nullptr;
  };

  WorldOptions options_;
  Scheduler scheduler_;
  Network network_;
  std::unique_ptr<SimAdapters> adapters_;
  std::unique_ptr<StreamHosts> streams_;
  SegmentTable segments_;
  /// By node and engine; null until a rank asks.
  std::vector<std::vector<std::unique_ptr<SharedMemory>>> shared_memories_;
  NoticeBoard board_;
  StackArena stacks_;
  std::vector<std::unique_ptr<Strand>> strands_;
  std::vector<NodeCores> cores_;  ///< by node
  std::vector<std::unique_ptr<EventStation>> stations_;
  std::vector<std::unique_ptr<Rank>> ranks_;
  std::vector<std::unique_ptr<Death>> deaths_;
  Report report_;
};

}  // namespace tern::sim
