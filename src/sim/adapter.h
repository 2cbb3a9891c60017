// The simulated RDMA adapter: rdma::Hca in virtual time. Each node has one adapter that its ranks share. Its own engine
// moves data while ranks compute, in segments that share links with all other traffic (network.h):
//
//   post -> send queue -> engine (queue pairs in turn; context cache) -> network -> responder -> memory, receive, entry
//                                                                     <- answer: ack, RNR NACK, error, read's data <-
//
// A request is over when its answer is back. Reliable services number messages. A responder takes them in order and
// drops everything else. A requester that is told (RNR), or must conclude (no answer in timeout * retries), that a
// message was not taken goes back to it. Packets are never lost on the way, only dropped by a receiver that is not
// ready, so the requester is told of a drop and then waits for the timeout; nothing is resent that was taken.
//
// Memory is touched only in adapter_memory.h, by the adapter of the rank that owns it.
// What the model leaves out: packets smaller than a segment, adaptive routing, acknowledgements that are coalesced.
//
// Units: nanoseconds, bytes. Thread rule: one scheduler; verbs are called by the owner's strand, events outside all
// strands.
#pragma once

#include <deque>
#include <memory>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "base/rng.h"
#include "fabric/adapter_share.h"
#include "fabric/rdma/verbs/hca.h"
#include "sim/adapter_cache.h"
#include "sim/adapter_memory.h"
#include "sim/adapter_mishaps.h"
#include "sim/adapter_model.h"
#include "sim/network.h"
#include "sim/poll_cost.h"
#include "sim/scheduler.h"

namespace tern::sim {

class SimAdapters;
class AdapterNode;
class SimHca;
class SimQueuePair;

struct AdapterPacket final : Packet {
  enum class Op : uint8_t {
    data,        ///< a segment of a send or write
    early_tail,  ///< without ordered_writes: the last bytes of a write whose beginning lands later
    read_request,
    atomic_request,
    ack,
    rnr,
    error,
    read_answer,
    atomic_answer,
    dc_connect,
    dc_disconnect,
    dc_refused,
  };
  Op op = Op::data;
  rdma::Verb verb = rdma::Verb::send;
  rdma::Status status = rdma::Status::success;  ///< error
  bool solicited = false;
  uint32_t source = 0, target = 0;  ///< queue pair numbers
  uint32_t epoch = 0;               ///< of the requester's attempt
  uint64_t sequence = 0;
  uint32_t total = 0, begin = 0;  ///< bytes of the message; where this payload begins in it
  uint32_t immediate = 0, remote_key = 0, remote_srq = 0;
  uint64_t remote_address = 0, key = 0, compare = 0, operand = 0;
  uint64_t wait_ns = 0;  ///< rnr
};

struct SimAddressHandle final : rdma::AddressHandle {
  uint32_t node = 0;
};

class SimEventChannel final : public rdma::EventChannel {
 public:
  explicit SimEventChannel(Strand& strand) : strand_(strand) {}
  int descriptor() const override { return -1; }
  void drain() override { strand_.drain(); }

 private:
  Strand& strand_;
};

class SimCompletionQueue final : public rdma::CompletionQueue {
 public:
  SimCompletionQueue(SimHca& hca, const rdma::CompletionQueueOptions& options) : hca_(hca), options_(options) {}
  size_t poll(rdma::Completion* entries, size_t most) override;
  void arm(bool solicited_only) override;
  /// `releases`: so many places of that queue pair's send queue are free when this entry is polled.
  void push(const rdma::Completion& completion, bool solicited, SimQueuePair* pair, uint32_t releases);
  void forget(const SimQueuePair& pair);

 private:
  struct Entry {
    rdma::Completion completion;
    SimQueuePair* pair;
    uint32_t releases;
  };
  enum class Armed : uint8_t { no, any, solicited };
  SimHca& hca_;
  const rdma::CompletionQueueOptions options_;
  std::deque<Entry> entries_;
  Armed armed_ = Armed::no;
  PollCost poll_cost_;
};

/// A receive that was posted; usable from `ready_ns` on.
struct SimReceive {
  uint64_t id = 0;
  uint64_t ready_ns = 0;
  std::vector<rdma::Piece> pieces;
  uint64_t capacity = 0;
};

class SimSharedReceiveQueue final : public rdma::SharedReceiveQueue {
 public:
  SimSharedReceiveQueue(SimHca& hca, const rdma::SharedReceiveQueueOptions& options, uint32_t number);
  ~SimSharedReceiveQueue() override;
  size_t post(std::span<const rdma::ReceiveRequest> requests) override;
  void arm_limit(uint32_t limit) override;
  bool take(uint64_t now_ns, SimReceive& receive);

  SimHca& hca;
  const rdma::SharedReceiveQueueOptions options;
  std::deque<SimReceive> receives;

 private:
  void check_limit();
  const uint32_t table_number_;
  uint32_t limit_ = 0;
};

class SimQueuePair final : public rdma::QueuePair {
 public:
  SimQueuePair(SimHca& hca, const rdma::QueuePairOptions& options, uint32_t number);
  ~SimQueuePair() override;
  Error connect(const rdma::QueuePairAddress& peer) override;
  size_t post(std::span<const rdma::WorkRequest> work) override;
  size_t post_receives(std::span<const rdma::ReceiveRequest> requests) override;
  void fail() override;
  Error reset() override;
  State state() const override { return state_; }
  void release_sends(uint32_t count) { occupied_ -= count; }
  bool is_xrc() const { return options_.kind == Kind::xrc_initiator || options_.kind == Kind::xrc_target; }

 private:
  friend class AdapterNode;
  using Kind = rdma::QueuePairKind;
  struct Request {
    rdma::WorkRequest work;  ///< its pieces and address handle are not used
    std::vector<rdma::Piece> pieces;
    std::vector<std::byte> inlined;
    uint32_t total = 0;
    uint32_t to_node = 0;
    uint64_t ready_ns = 0;
    bool done = false;
    bool tried = false;                           ///< it has been sent before
    rdma::Status status = rdma::Status::success;  ///< once done
    void finish(rdma::Status how) {
      done = true;
      status = how;
    }
    bool is_read() const { return work.verb == rdma::Verb::read || is_atomic(); }
    bool is_atomic() const { return work.verb >= rdma::Verb::compare_swap; }
  };
  /// What a responder knows of one requester.
  struct Inbound {
    uint64_t expected = 0;
    uint32_t progress = 0;  ///< bytes of message `expected` that have landed
    bool has_receive = false;
    SimReceive receive;
    uint32_t srq = 0;  ///< xrc: whose `receive` it is
    uint32_t requester = 0;
  };
  /// Waits for the engine: a packet, or memory that is fetched piece by piece.
  struct Answer {
    std::unique_ptr<AdapterPacket> packet;
    uint64_t ready_ns = 0;
    uint32_t at = 0;  ///< read answers: bytes already sent
  };
  bool reliable() const { return options_.kind != Kind::ud; }
  void clear();
  void pop_done();
  void put_entry(const Request& request);
  uint32_t reads_out() const;

  SimHca& hca_;
  AdapterNode& node_;
  const rdma::QueuePairOptions options_;
  State state_ = State::idle;
  rdma::QueuePairAddress peer_;
  uint32_t peer_node_ = 0;
  // Requester.
  std::deque<Request> sends_;    ///< not yet over, oldest first
  uint64_t first_sequence_ = 0;  ///< of sends_.front()
  size_t next_ = 0;              ///< the request that the engine sends next
  uint32_t offset_ = 0;          ///< bytes of it that are already sent
  uint32_t epoch_ = 0;           ///< attempt; answers to earlier ones are ignored
  uint32_t timer_epoch_ = 0;     ///< the attempt for which a timeout is running
  uint64_t stalled_until_ns_ = 0;
  uint32_t occupied_ = 0;    ///< places of the send queue
  uint32_t unsignaled_ = 0;  ///< over, without an entry since the last that had one
  uint8_t retries_left_ = 0, rnr_left_ = 0;
  bool active_ = false;  ///< in the engine's round
  bool dc_connected_ = false;
  uint32_t dc_node_ = 0, dc_number_ = 0;
  uint64_t dc_key_ = 0;
  // Responder.
  std::deque<SimReceive> receives_;
  Inbound inbound_;
  std::unordered_map<uint64_t, Inbound> dc_inbound_;  ///< by requester
  std::deque<Answer> answers_;
  bool answering_ = false;  ///< in the engine's round
};

class SimHca final : public rdma::Hca {
 public:
  SimHca(AdapterNode& node, Strand& strand);
  ~SimHca() override;
  Error make_channel(std::unique_ptr<rdma::EventChannel>& result) override;
  Error make_completion_queue(const rdma::CompletionQueueOptions& options,
                              std::unique_ptr<rdma::CompletionQueue>& result) override;
  Error make_srq(const rdma::SharedReceiveQueueOptions& options,
                 std::unique_ptr<rdma::SharedReceiveQueue>& result) override;
  Error make_queue_pair(const rdma::QueuePairOptions& options, std::unique_ptr<rdma::QueuePair>& result) override;
  Error make_address_handle(const rdma::PortAddress& port, std::unique_ptr<rdma::AddressHandle>& result) override;
  Error register_memory(void* address, size_t bytes, const rdma::Access& access,
                        std::unique_ptr<rdma::MemoryRegion>& result) override;
  bool take_event(rdma::AsyncEvent& event) override;
  void observe() override { strand.catch_up(); }
  void raise(const rdma::AsyncEvent& event);

  AdapterNode& node;
  Strand& strand;
  uint64_t finds = 0;  ///< polls of its completion queues that found something

 private:
  std::deque<rdma::AsyncEvent> events_;
};

/// One node's adapter.
class AdapterNode final : public EventTarget, public NetworkAdapter {
 public:
  AdapterNode(SimAdapters& adapters, uint32_t index, uint64_t seed);
  void on_packet(std::unique_ptr<Packet> packet) override;
  void on_dropped(std::unique_ptr<Packet> packet) override;
  void on_event(EventKind kind, uint64_t datum) override;

  const AdapterModel& model() const;
  uint64_t now_ns() const;
  /// The queue pair may have something to send from `time_ns` on.
  void activate(SimQueuePair& pair, uint64_t time_ns);
  void to_error(SimQueuePair& pair);
  void forget(SimQueuePair& pair);
  /// It has nothing more to send or to answer.
  void quiet(SimQueuePair& pair);
  uint64_t draw_sequence() { return rng_.below(1u << 24); }

  const uint32_t index;
  SimAdapters& adapters;
  std::unordered_map<uint32_t, SimQueuePair*> pairs;
  std::unordered_map<uint32_t, SimSharedReceiveQueue*> srqs;
  uint32_t next_number = 1;
  std::vector<AdapterUse> uses;  ///< of its ranks, in their order
  uint64_t rnr_nacks = 0, dc_connects = 0, dc_nacks = 0;
  AdapterMishaps mishaps;
  AdapterMemory memory;
  AdapterCache cache;

 private:
  using Op = AdapterPacket::Op;
  using Inbound = SimQueuePair::Inbound;
  using Request = SimQueuePair::Request;
  enum class TimerKind : uint8_t { activate, timeout, dc_idle, settle, late };
  struct Timer {
    TimerKind kind;
    uint32_t pair;
    uint32_t epoch;
    uint64_t sequence;
  };

  // The engine: adapter_send.cc
  void run_engine();
  void wake_engine(uint64_t time_ns);
  bool sendable(SimQueuePair& pair, uint64_t& wake_at_ns);
  uint64_t send_segment(SimQueuePair& pair);
  uint64_t send_answer(SimQueuePair& pair);
  void dc_turn_to(SimQueuePair& pair, const Request& request, uint64_t& cost_ns);
  uint64_t dc_disconnect(SimQueuePair& pair, uint64_t time_ns);
  uint64_t transmit(std::unique_ptr<AdapterPacket> packet, uint64_t after_ns, bool answer);
  std::unique_ptr<AdapterPacket> make_request(const SimQueuePair& pair, const Request& request) const;
  void add_timer(uint64_t time_ns, const Timer& timer);
  void on_timer(const Timer& timer);

  // Arrivals: adapter_receive.cc
  void handle(AdapterPacket& packet);
  void handle_data(SimQueuePair& pair, Inbound& inbound, AdapterPacket& packet);
  bool begin_data(SimQueuePair& pair, Inbound& inbound, AdapterPacket& packet);
  void handle_datagram(SimQueuePair& pair, AdapterPacket& packet);
  void deliver_datagram(SimQueuePair& pair, const AdapterPacket& packet);
  void handle_read(SimQueuePair& pair, Inbound& inbound, AdapterPacket& packet);
  void handle_atomic(SimQueuePair& pair, Inbound& inbound, AdapterPacket& packet);
  void handle_dc_connect(SimQueuePair& pair, const AdapterPacket& packet);
  void handle_answer(SimQueuePair& pair, AdapterPacket& packet);
  Inbound* find_inbound(SimQueuePair& pair, const AdapterPacket& packet);
  bool take_receive(SimQueuePair& pair, const AdapterPacket& packet, SimReceive& receive);
  void complete_receive(SimQueuePair& pair, const AdapterPacket& packet, const SimReceive& receive,
                        rdma::Status status);
  void answer(SimQueuePair& pair, const AdapterPacket& to, Op op, uint64_t delay_ns,
              rdma::Status status = rdma::Status::success);
  void refuse(SimQueuePair& pair, const AdapterPacket& packet, rdma::Status told, rdma::Status own);
  void dropped(uint32_t number, uint32_t epoch, uint64_t sequence);
  void go_back(SimQueuePair& pair, uint64_t sequence, uint64_t wait_ns);
  void fail_request(SimQueuePair& pair, uint64_t sequence, rdma::Status status);
  void flush_receive(SimQueuePair& pair, Inbound& inbound);

  Rng rng_;
  std::deque<SimQueuePair*> active_, answering_;
  bool answers_turn_ = false;
  uint64_t busy_until_ns_ = 0, engine_event_ns_ = kNever_ns, receive_free_ns_ = 0;
  std::deque<std::unique_ptr<AdapterPacket>> arrivals_;                ///< handled one an event, in this order
  std::unordered_map<uint64_t, std::unique_ptr<AdapterPacket>> late_;  ///< datagrams, by their timer's sequence
  std::unordered_map<uint64_t, Timer> timers_;
  uint64_t next_timer_ = 0;
};

/// All adapters of a machine.
class SimAdapters {
 public:
  SimAdapters(Scheduler& scheduler, Network& network, const AdapterModel& model, const AdapterFaults& faults,
              uint64_t seed);
  ~SimAdapters();
  /// The calling rank's own view of its node's adapter. Outlived by this.
  std::unique_ptr<rdma::Hca> open(Strand& strand);
  AdapterNode& node(uint32_t index) { return *nodes_[index]; }
  AdapterNode& node_of(PeerId rank) { return *nodes_[network.node_of(rank)]; }

  Scheduler& scheduler;
  Network& network;
  const AdapterModel model;
  const AdapterFaults faults;

 private:
  std::vector<std::unique_ptr<AdapterNode>> nodes_;
};

}  // namespace tern::sim
