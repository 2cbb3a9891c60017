// User handles are numbers, never addresses: generation << 24 | index into a table of slots per kind of
// object, so that a freed, garbage or null handle is recognised without touching what it points to, and
// MPI_X_toint is a cast. Predefined handles (1..4095, MPI 5.0 section 20.5) have an array of their own, since most
// calls name two of them. Source: MPI 5.0 chapter 20.
//
// Thread rule: changed under the rank's lock. `find` and `find_user` may be called without it, for a handle that nobody
// frees at that time, while others give and retire handles of other objects: a handle's slot is written before the
// program has the handle, and slots that were moved, since the table has grown, stay readable where they were (as many
// as the table has, in all).
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/assert.h"

namespace tern::capi {

/// The slots of one kind. T must have `int32_t handle` (base/object.h).
/// A handle holds one reference to its object; the same object given out twice has one handle that must be
/// retired twice.
template <typename T, uintptr_t kBase, size_t kReserved>
class alignas(64) HandleTable {
 public:
  static constexpr uintptr_t kFirstPredefined = kBase;
  static constexpr uintptr_t kLastPredefined = kBase + kReserved - 1;

  HandleTable() { slots_.store(allocate(1), std::memory_order_relaxed); }
  HandleTable(const HandleTable&) = delete;
  HandleTable& operator=(const HandleTable&) = delete;

  /// The object of a handle, null when the handle is none of this table's living ones.
  T* find(uintptr_t handle) const {
    return handle - kBase < kReserved ? predefined_[handle - kBase].load(std::memory_order_acquire) : find_user(handle);
  }
  /// The object of a handle that is not one of the predefined; null: there is none.
  T* find_user(uintptr_t handle) const {
    const Slot* all = slots_.load(std::memory_order_acquire);
    const Slot& slot = all[handle & mask_of(all)];
    return slot.handle == handle ? slot.object : nullptr;
  }
  /// Ties a predefined handle to its object (null unties).
  void set_predefined(uintptr_t handle, T* object) {
    TERN_ASSERT(handle >= kBase && handle < kBase + kReserved);
    if (object) object->handle = static_cast<int32_t>(handle);
    predefined_[handle - kBase].store(object, std::memory_order_release);
  }
  /// The handle for an object, a new one when it has none; 0 when the table is full. Takes over the caller's
  /// reference.
  [[gnu::always_inline]] uintptr_t give(T* object) {
    if (object->handle != 0 || free_ == 0) [[unlikely]]
      return give_rarely(object);
    return give_new(object);
  }
  /// Ends one giving of a handle. The object is not touched: it may be gone.
  void retire(uintptr_t handle) {
    if (handle < 4096) return;
    TERN_ASSERT(slot_of(handle).handle == handle);
    end_giving(handle & mask_of(slots()));
  }
  /// find_user, and retire where `ends(object)`.
  template <typename Ends>
  T* take_user(uintptr_t handle, Ends ends) {
    T* object = find_user(handle);
    if (object && ends(*object)) end_giving(handle & mask_of(slots()));
    return object;
  }
  /// Whether the number once was a handle of this table that is freed now (for the message).
  bool was_freed(uintptr_t handle) const {
    const Slot& slot = slot_of(handle);
    return handle >= 4096 && handle <= 0x7fffffff && (handle & kIndexMask) <= mask_of(slots()) &&
           slot.handle != handle && slot.generation != 0;
  }
  /// User objects alive.
  size_t live() const { return live_; }
  /// Calls visit(object) for every user object alive.
  template <typename Visit>
  void for_each(Visit visit) const {
    for (size_t i = 1; i <= mask_of(slots()); ++i) {
      if (slots()[i].object) visit(*slots()[i].object);
    }
  }

 private:
  static constexpr uintptr_t kIndexMask = 0xffffff;
  struct alignas(32) Slot {  // not across cache lines
    T* object = nullptr;
    uint32_t handle = 0;      ///< 0: free
    uint32_t references = 0;  ///< how often the handle was given
    uint32_t next_free = 0;   ///< of a free slot; 0 ends the list. Of slot 0: the mask of indices
    uint8_t generation = 0;   ///< 1..127 once used: a stale handle is recognised until the slot was reused 127 times
  };
  static size_t mask_of(const Slot* all) { return all[0].next_free; }
  Slot* slots() const { return slots_.load(std::memory_order_relaxed); }
  Slot& slot_of(uintptr_t handle) const { return slots()[handle & mask_of(slots())]; }
  void end_giving(size_t index) {
    Slot& slot = slots()[index];
    if (--slot.references != 0) return;
    slot.handle = 0;
    slot.object = nullptr;
    slot.next_free = free_;
    free_ = static_cast<uint32_t>(index);
    --live_;
  }
  [[gnu::always_inline]] uintptr_t give_new(T* object) {
    Slot& slot = slots()[free_];
    uintptr_t index = free_;
    free_ = slot.next_free;
    slot.generation = slot.generation == 127 ? 1 : uint8_t(slot.generation + 1);
    slot.handle = uint32_t{slot.generation} << 24 | uint32_t(index);
    slot.object = object;
    slot.references = 1;
    object->handle = static_cast<int32_t>(slot.handle);
    ++live_;
    return slot.handle;
  }
  [[gnu::noinline]] uintptr_t give_rarely(T* object) {
    if (object->handle != 0) {
      if (const uintptr_t handle = give_again(object)) return handle;
    }
    return free_ != 0 || grow() ? give_new(object) : 0;
  }
  /// The handle that the object has already; 0: its number is an old one.
  uintptr_t give_again(T* object) {
    const auto handle = static_cast<uintptr_t>(object->handle);
    if (handle < 4096) return handle;
    Slot& slot = slot_of(handle);
    if (slot.handle != handle || slot.object != object) return 0;
    ++slot.references;
    return handle;
  }
  bool grow() {
    const size_t old = mask_of(slots()) + 1, now = old < 64 ? 64 : 2 * old;
    if (old > kIndexMask) return false;
    const Slot* before = slots();
    Slot* grown = allocate(now);
    std::copy(before + 1, before + old, grown + 1);
    for (size_t i = now; i-- > old;) {
      grown[i].next_free = free_;
      free_ = static_cast<uint32_t>(i);
    }
    slots_.store(grown, std::memory_order_release);
    return true;
  }
  /// Slots, a power of two of them, with their mask in slot 0, which is never given out.
  Slot* allocate(size_t count) {
    owned_.push_back(std::make_unique<Slot[]>(count));
    Slot* made = owned_.back().get();
    made[0].next_free = static_cast<uint32_t>(count - 1);
    return made;
  }
  std::atomic<Slot*> slots_;  ///< those in use
  uint32_t free_ = 0;         ///< slot 0 is never given out, so 0 means none
  size_t live_ = 0;
  std::atomic<T*> predefined_[kReserved] = {};
  std::vector<std::unique_ptr<Slot[]>> owned_;  ///< those in use, and those before them
};

}  // namespace tern::capi
