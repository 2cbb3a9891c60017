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

RegistrationCache::Table& RegistrationCache::table(const Access& access) {
  return tables_[size_t(access.local_write) | size_t(access.remote_read) << 1 | size_t(access.remote_write) << 2 |
                 size_t(access.remote_atomic) << 3];
}

Registration* RegistrationCache::find(Table& table, uint64_t begin, uint64_t end) {
  auto after = table.upper_bound(begin);
  if (after == table.begin()) return nullptr;
  Registration* found = std::prev(after)->second;
  return found->end >= end ? found : nullptr;
}

Registration* RegistrationCache::find(uint64_t begin, uint64_t end, const Access& access) {
  if (access.remote_read || access.remote_write || access.remote_atomic) return find(table(access), begin, end);
  for (size_t rights = access.local_write ? 1 : 0; rights < tables_.size(); rights += access.local_write ? 2 : 1) {
    if (Registration* found = find(tables_[rights], begin, end)) return found;
  }
  return nullptr;
}

Registration* RegistrationCache::acquire(const void* address, size_t bytes, const Access& access) {
  drop_changed();
  const uint64_t first = reinterpret_cast<uintptr_t>(address), last = first + bytes;
  uint64_t begin = first, end = last;
  Registration* found = kept_limit_ ? find(begin, end, access) : nullptr;
  bool settled = true;
  if (found && watch_) {
    settled = watch_->settled();
    drop_changed();
    found = settled ? find(begin, end, access) : nullptr;
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
    const bool remote = access.remote_read || access.remote_write || access.remote_atomic;
    const uint64_t page = keep_ == Keep::trusted ? 1 : page_bytes();  // where memory lies is no part of a simulated run
    const auto down = [page](uint64_t at) { return at / page * page; };
    const auto up = [page](uint64_t at) { return (at + page - 1) / page * page; };
    if (!remote) {
      begin = down(begin);
      end = up(end);
    }
    Table& its = table(access);
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
  made->access = access;
  made->users = 1;
  Error error = hca_.register_memory(reinterpret_cast<void*>(begin), end - begin, access, made->region);
  if (error && idle_bytes_ != 0) {
    shrink(0);  // perhaps the limit of pinned memory
    error = hca_.register_memory(reinterpret_cast<void*>(begin), end - begin, access, made->region);
  }
  if (error) return nullptr;
  ++live_;
  if (made->kept && watch_) made->kept = watch_->is_private(first, last);
  if (made->kept) {
    drop_overlapping(table(access), begin, end);
    table(access)[begin] = made.get();
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
  table(registration.access).erase(registration.begin);
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
