// SimPath: a Path over the simulated network. A packet leaves the sender's window only when the receiver has taken it,
// so try_send refuses and operations queue as on a real path. Long messages stream packet by packet into the sink's
// target or, at random, arrive whole, so that both ways of delivery are used. Gets and puts: path_memory.h.
//
// Units: nanoseconds, bytes. Thread rule: the rank's strand, and network events (which come when no strand runs).
#pragma once

#include <deque>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/rng.h"
#include "fabric/path.h"
#include "sim/network.h"
#include "sim/path_memory.h"
#include "sim/poll_cost.h"
#include "sim/scheduler.h"

namespace tern::sim {

class SimPath final : public CountingPath, public NetworkPort {
 public:
  /// To whom it carries messages. `beyond_node`: to itself and to ranks of other nodes.
  enum class Reach { all, others, node_others, beyond_node };
  /// Attaches to the network as the strand's rank until destroyed.
  SimPath(Network& network, Strand& strand, Sink& sink, uint64_t seed, Reach reach = Reach::all);
  ~SimPath() override;

  bool reaches(PeerId peer) const override {
    if (peer == rank_) return reach_ == Reach::all || reach_ == Reach::beyond_node;
    if (peer >= network_.ranks()) return false;
    const bool within = network_.same_node(peer, rank_);
    return reach_ == Reach::node_others ? within : reach_ != Reach::beyond_node || !within;
  }
  Lane& lane(PeerId peer) override { return peer_at(peer); }
  bool try_send(Lane& lane, const wire::Header& header, const void* payload, size_t bytes) override;
  void enqueue(SendOperation& operation) override;
  bool withdraw(SendOperation& operation) override;
  RemoteMemory* remote_memory() override { return &memory_; }
  CopyArbiter* copy_arbiter() override { return &memory_; }
  int poll() override;
  bool arm() override;
  void disarm() override { waker_.armed = false; }
  bool has_unsent() const override { return queued_ != 0; }

  void on_packet(std::unique_ptr<Packet> packet) override;
  void on_window(PeerId peer, size_t bytes) override;
  void on_peer_lost(PeerId peer) override;
  NetworkMemory* memory() override { return &memory_; }

  /// One line on what is queued, half received, and was last seen; for the report of a deadlock.
  std::string describe() const;
  /// Memory still exposed; zero at the end.
  size_t exposed() const { return memory_.exposed(); }

 private:
  /// A message of several packets, between its first and its last.
  struct Reception {
    bool active = false;
    bool gathered = false;  ///< delivered whole from `gathering`; else lands as it comes
    wire::Header header{};
    size_t bytes = 0;
    Landing landing;
    std::vector<std::byte> gathering;
  };
  struct Peer : Lane {
    using Lane::Lane;
    IntrusiveList<SendOperation> queue;
    size_t in_flight = 0;  ///< bytes of the window in use
    bool lost = false;
    bool ready = false;  ///< in ready_
    Reception reception;
  };
  struct LastSeen {
    PeerId peer = kNoPeer;
    wire::Header header{};
    size_t bytes = 0;
  };

  Peer& peer_at(PeerId id) { return peers_.try_emplace(id, id).first->second; }
  void launch(PeerId to, Peer& peer, const wire::Header& header, size_t message_bytes, size_t offset,
              std::vector<std::byte> payload);
  void pump(PeerId to, Peer& peer);
  int pump_ready();
  int complete_sends();
  int take_arrivals();
  int tell_losses();
  void accept(const Packet& packet);
  void take_part(Peer& peer, const Packet& packet);
  void deliver_whole(PeerId from, const wire::Header& header, const std::byte* payload, size_t bytes);
  void lose(PeerId id);
  static size_t cost(size_t payload) { return payload + NetworkModel::kHeaderBytes; }

  Network& network_;
  const NetworkModel& model_;
  Strand& strand_;
  Sink& sink_;
  const PeerId rank_;
  const Reach reach_;
  Rng rng_;
  SimWaker waker_;
  SimMemory memory_;
  std::unordered_map<PeerId, Peer> peers_;  ///< only those talked to; references stay valid
  size_t queued_ = 0;                       ///< operations in the peers' queues
  std::deque<std::unique_ptr<Packet>> inbox_;
  std::vector<PeerId> ready_;  ///< peers with a queue whose window has opened
  std::deque<PeerId> lost_;    ///< not yet told
  IntrusiveList<SendOperation> sent_, unsendable_;
  PollCost poll_cost_;
  LastSeen last_sent_, last_received_;
};

const char* kind_name(wire::Kind kind);

}  // namespace tern::sim
