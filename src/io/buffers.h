// Memory for file data in transfer: blocks that are aligned as O_DIRECT requires, kept for the next user
// (base/scratch.h). (A new one of 1 MiB takes 60 to 130 us, as long as writing it to the page cache.)
#pragma once

#include "base/scratch.h"

namespace tern::io {

/// What direct input and output needs on all common devices.
inline constexpr size_t kDirectAlignment = 4096;
/// Four of the largest blocks are kept.
using Buffers = BasicScratch<ScratchLimits{.alignment = kDirectAlignment,
                                           .smallest = kDirectAlignment,
                                           .largest = size_t{16} << 20,
                                           .kept = size_t{64} << 20}>;
using Buffer = Buffers::Block;

}  // namespace tern::io
