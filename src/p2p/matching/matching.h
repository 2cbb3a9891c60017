// Matching of arrivals with receives: O(1) for exact receives, ordered wildcards beside them.
//
//   posted receives                       unexpected messages
//   exact:  hash(context,source,tag)      by key:     hash(context,source,tag)  -> exact receives look here
//   wild:   one list per hash(context)    by arrival: hash(context)             -> wildcard receives look here
//
// An arrival takes the older of the first fitting exact and the first fitting wildcard receive (MPI 5.0, 3.5, order).
// The elements are the callers'; lists only link them. Thread rule: under the rank's lock.
#pragma once

#include <cstdint>
#include <memory>

#include "base/assert.h"
#include "base/intrusive_list.h"
#include "base/types.h"

namespace tern {

struct DebugLayout;
struct ByKey;
struct ByArrival;

/// A receive that waits for its message.
struct PostedReceive : ListHook<ByKey> {
  uint64_t context = 0;
  int source = kAnySource;
  int tag = kAnyTag;
  uint64_t order = 0;  ///< posting order in this rank

  bool wild() const { return source == kAnySource || tag == kAnyTag; }
  bool fits(uint64_t c, int s, int t) const {
    return context == c && (source == s || source == kAnySource) && (tag == t || tag == kAnyTag);
  }
};

/// A message that waits for its receive.
struct WaitingMessage : ListHook<ByKey>, ListHook<ByArrival> {
  uint64_t context = 0;
  int source = 0;
  int tag = 0;
};

class Matching {
 public:
  Matching();

  /// Takes the receive that a new message belongs to out of the posted ones; null: none.
  PostedReceive* match_arrival(uint64_t context, int source, int tag) {
    if (posted_count_ == 0) return nullptr;
    PostedList& exact = exact_[key_bucket(context, source, tag)];
    PostedReceive* found = exact.front();
    while (found && !(found->context == context && found->source == source && found->tag == tag))
      found = exact.next(found);
    if (wild_count_ != 0) found = older_wild(found, context, source, tag);
    if (found) {
      TERN_DEBUG_ASSERT(posted_count_ != 0);
      PostedList::remove(found);
      --posted_count_;
    }
    return found;
  }
  void post(PostedReceive& receive);
  void unpost(PostedReceive& receive);

  /// The oldest waiting message that fits; stays where it is. Null: none.
  WaitingMessage* find_waiting(uint64_t context, int source, int tag) {
    if (waiting_count_ == 0) return nullptr;
    return find_waiting_slow(context, source, tag);
  }
  void add_waiting(WaitingMessage& message);
  void remove_waiting(WaitingMessage& message) {
    TERN_DEBUG_ASSERT(waiting_count_ != 0);
    KeyList::remove(&message);
    ArrivalList::remove(&message);
    --waiting_count_;
  }

  // --- The receives of one key, for announcements (announcements.h) and tuple queues (tuples.h). `receive` is exact
  // and posted.
  /// The one that was posted before it; null: it is the oldest.
  PostedReceive* previous_of(PostedReceive& receive) {
    PostedList& list = exact_[key_bucket(receive.context, receive.source, receive.tag)];
    PostedReceive* r = list.previous(&receive);
    while (r && !r->fits(receive.context, receive.source, receive.tag)) r = list.previous(r);
    return r;
  }
  /// Visits `receive` and those that were posted after it.
  template <typename Visitor>
  void visit_from(PostedReceive& receive, Visitor&& visit) {
    PostedList& list = exact_[key_bucket(receive.context, receive.source, receive.tag)];
    for (PostedReceive* r = &receive; r; r = list.next(r)) {
      if (r->fits(receive.context, receive.source, receive.tag)) visit(*r);
    }
  }
  /// The oldest.
  PostedReceive* first_of_key(PostedReceive& receive) {
    if (posted_count_ == 1) return &receive;
    PostedList& list = exact_[key_bucket(receive.context, receive.source, receive.tag)];
    PostedReceive* r = list.front();
    while (!r->fits(receive.context, receive.source, receive.tag)) r = list.next(r);
    return r;
  }

  /// The oldest posted receive of just this key; null: none.
  PostedReceive* first_of(uint64_t context, int source, int tag) {
    return of_key(exact_[key_bucket(context, source, tag)].front(), context, source, tag);
  }
  /// The next of the same key.
  PostedReceive* next_of(PostedReceive& receive) {
    PostedList& list = exact_[key_bucket(receive.context, receive.source, receive.tag)];
    return of_key(list.next(&receive), receive.context, receive.source, receive.tag);
  }
  /// Whether a posted wildcard would take such a message.
  bool wild_fits(uint64_t context, int source, int tag) {
    return wild_count_ != 0 && wild_fits_slow(context, source, tag);
  }
  // --- For tuple queues.
  /// As add_waiting, but for receives with wildcards it comes before the first that `later` says is later.
  template <typename Later>
  void add_waiting_before(WaitingMessage& message, Later&& later) {
    add_waiting(message);
    ArrivalList& list = arrival_[context_bucket(message.context)];
    WaitingMessage* next = list.front();
    while (next != &message && !(next->context == message.context && later(*next))) next = list.next(next);
    if (next == &message) return;
    ArrivalList::remove(&message);
    TERN_DEBUG_ASSERT(waiting_count_ > 1);
    list.insert_after(list.previous(next), &message);
  }

  uint32_t posted_count() const { return posted_count_; }
  uint32_t waiting_count() const { return waiting_count_; }

  /// Visits every posted receive; the visitor may unpost the one it is given.
  template <typename Visitor>
  void for_each_posted(Visitor&& visit) {
    for (uint32_t i = 0; i < 2 * (mask_ + 1); ++i) {
      auto& list = i <= mask_ ? exact_[i] : wild_[i - mask_ - 1];
      for (PostedReceive* item = list.front(); item;) {
        PostedReceive* following = list.next(item);
        visit(*item);
        item = following;
      }
    }
  }
  /// Visits every waiting message; the visitor may remove the one it is given.
  template <typename Visitor>
  void for_each_waiting(Visitor&& visit) {
    for (uint32_t i = 0; i <= mask_; ++i) {
      for (WaitingMessage* item = arrival_[i].front(); item;) {
        WaitingMessage* following = arrival_[i].next(item);
        visit(*item);
        item = following;
      }
    }
  }

 private:
  friend struct DebugLayout;  // capi/debug_view.h
  using PostedList = IntrusiveList<PostedReceive, ByKey>;
  using KeyList = IntrusiveList<WaitingMessage, ByKey>;
  using ArrivalList = IntrusiveList<WaitingMessage, ByArrival>;

  static uint64_t mix(uint64_t x) {
    x *= 0x9e3779b97f4a7c15u;
    return x ^ (x >> 32);
  }
  uint32_t key_bucket(uint64_t context, int source, int tag) const {
    return uint32_t(mix(context ^ (uint64_t(uint32_t(source)) << 40) ^ (uint64_t(uint32_t(tag)) << 8))) & mask_;
  }
  uint32_t context_bucket(uint64_t context) const { return uint32_t(mix(context)) & mask_; }

  PostedReceive* of_key(PostedReceive* from, uint64_t context, int source, int tag) {
    PostedList& list = exact_[key_bucket(context, source, tag)];
    while (from && !from->fits(context, source, tag)) from = list.next(from);
    return from;
  }
  [[gnu::noinline]] PostedReceive* older_wild(PostedReceive* exact, uint64_t context, int source, int tag);
  WaitingMessage* find_waiting_slow(uint64_t context, int source, int tag);
  bool wild_fits_slow(uint64_t context, int source, int tag);
  void grow();

  uint32_t mask_;  ///< buckets - 1, for all four tables
  std::unique_ptr<PostedList[]> exact_, wild_;
  std::unique_ptr<KeyList[]> keyed_;
  std::unique_ptr<ArrivalList[]> arrival_;
  uint32_t posted_count_ = 0, wild_count_ = 0, waiting_count_ = 0;
  uint64_t next_order_ = 0;
};

}  // namespace tern
