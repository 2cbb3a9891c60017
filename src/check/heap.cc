#include "check/heap.h"

#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <memory>

namespace tern::check {
namespace {

using Range = Bytes::Range;

// The layout of glibc's struct malloc_chunk, and its flags PREV_INUSE, IS_MMAPPED, and with NON_MAIN_ARENA all of them.
constexpr uintptr_t kWord = sizeof(size_t), kAlign = 2 * kWord, kPage = 4096;
constexpr size_t kPreviousInUse = 1, kMapped = 2, kFlags = 7;
/// Programs with more blocks are not looked at: each call would cost a millisecond.
constexpr size_t kMaxBlocks = 1 << 16;

/// The heap that brk() provides, as the kernel sees it.
bool find_heap(Range& heap) {
  const std::unique_ptr<FILE, int (*)(FILE*)> maps(std::fopen("/proc/self/maps", "re"), std::fclose);
  if (!maps) return false;
  char line[512];
  while (std::fgets(line, sizeof line, maps.get())) {
    if (!std::strstr(line, "[heap]")) continue;
    return std::sscanf(line, "%" SCNxPTR "-%" SCNxPTR, &heap.begin, &heap.end) == 2;
  }
  return false;
}

/// False: no memory is there.
bool read_words(uintptr_t at, size_t* words, size_t count) {
  const iovec here = {words, count * sizeof *words}, there = {reinterpret_cast<void*>(at), here.iov_len};
  return process_vm_readv(getpid(), &here, 1, &there, 1, 0) == ssize_t(here.iov_len);
}

size_t size_word(uintptr_t block) {
  size_t word;
  std::memcpy(&word, reinterpret_cast<const void*>(block + kWord), sizeof word);
  return word;
}

HeapFault behind(const Range& piece, uintptr_t begin, uintptr_t end) {
  if (piece.end <= end) return {};
  return {.freed = false, .bytes = end - begin, .excess = piece.end - end};
}

/// A large block begins behind two words at the begin of a page. Interior pointers are not looked for.
HeapFault fault_in_mapping(const Range& piece) {
  if (piece.begin % kPage != kAlign) return {};
  const uintptr_t block = piece.begin - kAlign;
  size_t words[2];
  if (!read_words(block, words, 2)) return {};
  const size_t size = words[1] & ~kFlags;
  if (words[0] != 0 || (words[1] & kFlags) != kMapped || size % kPage != 0 || size == 0) return {};
  if (!read_words(block + size - kWord, words, 1)) return {};
  return behind(piece, piece.begin, block + size);
}

/// What of the pieces lies in the heap. Blocks are [size word's place + kWord, next block's size word): a block uses
/// the first word of the next one as well.
HeapFault fault_in_heap(const Range& heap, std::vector<Range>::const_iterator piece,
                        std::vector<Range>::const_iterator end) {
  HeapFault fault;
  uintptr_t block = heap.begin;
  for (size_t blocks = 0; block != heap.end; ++blocks) {
    const size_t word = size_word(block), size = word & ~kFlags;
    const bool sound = size >= 2 * kAlign && size % kAlign == 0 && size <= heap.end - block;
    if (!sound || (word & kFlags & ~kPreviousInUse) != 0 || blocks == kMaxBlocks) return {};
    const uintptr_t next = block + size, first = block + kAlign;
    const bool is_last = next == heap.end;  // what was never given to anybody
    for (; piece != end && piece->begin < next + (is_last ? 0 : kWord) && !fault.found(); ++piece) {
      if (piece->begin < first) continue;  // begins in malloc's own words
      if (is_last || !(size_word(next) & kPreviousInUse)) fault.freed = true;
      else fault = behind(*piece, first, next + kWord);
    }
    block = next;
  }
  return fault;
}

}  // namespace

HeapFault find_heap_fault(const Bytes& bytes) {
#ifdef __GLIBC__
  if (!bytes.exact || bytes.ranges.empty()) return {};
  for (const Range& piece : bytes.ranges) {
    if (const HeapFault fault = fault_in_mapping(piece); fault.found()) return fault;
  }
  Range heap;
  if (!find_heap(heap)) return {};
  const auto is_before = [](const Range& range, uintptr_t at) { return range.begin < at; };
  const auto first = std::lower_bound(bytes.ranges.begin(), bytes.ranges.end(), heap.begin, is_before);
  const auto end = std::lower_bound(first, bytes.ranges.end(), heap.end, is_before);
  if (first != end) return fault_in_heap(heap, first, end);
#endif
  return {};
}

}  // namespace tern::check
