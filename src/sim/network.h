// The simulated network: nodes with an adapter each, joined by one switch. A packet occupies its sender's adapter, the
// switch port of the receiver's node and the receiver's adapter, one after the other, each for size / bandwidth; with
// propagation between them. So links serialise, and senders that meet at one port queue there:
//
//   rank -> [adapter out] ---latency/2---> [switch port] ---latency/2---> [adapter in] -> rank
//
// Ranks of one node are joined by memory: one latency, one bandwidth per pair, no adapter.
// Packets of one pair of ranks arrive in the order of sending, whatever the faults do; except datagrams (datagrams.h).
//
// Units: nanoseconds, bytes, bytes per microsecond. Thread rule: one scheduler.
#pragma once

#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "base/rng.h"
#include "base/types.h"
#include "sim/scheduler.h"
#include "wire/header.h"

namespace tern::sim {

/// Costs and sizes. The defaults are of a 100 Gbit/s adapter and of the reference machine's memory (a copy of fresh
/// data runs at some 17 GB/s, a hand-over between cores takes 0.14 us).
struct NetworkModel {
  uint64_t latency_ns = 1000;
  uint64_t adapter_bytes_per_us = 12500;
  uint64_t port_bytes_per_us = 12500;
  uint64_t packet_ns = 40;  ///< an adapter's own time for a packet
  /// Switch and receiving adapter pass on whole frames of this payload (Ethernet); 0: they pass bytes on as they come
  /// (InfiniBand).
  size_t frame_bytes = 0;
  uint64_t local_latency_ns = 140;
  uint64_t local_bytes_per_us = 17000;

  /// A rank's CPU, packing and unpacking: of data in memory. With l1_bytes and l2_bytes (the cache that a core has to
  /// itself, or its share) copies whose source and target fit there together have the rates beside them; 0: none.
  uint64_t copy_bytes_per_us = 17000;
  uint64_t l1_bytes = 0, copy_l1_bytes_per_us = 0;
  uint64_t l2_bytes = 0, copy_l2_bytes_per_us = 0;
  uint64_t reduce_bytes_per_us = 5000;  ///< a rank's CPU, combining two operands of a reduction (estimate)
  /// A copy into a socket or out of it, if that has another rate: the kernel copies data that is in no cache, and
  /// handles each frame; 0: copy_bytes_per_us.
  uint64_t socket_bytes_per_us = 0;
  uint64_t message_ns = 0;        ///< CPU time of the library for a message, on either side
  uint64_t send_ns = 60;          ///< CPU time for handing over a packet
  uint64_t receive_ns = 60;       ///< CPU time for taking one
  uint64_t datagram_send_ns = 0;  ///< the same for a datagram, if it differs; 0: send_ns
  uint64_t datagram_receive_ns = 0;
  /// CPU time of the receiving node for a frame from the network, which an interrupt takes from the rank: the adapter's
  /// driver and the protocols of the kernel. Only of byte streams and datagrams; 0: it is in the times above.
  uint64_t interrupt_ns = 0;
  uint64_t poll_ns = 20;   ///< CPU time of a poll
  uint64_t call_ns = 125;  ///< CPU time of a system call without data (byte streams)
  uint64_t fence_ns = 20'000;
  uint64_t wake_ns = 1500;  ///< CPU time of waking the event thread on the core of a rank that computes

  size_t eager_bytes = 8192;
  size_t packet_bytes = 8192;   ///< messages are divided into packets of at most this payload
  size_t window_bytes = 65536;  ///< in flight to one peer and not yet taken by it; headers count kHeaderBytes

  enum class Get : uint8_t { none, adapter, cpu };
  Get get = Get::none;    ///< adapter: moves data without either CPU; cpu: the getter copies, same node only
  uint64_t get_ns = 600;  ///< fixed cost of a get or put by the CPU (process_vm_readv: 0.58 us)
  bool put = false;       ///< put is possible wherever get is
  /// A put's bytes land in order and before the messages sent after it (adapter only). False: each of its packets is
  /// delayed by up to put_astray_ns.
  bool ordered_writes = false;
  uint64_t put_astray_ns = 20'000;
  size_t hybrid_bytes = 0;  ///< PathProperties::hybrid_bytes
  size_t piece_bytes = 0;   ///< PathProperties::piece_bytes

  /// Of 256 messages that arrive whole, how many are nevertheless announced with on_header first.
  uint32_t announced_in_256 = 0;
  /// Of 256 messages in several packets, how many are gathered and delivered whole (when no longer than eager_bytes).
  uint32_t gathered_in_256 = 0;
  /// Arrivals handled by one poll; 0: all that are there.
  uint32_t arrivals_per_poll = 16;

  /// CPU time of a copy within the rank's memory.
  uint64_t copy_ns(size_t bytes) const {
    const uint64_t both = 2 * uint64_t(bytes);
    const uint64_t rate = both <= l1_bytes ? copy_l1_bytes_per_us : both <= l2_bytes ? copy_l2_bytes_per_us : 0;
    return bytes * 1000 / (rate != 0 ? rate : copy_bytes_per_us);
  }

  static constexpr size_t kHeaderBytes = 64;  ///< of a packet: InfiniBand's or Ethernet's and ours, about

  /// CPU time of a copy of so many bytes through a socket.
  uint64_t socket_copy_ns(size_t bytes) const {
    return bytes * 1000 / (socket_bytes_per_us != 0 ? socket_bytes_per_us : copy_bytes_per_us);
  }
};

struct Packet {
  virtual ~Packet() = default;
  enum class Kind : uint8_t { message, get_request, get_reply, put, put_done, rdma, datagram, stream };
  Kind kind = Kind::message;
  bool last = false;
  PeerId from = 0, to = 0;
  wire::Header header{};                  ///< messages
  size_t message_bytes = 0;               ///< of the whole message or get
  size_t offset = 0;                      ///< of this payload in it
  uint64_t get_address = 0, get_key = 0;  ///< get requests and puts
  void* put_operation = nullptr;          ///< puts: the sender's name for it
  uint64_t astray_ns = 0;                 ///< not 0: arrives so much later, independent of the order of the pair
  uint64_t flow =
      0;  ///< rdma, stream: packets of one flow arrive in order; datagrams in any; else those of a pair of ranks do
  std::vector<std::byte> payload;
  /// Packets on their way are a list of the network's.
  Packet *previous_flying = nullptr, *next_flying = nullptr;
};

/// One rank's memory, as adapters and other ranks of its node reach it. Called outside its fibers, or from another
/// rank's. The only place where one simulated rank's memory is touched for another.
class NetworkMemory {
 public:
  /// An adapter (or cross-memory attach) reads this rank's exposed memory: copies `bytes` from `address` out.
  /// False: not exposed under that key.
  virtual bool read(uint64_t key, uint64_t address, std::byte* out, size_t bytes) = 0;
  virtual bool write(uint64_t key, uint64_t address, const std::byte* in, size_t bytes) = 0;
  /// The bytes at `offset` of a put that this rank has issued: read when they land, so that a sender that changes its
  /// memory too early is found out. False: the put is over.
  virtual bool read_put(const Packet& packet, std::byte* out) = 0;
  /// Whether the rank is in its library at this moment.
  virtual bool attending(uint64_t now_ns) const = 0;
  /// Takes the copy lock on this rank's memory; returns whether it was open.
  virtual bool take_copy_lock(uint64_t key) = 0;

 protected:
  ~NetworkMemory() = default;
};

/// One rank's end of the network. Called outside all fibers, at the time of the event.
class NetworkPort {
 public:
  virtual void on_packet(std::unique_ptr<Packet> packet) = 0;
  /// The peer has taken `bytes` of what this rank has sent.
  virtual void on_window(PeerId peer, size_t bytes) = 0;
  virtual void on_peer_lost(PeerId peer) = 0;
  /// Null: it exposes none.
  virtual NetworkMemory* memory() = 0;

 protected:
  ~NetworkPort() = default;
};

/// One node's adapter's end of the network: packets of kind rdma. Called outside all fibers.
class NetworkAdapter {
 public:
  virtual void on_packet(std::unique_ptr<Packet> packet) = 0;
  /// A packet of this node came from, or went to, a lost rank.
  virtual void on_dropped(std::unique_ptr<Packet> packet) = 0;

 protected:
  ~NetworkAdapter() = default;
};

/// Faults of the network; see faults.h.
class NetworkWeather {
 public:
  virtual ~NetworkWeather() = default;
  /// By how much this packet is delayed beyond the network's own time.
  virtual uint64_t extra_delay_ns(uint64_t now_ns, PeerId from, PeerId to) = 0;
};

class Network final : public EventTarget {
 public:
  Network(Scheduler& scheduler, const NetworkModel& model, uint32_t ranks, uint32_t ranks_per_node);
  ~Network();

  const NetworkModel& model() const { return model_; }
  uint32_t ranks() const { return uint32_t(ports_.size()); }
  bool same_node(PeerId a, PeerId b) const { return a / ranks_per_node_ == b / ranks_per_node_; }
  void set_weather(std::unique_ptr<NetworkWeather> weather) { weather_ = std::move(weather); }
  void attach(PeerId rank, NetworkPort* port) {
    ports_[rank] = port;
    attached_[rank] = true;
  }
  /// Null: the rank is not there, or exposes none.
  NetworkMemory* memory_of(PeerId rank) const { return ports_[rank] ? ports_[rank]->memory() : nullptr; }
  uint32_t nodes() const { return uint32_t(nodes_.size()); }
  uint32_t node_of(PeerId rank) const { return rank / ranks_per_node_; }
  PeerId first_rank_of(uint32_t node) const { return node * ranks_per_node_; }
  void attach_adapter(uint32_t node, NetworkAdapter* adapter) { nodes_[node].adapter = adapter; }
  /// Gets all packets of kind stream, also those of lost ranks: hosts outlive their ranks.
  void attach_streams(NetworkAdapter* hosts) { streams_ = hosts; }
  /// How long such a packet occupies an adapter.
  uint64_t adapter_busy_ns(size_t payload) const {
    return model_.packet_ns + duration(payload + NetworkModel::kHeaderBytes, model_.adapter_bytes_per_us);
  }

  /// Hands a packet to the sender's adapter at `time_ns`.
  void send(uint64_t time_ns, std::unique_ptr<Packet> packet);
  /// `taker` has taken `bytes` that came from `sender`, who learns of it a latency later.
  void give_back(uint64_t time_ns, PeerId taker, PeerId sender, size_t bytes);
  /// From `time_ns` on nothing goes to that rank or comes from it; the others are told `notice_ns` later.
  void lose(uint64_t time_ns, PeerId rank, uint64_t notice_ns);
  bool is_lost(PeerId rank) const { return lost_[rank]; }

  uint64_t packets() const { return packets_; }
  /// What a node's links have done: its adapter out, the switch's port to it, its adapter in.
  struct LinkUse {
    uint64_t out_ns, out_packets, port_ns, in_ns, in_packets;
  };
  LinkUse use_of(uint32_t node) const {
    const Node& n = nodes_[node];
    return {n.out.busy_ns, n.out.packets, n.port.busy_ns, n.in.busy_ns, n.in.packets};
  }
  void on_event(EventKind kind, uint64_t datum) override;

 private:
  /// A server of one packet at a time.
  struct Link {
    uint64_t free_ns = 0, busy_ns = 0, packets = 0;
    /// When the packet's first byte gets in.
    uint64_t reserve(uint64_t now_ns, uint64_t duration_ns) {
      uint64_t begin = now_ns > free_ns ? now_ns : free_ns;
      free_ns = begin + duration_ns;
      busy_ns += duration_ns;
      ++packets;
      return begin;
    }
  };
  struct Node {
    Link out, port, in;
    NetworkAdapter* adapter = nullptr;
  };
  struct Pair {
    Link memory;
    uint64_t last_arrival_ns = 0;
  };
  struct GiveBack {
    PeerId taker, sender;
    size_t bytes;
  };
  static uint64_t duration(size_t bytes, uint64_t bytes_per_us) { return bytes * 1000 / bytes_per_us; }
  uint64_t first_frame_ns(const Packet& packet) const;
  void enter(Packet* packet);
  void arrive(Packet* packet, uint64_t time_ns);
  void deliver(Packet* packet);
  std::unique_ptr<Packet> land(Packet* packet);
  void forward(uint64_t time_ns, EventKind kind, Packet* packet) {
    scheduler_.at(time_ns, *this, kind, packet->to, reinterpret_cast<uintptr_t>(packet));
  }

  Scheduler& scheduler_;
  const NetworkModel model_;
  const uint32_t ranks_per_node_;
  std::vector<NetworkPort*> ports_;
  std::vector<Node> nodes_;
  std::vector<bool> lost_, attached_;                       ///< attached: ever
  std::unordered_map<uint64_t, Pair> pairs_;                ///< only pairs that have communicated
  std::unordered_map<uint64_t, uint64_t> flow_arrival_ns_;  ///< the last, by flow; with weather only
  std::unique_ptr<NetworkWeather> weather_;
  NetworkAdapter* streams_ = nullptr;
  Packet* flying_ = nullptr;          ///< the first of those on their way, which are ours
  std::vector<GiveBack> give_backs_;  ///< slots; the event's datum is an index
  std::vector<uint32_t> free_give_backs_;
  uint64_t packets_ = 0;
};

}  // namespace tern::sim
