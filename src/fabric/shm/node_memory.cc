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
  for (const auto& [from, piece] : used_) {
    if (from - begin >= size) break;
    begin = piece.end;
  }
  if (begin + size > shm::kArenaBytes) return false;
  TERN_DEBUG_ASSERT(!used_.contains(begin) && begin % shm::kPage == 0);
  used_.emplace(begin, Piece{begin + size});
  std::byte* place = node_.arena(node_.my_slot()) + begin;
  std::memset(place, 0, std::min<size_t>(size, zeroed));  // only what the caller wants zero is touched
  offset = uint64_t(place - node_.base());
  return true;
}

size_t NodeMemory::free_bytes() {
  release_left();
  size_t used = 0;
  for (const auto& [from, piece] : used_) used += piece.end - from;
  return shm::kArenaBytes - used;
}

void NodeMemory::release_left() {
  std::erase_if(used_, [](const auto& entry) {
    const Piece& piece = entry.second;
    return piece.left && piece.left->load(std::memory_order_acquire) == piece.users;
  });
}

void NodeMemory::release(uint64_t offset) {
  const size_t erased = used_.erase(begin_of(offset));
  TERN_ASSERT(erased == 1);
}

}  // namespace tern
