// Copies from one layout to another.
// Thread rule: none, values only.
#pragma once

#include "base/error.h"
#include "coll/operands.h"

namespace tern {

/// Copies the data of `from` to `to`; nothing if both are the same memory. Error: `to` is too small; what fits
/// is copied.
Error copy_block(const Block& from, const Block& to);

/// The packed bytes of a block, to memory and back (at most `bytes` of them).
void pack_block(const Block& from, std::byte* to, size_t bytes);
void unpack_block(const std::byte* from, size_t bytes, const Block& to);

}  // namespace tern
