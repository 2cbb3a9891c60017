// ShmPath: messages between the ranks of one node through rings in shared memory (segment.h), large ones by
// cross-memory attach where the kernel allows it (`get`).
//
// A message of at most 32 bytes is one cache line. A larger one lies in the data ring and is announced by
// cells, in chunks, so that the sender's copy-in and the receiver's copy-out overlap:
//
//   cells   | .. | first 20000 B: [0,8192) | continued [8192,16384) | continued .. |
//   data         ^.........................^.............................
//
// Chunks are 8 KiB: smaller ones let the receiver start earlier, but then both work on neighbouring lines at
// the same time and slow each other down (8 KiB one way, in chunks of 1, 2, 4, 8 KiB: 2.4, 1.9, 1.05, 1.02 us;
// streaming: 1.74, 1.57, 0.59, 0.41 us a message, where a bare line takes 0.19; bench/micro/shm_pair).
//
// A cell is valid when its sequence number is the expected one: a message needs no shared head or tail. The receiver
// writes its progress back every few cells (kilobytes); the sender reads it only when it considers the ring full.
//
// What is posted while the ring is full (try_post) goes to the spill cells, which continue the sequence, so that it is
// in shared memory when its sender goes off computing. A cell `moved` says where the sequence goes on. The last cell of
// the ring is kept for it, so the ring holds 127 messages. Other messages wait until the ring is used again.
//
//   cells   | 1 | 2 | .. | 127 | moved |             | 141 | 142 | ..
//   spill                              | 129 | .. | moved |
//
// Thread rule: Path's (under the rank's lock).
#pragma once

#include <sys/types.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "base/tunables.h"
#include "fabric/path.h"
#include "fabric/shm/copy_rates.h"
#include "fabric/shm/node.h"

namespace tern {

class alignas(64) ShmPath final : public CountingPath, public RemoteMemory, public CopyArbiter {
 public:
  /// `node` has joined. Deliveries go to `sink` from poll.
  ShmPath(std::unique_ptr<ShmNode> node, Sink& sink, const Tunables& tunables);
  ~ShmPath() override;

  bool reaches(PeerId peer) const override { return peer < by_rank_.size() && by_rank_[peer] != nullptr; }
  Lane& lane(PeerId peer) override { return *by_rank_[peer]; }
  bool try_send(Lane& lane, const wire::Header& header, const void* payload, size_t bytes) override;
  bool try_post(Lane& lane, const wire::Header& header, const void* payload, size_t bytes) override;
  void enqueue(SendOperation& operation) override;
  bool withdraw(SendOperation& operation) override;

  bool peek(Lane& lane, PeekedMessage& message) override;
  void take(Lane& lane) override;
  int poll_lane(Lane& lane) override;

  RemoteMemory* remote_memory() override { return this; }
  CopyArbiter* copy_arbiter() override { return this; }

  RemoteKey expose(const void* address, size_t bytes, RemoteAccess access) override;
  void conceal(const RemoteKey& key) override;
  bool can_get(Lane& lane) override;
  void get(TransferOperation& operation) override;
  bool can_put(Lane& lane) override;
  void put(TransferOperation& operation) override;

  bool add_copy_lock(RemoteKey& key) override;
  bool try_lock_copy(Lane* owner, const RemoteKey& key) override;
  std::byte* lend(size_t bytes, RemoteKey& key) override;
  bool can_get_lent(Lane&) override { return true; }
  void publish_heartbeat() override;
  bool stream_is_faster(Lane& lane, size_t bytes) override;
  bool peer_is_polling(Lane& lane, bool stays) override;
  bool peer_has_polled(Lane& lane) override;

  int poll() override;

  int wait_fd() const override { return epoll_; }
  bool arm() override;
  void disarm() override;
  bool has_unsent() const override { return !busy_.empty(); }

  ShmNode& node() { return *node_; }

 private:
  /// Everything about one peer. The sending half first: a small message touches only its first line.
  struct alignas(64) Peer : Lane {
    using Lane::Lane;
    bool open = false;  ///< a message may leave at once: activated, nothing queued, not spilling, not lost
    bool lost = false;
    bool activated = false;  ///< it knows that it must poll our ring
    bool queued = false;     ///< in busy_
    uint32_t slot = 0;
    uint32_t next = 1;                   ///< sequence number of the next cell out
    uint32_t limit = shm::kUsableCells;  ///< the last sequence number known to have a free cell
    shm::Cell* out_cells = nullptr;
    std::byte* out_ring = nullptr;
    shm::Progress* out_progress = nullptr;
    uint32_t streak = 0;         ///< small messages sent since the last arrival from there
    uint64_t head = 0;           ///< data ring: position where the next chunk begins
    uint64_t consumed_seen = 0;  ///< data ring position up to which it is known to be free again

    uint32_t offset = 0;    ///< of head in the ring
    uint32_t capacity = 0;  ///< used part of the ring: grows to the whole ring when it was full
    bool grow = false;
    bool spilling = false;  ///< messages go to the spill cells
    IntrusiveList<SendOperation> queue;
    uint64_t stream_out_ns = 0;  ///< when the first of the queue began to leave, if it is to be timed; else 0

    // Receiving.
    alignas(64) shm::Cell* in_cells = nullptr;
    uint32_t expected = 1;   ///< sequence number of the next cell in
    uint32_t published = 0;  ///< cells that the sender knows to be consumed
    std::byte* in_ring = nullptr;
    shm::Progress* in_progress = nullptr;
    uint64_t in_consumed = 0, in_published = 0;  ///< data ring
    bool landing_open = false;
    bool polled = false;    ///< in active_
    bool diverted = false;  ///< the next message is in the spill cells
    int8_t attach = -1;     ///< cross-memory attach: 1 works, 0 not, -1 not tried yet
    bool attach_writes = false;
    size_t landing_left = 0, landing_total = 0;
    wire::Header landing_header{};
    Landing landing;
    shm::SpillCell *in_spill = nullptr, *out_spill = nullptr;
    uint64_t stream_in_ns = 0;  ///< when its sender began with the landing message, if it is timed; else 0

    shm::PairRates* rates = nullptr;
    uint32_t beat_seen = 0;  ///< heartbeat of the peer when the last copy by cross-memory attach began

    pid_t pid = 0;  ///< of the peer, for cross-memory attach
  };

  // --- shm_send.cc
  bool try_send_slow(Peer& peer, const wire::Header& header, const void* payload, size_t bytes);
  /// Sends what it can of the queue; returns how many operations have left completely, or 1 for a part of one.
  int advance_queue(Peer& peer);
  bool advance_operation(Peer& peer, SendOperation& operation);
  void activate(Peer& peer);
  static uint32_t free_cells(Peer& peer);
  static void prefetch_data(Peer& peer, uint32_t offset);
  std::byte* reserve(Peer& peer, uint32_t bytes, shm::Chunk& chunk);
  bool fits(Peer& peer, size_t bytes, uint32_t chunks);
  uint32_t chunk_bytes(size_t left) const;
  void publish(Peer& peer, shm::CellKind kind, uint32_t bytes);
  static void update_open(Peer& peer) {
    peer.open = peer.activated && !peer.lost && !peer.spilling && peer.queue.empty();
  }
  bool spills(Peer& peer, const SendOperation& operation);
  bool spill(Peer& peer, const wire::Header& header, const void* payload, size_t bytes);
  bool return_to_ring(Peer& peer);
  static bool space_came(Peer& peer);
  bool is_timed(const Cursor& memory, size_t bytes) const;
  void streamed(Peer& peer);

  // --- shm_receive.cc
  int drain(Peer& peer);
  int drain_spill(Peer& peer);
  bool next_is_here(const Peer& peer) const;
  static void prefetch_chunk(Peer& peer, uint32_t sequence);
  [[gnu::noinline]] void receive_chunk(Peer& peer, shm::Cell& cell, uint32_t info);
  void land(Peer& peer, const std::byte* data, size_t bytes);
  void give_back(Peer& peer);
  void give_back_now(Peer& peer);
  bool find_senders();
  int poll_rings();

  // --- shm_path.cc
  uint32_t quantum_awake() const { return uint32_t(std::min<size_t>(node_->ring_bytes() / 16, 4096)); }
  using CopyAcross = Error (shm::NodePort::*)(pid_t, Cursor&, uint64_t, size_t);
  Error copy_across(TransferOperation& operation, CopyAcross copy);
  int complete_finished();
  bool anything_here();
  int check_lives();
  int lose(Peer& peer);
  void make_copy_locks();

  /// A quarter of the ring's cells; of its bytes see quantum_awake. The sender never runs dry. It reads the progress
  /// line at most once in this many messages.
  static constexpr uint32_t kCellQuantum = shm::kCells / 4;

  std::unique_ptr<ShmNode> node_;
  Sink& sink_;
  bool polling_ = false, check_lives_ = false, asleep_ = false;
  bool allow_attach_ = true;
  /// Cells and bytes consumed before the sender is told. One while a thread of this rank sleeps: another thread that
  /// polls may go to sleep too, and then no thread would tell the sender.
  uint32_t cell_quantum_ = kCellQuantum, quantum_ = 0;
  std::vector<Peer*> by_rank_;                ///< null: not on this node
  std::vector<std::unique_ptr<Peer>> peers_;  ///< by slot; null for mine and absent ones
  std::vector<Peer*> active_;                 ///< peers that have ever sent; the first kHot are polled every time
  size_t cold_ = 0, replace_ = 0;             ///< next cold ring to poll, next hot place to reassign
  std::vector<uint64_t> senders_known_;
  std::vector<Peer*> busy_;                ///< with queued operations
  IntrusiveList<SendOperation> finished_;  ///< left completely, `done` is due
  size_t finished_count_ = 0;
  uint32_t largest_chunk_ = 0;
  uint32_t empty_polls_ = 0;
  size_t attach_from_bytes_ = 0;      ///< tunable shm_get_bytes
  size_t lent_ = 0;                   ///< bytes of this rank's lent memory that are in use; never returned
  uint32_t lock_generation_ = 0;      ///< of the last copy lock made
  std::vector<uint32_t> free_locks_;  ///< offsets in this rank's lent memory
  uint32_t beat_ = 0;
  int epoll_ = -1;
};

}  // namespace tern
