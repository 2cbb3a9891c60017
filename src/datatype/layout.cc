#include "datatype/layout.h"

#include <algorithm>

#include "base/assert.h"

namespace tern::layout {
namespace {

// A node that owns the objects that its pointers refer to.
struct Storage : LayoutNode {
  std::vector<int64_t> own_offsets, own_starts;
  std::vector<LayoutRef> own_children;
  std::vector<const LayoutNode*> child_pointers;

  // Points the views at the storage; called once everything is in place.
  void seal() {
    if (!own_offsets.empty()) offsets = own_offsets.data();
    if (!own_starts.empty()) starts = own_starts.data();
    for (const LayoutRef& child : own_children) {
      child_pointers.push_back(child.get());
      depth = std::max(depth, child->depth + 1);
    }
    if (!child_pointers.empty()) children = child_pointers.data();
  }
};

using Kind = LayoutNode::Kind;

Layout sealed(int64_t offset, std::shared_ptr<Storage> node) {
  node->seal();
  return {offset, std::move(node)};
}

// The distance that successive offsets keep, if they keep one.
bool constant_stride(const std::vector<int64_t>& offsets, int64_t& stride) {
  stride = offsets[1] - offsets[0];
  for (size_t i = 2; i < offsets.size(); ++i)
    if (offsets[i] - offsets[i - 1] != stride) return false;
  return true;
}

bool any_touch(const std::vector<int64_t>& offsets, int64_t length) {
  for (size_t i = 1; i < offsets.size(); ++i)
    if (offsets[i - 1] + length == offsets[i]) return true;
  return false;
}

// Blocks of varying length, at least two, none touching its predecessor.
Layout make_pieces(std::vector<int64_t> offsets, const std::vector<int64_t>& lengths) {
  auto node = std::make_shared<Storage>();
  node->kind = Kind::pieces;
  node->count = node->segments = int64_t(offsets.size());
  node->own_starts.reserve(offsets.size() + 1);
  node->own_starts.push_back(0);
  for (int64_t length : lengths) node->own_starts.push_back(node->own_starts.back() + length);
  node->size = node->own_starts.back();
  node->own_offsets = std::move(offsets);
  return sealed(0, std::move(node));
}

}  // namespace

LayoutNode repeat_node(int64_t count, int64_t stride, const LayoutNode* const* holder) {
  const LayoutNode& child = **holder;
  if (count == 1) return child;
  LayoutNode node;
  node.count = count;
  node.stride = stride;
  node.size = child.size * count;
  node.segments = child.segments * count;
  if (child.kind == Kind::block) {
    node.length = child.length;
    if (stride == child.length) {
      node.kind = Kind::block;
      node.length = node.size;
      node.count = node.segments = 1;
    } else {
      node.kind = Kind::strided;
    }
    return node;
  }
  bool continues = (child.kind == Kind::strided || child.kind == Kind::loop) && stride == child.stride * child.count;
  if (continues) {
    LayoutNode longer = child;
    longer.count *= count;
    longer.size *= count;
    longer.segments *= count;
    return longer;
  }
  node.kind = Kind::loop;
  node.depth = child.depth + 1;
  node.children = holder;
  return node;
}

Layout block(int64_t length) {
  if (length == 0) return {};
  auto node = std::make_shared<LayoutNode>();
  node->size = node->length = length;
  return {0, std::move(node)};
}

Layout repeat(int64_t count, int64_t stride, const Layout& child) {
  if (count == 0 || !child.node) return {};
  if (count == 1) return child;
  const LayoutNode* pointer = child.node.get();
  LayoutNode node = repeat_node(count, stride, &pointer);
  auto made = std::make_shared<Storage>();
  static_cast<LayoutNode&>(*made) = node;
  if (node.kind == Kind::loop) {
    // Either a new loop around the child, or the child's loop made longer.
    bool around = node.children == &pointer;
    const LayoutNode* inner = around ? pointer : child.node->children[0];
    // The child's storage owns what `inner` shows to: alias it.
    made->own_children.push_back(LayoutRef(child.node, inner));
  }
  return sealed(child.offset, std::move(made));
}

Layout at_offsets(std::vector<int64_t> offsets, const Layout& child) {
  if (offsets.empty() || !child.node) return {};
  if (offsets.size() == 1) return {offsets[0] + child.offset, child.node};
  int64_t stride = 0;
  if (constant_stride(offsets, stride)) {
    Layout repeated = repeat(int64_t(offsets.size()), stride, child);
    repeated.offset += offsets[0];
    return repeated;
  }
  if (child.node->kind == Kind::block && any_touch(offsets, child.node->length)) {
    std::vector<int64_t> lengths(offsets.size(), child.node->length);
    Layout joined = pieces(std::move(offsets), std::move(lengths));
    joined.offset += child.offset;
    return joined;
  }
  auto node = std::make_shared<Storage>();
  node->count = int64_t(offsets.size());
  node->size = child.node->size * node->count;
  node->segments = child.node->segments * node->count;
  node->own_offsets = std::move(offsets);
  if (child.node->kind == Kind::block) {
    node->kind = Kind::blocks;
    node->length = child.node->length;
  } else {
    node->kind = Kind::select;
    node->own_children.push_back(child.node);
  }
  return sealed(child.offset, std::move(node));
}

Layout pieces(std::vector<int64_t> offsets, std::vector<int64_t> lengths) {
  size_t kept = 0;
  bool even = true;
  for (size_t i = 0; i < offsets.size(); ++i) {
    if (lengths[i] == 0) continue;
    if (kept > 0 && offsets[kept - 1] + lengths[kept - 1] == offsets[i]) {
      lengths[kept - 1] += lengths[i];
      continue;
    }
    offsets[kept] = offsets[i];
    lengths[kept] = lengths[i];
    ++kept;
  }
  if (kept == 0) return {};
  offsets.resize(kept);
  lengths.resize(kept);
  for (int64_t length : lengths) even &= length == lengths[0];
  if (even) return at_offsets(std::move(offsets), block(lengths[0]));
  return make_pieces(std::move(offsets), lengths);
}

Layout sequence(std::vector<Layout> parts) {
  std::erase_if(parts, [](const Layout& part) { return !part.node; });
  if (parts.empty()) return {};
  // Join neighbours that are blocks and touch.
  std::vector<Layout> joined;
  joined.reserve(parts.size());
  int64_t run = 0;  // length of the block being extended at joined.back(), beyond its node's own length
  auto close = [&] {
    if (run) joined.back().node = block(joined.back().node->length + run).node;
    run = 0;
  };
  for (Layout& part : parts) {
    bool extends = !joined.empty() && part.node->kind == Kind::block && joined.back().node->kind == Kind::block &&
                   joined.back().offset + joined.back().node->length + run == part.offset;
    if (extends) {
      run += part.node->length;
      continue;
    }
    close();
    joined.push_back(std::move(part));
  }
  close();
  if (joined.size() == 1) return joined[0];

  bool all_blocks = true, all_same = true;
  for (const Layout& part : joined) {
    all_blocks &= part.node->kind == Kind::block;
    all_same &= part.node == joined[0].node || (part.node->kind == Kind::block && joined[0].node->kind == Kind::block &&
                                                part.node->length == joined[0].node->length);
  }
  std::vector<int64_t> offsets;
  offsets.reserve(joined.size());
  for (const Layout& part : joined) offsets.push_back(part.offset);
  if (all_same) return at_offsets(std::move(offsets), {0, joined[0].node});
  if (all_blocks) {
    std::vector<int64_t> lengths;
    lengths.reserve(joined.size());
    for (const Layout& part : joined) lengths.push_back(part.node->length);
    return make_pieces(std::move(offsets), lengths);
  }
  auto node = std::make_shared<Storage>();
  node->kind = Kind::sequence;
  node->count = int64_t(joined.size());
  node->segments = 0;
  node->own_starts.reserve(joined.size() + 1);
  node->own_starts.push_back(0);
  for (Layout& part : joined) {
    node->own_starts.push_back(node->own_starts.back() + part.node->size);
    node->segments += part.node->segments;
    node->own_children.push_back(std::move(part.node));
  }
  node->size = node->own_starts.back();
  node->own_offsets = std::move(offsets);
  return sealed(0, std::move(node));
}

}  // namespace tern::layout
