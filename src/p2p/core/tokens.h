// Tokens: 32-bit names of this rank's requests on the wire. A token that never was, or is long gone, is recognised
// (generation), so nothing a peer sends can make us touch freed memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/assert.h"

namespace tern {

template <typename T>
class Tokens {
 public:
  /// Never 0.
  uint32_t add(T& item) {
    if (free_ == kNone) {
      TERN_ASSERT(slots_.size() < kIndexMask);
      slots_.push_back({nullptr, 1, kNone});
      free_ = uint32_t(slots_.size() - 1);
    }
    uint32_t index = free_;
    free_ = slots_[index].next_free;
    slots_[index].item = &item;
    ++live_;
    return slots_[index].generation << kIndexBits | index;
  }
  T* find(uint32_t token) const {
    uint32_t index = token & kIndexMask;
    if (index >= slots_.size() || slots_[index].generation != token >> kIndexBits) return nullptr;
    return slots_[index].item;
  }
  /// The item of the slot that a token's low 16 bits name; null: none there.
  T* find_by_name(uint16_t name) const { return name < slots_.size() ? slots_[name].item : nullptr; }
  /// Whether those 16 bits name it.
  static bool has_name(uint32_t token) { return (token & kIndexMask) < 0xffff; }
  void remove(uint32_t token) {
    Slot& slot = slots_[token & kIndexMask];
    TERN_ASSERT(slot.item && slot.generation == token >> kIndexBits);
    slot.item = nullptr;
    slot.generation = slot.generation == kLastGeneration ? 1 : slot.generation + 1;
    slot.next_free = free_;
    free_ = token & kIndexMask;
    --live_;
  }
  /// The token names another item from now on.
  void rename(uint32_t token, T& item) {
    Slot& slot = slots_[token & kIndexMask];
    TERN_ASSERT(slot.item && slot.item != &item && slot.generation == token >> kIndexBits);
    slot.item = &item;
  }
  uint32_t live() const { return live_; }
  template <typename Visitor>
  void for_each(Visitor&& visit) const {
    for (size_t i = 0; i < slots_.size(); ++i) {
      if (T* item = slots_[i].item) visit(*item);
    }
  }

 private:
  static constexpr uint32_t kIndexBits = 24;
  static constexpr uint32_t kIndexMask = (1u << kIndexBits) - 1;
  static constexpr uint32_t kLastGeneration = 255;
  static constexpr uint32_t kNone = ~0u;
  struct Slot {
    T* item;
    uint32_t generation;
    uint32_t next_free;
  };
  std::vector<Slot> slots_;
  uint32_t free_ = kNone;
  uint32_t live_ = 0;
};

}  // namespace tern
