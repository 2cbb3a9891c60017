#include "fabric/rdma/registration_cache.h"

#include <unistd.h>

#include <algorithm>

#include "base/assert.h"

namespace tern::rdma {
namespace {

uint64_t page_bytes() { return uint64_t(sysconf(_SC_PAGESIZE)); }

}  // namespace

RegistrationCache::RegistrationCache(Hca& hca, Keep keep, MemoryWatch* watch, uint64_t kept_bytes)
    : hca_(hca), keep_(keep), watch_(watch), kept_limit_(keep == Keep::nothing ? 0 : kept_bytes) {
  TERN_ASSERT((keep == Keep::watched) == (watch != nullptr));
}

RegistrationCache::~RegistrationCache() {
  drop_overlapping(0, ~uint64_t{0});
  while (Registration* used = used_.pop_front()) destroy(*used);
}

Registration* RegistrationCache::find(uint64_t begin, uint64_t end, bool writable) {
  auto after = table_.upper_bound(begin);
  if (after == table_.begin()) return nullptr;
  Registration* found = std::prev(after)->second;
  return found->end >= end && (found->writable || !writable) ? found : nullptr;
}

Registration* RegistrationCache::acquire(const void* address, size_t bytes, bool writable) {
  drop_changed();
  const uint64_t first = reinterpret_cast<uintptr_t>(address), last = first + bytes;
  uint64_t begin = first, end = last;
  Registration* found = kept_limit_ ? find(begin, end, writable) : nullptr;
  bool settled = true;
  if (found && watch_) {
    settled = watch_->settled();
    drop_changed();
    found = settled ? find(begin, end, writable) : nullptr;
  }
  if (found) {
    ++hits_;
    if (found->users++ == 0) {
      idle_.remove(found);
      idle_bytes_ -= found->end - found->begin;
      used_.push_back(found);
    }
    return found;
  }
  ++misses_;
  auto made = std::make_unique<Registration>();
  if (kept_limit_ && settled) {  // not settled: what would join may be gone; this one is for the operation only
    // Whole pages are pinned anyhow; and what overlaps joins, so that the table stays without overlaps.
    uint64_t page = keep_ == Keep::trusted ? 1 : page_bytes();  // where memory lies is no part of a simulated run
    begin = begin / page * page;
    end = (end + page - 1) / page * page;
    auto next = table_.upper_bound(begin);
    if (next != table_.begin() && std::prev(next)->second->end > begin) --next;
    for (; next != table_.end() && next->second->begin < end; ++next) {
      begin = std::min(begin, next->second->begin);
      end = std::max(end, next->second->end);
      writable = writable || next->second->writable;
    }
    // First watched, then pinned: what is given back in between is reported.
    made->kept = keep_ == Keep::trusted || watch_->watch(begin, end);
    if (!made->kept) {
      begin = first;
      end = last;
    }
  }
  made->begin = begin;
  made->end = end;
  made->writable = writable;
  made->users = 1;
  Access access;
  access.local_write = access.remote_write = access.remote_atomic = writable;
  access.remote_read = true;
  access.remote_atomic = writable && hca_.capabilities().atomics;
  Error error = hca_.register_memory(reinterpret_cast<void*>(begin), end - begin, access, made->region);
  if (error && !table_.empty()) {
    shrink(0);  // the limit of what may be pinned, perhaps
    error = hca_.register_memory(reinterpret_cast<void*>(begin), end - begin, access, made->region);
  }
  if (error) return nullptr;
  ++live_;
  if (made->kept && watch_) made->kept = watch_->is_private(first, last);
  if (made->kept) {
    drop_overlapping(begin, end);
    table_[begin] = made.get();
  }
  used_.push_back(made.get());
  return made.release();
}

void RegistrationCache::release(Registration& registration) {
  TERN_ASSERT(registration.users > 0);
  if (--registration.users != 0) return;
  used_.remove(&registration);
  if (!registration.kept) {
    destroy(registration);
    return;
  }
  idle_.push_back(&registration);
  idle_bytes_ += registration.end - registration.begin;
  shrink(kept_limit_);
}

void RegistrationCache::drop_changed() {
  if (!watch_) return;
  changes_.clear();
  bool all = !watch_->take_changes(changes_);
  if (all) drop_overlapping(0, ~uint64_t{0});
  for (const MemoryWatch::Range& range : changes_) drop_overlapping(range.begin, range.end);
}

void RegistrationCache::drop_overlapping(uint64_t begin, uint64_t end) {
  auto next = table_.upper_bound(begin);
  if (next != table_.begin() && std::prev(next)->second->end > begin) --next;
  while (next != table_.end() && next->second->begin < end) {
    Registration* old = next->second;
    ++next;
    unkeep(*old);
  }
}

// Out of the table; gone when nobody uses it.
void RegistrationCache::unkeep(Registration& registration) {
  table_.erase(registration.begin);
  registration.kept = false;
  if (registration.users != 0) return;
  idle_.remove(&registration);
  idle_bytes_ -= registration.end - registration.begin;
  destroy(registration);
}

void RegistrationCache::shrink(uint64_t limit) {
  while (idle_bytes_ > limit) unkeep(*idle_.front());
}

void RegistrationCache::destroy(Registration& registration) {
  --live_;
  delete &registration;
}

}  // namespace tern::rdma
