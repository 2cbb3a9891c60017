// When scattered memory goes to the kernel in pieces, and when it is packed first. Both halves of a stream do as this
// says.
#pragma once

#include <cstddef>

namespace tern::tcp {

/// Pieces of one system call.
inline constexpr size_t kMaxPieces = 64;
/// Pieces shorter than this on average are packed first: the kernel's work for a piece costs as much as copying a few
/// hundred bytes.
inline constexpr size_t kWorthAPiece_bytes = 512;

}  // namespace tern::tcp
