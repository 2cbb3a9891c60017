#include "check/buffers.h"

#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <iterator>

#include "base/crc32c.h"
#include "datatype/cursor.h"
#include "p2p/core/receive_request.h"

namespace tern::check {

Bytes Bytes::of(const void* buffer, Count count, const Datatype& type) {
  Bytes bytes;
  const auto start = reinterpret_cast<uintptr_t>(buffer);
  if (count <= 0 || type.size() == 0) return bytes;
  if (type.is_contiguous()) {
    bytes.ranges.push_back({start, start + uintptr_t(count) * uintptr_t(type.size())});
    return bytes;
  }
  if (uint64_t(type.segments()) * uint64_t(count) > kMaxRanges) {
    const uintptr_t first = start + uintptr_t(type.true_lower_bound());
    bytes.ranges.push_back({first, first + uintptr_t((count - 1) * type.extent() + type.true_extent())});
    bytes.exact = false;
    return bytes;
  }
  Cursor cursor(const_cast<void*>(buffer), count, type);
  iovec pieces[64];
  size_t moved = 0;
  while (size_t n = cursor.segments(pieces, SIZE_MAX, moved)) {
    for (size_t i = 0; i < n; ++i) {
      const auto begin = reinterpret_cast<uintptr_t>(pieces[i].iov_base);
      bytes.ranges.push_back({begin, begin + pieces[i].iov_len});
    }
  }
  std::sort(bytes.ranges.begin(), bytes.ranges.end(), [](const Range& a, const Range& b) { return a.begin < b.begin; });
  return bytes;
}

void Bytes::add(const Bytes& more) {
  ranges.insert(ranges.end(), more.ranges.begin(), more.ranges.end());
  std::sort(ranges.begin(), ranges.end(), [](const Range& a, const Range& b) { return a.begin < b.begin; });
  exact = exact && more.exact;
}

bool Bytes::overlaps_itself() const {
  return exact && std::adjacent_find(ranges.begin(), ranges.end(),
                                     [](const Range& a, const Range& b) { return a.end > b.begin; }) != ranges.end();
}

bool Bytes::overlaps(const Bytes& other) const {
  if (!exact || !other.exact) return false;
  auto a = ranges.begin(), b = other.ranges.begin();
  while (a != ranges.end() && b != other.ranges.end()) {
    if (a->begin < b->end && b->begin < a->end) return true;
    a->end < b->end ? ++a : ++b;
  }
  return false;
}

namespace {

/// Copies from the program's memory; false: none is there. A count that is too large must not end the program here.
bool copy_readable(void* to, const void* from, size_t bytes) {
  const iovec here = {to, bytes}, there = {const_cast<void*>(from), bytes};
  const ssize_t copied = process_vm_readv(getpid(), &here, 1, &there, 1, 0);
  if (copied == ssize_t(bytes)) return true;
  if (copied >= 0 || errno == EFAULT) return false;
  std::memcpy(to, from, bytes);  // not allowed to ask (containers)
  return true;
}

uint32_t sum_of(const void* buffer, Count count, const Datatype& type, bool& readable) {
  uint32_t sum = 0;
  if (count <= 0 || type.size() == 0) return sum;
  std::byte chunk[16384];
  Cursor cursor(const_cast<void*>(buffer), count, type);
  iovec pieces[64];
  size_t moved = 0;
  while (size_t n = cursor.segments(pieces, SIZE_MAX, moved)) {
    for (size_t i = 0; i < n; ++i) {
      const auto* at = static_cast<const std::byte*>(pieces[i].iov_base);
      for (size_t left = pieces[i].iov_len; left != 0;) {
        const size_t bytes = std::min(left, sizeof chunk);
        if (!copy_readable(chunk, at, bytes)) {
          readable = false;
          return sum;
        }
        sum = crc32c(chunk, bytes, sum);
        at += bytes;
        left -= bytes;
      }
    }
  }
  return sum;
}

}  // namespace

std::vector<uint32_t> sums_of(const std::vector<Use>& uses, bool& readable) {
  std::vector<uint32_t> sums;
  for (const Use& use : uses) sums.push_back(sum_of(use.buffer, use.count, *use.type, readable));
  return sums;
}

uint32_t Buffers::sum_of(const Entry& entry) {
  bool readable = true;
  return check::sum_of(entry.buffer, entry.count, *entry.type, readable);
}

Buffers::Entries Buffers::entries_of(const std::vector<Use>& uses) const {
  Entries entries;
  for (const Use& use : uses) {
    Bytes bytes = Bytes::of(use.buffer, use.count, *use.type);
    if (bytes.ranges.empty()) continue;
    Entry entry;
    entry.bytes = std::move(bytes);
    entry.writes = use.writes;
    entry.buffer = use.buffer;
    entry.count = use.count;
    entry.type = Ref<Datatype>::share(const_cast<Datatype*>(use.type));
    entries.push_back(std::move(entry));
  }
  if (entries.empty()) return entries;
  const std::string place = findings_.place();
  for (Entry& entry : entries) {
    entry.place = place;
    if (entry.writes && entry.bytes.overlaps_itself())
      findings_.report("the datatype of the receive buffer of " + place +
                       " names some bytes more than once (MPI 5.0, 5.1.11).");
  }
  return entries;
}

bool Buffers::pending(int32_t handle, const Entries& entries) const {
  const Request* request = request_of_(handle);
  return request && (!request->persistent() || (entries.front().active && request->active()));
}

void Buffers::compare(const Entries& entries, const Entries& others) {
  for (const Entry& other : others) {
    const auto clash = std::find_if(entries.begin(), entries.end(), [&](const Entry& entry) {
      return (entry.writes || other.writes) && entry.bytes.overlaps(other.bytes);
    });
    if (clash == entries.end()) continue;
    findings_.report("the buffer of " + clash->place + " overlaps that of " + other.place + ", which is pending, and " +
                     (clash->writes ? "the former" : "the latter") +
                     " writes to it. Complete the pending operation first, or use another buffer.");
    return;
  }
}

void Buffers::compare_with_pending(const Entries& entries, int32_t self) {
  for (const auto& [thread, others] : blocking_) {
    if (thread != std::this_thread::get_id()) compare(entries, others);
  }
  // Those whose requests are gone are forgotten by the way.
  for (auto it = pending_.begin(); it != pending_.end();) {
    if (!request_of_(it->first)) {
      it = pending_.erase(it);
      continue;
    }
    if (it->first != self && pending(it->first, it->second)) compare(entries, it->second);
    ++it;
  }
}

void Buffers::compare_within(const Entries& entries, const Entries& others) {
  for (const Entry& entry : entries) {
    for (const Entry& other : others) {
      if (&entry == &other || entry.writes == other.writes || !entry.bytes.overlaps(other.bytes)) continue;
      findings_.report("the send buffer and the receive buffer of " + entry.place +
                       " overlap. Pass buffers that are apart, or MPI_IN_PLACE where it is allowed.");
      return;
    }
  }
}

void Buffers::use(const std::vector<Use>& uses) {
  Entries entries = entries_of(uses);
  if (entries.empty()) return;
  compare_within(entries, entries);
  compare_within(entries, staged_);
  compare_with_pending(entries, 0);
  Entries& mine = blocking_[std::this_thread::get_id()];
  std::move(entries.begin(), entries.end(), std::back_inserter(mine));
}

void Buffers::leave() {
  drop_staged();
  blocking_.erase(std::this_thread::get_id());
}

void Buffers::stage(const std::vector<Use>& uses) {
  staged_ = entries_of(uses);
  staged_by_ = std::this_thread::get_id();
  compare_within(staged_, staged_);
}

void Buffers::bind(int32_t handle, bool active) {
  pending_.erase(handle);
  if (staged_.empty() || staged_by_ != std::this_thread::get_id()) return;
  Entries entries = std::move(staged_);
  staged_.clear();
  for (Entry& entry : entries) entry.active = false;
  pending_[handle] = std::move(entries);
  if (active) start(handle);
}

// A receive that has no message yet, and of which no sender knows, who might put to it.
static bool is_untouched(const Request* request) {
  const auto* receive = dynamic_cast<const ReceiveRequest*>(request);
  return receive && !receive->complete() && !receive->sender && !receive->offer;
}

void Buffers::start(int32_t handle) {
  const auto found = pending_.find(handle);
  if (found == pending_.end()) return;
  compare_with_pending(found->second, handle);
  const Request* request = request_of_(handle);
  for (Entry& entry : found->second) {
    entry.active = true;
    entry.summed = !entry.writes || is_untouched(request);
    if (entry.summed) entry.sum = sum_of(entry);
  }
}

void Buffers::completing(int32_t handle) {
  const auto found = pending_.find(handle);
  if (found == pending_.end()) return;
  const Request* request = request_of_(handle);
  if (!request) return;
  for (Entry& entry : found->second) {
    if (!entry.summed) continue;
    entry.summed = !entry.writes;  // the message may come from now on
    if (entry.writes && !is_untouched(request)) continue;
    if (sum_of(entry) == entry.sum) continue;
    entry.summed = false;
    findings_.report("the program has changed the buffer of " + entry.place +
                     " before the operation was completed. Wait for the request before you write to its buffer.");
  }
}

std::string Buffers::place_of(int32_t handle) const {
  const auto found = pending_.find(handle);
  return found == pending_.end() || found->second.empty() ? "" : found->second.front().place;
}

}  // namespace tern::check
