// RangeLocks: which rank of those that opened a file together writes where at this moment, in memory that they share.
// They make it safe to write back a block of which only parts were changed (data sieving) beside others who write into
// its holes.
//
//   plain write    says its range (shared), looks whether somebody has one for himself; if so, and it is the same
//   range,
//                  takes it back and waits: that one is inside of two system calls and waits for nobody
//   sieving        says its range (exclusive), looks at all others; if anybody writes there, takes it back: the caller
//   writes
//                  piece by piece instead. So nobody waits for a rank that computes
//
// Each says first and looks then, with sequentially consistent stores and loads, so of two one sees the other. Without
// common memory (several hosts) there are no exclusive ranges. Source: the flags of Dekker's algorithm (Dijkstra, EWD
// 123). Thread rule: under the rank's lock; the memory is shared with other processes.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

namespace tern::io {

class RangeLocks {
 public:
  static constexpr int kSlots = 4;  ///< of a rank; with more writes at a time one slot stands for all others

  /// Zeroed memory for so many ranks.
  static size_t bytes_for(int ranks) { return sizeof(Table) + size_t(ranks) * sizeof(Row); }

  /// No locks at all: shared ranges are free, exclusive ones cannot be had.
  RangeLocks() = default;
  /// `memory` outlives this; null: memory of its own, for one rank.
  RangeLocks(std::byte* memory, int rank, int ranks);

  /// Waits while another rank has the range exclusively. Returns the argument for `leave`.
  int enter(int64_t begin, int64_t end);
  /// Takes the range for this rank alone; -1: another rank writes there, or there are no exclusive ranges.
  int enter_alone(int64_t begin, int64_t end);
  void leave(int slot);
  bool has_exclusive() const { return table_ != nullptr; }

 private:
  enum State : uint32_t { kFree, kShared, kExclusive };
  struct Slot {
    std::atomic<int64_t> begin, end;
    std::atomic<uint32_t> state;
  };
  struct alignas(128) Row {
    Slot slots[kSlots];
  };
  struct alignas(128) Table {
    std::atomic<uint32_t> exclusive;  ///< ranges; temporarily more while a rank tries
  };

  Row* rows() const { return reinterpret_cast<Row*>(table_ + 1); }
  int say(int64_t begin, int64_t end, State state);
  /// Whether any other slot in one of the states meets the range.
  bool meets(int64_t begin, int64_t end, int mine, State least) const;

  std::unique_ptr<std::byte[]> own_;
  Table* table_ = nullptr;
  int rank_ = 0, ranks_ = 0;
  bool used_[kSlots] = {};
  uint32_t crowd_ = 0;  ///< writes that share the last slot
};

}  // namespace tern::io
