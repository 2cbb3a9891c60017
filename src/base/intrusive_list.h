// A doubly linked list whose links live in the elements: no allocation, O(1) removal from the middle.
// An element may be in as many lists as it has hooks (distinguished by Tag). The list owns nothing.
#pragma once

#include "base/assert.h"

namespace tern {

template <typename Tag>
struct ListHook {
  ListHook* previous = nullptr;
  ListHook* next = nullptr;  ///< null exactly when in no list
  bool linked() const { return next != nullptr; }
  void unlink() {
    TERN_DEBUG_ASSERT(linked());
    previous->next = next;
    next->previous = previous;
    previous = next = nullptr;
  }
};

/// T derives from ListHook<Tag>; with one list only, from ListHook<T>.
template <typename T, typename Tag = T>
class IntrusiveList {
  using Hook = ListHook<Tag>;

 public:
  IntrusiveList() { head_.previous = head_.next = &head_; }
  IntrusiveList(const IntrusiveList&) = delete;
  IntrusiveList& operator=(const IntrusiveList&) = delete;

  bool empty() const { return head_.next == &head_; }
  T* front() { return empty() ? nullptr : element(head_.next); }
  T* back() { return empty() ? nullptr : element(head_.previous); }
  /// The element after `item`, null at the end.
  T* next(T* item) {
    Hook* hook = static_cast<Hook*>(item)->next;
    return hook == &head_ ? nullptr : element(hook);
  }
  /// The element before `item`, null at the beginning.
  T* previous(T* item) {
    Hook* hook = static_cast<Hook*>(item)->previous;
    return hook == &head_ ? nullptr : element(hook);
  }
  void push_back(T* item) { insert_before(&head_, item); }
  /// Behind `position`; null: at the beginning.
  void insert_after(T* position, T* item) {
    insert_before(position ? static_cast<Hook*>(position)->next : head_.next, item);
  }
  void push_front(T* item) { insert_before(head_.next, item); }
  static void remove(T* item) { static_cast<Hook*>(item)->unlink(); }
  T* pop_front() {
    T* item = front();
    if (item) remove(item);
    return item;
  }

 private:
  static T* element(Hook* hook) { return static_cast<T*>(hook); }
  static void insert_before(Hook* position, T* item) {
    Hook* hook = item;
    TERN_DEBUG_ASSERT(!hook->linked());
    hook->previous = position->previous;
    hook->next = position;
    position->previous->next = hook;
    position->previous = hook;
  }
  Hook head_;
};

}  // namespace tern
