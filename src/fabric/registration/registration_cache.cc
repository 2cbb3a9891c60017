#include "fabric/registration/registration_cache.h"

#include <algorithm>
#include <utility>

#include "base/assert.h"

namespace tern {

RegistrationCache::RegistrationCache(MemoryRegistrar& adapter, Keep keep, MappingMonitor* watch, uint64_t kept_bytes)
    : adapter_(adapter), keep_(keep), watch_(watch), kept_limit_(keep == Keep::nothing ? 0 : kept_bytes) {
  TERN_ASSERT((keep == Keep::watched) == (watch != nullptr));
}

std::unique_ptr<RegistrationCache> RegistrationCache::create(MemoryRegistrar& adapter, Keep wanted,
                                                             uint64_t kept_bytes) {
  if (kept_bytes == 0) wanted = Keep::nothing;
  std::unique_ptr<MappingMonitor> watch;
  if (wanted == Keep::watched && !(watch = MappingMonitor::create())) wanted = Keep::nothing;
  auto cache = std::make_unique<RegistrationCache>(adapter, wanted, watch.get(), kept_bytes);
  cache->own_watch_ = std::move(watch);
  return cache;
}

RegistrationCache::~RegistrationCache() {
  drop_overlapping(0, ~uint64_t{0});
  while (Registration* used = used_.pop_front()) destroy(*used);
}

RegistrationCache::Table& RegistrationCache::table(const MemoryRights& rights) {
  return tables_[size_t(rights.local_write) | size_t(rights.remote_read) << 1 | size_t(rights.remote_write) << 2 |
                 size_t(rights.remote_atomic) << 3];
}

Registration* RegistrationCache::find(Table& table, uint64_t begin, uint64_t end) {
  auto after = table.upper_bound(begin);
  if (after == table.begin()) return nullptr;
  Registration* found = std::prev(after)->second;
  return found->end >= end ? found : nullptr;
}

Registration* RegistrationCache::find(uint64_t begin, uint64_t end, const MemoryRights& rights) {
  if (rights.remote()) return find(table(rights), begin, end);
  for (size_t bits = rights.local_write ? 1 : 0; bits < tables_.size(); bits += rights.local_write ? 2 : 1) {
    if (Registration* found = find(tables_[bits], begin, end)) return found;
  }
  return nullptr;
}

Registration* RegistrationCache::acquire(const void* address, size_t bytes, const MemoryRights& rights) {
  drop_changed();
  const uint64_t first = reinterpret_cast<uintptr_t>(address), last = first + bytes;
  uint64_t begin = first, end = last;
  Registration* found = kept_limit_ ? find(begin, end, rights) : nullptr;
  bool settled = true;
  if (found && watch_) {
    settled = watch_->settled();
    drop_changed();
    found = settled ? find(begin, end, rights) : nullptr;
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
  if (kept_limit_ && settled) {  // not settled: neighbours may be invalid; this one is for the operation only
    // Whole pages are pinned in any case, but peers get access to no more than they need. Overlapping ones are joined,
    // so that the table has no overlaps.
    const uint64_t page =
        keep_ == Keep::trusted ? 1 : MappingMonitor::page_bytes();  // where memory lies is no part of a simulated run
    const auto down = [page](uint64_t at) { return at / page * page; };
    const auto up = [page](uint64_t at) { return (at + page - 1) / page * page; };
    if (!rights.remote()) {
      begin = down(begin);
      end = up(end);
    }
    Table& its = table(rights);
    auto next = its.upper_bound(begin);
    if (next != its.begin() && std::prev(next)->second->end > begin) --next;
    for (; next != its.end() && next->second->begin < end; ++next) {
      begin = std::min(begin, next->second->begin);
      end = std::max(end, next->second->end);
    }
    // First watched, then pinned: memory given back in between is reported.
    made->kept = keep_ == Keep::trusted || watch_->watch(down(begin), up(end));
    if (!made->kept) {
      begin = first;
      end = last;
    }
  }
  made->begin = begin;
  made->end = end;
  made->rights = rights;
  made->users = 1;
  made->memory = adapter_.register_memory(reinterpret_cast<void*>(begin), end - begin, rights);
  if (!made->memory && idle_bytes_ != 0) {
    shrink(0);  // perhaps the limit of pinned memory
    made->memory = adapter_.register_memory(reinterpret_cast<void*>(begin), end - begin, rights);
  }
  if (!made->memory) return nullptr;
  ++live_;
  if (made->kept && watch_) made->kept = watch_->is_private(first, last);
  if (made->kept) {
    drop_overlapping(table(rights), begin, end);
    table(rights)[begin] = made.get();
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
  for (const MappingMonitor::Range& range : changes_) drop_overlapping(range.begin, range.end);
}

void RegistrationCache::drop_overlapping(uint64_t begin, uint64_t end) {
  for (Table& its : tables_) drop_overlapping(its, begin, end);
}

void RegistrationCache::drop_overlapping(Table& its, uint64_t begin, uint64_t end) {
  auto next = its.upper_bound(begin);
  if (next != its.begin() && std::prev(next)->second->end > begin) --next;
  while (next != its.end() && next->second->begin < end) {
    Registration* old = next->second;
    ++next;
    unkeep(*old);
  }
}

// Removes it from the table; destroyed when it is not in use.
void RegistrationCache::unkeep(Registration& registration) {
  table(registration.rights).erase(registration.begin);
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

}  // namespace tern
