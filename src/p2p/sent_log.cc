#include "p2p/sent_log.h"

#include <algorithm>

namespace tern {

void SentLog::log(const Entry& entry) {
  Entry& place = entries_[logged_ % kLogged];
  if (logged_ >= kLogged) {
    if (place.serial == 0) {
      floor_ = place.number;
    } else if (after(place.serial, floor_serial_)) {
      floor_serial_ = place.serial;
    }
  }
  place = entry;
  ++logged_;
}

// A message of this key has gone: the first offer is used up, the others have come one nearer.
void SentLog::pass(uint64_t context, int tag) {
  size_t kept = 0;
  for (Ready& ready : held_) {
    if (ready.context == context && ready.tag == tag) {
      if (ready.ahead == 0) continue;
      --ready.ahead;
    }
    if (&held_[kept] != &ready) held_[kept] = ready;
    ++kept;
  }
  held_.resize(kept);
}

const Ready* SentLog::find(uint64_t context, int tag) const {
  for (const Ready& ready : held_) {
    if (ready.ahead == 0 && ready.context == context && ready.tag == tag) return &ready;
  }
  return nullptr;
}

SentLog::Verdict SentLog::offer(const Ready& ready, uint32_t& token) {
  const wire::ReadyBody& body = ready.body;
  if (after(floor_, body.arrived) || !after(body.oldest, floor_serial_) || held_.size() >= kHeld)
    return Verdict::unknown;
  uint32_t ahead = body.ahead;
  for (uint32_t i = logged_ - std::min(logged_, kLogged); i != logged_; ++i) {
    const Entry& entry = entries_[i % kLogged];
    if (entry.context != ready.context || entry.tag != ready.tag) continue;
    // Whether the receiver had not seen it when it announced.
    bool unseen = entry.serial ? !after(body.oldest, entry.serial) : after(entry.number, body.arrived);
    if (!unseen) continue;
    if (ahead == 0) {
      token = entry.token;
      return Verdict::useless;
    }
    --ahead;
  }
  held_.push_back(ready);
  held_.back().ahead = ahead;
  return Verdict::held;
}

void SentLog::withdraw(uint64_t context, int tag) {
  std::erase_if(held_, [&](const Ready& r) { return r.context == context && r.tag == tag; });
}

void SentLog::restart() {
  held_.clear();
  logged_ = 0;
  floor_ = 0;
}

}  // namespace tern
