// NodeTeam: shared memory of a communicator whose members are all on one node, for small blocking
// collectives.
//
// Each member has kRing slots that only it writes: a sequence number and data behind it. Operation s uses
// slot
// s mod kRing of everybody: a member puts its data there, then stores s as the number; who needs the data
// waits until
// the number is at least s. So flag and first data come in one cache line.
//
//   (kRing = 4)
//   member 0   [s=8|data][s=5|data][s=6|data][s=7|data]      member 0 has entered operation 8,
//   member 1   [s=4|data][s=5|data][s=6|data][s=7|data]      member 1 has not yet
//
// Invariant: a slot is written for s only when every member has entered s - kRing + 1, hence left s - kRing.
// That is looked at only when the last look does not already tell.
// Thread rule: under the rank's lock; the numbers are the only thing that members share without one.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "fabric/shm/node_memory.h"
#include "comm/communicator.h"

namespace tern {

class NodeTeam final : public ShmWatch {
 public:
  static constexpr size_t kSlotBytes = 2048;
  static constexpr size_t kDataAt = 16;  ///< aligned for every predefined type, in the line of the number
  static constexpr size_t kDataBytes = kSlotBytes - kDataAt;
  static constexpr size_t kHeadBytes = 4096;  ///< before the slots
  /// So far a root of broadcasts may run ahead of the others before it must wait for them.
  static constexpr uint64_t kRing = 16;
  /// With more members reading everybody's slot costs more than a tree of messages.
  static constexpr int kMostMembers = 32;

  /// Whether the members' memory is shared; equal at all of them.
  static bool possible(const Communicator& communicator);
  static size_t bytes_for(int members) { return kHeadBytes + size_t(members) * kRing * kSlotBytes; }

  /// `offset` of zeroed memory that the member 0 has allocated.
  NodeTeam(Communicator& communicator, uint64_t offset);
  ~NodeTeam();

  int rank() const { return rank_; }
  int size() const { return size_; }

  /// Begins the next operation: my place for data, free to be written.
  std::byte* enter();
  /// My data are there.
  void publish() {
    number(rank_).store(sequence_, std::memory_order_release);
    for (int i = 0; i < size_; ++i) {
      if (i != rank_) memory_.wake_slot_if_asleep(slots_[size_t(i)]);
    }
  }
  /// Waits until `member` has published; its data.
  const std::byte* await(int member) {
    std::atomic<uint64_t>& theirs = number(member);
    if (theirs.load(std::memory_order_acquire) < sequence_) wait_for(theirs, sequence_);
    return data(member, sequence_);
  }

  bool ready() override { return awaited_ && awaited_->load(std::memory_order_acquire) >= awaited_value_; }

 private:
  std::byte* slot(int member, uint64_t sequence) const {
    return slots_begin_ + (size_t(member) * kRing + sequence % kRing) * kSlotBytes;
  }
  std::byte* data(int member, uint64_t sequence) const { return slot(member, sequence) + kDataAt; }
  std::atomic<uint64_t>& number(int member, uint64_t sequence) const {
    return *reinterpret_cast<std::atomic<uint64_t>*>(slot(member, sequence));
  }
  std::atomic<uint64_t>& number(int member) const { return number(member, sequence_); }
  void wait_for(std::atomic<uint64_t>& theirs, uint64_t value);

  NodeMemory& memory_;
  ProgressEngine& progress_;
  int rank_, size_;
  uint64_t offset_;
  std::byte* slots_begin_;
  std::atomic<uint32_t>* left_;  ///< members that have left for good, in the first page
  std::vector<uint32_t> slots_;  ///< members' slots in the node, for waking
  uint64_t sequence_ = 0;
  uint64_t all_entered_ = 0;  ///< every member has entered this operation, as far as is known here
  const std::atomic<uint64_t>* awaited_ = nullptr;  ///< what this rank waits for; null: nothing
  uint64_t awaited_value_ = 0;
};

}  // namespace tern
