// User handles are numbers, never addresses: generation << 24 | index into a table of slots per kind of
// object, so that a freed, garbage or null handle is recognised without touching what it points to, and
// MPI_X_toint is a cast. Predefined handles (1..4095, MPI 5.0 section 20.5) have an array of their own, since most
// calls name two of them. Source: MPI 5.0 chapter 20.
//
// Several tables of one kind have handles of their own: the highest bits of the index are the table's part. Part 0 is
// the table that all programs use; the others are those of message engines (p2p/engines.h).
//
// Thread rule: under the rank's lock (a part's: its engine's rule), but for `find_unlocked`: for a handle that nobody
// frees at that time, while others give and retire handles of other objects. A handle's slot is written before the
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

namespace tern {
struct DebugLayout;
}

namespace tern::capi {

/// The slots of one kind. T must have `int32_t handle` (base/object.h).
/// A handle holds one reference to its object; the same object given out twice has one handle that must be
/// retired twice.
template <typename T, uintptr_t kBase, size_t kReserved, bool kIsPart = false>
class alignas(64) HandleTable {
 public:
  static constexpr uintptr_t kFirstPredefined = kBase;
  static constexpr uintptr_t kLastPredefined = kBase + kReserved - 1;

  HandleTable() { use(allocate(1), 0); }
  /// Of a part: 1 to kMostParts.
  explicit HandleTable(uint32_t part) requires kIsPart : most_(kPartIndices), part_(part << kPartShift) {
    use(allocate(1), 0);
  }
  static constexpr uint32_t kMostParts = 15;  ///< four bits; Engines::kMost needs fewer
  /// The part that a handle would be of.
  static uint32_t part_of(uintptr_t handle) {
    return handle < 4096 || handle > 0x7fffffff ? 0 : uint32_t(handle >> kPartShift) & kMostParts;
  }
  /// There will be parts: this table leaves them their handles from now on. False: it has used them.
  bool leave_room_for_parts() {
    if (mask_ >= kPartIndices) return false;
    most_ = kPartIndices;
    return true;
  }
  HandleTable(const HandleTable&) = delete;
  HandleTable& operator=(const HandleTable&) = delete;

  /// The object of a handle, null when the handle is none of this table's living ones.
  T* find(uintptr_t handle) const {
    return handle - kBase < kReserved ? predefined_[handle - kBase] : find_user(handle);
  }
  /// The object of a handle that is not one of the predefined; null: there is none.
  T* find_user(uintptr_t handle) const {
    const Slot& slot = slots_[handle & mask_];
    return slot.handle == handle ? slot.object : nullptr;
  }
  /// As `find`, without the rank's lock.
  T* find_unlocked(uintptr_t handle) const {
    if (handle - kBase < kReserved)
      return std::atomic_ref(const_cast<T*&>(predefined_[handle - kBase])).load(std::memory_order_acquire);
    const Slot* all = published_.load(std::memory_order_acquire);
    const Slot& slot = all[handle & all[0].next_free];
    return slot.handle == handle ? slot.object : nullptr;
  }
  /// Ties a predefined handle to its object (null unties).
  void set_predefined(uintptr_t handle, T* object) {
    TERN_ASSERT(handle >= kBase && handle < kBase + kReserved);
    if (object) object->handle = static_cast<int32_t>(handle);
    std::atomic_ref(predefined_[handle - kBase]).store(object, std::memory_order_release);
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
    const bool here = try_retire(handle);
    TERN_ASSERT(here);
  }
  /// False: it is none of this table's handles.
  bool try_retire(uintptr_t handle) {
    if (handle < 4096) return true;
    if (slots_[handle & mask_].handle != handle) [[unlikely]]
      return false;
    end_giving(handle & mask_);
    return true;
  }
  /// find_user, and retire where `ends(object)`.
  template <typename Ends>
  T* take_user(uintptr_t handle, Ends ends) {
    T* object = find_user(handle);
    if (object && ends(*object)) end_giving(handle & mask_);
    return object;
  }
  /// Whether the number once was a handle of this table that is freed now (for the message).
  bool was_freed(uintptr_t handle) const {
    const Slot& slot = slots_[handle & mask_];
    return handle >= 4096 && handle <= 0x7fffffff && (handle & kIndexMask) <= mask_ && slot.handle != handle &&
           slot.generation != 0;
  }
  /// User objects alive.
  size_t live() const { return live_; }
  /// Calls visit(object) for every user object alive.
  template <typename Visit>
  void for_each(Visit visit) const {
    for (size_t i = 1; i <= mask_; ++i) {
      if (slots_[i].object) visit(*slots_[i].object);
    }
  }

 private:
  friend struct tern::DebugLayout;  // capi/debug_view.h
  static constexpr uintptr_t kIndexMask = 0xffffff;
  static constexpr uint32_t kPartShift = 20, kPartIndices = 1u << kPartShift;
  struct alignas(32) Slot {  // not across cache lines
    T* object = nullptr;
    uint32_t handle = 0;      ///< 0: free
    uint32_t references = 0;  ///< how often the handle was given
    uint32_t next_free = 0;   ///< of a free slot; 0 ends the list. Of slot 0: the mask of indices
    uint8_t generation = 0;   ///< 1..127 once used: a stale handle is recognised until the slot was reused 127 times
  };
  void end_giving(size_t index) {
    Slot& slot = slots_[index];
    if (--slot.references != 0) return;
    slot.handle = 0;
    slot.object = nullptr;
    slot.next_free = free_;
    free_ = static_cast<uint32_t>(index);
    --live_;
  }
  [[gnu::always_inline]] uintptr_t give_new(T* object) {
    Slot& slot = slots_[free_];
    uintptr_t index = free_;
    free_ = slot.next_free;
    slot.generation = slot.generation == 127 ? 1 : uint8_t(slot.generation + 1);
    slot.handle = uint32_t{slot.generation} << 24 | uint32_t(index);
    if constexpr (kIsPart) slot.handle |= part_;
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
    Slot& slot = slots_[handle & mask_];
    if (slot.handle != handle || slot.object != object) return 0;
    ++slot.references;
    return handle;
  }
  bool grow() {
    const size_t old = mask_ + 1, now = old < 64 ? 64 : 2 * old;
    if (old >= most_) return false;
    Slot* grown = allocate(now);
    std::copy(slots_ + 1, slots_ + old, grown + 1);
    for (size_t i = now; i-- > old;) {
      grown[i].next_free = free_;
      free_ = static_cast<uint32_t>(i);
    }
    use(grown, now - 1);
    return true;
  }
  Slot* allocate(size_t count) {
    owned_.push_back(std::make_unique<Slot[]>(count));
    return owned_.back().get();
  }
  void use(Slot* slots, size_t mask) {
    slots[0].next_free = static_cast<uint32_t>(mask);
    slots_ = slots;
    mask_ = mask;
    published_.store(slots, std::memory_order_release);
  }
  Slot* slots_;        ///< a power of two of them
  size_t mask_ = 0;    ///< of an index in slots_
  uint32_t free_ = 0;  ///< slot 0 is never given out, so 0 means none
  size_t live_ = 0;
  size_t most_ = kIndexMask + 1;  ///< slots
  uint32_t part_ = 0;             ///< as in a handle
  T* predefined_[kReserved] = {};
  std::atomic<const Slot*> published_;          ///< slots_, for find_unlocked; the mask is in slot 0
  std::vector<std::unique_ptr<Slot[]>> owned_;  ///< slots_, and those before them
};

}  // namespace tern::capi
