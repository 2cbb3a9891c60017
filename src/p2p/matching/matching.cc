#include "p2p/matching/matching.h"

#include "base/assert.h"

namespace tern {
namespace {
// 64 buckets cost 4 KiB at start; tables grow fourfold when they hold more than two elements a bucket.
constexpr uint32_t kFirstBuckets = 64;
constexpr uint32_t kMaxBuckets = 1u << 18;
}  // namespace

Matching::Matching()
    : mask_(kFirstBuckets - 1),
      exact_(std::make_unique<PostedList[]>(kFirstBuckets)),
      wild_(std::make_unique<PostedList[]>(kFirstBuckets)),
      keyed_(std::make_unique<KeyList[]>(kFirstBuckets)),
      arrival_(std::make_unique<ArrivalList[]>(kFirstBuckets)) {}

// The first fitting wildcard receive if it is older than `exact` (null: none); it no longer counts as posted.
PostedReceive* Matching::older_wild(PostedReceive* exact, uint64_t context, int source, int tag) {
  PostedList& wild = wild_[context_bucket(context)];
  PostedReceive* candidate = wild.front();
  while (candidate && !candidate->fits(context, source, tag)) candidate = wild.next(candidate);
  if (!candidate || (exact && exact->order < candidate->order)) return exact;
  TERN_ASSERT(wild_count_ != 0);
  --wild_count_;
  TERN_DEBUG_ASSERT(wild_count_ < posted_count_);
  return candidate;
}

bool Matching::wild_fits_slow(uint64_t context, int source, int tag) {
  PostedList& wild = wild_[context_bucket(context)];
  for (PostedReceive* w = wild.front(); w; w = wild.next(w)) {
    if (w->fits(context, source, tag)) return true;
  }
  return false;
}

void Matching::post(PostedReceive& receive) {
  if (posted_count_ > 2 * mask_) grow();
  receive.order = next_order_++;
  ++posted_count_;
  if (receive.wild()) {
    ++wild_count_;
    TERN_DEBUG_ASSERT(wild_count_ <= posted_count_);
    wild_[context_bucket(receive.context)].push_back(&receive);
  } else {
    exact_[key_bucket(receive.context, receive.source, receive.tag)].push_back(&receive);
  }
}

void Matching::unpost(PostedReceive& receive) {
  TERN_ASSERT(posted_count_ != 0);
  PostedList::remove(&receive);
  --posted_count_;
  if (receive.wild()) --wild_count_;
  TERN_DEBUG_ASSERT(wild_count_ <= posted_count_);
}

WaitingMessage* Matching::find_waiting_slow(uint64_t context, int source, int tag) {
  if (source != kAnySource && tag != kAnyTag) {
    KeyList& list = keyed_[key_bucket(context, source, tag)];
    WaitingMessage* m = list.front();
    while (m && !(m->context == context && m->source == source && m->tag == tag)) m = list.next(m);
    return m;
  }
  ArrivalList& list = arrival_[context_bucket(context)];
  WaitingMessage* m = list.front();
  while (m && !(m->context == context && (source == kAnySource || m->source == source) &&
                (tag == kAnyTag || m->tag == tag))) {
    m = list.next(m);
  }
  return m;
}

void Matching::add_waiting(WaitingMessage& message) {
  if (waiting_count_ > 2 * mask_) grow();
  TERN_DEBUG_ASSERT(!static_cast<ListHook<ByKey>&>(message).linked() &&
                    !static_cast<ListHook<ByArrival>&>(message).linked());
  ++waiting_count_;
  keyed_[key_bucket(message.context, message.source, message.tag)].push_back(&message);
  arrival_[context_bucket(message.context)].push_back(&message);
}

// Moves everything into larger tables. Order within a key (a context) is kept: its elements all come from one old
// bucket and are moved front to back.
void Matching::grow() {
  uint32_t old_mask = mask_;
  if (old_mask + 1 >= kMaxBuckets) return;
  auto exact = std::move(exact_), wild = std::move(wild_);
  auto keyed = std::move(keyed_);
  auto arrival = std::move(arrival_);
  uint32_t buckets = 4 * (old_mask + 1);
  mask_ = buckets - 1;
  TERN_DEBUG_ASSERT((mask_ & buckets) == 0 && mask_ > old_mask);
  exact_ = std::make_unique<PostedList[]>(buckets);
  wild_ = std::make_unique<PostedList[]>(buckets);
  keyed_ = std::make_unique<KeyList[]>(buckets);
  arrival_ = std::make_unique<ArrivalList[]>(buckets);
  for (uint32_t i = 0; i <= old_mask; ++i) {
    while (PostedReceive* r = exact[i].pop_front()) exact_[key_bucket(r->context, r->source, r->tag)].push_back(r);
    while (PostedReceive* r = wild[i].pop_front()) wild_[context_bucket(r->context)].push_back(r);
    while (WaitingMessage* m = keyed[i].pop_front()) keyed_[key_bucket(m->context, m->source, m->tag)].push_back(m);
    while (WaitingMessage* m = arrival[i].pop_front()) arrival_[context_bucket(m->context)].push_back(m);
  }
}

}  // namespace tern
