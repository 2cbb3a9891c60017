// ShmPath: messages between the ranks of one node through rings in shared memory (segment.h), large ones by
// cross-memory attach where the kernel allows it (shm_memory.h). A lane (shm_lane.h) has the ring out and the ring in
// (shm_ring_writer.h, shm_ring_reader.h); the path decides which lanes a poll visits, and when a rank may sleep.
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

#include <algorithm>
#include <memory>
#include <vector>

#include "base/tunables.h"
#include "fabric/path.h"
#include "fabric/shm/node.h"
#include "fabric/shm/shm_lane.h"
#include "fabric/shm/shm_memory.h"

namespace tern {

class alignas(64) ShmPath final : public CountingPath {
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

  RemoteMemory* remote_memory() override { return &memory_; }
  CopyArbiter* copy_arbiter() override { return &memory_; }

  int poll() override;

  int wait_fd() const override { return epoll_; }
  bool arm() override;
  void disarm() override;
  int ranks_asleep() const override { return node_->members_asleep(); }
  bool has_unsent() const override { return !busy_.empty(); }

  ShmNode& node() { return *node_; }

 private:
  using Peer = ShmLane;

  void declare_asleep();
  // --- shm_send.cc
  [[gnu::noinline]] bool try_send_slow(Peer& peer, const wire::Header& header, const void* payload, size_t bytes);
  /// Sends what it can of the queue; returns how many operations have left completely, or 1 for a part of one.
  int advance_queue(Peer& peer);
  bool advance_operation(Peer& peer, SendOperation& operation);
  void activate(Peer& peer);
  static bool spills(Peer& peer, const SendOperation& operation);
  bool spill(Peer& peer, const wire::Header& header, const void* payload, size_t bytes);

  // --- shm_receive.cc
  int drain(Peer& peer);
  int drain_spill(Peer& peer);
  [[gnu::noinline]] void receive_chunk(Peer& peer, const shm::Cell& cell, uint32_t info);
  void land(Peer& peer, const std::byte* data, size_t bytes);
  void give_back(Peer& peer);
  void give_back_now(Peer& peer);
  bool find_senders();
  int poll_rings();

  // --- shm_path.cc
  uint32_t quantum_awake() const { return uint32_t(std::min<size_t>(node_->ring_bytes() / 16, 4096)); }
  int complete_finished();
  bool anything_here();
  int check_lives();
  int lose(Peer& peer);

  /// A quarter of the ring's cells; of its bytes see quantum_awake. The sender never runs dry. It reads the progress
  /// line at most once in this many messages.
  static constexpr uint32_t kCellQuantum = shm::kCells / 4;

  std::unique_ptr<ShmNode> node_;
  Sink& sink_;
  bool polling_ = false, check_lives_ = false, asleep_ = false;
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
  uint32_t empty_polls_ = 0;
  ShmMemory memory_;
  int epoll_ = -1;
};

}  // namespace tern
