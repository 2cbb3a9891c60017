// Questions about the layout of a filetype: whether it runs forward through the file, how much of it lies below an
// offset (the inverse of what a cursor does), and its form as words for other ranks. None of them expands the layout:
// their cost is the number of its nodes, or the logarithm of its lists.
//
// "Listless" I/O, where ranks know each other's filetypes instead of lists of offsets: Worringen, Traeff, Ritzdorf,
// "Fast Parallel Non-Contiguous File Access", SC 2003. Units: bytes. Thread rule: pure functions.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "datatype/layout.h"

namespace tern::io {

/// How the pieces of a layout follow each other in packing order.
enum class Course : uint8_t {
  forward,   ///< each begins where the one before ends, or later
  overlaps,  ///< each begins where the one before begins, or later
  backward,  ///< some begin before their predecessor
};
/// Of one layout repeated every `extent` bytes, as a view does. `extent` is not looked at when it is 0.
Course course_of(const Layout& layout, int64_t extent);

/// Offset of the first byte in packing order, and of the byte after the last.
int64_t first_offset(const LayoutNode& node);
int64_t end_offset(const LayoutNode& node);

/// How many bytes of the node lie below `offset`. Only for layouts that go forward.
int64_t bytes_below(const LayoutNode& node, int64_t offset);

/// The layout as words; nothing is appended when they would be more than `room` (false).
bool write_words(const Layout& layout, size_t room, std::vector<uint64_t>& words);
/// The way back. False: these are not the words of a layout.
bool read_words(std::span<const uint64_t>& words, Layout& layout);

}  // namespace tern::io
