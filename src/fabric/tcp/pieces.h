// When scattered memory is handed to the kernel in pieces, and when it is packed first. Used by both halves of a
// stream.
#pragma once

#include <sys/uio.h>

#include <cstddef>

#include "base/assert.h"

namespace tern::tcp {

/// Pieces of one system call: the kernel keeps small iovec arrays (8) on its stack and allocates others; 64 pieces of
/// kWorthAPieceBytes are 32 KiB, of which the call itself is a few per cent.
inline constexpr size_t kMaxPieces = 64;
/// Pieces shorter than this on average are packed first: the kernel's work for a piece costs as much as copying a few
/// hundred bytes.
inline constexpr size_t kWorthAPieceBytes = 512;

/// Of one system call.
struct Batch {
  iovec pieces[kMaxPieces];
  size_t piece_count = 0, bytes = 0;

  bool full() const { return piece_count + 2 > kMaxPieces; }
  void add(const void* data, size_t n) {
    TERN_DEBUG_ASSERT(piece_count < kMaxPieces);
    pieces[piece_count++] = {const_cast<void*>(data), n};
    bytes += n;
  }
};

}  // namespace tern::tcp
