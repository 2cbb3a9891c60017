#include "coll/copy.h"

#include <cstring>

#include "datatype/cursor.h"

namespace tern {

namespace {
// Data between two noncontiguous layouts pass through a buffer of this size, small enough for the first-level cache (32
// KiB).
constexpr size_t kBounceBytes = 8192;

// Out of line: the buffer is large, and this is rare.
[[gnu::noinline]] void copy_bounced(const Block& from, const Block& to, size_t bytes) {
  std::byte bounce[kBounceBytes];
  Cursor source(from.data, from.count, *from.type), target(to.data, to.count, *to.type);
  while (bytes != 0) {
    size_t n = source.pack(bounce, bytes < kBounceBytes ? bytes : kBounceBytes);
    target.unpack(bounce, n);
    bytes -= n;
  }
}
}  // namespace

void pack_block(const Block& from, std::byte* to, size_t bytes) {
  if (bytes == 0) return;
  if (from.type->is_contiguous()) {
    std::memcpy(to, from.data, bytes);
  } else {
    Cursor(from.data, from.count, *from.type).pack(to, bytes);
  }
}

void unpack_block(const std::byte* from, size_t bytes, const Block& to) {
  if (bytes == 0) return;
  if (to.type->is_contiguous()) {
    std::memcpy(to.data, from, bytes);
  } else {
    Cursor(to.data, to.count, *to.type).unpack(from, bytes);
  }
}

Error copy_block(const Block& from, const Block& to) {
  Error error;
  size_t bytes = from.bytes();
  const size_t room = to.bytes();
  if (bytes > room) {
    error = Error(ErrorClass::truncate, "this process's own block has " + std::to_string(bytes) +
                                            " bytes, but the receive buffer holds " + std::to_string(room));
    bytes = room;
  }
  if (bytes == 0) return error;
  if (from.type->is_contiguous() && to.type->is_contiguous()) {
    if (to.data != from.data) std::memmove(to.data, from.data, bytes);
  } else if (from.type->is_contiguous()) {
    unpack_block(from.data, bytes, to);
  } else if (to.type->is_contiguous()) {
    pack_block(from, to.data, bytes);
  } else {
    copy_bounced(from, to, bytes);
  }
  return error;
}

}  // namespace tern
