#include "io/layouts.h"

#include <algorithm>
#include <limits>

namespace tern::io {

namespace {

using NodeKind = LayoutNode::Kind;

const LayoutNode& child_of(const LayoutNode& node, int64_t i) {
  return *node.children[node.kind == NodeKind::sequence ? i : 0];
}

int64_t place_of(const LayoutNode& node, int64_t i) {
  switch (node.kind) {
    case NodeKind::block: return 0;
    case NodeKind::strided:
    case NodeKind::loop: return i * node.stride;
    default: return node.offsets[i];
  }
}

int64_t length_of(const LayoutNode& leaf, int64_t i) {
  return leaf.kind == NodeKind::pieces ? leaf.starts[i + 1] - leaf.starts[i] : leaf.length;
}

int64_t packed_before(const LayoutNode& node, int64_t i) {
  if (node.kind == NodeKind::pieces || node.kind == NodeKind::sequence) return node.starts[i];
  return i * (node.is_leaf() ? node.length : node.children[0]->size);
}

/// Offset of the last piece's first byte.
int64_t last_offset(const LayoutNode& node) {
  const int64_t last = node.count - 1;
  return place_of(node, last) + (node.is_leaf() ? 0 : last_offset(child_of(node, last)));
}

int64_t begin_of(const LayoutNode& node, int64_t i) {
  return place_of(node, i) + (node.is_leaf() ? 0 : first_offset(child_of(node, i)));
}
int64_t end_of(const LayoutNode& node, int64_t i) {
  return place_of(node, i) + (node.is_leaf() ? length_of(node, i) : end_offset(child_of(node, i)));
}
/// Where the last piece of block or child i begins.
int64_t last_of(const LayoutNode& node, int64_t i) {
  return place_of(node, i) + (node.is_leaf() ? 0 : last_offset(child_of(node, i)));
}

Course worse(Course a, Course b) { return std::max(a, b); }

/// How a part that begins at `next` follows a part whose last piece is [last, end).
Course step(int64_t last, int64_t end, int64_t next) {
  return next >= end ? Course::forward : next >= last ? Course::overlaps : Course::backward;
}

Course course_in(const LayoutNode& node) {
  Course course = Course::forward;
  if (!node.is_leaf()) {
    const int64_t different = node.kind == NodeKind::sequence ? node.count : 1;
    for (int64_t i = 0; i < different; ++i) course = worse(course, course_in(child_of(node, i)));
  }
  // A constant stride follows everywhere as it does the first time.
  const bool even = node.kind == NodeKind::strided || node.kind == NodeKind::loop;
  const int64_t steps = even ? std::min<int64_t>(node.count, 2) : node.count;
  for (int64_t i = 1; i < steps && course != Course::backward; ++i)
    course = worse(course, step(last_of(node, i - 1), end_of(node, i - 1), begin_of(node, i)));
  return course;
}

}  // namespace

int64_t first_offset(const LayoutNode& node) { return begin_of(node, 0); }

int64_t end_offset(const LayoutNode& node) { return end_of(node, node.count - 1); }

Course course_of(const Layout& layout, int64_t extent) {
  if (!layout.node) return Course::forward;
  const LayoutNode& node = *layout.node;
  const Course inside = course_in(node);
  if (extent == 0) return inside;
  return worse(inside, step(last_offset(node), end_offset(node), extent + first_offset(node)));
}

int64_t bytes_below(const LayoutNode& node, int64_t offset) {
  // The last block or child that begins below.
  int64_t i;
  if (node.kind == NodeKind::strided || node.kind == NodeKind::loop) {
    const int64_t distance = offset - first_offset(node);
    if (distance <= 0) return 0;
    i = std::min(node.count - 1, node.stride > 0 ? (distance - 1) / node.stride : node.count - 1);
  } else {
    int64_t low = 0, high = node.count;  // blocks before low begin below, those from high on do not
    while (low < high) {
      const int64_t middle = low + (high - low) / 2;
      if (begin_of(node, middle) < offset) low = middle + 1;
      else high = middle;
    }
    if (low == 0) return 0;
    i = low - 1;
  }
  const int64_t inside = offset - place_of(node, i);
  const int64_t part = node.is_leaf() ? std::min(length_of(node, i), inside) : bytes_below(child_of(node, i), inside);
  return packed_before(node, i) + part;
}

// A node is: kind, count, then  block, strided: length, stride;  blocks: length, offsets;  pieces: offsets, lengths;
// loop: stride, child;  select: offsets, child;  sequence: offsets and children in turn.
namespace {

bool append_node(const LayoutNode& node, size_t limit, std::vector<uint64_t>& words) {
  const auto count = size_t(node.count);
  const size_t lists = node.kind == NodeKind::pieces ? 2 * count : node.offsets ? count : 0;
  if (words.size() + 4 > limit || lists > limit - words.size() - 4) return false;
  words.push_back(uint64_t(node.kind));
  words.push_back(uint64_t(node.count));
  const auto append_offsets = [&] {
    for (size_t i = 0; i < count; ++i) words.push_back(uint64_t(node.offsets[i]));
  };
  switch (node.kind) {
    case NodeKind::block:
    case NodeKind::strided:
      words.push_back(uint64_t(node.length));
      words.push_back(uint64_t(node.stride));
      return true;
    case NodeKind::blocks:
      words.push_back(uint64_t(node.length));
      append_offsets();
      return true;
    case NodeKind::pieces:
      append_offsets();
      for (int64_t i = 0; i < node.count; ++i) words.push_back(uint64_t(length_of(node, i)));
      return true;
    case NodeKind::loop: words.push_back(uint64_t(node.stride)); return append_node(*node.children[0], limit, words);
    case NodeKind::select: append_offsets(); return append_node(*node.children[0], limit, words);
    case NodeKind::sequence:
      for (size_t i = 0; i < count; ++i) {
        words.push_back(uint64_t(node.offsets[i]));
        if (!append_node(*node.children[i], limit, words)) return false;
      }
      return true;
  }
  return false;
}

class Reader {
 public:
  explicit Reader(std::span<const uint64_t> words) : words_(words) {}
  bool node(Layout& layout, int depth) {
    constexpr int kMaxDepth = 1000;  // of constructors in each other
    uint64_t kind = 0, count = 0, length = 0, stride = 0;
    if (depth > kMaxDepth || !one(kind) || !one(count) || count == 0) return false;
    std::vector<int64_t> offsets, lengths;
    Layout child;
    switch (NodeKind(kind)) {
      case NodeKind::block:
      case NodeKind::strided:
        if (!one(length) || !one(stride) || length == 0) return false;
        layout = layout::repeat(int64_t(count), int64_t(stride), layout::block(int64_t(length)));
        return true;
      case NodeKind::blocks:
        if (!one(length) || length == 0 || !list(count, offsets)) return false;
        layout = layout::at_offsets(std::move(offsets), layout::block(int64_t(length)));
        return true;
      case NodeKind::pieces:
        if (!list(count, offsets) || !list(count, lengths)) return false;
        layout = layout::pieces(std::move(offsets), std::move(lengths));
        return true;
      case NodeKind::loop:
        if (!one(stride) || !node(child, depth + 1)) return false;
        layout = layout::repeat(int64_t(count), int64_t(stride), child);
        return true;
      case NodeKind::select:
        if (!list(count, offsets) || !node(child, depth + 1)) return false;
        layout = layout::at_offsets(std::move(offsets), child);
        return true;
      case NodeKind::sequence: {
        std::vector<Layout> parts;
        for (uint64_t i = 0; i < count; ++i) {
          uint64_t offset = 0;
          if (!one(offset) || !node(child, depth + 1)) return false;
          child.offset += int64_t(offset);
          parts.push_back(std::move(child));
        }
        layout = layout::sequence(std::move(parts));
        return true;
      }
    }
    return false;
  }
  bool one(uint64_t& value) {
    if (words_.empty()) return false;
    value = words_.front();
    words_ = words_.subspan(1);
    return true;
  }
  std::span<const uint64_t> rest() const { return words_; }

 private:
  bool list(uint64_t count, std::vector<int64_t>& values) {
    if (count > words_.size()) return false;
    values.assign(words_.begin(), words_.begin() + ptrdiff_t(count));
    words_ = words_.subspan(count);
    return true;
  }
  std::span<const uint64_t> words_;
};

}  // namespace

bool write_words(const Layout& layout, size_t room, std::vector<uint64_t>& words) {
  const size_t before = words.size();
  words.push_back(uint64_t(layout.offset));
  words.push_back(layout.node ? 1 : 0);
  if (!layout.node || append_node(*layout.node, before + room, words)) return true;
  words.resize(before);
  return false;
}

bool read_words(std::span<const uint64_t>& words, Layout& layout) {
  Reader reader(words);
  uint64_t offset = 0, some = 0;
  layout = {};
  if (!reader.one(offset) || !reader.one(some)) return false;
  if (some != 0 && !reader.node(layout, 0)) return false;
  layout.offset += int64_t(offset);
  words = reader.rest();
  return true;
}

}  // namespace tern::io
