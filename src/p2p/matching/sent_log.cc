#include "p2p/matching/sent_log.h"

#include <algorithm>

#include "base/assert.h"

namespace tern {

void SentLog::log(const Entry& entry) {
  Entry& place = entries_[logged_ % kLogged];
  if (logged_ >= kLogged) {
    if (place.number != 0) floor_ = place.number;
    if (place.serial != 0 && after(place.serial, floor_serial_)) floor_serial_ = place.serial;
  }
  place = entry;
  ++logged_;
}

void SentLog::note_crossed(const Ready& ready, uint32_t token) {
  for (uint32_t i = logged_ - std::min(logged_, kLogged); i != logged_; ++i) {
    Entry& entry = entries_[i % kLogged];
    if (entry.token == token && entry.context == ready.context && entry.tag == ready.tag) {
      TERN_ASSERT(entry.serial == 0);
      entry.serial = ready.body.serial;
      TERN_DEBUG_ASSERT(entry.serial != 0);
    }
  }
}

// A message of this key has gone: the first offer is used up, the others have come one nearer.
void SentLog::pass(uint64_t context, int tag) {
  Key* key = key_of(context, tag);
  if (!key) return;
  const uint32_t gone = key->passed++;
  TERN_DEBUG_ASSERT(!key->offers.empty());
  while (key->offers.front()->number == gone) {
    if (!drop_first(*key)) return;
  }
}

SentLog::Key* SentLog::key_of(uint64_t context, int tag) {
  IntrusiveList<Key>& keys = bucket(context, tag);
  Key* key = keys.front();
  while (key && !(key->context == context && key->tag == tag)) key = keys.next(key);
  return key;
}

const Ready* SentLog::find(uint64_t context, int tag) {
  Key* key = key_of(context, tag);
  if (!key) return nullptr;
  const Offer& first = *key->offers.front();
  return first.number == key->passed ? &first.ready : nullptr;
}

void SentLog::hold(const Ready& ready, uint32_t ahead) {
  Key* key = key_of(ready.context, ready.tag);
  if (!key) {
    key = key_pool_.create();
    key->context = ready.context;
    key->tag = ready.tag;
    bucket(ready.context, ready.tag).push_back(key);
  }
  TERN_ASSERT(held() < kHeld);
  Offer* offer = offers_.create();
  offer->ready = ready;
  offer->number = key->passed + ahead;
  TERN_DEBUG_ASSERT(key->offers.empty() || !after(key->offers.back()->number, offer->number));
  key->offers.push_back(offer);
}

// False: it was the last one, and the key is no more.
bool SentLog::drop_first(Key& key) {
  TERN_ASSERT(!key.offers.empty());
  offers_.destroy(key.offers.pop_front());
  if (!key.offers.empty()) return true;
  IntrusiveList<Key>::remove(&key);
  key_pool_.destroy(&key);
  return false;
}

SentLog::Verdict SentLog::offer(const Ready& ready, uint32_t& token) {
  const wire::ReadyBody& body = ready.body;
  if (after(floor_, body.arrived) || !after(body.oldest(), floor_serial_) || held() >= kHeld) return Verdict::unknown;
  uint32_t ahead = body.ahead;
  for (uint32_t i = logged_ - std::min(logged_, kLogged); i != logged_; ++i) {
    const Entry& entry = entries_[i % kLogged];
    if (entry.context != ready.context || entry.tag != ready.tag) continue;
    // Whether the receiver had not seen it when it announced.
    bool unseen = entry.serial ? !after(body.oldest(), entry.serial) : after(entry.number, body.arrived);
    if (!unseen) continue;
    if (ahead == 0) {
      token = entry.token;
      return Verdict::useless;
    }
    --ahead;
  }
  hold(ready, ahead);
  return Verdict::held;
}

void SentLog::withdraw(uint64_t context, int tag) {
  if (held() == 0) return;
  if (Key* key = key_of(context, tag)) {
    while (drop_first(*key)) continue;
  }
}

void SentLog::restart() {
  for (IntrusiveList<Key>& keys : keys_) {
    while (Key* key = keys.front()) drop_first(*key);
  }
  logged_ = 0;
  TERN_DEBUG_ASSERT(held() == 0);
  floor_ = 0;
}

}  // namespace tern
