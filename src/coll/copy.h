// From one place in memory to another, whatever the two layouts are.
// Thread rule: none, values only.
#pragma once

#include "base/error.h"
#include "coll/operands.h"

namespace tern {

/// Copies the data of `from` to `to`; the same place twice is left alone. Error: `to` is too small; what fits
/// is copied.
Error copy_block(const Block& from, const Block& to);

/// The packed bytes of a block, to memory and back (at most `bytes` of them).
void pack_block(const Block& from, std::byte* to, size_t bytes);
void unpack_block(const std::byte* from, size_t bytes, const Block& to);

}  // namespace tern
