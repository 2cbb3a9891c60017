// Where the data of a datatype lies, as a small nest of loops: the normal form that packing runs on.
//
//   block     [======]                       `length` bytes
//   strided   [==]..[==]..[==]..             `count` blocks of `length`, `stride` apart
//   blocks    [==]...[==].[==]               `count` blocks of `length` at offsets[i]
//   pieces    [=]...[====].[==]              `count` blocks of varying length at offsets[i]; starts[] = packed offsets
//   loop      (child)..(child)..(child)      `count` times the child, `stride` apart
//   select    (child)....(child).(child)     `count` times the child at offsets[i]
//   sequence  (a)..(b)(c)                    children[i] at offsets[i]; starts[] = packed offsets
//
// The first four are leaves. A vector of 10^9 blocks is one node; memory grows only with what the user listed. The
// builders merge what touches, in the order of the type map (the order of packing), so equal layouts built in
// different ways mostly come out equal. Every node has size > 0; "no data" is a null node.
// Offsets, strides, sizes in bytes. Thread rule: immutable once built, freely shared.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/types.h"

namespace tern {

struct LayoutNode {
  enum class Kind : uint8_t { block, strided, blocks, pieces, loop, select, sequence };
  Kind kind = Kind::block;
  int32_t depth = 1;                 ///< nodes on the longest way down, this one included
  int64_t size = 0;                  ///< bytes of data in all
  int64_t count = 1;                 ///< blocks or children; 1 for a block
  int64_t stride = 0;                ///< strided, loop
  int64_t length = 0;                ///< block, strided, blocks
  int64_t segments = 1;              ///< contiguous pieces in all (neighbours that happen to touch count apart)
  const int64_t* offsets = nullptr;  ///< blocks, pieces, select, sequence: `count` of them
  const int64_t* starts = nullptr;   ///< pieces, sequence: `count` + 1
  const LayoutNode* const* children = nullptr;  ///< loop, select: one; sequence: `count`

  bool is_leaf() const { return kind < Kind::loop; }
};

using LayoutRef = std::shared_ptr<const LayoutNode>;

/// A node placed at an offset from the address the user passes.
struct Layout {
  int64_t offset = 0;
  LayoutRef node;  ///< null: no data

  int64_t size() const { return node ? node->size : 0; }
};

namespace layout {
Layout block(int64_t length);
/// `count` copies, `stride` apart.
Layout repeat(int64_t count, int64_t stride, const Layout& child);
/// Copies of one layout at offsets[i].
Layout at_offsets(std::vector<int64_t> offsets, const Layout& child);
/// Blocks of lengths[i] bytes at offsets[i], in packing order.
Layout pieces(std::vector<int64_t> offsets, std::vector<int64_t> lengths);
/// One after the other in packing order; each part's own offset places it.
Layout sequence(std::vector<Layout> parts);
/// The node that stands for `count` copies of `child`, `stride` apart, without owning anything: what a cursor walks
/// for (buffer, count, type). `child` must outlive it and be reachable at *holder when the result is a loop.
LayoutNode repeat_node(int64_t count, int64_t stride, const LayoutNode* const* holder);
}  // namespace layout

}  // namespace tern
