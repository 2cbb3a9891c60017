// A free list of objects of one type: constant-time get and put without the allocator once warm. Storage grows by
// chunks, of a few objects at first, and is returned only with the pool. Thread rule: the owner's lock.
#pragma once

#include <algorithm>
#include <cstddef>
#include <deque>
#include <memory>
#include <new>
#include <utility>
#include <vector>

namespace tern {

struct DebugLayout;

template <typename T, size_t kChunk = 64>
class Pool {
 public:
  Pool() = default;
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;

  template <typename... Args>
  T* create(Args&&... args) {
    if (!free_) grow();
    Slot* slot = free_;
    free_ = slot->next;
    ++live_;
    return new (slot->storage) T(std::forward<Args>(args)...);
  }
  void destroy(T* item) {
    item->~T();
    Slot* slot = reinterpret_cast<Slot*>(item);
    slot->next = free_;
    free_ = slot;
    --live_;
  }
  /// Objects handed out and not yet returned.
  size_t live() const { return live_; }

 private:
  friend struct DebugLayout;  // capi/debug_view.h
  union Slot {
    Slot* next;
    alignas(T) std::byte storage[sizeof(T)];
  };
  struct Chunk {
    std::unique_ptr<Slot[]> slots;
    size_t count;  ///< debuggers visit them
  };
  void grow() {
    const size_t count = std::min(kChunk, std::max<size_t>(live_, 2));
    chunks_.push_back({std::make_unique<Slot[]>(count), count});
    for (size_t i = count; i-- > 0;) {
      Slot& slot = chunks_.back().slots[i];
      slot.next = free_;
      free_ = &slot;
    }
  }
  Slot* free_ = nullptr;
  size_t live_ = 0;
  std::vector<Chunk> chunks_;
};

/// Like Pool, but an object is constructed once and reused in the state in which it was returned. For small objects
/// whose constructor would store more than one use changes. T has a `T* next_free`, which the recycler uses while the
/// object is free.
template <typename T>
class Recycler {
 public:
  Recycler() = default;
  Recycler(const Recycler&) = delete;
  Recycler& operator=(const Recycler&) = delete;

  /// Constructs a new object from `args` when none is free.
  template <typename... Args>
  T* take(Args&&... args) {
    T* item = free_;
    if (!item) [[unlikely]]
      return more(std::forward<Args>(args)...);
    free_ = item->next_free;
    return item;
  }
  void give_back(T* item) {
    item->next_free = free_;
    free_ = item;
  }

 private:
  template <typename... Args>
  [[gnu::cold, gnu::noinline]] T* more(Args&&... args) {
    return &items_.emplace_back(std::forward<Args>(args)...);
  }
  T* free_ = nullptr;
  std::deque<T> items_;
};

}  // namespace tern
