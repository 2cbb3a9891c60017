#include "io/range_locks.h"

#include <sched.h>

#include <cstring>

namespace tern::io {

RangeLocks::RangeLocks(std::byte* memory, int rank, int ranks) : rank_(rank), ranks_(ranks) {
  if (!memory) {
    const size_t bytes = bytes_for(1) + alignof(Table);
    own_ = std::make_unique<std::byte[]>(bytes);
    memory = reinterpret_cast<std::byte*>((reinterpret_cast<uintptr_t>(own_.get()) + alignof(Table) - 1) /
                                          alignof(Table) * alignof(Table));
  }
  table_ = reinterpret_cast<Table*>(memory);
}

int RangeLocks::say(int64_t begin, int64_t end, State state) {
  int free = 0;
  while (free < kSlots - 1 && used_[free]) ++free;
  if (free == kSlots - 1) {
    if (state == kExclusive) return -1;
    // One slot for all: it stands for the whole file.
    begin = 0;
    end = INT64_MAX;
    if (crowd_++ != 0) return free;
  } else {
    used_[free] = true;
  }
  Slot& slot = rows()[rank_].slots[free];
  slot.begin.store(begin, std::memory_order_relaxed);
  slot.end.store(end, std::memory_order_relaxed);
  slot.state.store(state, std::memory_order_seq_cst);
  return free;
}

void RangeLocks::leave(int slot) {
  if (slot < 0) return;
  if (slot == kSlots - 1) {
    if (--crowd_ != 0) return;
  } else {
    used_[slot] = false;
  }
  std::atomic<uint32_t>& state = rows()[rank_].slots[slot].state;
  const bool alone = state.load(std::memory_order_relaxed) == kExclusive;
  state.store(kFree, std::memory_order_seq_cst);
  if (alone) table_->exclusive.fetch_sub(1, std::memory_order_seq_cst);
}

bool RangeLocks::meets(int64_t begin, int64_t end, int mine, State least) const {
  for (int r = 0; r < ranks_; ++r) {
    for (int s = 0; s < kSlots; ++s) {
      if (r == rank_ && s == mine) continue;
      const Slot& slot = rows()[r].slots[s];
      if (slot.state.load(std::memory_order_seq_cst) < uint32_t(least)) continue;
      if (slot.begin.load(std::memory_order_relaxed) < end && begin < slot.end.load(std::memory_order_relaxed))
        return true;
    }
  }
  return false;
}

int RangeLocks::enter(int64_t begin, int64_t end) {
  if (!table_) return -1;
  for (;;) {
    const int slot = say(begin, end, kShared);
    if (table_->exclusive.load(std::memory_order_seq_cst) == 0) return slot;
    if (!meets(begin, end, slot, kExclusive)) return slot;
    leave(slot);
    sched_yield();
  }
}

int RangeLocks::enter_alone(int64_t begin, int64_t end) {
  if (!table_) return -1;
  table_->exclusive.fetch_add(1, std::memory_order_seq_cst);
  const int slot = say(begin, end, kExclusive);
  if (slot >= 0 && !meets(begin, end, slot, kShared)) return slot;
  if (slot >= 0) leave(slot);
  else table_->exclusive.fetch_sub(1, std::memory_order_seq_cst);
  return -1;
}

}  // namespace tern::io
