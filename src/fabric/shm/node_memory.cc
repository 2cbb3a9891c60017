#include "fabric/shm/node_memory.h"

#include <algorithm>
#include <cstring>

#include "base/assert.h"

namespace tern {

bool NodeMemory::allocate(size_t bytes, uint64_t& offset, size_t zeroed) {
  if (bytes > shm::kArenaBytes) return false;
  release_left();
  const uint64_t size = shm::Layout::up(bytes ? bytes : 1);
  // First fit: collectives hold few pieces, for as long as their communicators live.
  uint64_t begin = 0;
  for (const auto& [from, to] : used_) {
    if (from - begin >= size) break;
    begin = to;
  }
  if (begin + size > shm::kArenaBytes) return false;
  used_.emplace(begin, begin + size);
  std::byte* place = node_.arena(node_.my_slot()) + begin;
  std::memset(place, 0, std::min<size_t>(size, zeroed));  // only what the caller wants zero is touched
  offset = uint64_t(place - node_.base());
  return true;
}

void NodeMemory::release_left() {
  std::erase_if(leaving_, [&](const Leaving& l) {
    if (l.left->load(std::memory_order_acquire) != l.users) return false;
    release(l.offset);
    return true;
  });
}

void NodeMemory::release(uint64_t offset) {
  const uint64_t begin = offset - uint64_t(node_.arena(node_.my_slot()) - node_.base());
  const size_t erased = used_.erase(begin);
  TERN_ASSERT(erased == 1);
}

}  // namespace tern
