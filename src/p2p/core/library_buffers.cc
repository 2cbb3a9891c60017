#include "p2p/core/library_buffers.h"

#include <algorithm>

#include "base/assert.h"

namespace tern {

bool LibraryBuffers::any_for(const Endpoint& peer) const {
  return all_.size() < most_ ||
         std::any_of(free_.begin(), free_.end(), [&](const Buffer* b) { return b->memory_of == peer.memory; });
}

LibraryBuffers::Loan LibraryBuffers::borrow(const Endpoint& peer) {
  for (size_t i = free_.size(); i-- > 0;) {
    Buffer* buffer = free_[i];
    if (buffer->memory_of != peer.memory) continue;
    free_.erase(free_.begin() + ptrdiff_t(i));
    return Loan(*this, *buffer);
  }
  if (all_.size() >= most_) return {};
  const size_t bytes = peer.properties().hybrid_bytes;
  auto buffer =
      std::make_unique<Buffer>(Buffer{.memory_of = peer.memory, .memory = nullptr, .key = {}, .own = nullptr});
  if (peer.arbiter) buffer->memory = peer.arbiter->lend(bytes, buffer->key);
  if (!buffer->memory) {
    buffer->own = std::make_unique_for_overwrite<std::byte[]>(bytes);
    buffer->memory = buffer->own.get();
    buffer->key = peer.memory->expose(buffer->memory, bytes, {.read = true});
    if (buffer->key.empty()) return {};
  }
  TERN_ASSERT(buffer->memory && all_.size() < most_);
  free_.reserve(most_);
  all_.push_back(std::move(buffer));
  return Loan(*this, *all_.back());
}

}  // namespace tern
