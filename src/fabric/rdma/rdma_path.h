// The rdma path: messages over reliable queue pairs, get and put by RDMA read and write, over whatever adapter provides
// Hca.
//
// A message is one frame (wire/rdma.h), or a first one and more, sent from a slot of registered memory (or inlined)
// into a receive of the peer, which all peers share (a shared receive queue): memory does not grow with their number.
// Frames need credit, so that a peer that does not look is not flooded; the adapter's receiver-not-ready retries take
// care of many peers that use their credit at one time. Credits come back on frames of the other direction, or alone
// when half are due.
//
// Connections are made on first contact. Every rank has a datagram queue pair, whose address it publishes:
//
//   A                                   B
//     hello {A's queue pair} ------------>  makes its queue pair, connects it to A's
//     <----------- welcome {B's queue pair}
//     connects, sends a frame ----------->  now knows that A is connected, and sends, too
//
// Greetings are lost and repeated; both may begin at the same time (each then connects on the other's hello). A
// greeting counts only with the job key's signature.
//
// Errors: a request that fails breaks the connection; when everything outstanding on it has come back, what waits for
// that peer is completed with an error and the sink is told. Ranks that only listen find a dead peer by empty writes to
// peers that were silent for a while (TERN_RDMA_KEEPALIVE_MS).
//
// rdma_path.cc: frames; rdma_connect.cc: greetings, timers; rdma_transfer.cc: get, put, registered memory;
// rdma_close.cc: loss. Source: paper 003, section 2.1 (RC, sendrecv channel); paper 000 for what rendezvous asks of get
// and put. Units: bytes, nanoseconds. Thread rule: as Path.
#pragma once

#include <array>
#include <functional>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/clock.h"
#include "base/pool.h"
#include "base/tunables.h"
#include "fabric/path.h"
#include "fabric/rdma/hca.h"
#include "fabric/rdma/memory_watch.h"
#include "fabric/rdma/rdma_tuples.h"
#include "fabric/rdma/registration_cache.h"
#include "wire/rdma.h"

namespace tern {

struct RdmaOptions {
  PeerId rank = 0;
  uint32_t size = 1;
  std::array<uint8_t, 32> key{};  ///< the job's secret
  // Simulated ranks: what the CPU's work costs in virtual time (a real clock knows itself).
  uint64_t copy_bytes_per_us = 0;        ///< 0: copies cost nothing
  uint64_t send_ns = 0, receive_ns = 0;  ///< a frame's way through the library, besides the adapter's own costs
  rdma::Keep keep = rdma::Keep::watched;
};

class RdmaPath final : public CountingPath, public RemoteMemory {
 public:
  /// Gets what `peer` published as its card; called on first contact only. May block.
  using Lookup = std::function<Error(PeerId peer, std::string& card)>;

  /// Clock and sink outlive the path. Null exactly when `error` is set.
  static std::unique_ptr<RdmaPath> create(const RdmaOptions& options, const Tunables& tunables,
                                          std::unique_ptr<rdma::Hca> hca, Clock& clock, Sink& sink, Lookup lookup,
                                          Error& error);
  ~RdmaPath() override;

  /// What peers need to greet this rank.
  const std::string& card() const { return card_; }
  const rdma::Hca& hca() const { return *hca_; }

  bool reaches(PeerId peer) const override { return peer != options_.rank && peer < options_.size; }
  Lane& lane(PeerId peer) override { return peer_at(peer); }
  bool try_send(Lane& lane, const wire::Header& header, const void* payload, size_t bytes) override;
  void enqueue(SendOperation& operation) override;
  bool withdraw(SendOperation& operation) override;
  RemoteMemory* remote_memory() override { return this; }
  RemoteKey expose(const void* address, size_t bytes, RemoteAccess access) override;
  void conceal(const RemoteKey& key) override;
  bool can_get(Lane&) override { return true; }
  void get(TransferOperation& operation) override { transfer(operation, false); }
  bool can_put(Lane&) override { return true; }
  void put(TransferOperation& operation) override { transfer(operation, true); }
  TupleQueues* tuple_queues() override;
  void give_up(Lane& lane) override;
  bool reopen(Lane& lane, uint32_t incarnation) override;
  int poll() override;
  int wait_fd() const override { return channel_->descriptor(); }
  bool arm() override;
  uint64_t next_deadline_ns() const override;
  bool has_unsent() const override {
    return queued_ != 0 || outstanding_ != 0 || (tuples_ && tuples_->has_unsent());
  }

  /// Connections that are up. For tests.
  size_t connections() const { return by_number_.size(); }
  const rdma::RegistrationCache& registrations() const { return *registrations_; }

 private:
  enum class PeerState : uint8_t {
    fresh,     ///< never heard of
    greeting,  ///< we have said hello
    answered,  ///< our queue pair is connected, the peer's perhaps not yet
    ready,
    broken,  ///< a request failed; waits for the others to come back
    lost,
  };
  struct Transfer : ListHook<Transfer> {  // hook: in its peer's `transfers`, then in its `posted_transfers`
    TransferOperation* operation = nullptr;
    rdma::Registration* registration = nullptr;  ///< of the local memory; null: through slots
    size_t posted = 0;
    uint32_t outstanding = 0;
    bool is_put = false;
    bool all_posted = false;
    bool failed = false;
  };
  /// A message of several frames, between its first and its last.
  struct Reception {
    bool active = false;
    wire::Header header{};
    Landing landing;
    uint64_t bytes = 0, received = 0;
  };
  struct Peer : Lane {
    using Lane::Lane;
    PeerState state = PeerState::fresh;
    bool blocked = false;  ///< in blocked_
    bool heard = true;     ///< something came from there since the last look
    bool greeted = false;  ///< in greeted_: hellos are repeated
    std::unique_ptr<rdma::QueuePair> pair;
    rdma::QueuePairAddress remote;  ///< of its queue pair; when connected
    uint32_t credits = 0;           ///< frames that we may send
    uint32_t owed = 0;              ///< frames of the peer that were taken and not yet told
    uint32_t window = 0;            ///< ours, as the peer was told
    uint32_t outstanding = 0;
    size_t frame_bytes = 0;  ///< longest that both handle
    IntrusiveList<SendOperation> queue;
    IntrusiveList<Transfer> transfers, posted_transfers;
    Reception reception;
    // Being greeted:
    std::unique_ptr<rdma::Route> route;
    rdma::QueuePairAddress datagram;
    uint64_t retry_ns = 0, retry_wait_ns = 0, give_up_ns = 0;
    std::string trouble;       ///< why it is broken
    uint32_t incarnation = 0;  ///< how often the lane was made anew
  };
  /// Of registered memory, for one frame (or one part of a transfer).
  struct Slot {
    PeerId peer = kNoPeer;
    Transfer* transfer = nullptr;
    uint32_t bytes = 0;
  };
  /// What a completion is about, in the low bits of its id; above them a slot, a peer, or a Transfer's address.
  enum class Tag : uint64_t { receive, slot, inlined, transfer, greeting_in, greeting_out };

  RdmaPath(const RdmaOptions& options, const Tunables& tunables, std::unique_ptr<rdma::Hca> hca, Clock& clock,
           Sink& sink, Lookup lookup);
  Error start();
  Error make_memory();

  // rdma_path.cc
  Peer& peer_at(PeerId id);
  std::byte* slot_memory(size_t slot) const { return memory_ + slot * slot_bytes_; }
  rdma::Piece slot_piece(size_t slot, size_t bytes) const {
    return {reinterpret_cast<uint64_t>(slot_memory(slot)), uint32_t(bytes), memory_region_->local_key()};
  }
  static uint64_t id_of(Tag tag, uint64_t value) { return value << 3 | uint64_t(tag); }
  bool room(const Peer& peer) const { return peer.outstanding < send_depth_ && outstanding_ < most_outstanding_; }
  bool post(Peer& peer, const rdma::WorkRequest& work);
  bool post_frame(Peer& peer, wire::RdmaFrameType type, const wire::Header& header, uint64_t message_bytes,
                  const void* flat, Cursor* cursor, size_t bytes);
  void pump(Peer& peer);
  void block(Peer& peer);
  int take_completions();
  void handle(const rdma::Completion& completion);
  void on_frame(Peer& peer, const std::byte* data, size_t bytes);
  void on_written(Peer& peer);
  void on_message_frame(Peer& peer, const wire::RdmaFrame& frame);
  void give_credit(Peer& peer);
  void repost_receives();
  int complete_finished();
  void charge(uint64_t ns) {
    if (ns != 0) clock_.charge_ns(ns);
  }
  void charge_copy(size_t bytes) {
    if (options_.copy_bytes_per_us) clock_.charge_ns(bytes * 1000 / options_.copy_bytes_per_us);
  }

  // rdma_connect.cc
  void contact(Peer& peer);
  Error prepare(Peer& peer);
  Error make_pair(Peer& peer);
  void greet(Peer& peer, wire::RdmaGreeting::Kind kind);
  void repeat_hellos(Peer& peer);
  void on_greeting(const std::byte* data, size_t bytes);
  bool connect(Peer& peer, const wire::RdmaGreeting& greeting);
  void become_ready(Peer& peer);
  void run_timers(uint64_t now_ns);
  void look_for_the_silent();

  // rdma_transfer.cc
  void transfer(TransferOperation& operation, bool is_put);
  void pump_transfers(Peer& peer);
  bool post_part(Peer& peer, Transfer& transfer);
  void part_done(Peer& peer, Transfer& transfer, Slot* slot, bool ok);
  void finish(Transfer& transfer);

  // rdma_close.cc
  void break_peer(Peer& peer, std::string trouble);
  int bury_broken();
  void lose(Peer& peer);
  void take_events();
  void lose_adapter();
  Error reason(const Peer& peer) const;

  const RdmaOptions options_;
  Clock& clock_;
  Sink& sink_;
  const Lookup lookup_;
  std::unique_ptr<rdma::Hca> hca_;
  std::string card_;

  // From the tunables, within the adapter's limits.
  size_t slot_bytes_ = 0;
  uint32_t receive_slots_ = 0, send_slots_ = 0, window_ = 0;
  uint32_t send_depth_ = 0;        ///< of one queue pair
  uint32_t most_outstanding_ = 0;  ///< of all: what the completion queue has room for
  size_t inline_bytes_ = 0;
  uint64_t connect_timeout_ns_ = 0, keepalive_ns_ = 0, greeting_ns_ = 0;
  uint64_t rnr_wait_ns_ = 0, timeout_ns_ = 0;  ///< of QueuePairOptions
  uint8_t retries_ = 0;

  // The order matters: queue pairs (in peers_) go before what they refer to.
  std::unique_ptr<rdma::MemoryWatch> watch_;
  void count_registrations() {
    counters().rdma_registration_hits = registrations_->hits();
    counters().rdma_registration_misses = registrations_->misses();
  }
  std::unique_ptr<rdma::RegistrationCache> registrations_;
  std::byte* memory_ = nullptr;  ///< all slots: receives, sends, then datagrams in and out
  size_t memory_bytes_ = 0;
  std::unique_ptr<rdma::MemoryRegion> memory_region_;
  std::unique_ptr<rdma::EventChannel> channel_;
  std::unique_ptr<rdma::CompletionQueue> completions_;
  std::unique_ptr<rdma::SharedReceiveQueue> receives_;
  rdma::RdmaTuples::Options tuple_options_;
  std::unique_ptr<rdma::RdmaTuples> tuples_;  ///< null: nobody has asked, or the adapter has no XRC
  std::unique_ptr<rdma::QueuePair> datagrams_;
  std::vector<std::unique_ptr<Peer>> peers_;       ///< by PeerId; null: never heard of
  std::unordered_map<uint32_t, Peer*> by_number_;  ///< by our queue pair's number

  std::vector<Slot> slots_;
  std::vector<uint32_t> free_slots_;      ///< for sending
  std::vector<uint32_t> taken_receives_;  ///< to be posted again
  std::vector<uint32_t> free_greetings_;  ///< datagram slots for sending
  Pool<Transfer> transfer_pool_;
  uint32_t outstanding_ = 0;
  size_t queued_ = 0;                        ///< operations in the peers' queues
  IntrusiveList<SendOperation> finished_;    ///< copied altogether; `done` is due
  IntrusiveList<SendOperation> unsendable_;  ///< for lost peers
  IntrusiveList<TransferOperation> untransferable_;
  std::vector<Peer*> blocked_, broken_, greeted_;

  static constexpr size_t kBatch = 16;
  rdma::Completion stash_[kBatch];  ///< found while arming
  size_t stashed_ = 0;
  bool armed_ = false;
  bool adapter_failed_ = false;  ///< nothing may be asked of it any more
  uint32_t polls_ = 0;
  uint64_t keepalive_due_ns_ = ~uint64_t{0};
};

}  // namespace tern
