// NodeTeam: shared memory of a communicator whose members are all on one node, for small blocking
// collectives.
//
// Every operation has a number s, the same at all members. A member's contribution to it goes into a line that
// only this member writes, number s mod ring of its own: the number, the length, and up to kInlineBytes of data.
// Longer data go into one of its bulk slots, before the line: short data of several operations share a slot. Members
// that need the contribution wait until the line has the number s.
//
//   (a ring of 4)
//   member 0   [s=8|data][s=5|data][s=6|data][s=7|data]      member 0 contributes to operation 8,
//   member 1   [s=4|data][s=1|data][s=6|data][    0    ]     member 1 did so to 6 and 4, and only read since
//
// Invariant: a line is written for s only when every reader of this member's contributions up to s - ring has entered a
// later operation than each that it reads, hence has read it; data in slots the same with the number that depth_of
// says. Readers are all members, or one (publish_for): in a scan where members share cores each is read by the next one
// only, so a chain of p members may be p rings long. A member publishes its progress now and then (every kAckInterval
// operations) in a line of its own. A writer reads that line only when the last value it read is not sufficient.
//   No deadlock: a member that has entered e has published at least e - kAckInterval + 1 >= e - kBulkSlots + 1, so the
//   one that is furthest behind never waits for room.
//
// A waiting member notices the death of another; then the team is unusable, and every operation fails.
// Thread rule: under the rank's lock; lines are the only thing that members share, without a lock.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "coll/operands.h"
#include "comm/communicator.h"
#include "fabric/shm/node_memory.h"

namespace tern {

class NodeTeam final : public ShmCondition {
 public:
  static constexpr size_t kInlineBytes = 48;  ///< what a cache line has left after number and length
  static constexpr size_t kBulkBytes = 8192;  ///< the longest contribution; measured in select.cc
  /// With more members reading every line costs more than a tree of messages.
  static constexpr int kMaxMembers = 32;
  /// How many operations a member may run ahead of the others before it must wait for them.
  static constexpr uint64_t kRing = 16;
  /// Where members share cores: more, since it does so in each of its slices of time (8 ranks on 2 cores, streams of 16
  /// B: scan 2.3 us with 16, 0.85 with 64; bcast 1.0 and 0.48). With more members fewer: a member that has just got its
  /// core finds none of their pages in its core's tables (16 ranks on 2 cores, barrier: 22 us with 32 lines each, 76
  /// with 64).
  static constexpr uint64_t ring_for(int members) { return members <= 8 ? 64 : members <= 16 ? 32 : kRing; }
  /// For data that are not in the line it is fewer operations, since all teams share an arena
  /// (fabric/shm/node_memory.h): this many, and where members share cores, for data of up to kShortBytes,
  /// short_slots_for.
  static constexpr uint64_t kBulkSlots = 8;
  static constexpr size_t kShortBytes = 512;
  static constexpr uint64_t short_slots_for(int members) { return members <= 16 ? 32 : 16; }
  /// Short data lie far apart in a slot: a reader's prefetch must not take the line that is written next.
  static constexpr size_t kShortStride = 2048;
  static constexpr uint64_t kAckInterval = 4;  ///< half of kBulkSlots, see the invariant

  /// Whether the memory of these ranks of the communicator is shared; equal at all of them.
  static bool possible(const Communicator& communicator, std::span<const int> ranks);
  /// Memory of a team, and how much of its beginning must be zero.
  static size_t bytes_for(int members) { return bulk_at(members) + size_t(members) * kBulkSlots * kBulkStride; }
  static size_t zeroed_bytes_for(int members) { return bulk_at(members); }

  /// Members are these ranks of the communicator, in that order; this process is one. `offset` of the memory that the
  /// member 0 has allocated. `shares_cores`: of RankEnvironment, as member 0 knows it.
  NodeTeam(Communicator& communicator, std::vector<int> ranks, uint64_t offset, bool shares_cores);
  ~NodeTeam();

  int rank() const { return rank_; }
  int size() const { return size_; }
  bool shares_cores() const { return shares_cores_; }

  /// What the next operation is: a member that finds another one in a line of this number reports it.
  void set_operation(Operation operation) { operation_ = (uint64_t(operation) + 1) << kOperationShift; }
  /// Enters the next operation. Every member calls it for every operation, first.
  void enter() {
    if (++sequence_ % kAckInterval == 0) acknowledge();
  }
  /// Place for this member's contribution of at most kBulkBytes. Null: failed, see error().
  [[gnu::always_inline]] std::byte* place(size_t bytes) {
    const uint64_t depth = depth_of(bytes);
    if (sequence_ >= depth) {
      const uint64_t for_all = std::min(sequence_ - depth, last_for_all_);
      const uint64_t for_one = std::min(sequence_ - depth, last_for_one_);
      if (all_entered_ <= for_all && !make_room(for_all + 1)) return nullptr;
      if (one_entered_ <= for_one && !make_room_for_one(for_one + 1)) return nullptr;
    }
    Line& mine = line(rank_);
    mine.what = operation_ | bytes;
    return data_of(rank_, bytes);
  }
  /// This member's contribution is complete: for all members, or for one.
  [[gnu::always_inline]] void publish() {
    last_for_all_ = sequence_;
    store_number();
    for (int i = 0; i < size_; ++i) {
      if (i != rank_) memory_.wake_if_asleep(slots_[size_t(i)]);
    }
  }
  void publish_for(int member) {
    if (member != only_reader_) [[unlikely]]
      change_reader(member);
    last_for_one_ = sequence_;
    store_number();
    memory_.wake_if_asleep(slots_[size_t(member)]);
  }
  /// Waits for a member's contribution to this operation; at most `bytes` are expected. A null pointer: failed, see
  /// error().
  [[gnu::always_inline]] std::span<const std::byte> await(int member, size_t bytes) {
    Line& theirs = line(member);
    if (theirs.number.load(std::memory_order_acquire) < sequence_) {
      if (!wait_for(theirs.number, sequence_)) return {};
    } else {
      __builtin_prefetch(&line(
          member, (sequence_ + 4) & (ring_ - 1)));  // it is ahead, perhaps by more (scan of a stream: 53 to 44 ns)
    }
    const uint64_t length = theirs.what ^ operation_;  // of another operation: longer than anything
    if (length > bytes) [[unlikely]] {
      disagree(member, theirs.what, bytes);
      return {};
    }
    return {data_of(member, length), length};
  }
  /// Waits for a contribution of exactly `bytes`. Null: failed.
  const std::byte* await_all(int member, size_t bytes) {
    std::span<const std::byte> data = await(member, bytes);
    if (data.size() == bytes || !data.data()) [[likely]]
      return data.data();
    disagree(member, operation_ | data.size(), bytes);
    return nullptr;
  }
  /// All contributions to this operation have been seen: every member has entered it.
  void all_have_entered() { all_entered_ = sequence_; }

  /// The error of this operation.
  Error error();

  bool ready() override { return awaited_ && awaited_->load(std::memory_order_acquire) >= awaited_value_; }

 private:
  struct alignas(64) Line {
    std::atomic<uint64_t> number;
    uint64_t what;  ///< the operation, and the bytes of the contribution
    std::byte data[kInlineBytes];
  };
  static_assert(sizeof(Line) == 64);
  /// Bulk slots of a member begin in different sets of the caches: three lines apart.
  static constexpr size_t kBulkStride = kBulkBytes + 192;
  static constexpr size_t kPage = 4096;  ///< of node memory (shm/segment.h)
  /// The head: a line that counts the members that have left for good, then a ring and a line more for each member.
  static constexpr size_t kLinesAt = 64;
  static constexpr size_t bulk_at(int members) {
    return (kLinesAt + size_t(members) * (ring_for(members) + 1) * sizeof(Line) + kPage - 1) / kPage * kPage;
  }

  Line& line(int member, uint64_t index) const { return lines_[size_t(member) * (ring_ + 1) + index]; }
  Line& line(int member) const { return line(member, sequence_ & (ring_ - 1)); }
  /// A member's progress.
  std::atomic<uint64_t>& entered(int member) const { return line(member, ring_).number; }
  /// The memory of a member's contribution to this operation. `bytes`: its length.
  [[gnu::always_inline]] std::byte* data_of(int member, size_t bytes) const {
    if (bytes <= kInlineBytes) return line(member).data;
    std::byte* const slot = bulk_ + (size_t(member) * kBulkSlots + sequence_ % kBulkSlots) * kBulkStride;
    if (bytes > kShortBytes) return slot;
    return slot + (sequence_ / kBulkSlots & (short_slots_ / kBulkSlots - 1)) * kShortStride;
  }
  /// By how many operations a contribution of so long data may be ahead. Short data may lie where long data lay before.
  [[gnu::always_inline]] uint64_t depth_of(size_t bytes) {
    if (bytes <= kInlineBytes) return ring_;
    if (bytes > kShortBytes) long_until_ = sequence_ + short_slots_;
    return sequence_ < long_until_ ? kBulkSlots : short_slots_;
  }
  void store_number() { line(rank_).number.store(sequence_, std::memory_order_release); }
  void acknowledge();
  bool make_room(uint64_t needed);
  bool make_room_for_one(uint64_t needed);
  void change_reader(int member);
  bool wait_for(const std::atomic<uint64_t>& number, uint64_t value);
  bool somebody_lost();
  void disagree(int member, uint64_t what, size_t expected);

  NodeMemory& memory_;
  PointToPoint& p2p_;
  Communicator& communicator_;
  const std::vector<int> ranks_;       ///< of the members in the communicator
  int rank_, size_;                    ///< of this member, and how many there are
  const uint64_t ring_, short_slots_;  ///< powers of two
  const bool shares_cores_;
  uint64_t offset_;
  std::atomic<uint32_t>* left_;  ///< members that have left the team
  Line* lines_;
  std::byte* bulk_;
  std::vector<uint32_t> slots_;  ///< members' slots in the node, for waking
  static constexpr int kOperationShift = 48;
  uint64_t operation_ = 0;  ///< as in Line::what
  uint64_t sequence_ = 0;
  uint64_t long_until_ = 0;    ///< before it data that are longer than short ones may lie in this member's slots
  uint64_t last_for_all_ = 0;  ///< this member's last contribution that all may read
  uint64_t all_entered_ = 1;   ///< all are known to have entered this operation; at first 1: none comes before it
  int only_reader_ = -1;       ///< of the contributions for one member
  uint64_t last_for_one_ = 0;  ///< the last one of these
  uint64_t one_entered_ = 1;   ///< the same of that member
  const std::atomic<uint64_t>* awaited_ = nullptr;  ///< the line for which this rank waits; null: none
  uint64_t awaited_value_ = 0;
  uint32_t losses_seen_ = 0;  ///< of PointToPoint::losses
  int lost_ = -1;             ///< a member that has died
  Error error_;
};

}  // namespace tern
