#include "fabric/shm/shm_segments.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>
#include <new>

#include "base/assert.h"
#include "fabric/shm/free_memory.h"

namespace tern {
namespace {

// From this size on memory is aligned so that the kernel may use huge pages (2 MiB on x86-64 and ARM64).
constexpr uint64_t kHugeBytes = uint64_t{2} << 20;
// Left to the rest of the host, and to the kernel's own lists of pages (8 B per 4 KiB page: enough for 8 GiB).
constexpr uint64_t kMargin = uint64_t{16} << 20;

Error no_memory(const char* what, uint64_t bytes, const std::string& why) {
  return Error(ErrorClass::no_mem,
               fmt::format("{} bytes of memory shared by the node cannot be {}: {}", bytes, what, why));
}

}  // namespace

ShmSegments::~ShmSegments() {
  for (auto& [begin, made] : made_) munmap(made.control, shm::kPage);
}

bool ShmSegments::has_ended(PeerId peer) const {
  const uint32_t slot = node_.slot_of(peer);
  if (slot == node_.slots() || node_.life_line(slot) < 0) return false;
  pollfd line{node_.life_line(slot), POLLIN, 0};
  return ::poll(&line, 1, 0) > 0;
}

uint64_t ShmSegments::space(uint32_t slot) const {
  const uint64_t first = (node_.segment_bytes() + kSpaceBytes - 1) / kSpaceBytes * kSpaceBytes;
  return first + slot * kSpaceBytes;
}

/// First fit: windows are few. ~0: there is none.
uint64_t ShmSegments::find_space(uint64_t bytes) const {
  const uint64_t unit = bytes >= kHugeBytes ? kHugeBytes : shm::kPage;
  auto up = [&](uint64_t at) { return (at + unit - 1) / unit * unit; };
  uint64_t begin = 0;
  for (const auto& [from, made] : made_) {
    if (from >= begin && from - begin >= bytes) break;
    begin = up(made.end);
  }
  return begin + bytes <= kSpaceBytes ? begin : ~uint64_t{0};
}

Error ShmSegments::reserve(uint64_t offset, uint64_t bytes) const {
  // Beyond this limit the kernel sends a signal.
  rlimit limit{};
  if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && offset + bytes > limit.rlim_cur)
    return no_memory("reserved", bytes, "the limit of file sizes is set; `ulimit -f unlimited` takes it away");
  const uint64_t left = shm::free_memory_bytes();
  if (left < kMargin || bytes > left - kMargin) {
    return no_memory("reserved", bytes,
                     fmt::format("only {} are left on this host or in this container; make the window smaller, or give "
                                 "the node fewer ranks",
                                 left));
  }
  int failed;
  do failed = fallocate(node_.memfd(), 0, off_t(offset), off_t(bytes));
  while (failed != 0 && errno == EINTR);
  return failed == 0 ? Error() : no_memory("reserved", bytes, strerror(errno));
}

void ShmSegments::give_back(uint64_t offset, uint64_t bytes) const {
  // Fails only if the kernel has no memory for its own lists; the segment's memory is then freed with the job.
  (void)fallocate(node_.memfd(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, off_t(offset), off_t(bytes));
}

// Beyond a page the kernel promises no alignment: address space for the worst case is taken, and what is not needed of
// it given back.
std::byte* ShmSegments::map(uint64_t offset, uint64_t bytes, size_t alignment_bytes) const {
  std::byte* wanted = nullptr;
  int fixed = 0;
  if (alignment_bytes > kPageBytes) {
    bytes = shm::Layout::up(bytes);
    const size_t taken = bytes + alignment_bytes;
    void* space = mmap(nullptr, taken, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (space == MAP_FAILED) return nullptr;
    auto* first = static_cast<std::byte*>(space);
    const size_t before = (alignment_bytes - reinterpret_cast<uintptr_t>(first) % alignment_bytes) % alignment_bytes;
    wanted = first + before;
    fixed = MAP_FIXED;
    if (before != 0) munmap(first, before);
    munmap(wanted + bytes, taken - before - bytes);
  }
  void* at = mmap(wanted, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | fixed, node_.memfd(), off_t(offset));
  if (at == MAP_FAILED && wanted) munmap(wanted, bytes);
  return at == MAP_FAILED ? nullptr : static_cast<std::byte*>(at);
}

Error ShmSegments::allocate(size_t bytes, NodeSegment& made, size_t alignment_bytes) {
  if (bytes > kSpaceBytes - 2 * kHugeBytes) return no_memory("reserved", bytes, "a rank can have 1 TiB at most");
  collect();
  const uint64_t data = shm::Layout::up(bytes ? bytes : 1), whole = data + shm::kPage;
  const uint64_t begin = find_space(whole);
  if (begin == ~uint64_t{0}) return no_memory("reserved", bytes, "a rank can have 1 TiB at most");
  const uint64_t offset = space(node_.my_slot()) + begin;
  if (Error error = reserve(offset, whole)) return error;
  std::byte* at = map(offset, data, alignment_bytes);
  std::byte* last = at ? map(offset + data, shm::kPage) : nullptr;
  if (!last) {
    Error error = no_memory("mapped", bytes, strerror(errno));
    if (at) munmap(at, data);
    give_back(offset, whole);
    return error;
  }
  auto* control = new (last) Control{};
  control->bytes.store(bytes, std::memory_order_relaxed);
  control->users.store(1, std::memory_order_release);
  TERN_DEBUG_ASSERT(!made_.contains(begin) && reinterpret_cast<uintptr_t>(at) % alignment_bytes == 0);
  made_.emplace(begin, Made{begin + whole, control});
  made = {at, bytes, {{offset, bytes + 1}}};
  return {};
}

Error ShmSegments::attach(const SegmentKey& key, NodeSegment& attached, size_t alignment_bytes) {
  const uint64_t offset = key.words[0], bytes = key.words[1] - 1;
  const uint64_t first = space(0), end = space(node_.slots());
  auto nothing = [] { return Error(ErrorClass::other, "there is no such segment on this node"); };
  if (key.empty() || bytes > kSpaceBytes || offset % shm::kPage != 0 || offset < first || offset >= end)
    return nothing();
  const uint64_t data = shm::Layout::up(bytes ? bytes : 1);
  struct stat file;
  if (offset + data + shm::kPage > end || fstat(node_.memfd(), &file) != 0 ||
      offset + data + shm::kPage > uint64_t(file.st_size)) {
    return nothing();
  }
  std::byte* at = map(offset, data + shm::kPage, alignment_bytes);
  if (!at) return no_memory("mapped", bytes, strerror(errno));
  auto* control = reinterpret_cast<Control*>(at + data);
  uint32_t users = control->users.load(std::memory_order_acquire);
  while (users != 0 && !control->users.compare_exchange_weak(users, users + 1, std::memory_order_acq_rel)) {
  }
  if (users == 0 || control->bytes.load(std::memory_order_relaxed) != bytes) {
    if (users != 0) control->users.fetch_sub(1, std::memory_order_acq_rel);
    munmap(at, data + shm::kPage);
    return nothing();
  }
  munmap(control, shm::kPage);  // `release` maps it again, so that users need not keep it
  attached = {at, bytes, key};
  TERN_DEBUG_ASSERT(reinterpret_cast<uintptr_t>(at) % alignment_bytes == 0);
  return {};
}

void ShmSegments::release(NodeSegment& segment) {
  if (segment.empty()) return;
  const uint64_t offset = segment.key.words[0], data = shm::Layout::up(segment.bytes ? segment.bytes : 1);
  TERN_DEBUG_ASSERT(offset >= space(0) && offset % shm::kPage == 0);
  munmap(segment.data, data);
  segment = {};
  std::byte* last = map(offset + data, shm::kPage);
  if (!last) return;  // no more mappings: the segment's memory is freed with the job
  auto* control = reinterpret_cast<Control*>(last);
  if (control->users.fetch_sub(1, std::memory_order_acq_rel) == 1) {
    give_back(offset, data);
    control->emptied.store(1, std::memory_order_release);  // from now on the maker may reuse the space
  }
  munmap(last, shm::kPage);
}

/// Takes back the space of segments that are no longer in use.
void ShmSegments::collect() {
  std::erase_if(made_, [&](const auto& entry) {
    const auto& [begin, made] = entry;
    TERN_DEBUG_ASSERT(made.end > begin);
    if (made.control->emptied.load(std::memory_order_acquire) == 0) return false;
    munmap(made.control, shm::kPage);
    give_back(space(node_.my_slot()) + made.end - shm::kPage, shm::kPage);
    return true;
  });
}

size_t ShmSegments::live() {
  collect();
  return made_.size();
}

}  // namespace tern
