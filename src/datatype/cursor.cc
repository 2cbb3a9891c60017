// The cursor walks the layout with a stack of frames, one per node on the way down. A frame holds the next
// block or child; a node that is done is taken off at the next step. Children that fit into the request whole
// are copied by plain recursion (copy_node), without frames; only the cuts at either end cost a frame.
#include "datatype/cursor.h"

#include <algorithm>

#include "datatype/copy_loops.h"

namespace tern {

using copy_loops::LoopKind;
using NodeKind = LayoutNode::Kind;

namespace {

constexpr int64_t kMaxColumns = 16;  // members of a struct beyond which the stream's cache lines no longer stay
constexpr int64_t kBatch = 64;       // structs at a time: some KiB

template <LoopKind way>
void copy_node(const LayoutNode& node, uintptr_t base, std::byte* stream);

// Copies children [first, last) of a loop or select node.
template <LoopKind way>
void copy_range(const LayoutNode& node, uintptr_t base, int64_t first, int64_t last, std::byte* stream) {
  const LayoutNode& child = *node.children[0];
  if (node.kind == NodeKind::select) {
    for (int64_t i = first; i < last; ++i, stream += child.size)
      copy_node<way>(child, base + uintptr_t(node.offsets[i]), stream);
    return;
  }
  base += uintptr_t(first * node.stride);
  if (child.kind != NodeKind::pieces || child.count > kMaxColumns) {
    for (int64_t i = first; i < last; ++i, stream += child.size, base += uintptr_t(node.stride))
      copy_node<way>(child, base, stream);
    return;
  }
  // An array of structs: member by member, each with the loop for its length, in batches that stay in the
  // cache.
  for (int64_t i = first; i < last; i += kBatch) {
    int64_t batch = std::min(kBatch, last - i);
    for (int64_t column = 0; column < child.count; ++column)
      copy_loops::columns<way>(base + uintptr_t(child.offsets[column]), node.stride,
                               child.starts[column + 1] - child.starts[column], stream + child.starts[column],
                               child.size, batch);
    base += uintptr_t(batch * node.stride);
    stream += batch * child.size;
  }
}

// Copies a whole node.
template <LoopKind way>
void copy_node(const LayoutNode& node, uintptr_t base, std::byte* stream) {
  switch (node.kind) {
    case NodeKind::block: copy_loops::copy_short<way>(base, stream, size_t(node.length)); return;
    case NodeKind::strided: copy_loops::strided<way>(base, node.stride, node.length, stream, node.count); return;
    case NodeKind::blocks: copy_loops::listed<way>(base, node.offsets, node.length, stream, node.count); return;
    case NodeKind::pieces:
      for (int64_t i = 0; i < node.count; ++i)
        copy_loops::copy_short<way>(base + uintptr_t(node.offsets[i]), stream + node.starts[i],
                                    size_t(node.starts[i + 1] - node.starts[i]));
      return;
    case NodeKind::loop:
    case NodeKind::select: copy_range<way>(node, base, 0, node.count, stream); return;
    case NodeKind::sequence:
      for (int64_t i = 0; i < node.count; ++i)
        copy_node<way>(*node.children[i], base + uintptr_t(node.offsets[i]), stream + node.starts[i]);
      return;
  }
}

// Where block or child `i` of a node lies, relative to the node.
int64_t place_of(const LayoutNode& node, int64_t i) {
  switch (node.kind) {
    case NodeKind::block: return 0;
    case NodeKind::strided:
    case NodeKind::loop: return i * node.stride;
    default: return node.offsets[i];
  }
}

int64_t length_of_block(const LayoutNode& node, int64_t i) {
  return node.kind == NodeKind::pieces ? node.starts[i + 1] - node.starts[i] : node.length;
}

const LayoutNode& child_of(const LayoutNode& node, int64_t i) {
  return *node.children[node.kind == NodeKind::sequence ? i : 0];
}

// The block or child in which the packed offset `at` of a node falls; `at` becomes the offset in it.
int64_t find(const LayoutNode& node, int64_t& at) {
  if (node.kind == NodeKind::pieces || node.kind == NodeKind::sequence) {
    const int64_t* after = std::upper_bound(node.starts, node.starts + node.count + 1, at);
    int64_t i = after - node.starts - 1;
    at -= node.starts[i];
    return i;
  }
  int64_t each = node.is_leaf() ? node.length : node.children[0]->size;
  int64_t i = at / each;
  at %= each;
  return i;
}

}  // namespace

// The steps of a walk, shared by packing, unpacking and listing segments.
struct CursorSteps {
  using Frame = Cursor::Frame;

  // Copies from a leaf up to n bytes; returns how many.
  template <LoopKind way>
  static size_t copy_leaf(const LayoutNode& leaf, Frame& frame, std::byte* stream, size_t n) {
    size_t done = 0;
    if (frame.within > 0) {
      int64_t length = length_of_block(leaf, frame.index);
      done = std::min(size_t(length - frame.within), n);
      uintptr_t from = frame.base + uintptr_t(place_of(leaf, frame.index) + frame.within);
      copy_loops::copy_short<way>(from, stream, done);
      frame.within += int64_t(done);
      if (frame.within < length) return done;
      frame.within = 0;
      ++frame.index;
    }
    if (leaf.kind == NodeKind::pieces) {
      while (frame.index < leaf.count) {
        size_t length = size_t(length_of_block(leaf, frame.index));
        if (length > n - done) break;
        copy_loops::copy_short<way>(frame.base + uintptr_t(leaf.offsets[frame.index]), stream + done, length);
        done += length;
        ++frame.index;
      }
    } else {
      int64_t whole = std::min(leaf.count - frame.index, int64_t((n - done) / size_t(leaf.length)));
      if (whole > 0) {
        if (leaf.kind == NodeKind::blocks)
          copy_loops::listed<way>(frame.base, leaf.offsets + frame.index, leaf.length, stream + done, whole);
        else
          copy_loops::strided<way>(frame.base + uintptr_t(frame.index * leaf.stride), leaf.stride, leaf.length,
                                   stream + done, whole);
        done += size_t(whole * leaf.length);
        frame.index += whole;
      }
    }
    if (done < n && frame.index < leaf.count) {
      uintptr_t from = frame.base + uintptr_t(place_of(leaf, frame.index));
      copy_loops::copy_short<way>(from, stream + done, n - done);
      frame.within = int64_t(n - done);
      done = n;
    }
    return done;
  }

  // Copies whole children of an inner node, as many as fit into n bytes; returns the bytes.
  template <LoopKind way>
  static size_t copy_children(const LayoutNode& node, Frame& frame, std::byte* stream, size_t n) {
    size_t done = 0;
    if (node.kind != NodeKind::sequence) {
      const LayoutNode& child = *node.children[0];
      int64_t whole = std::min(node.count - frame.index, int64_t(n / size_t(child.size)));
      copy_range<way>(node, frame.base, frame.index, frame.index + whole, stream);
      frame.index += whole;
      return size_t(whole * child.size);
    }
    while (frame.index < node.count) {
      const LayoutNode& child = child_of(node, frame.index);
      if (size_t(child.size) > n - done) break;
      copy_node<way>(child, frame.base + uintptr_t(place_of(node, frame.index)), stream + done);
      done += size_t(child.size);
      ++frame.index;
    }
    return done;
  }

  // Goes down into the next child of the last frame.
  static void descend(Cursor& cursor, const LayoutNode& node, Frame& frame) {
    Frame* frames = cursor.frames();
    const LayoutNode& child = child_of(node, frame.index);
    uintptr_t base = frame.base + uintptr_t(place_of(node, frame.index));
    ++frame.index;
    frames[cursor.depth_++] = {&child, base, 0, 0};
  }

  template <LoopKind way>
  static size_t run(Cursor& cursor, std::byte* stream, size_t n) {
    size_t done = 0;
    while (done < n) {
      TERN_DEBUG_ASSERT(cursor.depth_ > 0);
      Frame& frame = cursor.frames()[cursor.depth_ - 1];
      const LayoutNode& node = cursor.node_of(frame);
      if (frame.index == node.count) {
        --cursor.depth_;
      } else if (node.is_leaf()) {
        done += copy_leaf<way>(node, frame, stream + done, n - done);
      } else {
        done += copy_children<way>(node, frame, stream + done, n - done);
        if (done < n && frame.index < node.count) descend(cursor, node, frame);
      }
    }
    cursor.position_ += n;
    return n;
  }
};

void Cursor::start_walk(Count count, const Datatype& type) {
  const Layout& layout = type.layout();
  if (count <= 0 || !layout.node) return;
  end_ = size_t(count) * size_t(layout.node->size);
  base_ += uintptr_t(layout.offset);
  const LayoutNode* element = layout.node.get();
  if (element->kind == NodeKind::block && (count == 1 || element->length == type.extent())) return;
  contiguous_ = false;
  element_ = element;
  top_ = layout::repeat_node(count, type.extent(), &element_);
  if (top_.depth > kInlineDepth) deep_ = std::make_unique<Frame[]>(size_t(top_.depth));
  depth_ = 1;
  frames()[0] = {nullptr, base_, 0, 0};
}

Cursor Cursor::bytes(void* base, size_t n) {
  Cursor cursor;
  cursor.base_ = reinterpret_cast<uintptr_t>(base);
  cursor.end_ = n;
  return cursor;
}

void Cursor::copy_walk(const Cursor& other) {
  depth_ = other.depth_;
  deep_.reset();
  top_ = other.top_;
  element_ = other.element_;
  if (top_.children == &other.element_) top_.children = &element_;
  if (other.deep_) deep_ = std::make_unique<Frame[]>(size_t(top_.depth));
  const Frame* from = other.deep_ ? other.deep_.get() : other.inline_;
  std::copy(from, from + depth_, frames());
}

size_t Cursor::pack_slow(std::byte* out, size_t n) { return CursorSteps::run<LoopKind::pack>(*this, out, n); }

size_t Cursor::unpack_slow(const std::byte* in, size_t n) {
  return CursorSteps::run<LoopKind::unpack>(*this, const_cast<std::byte*>(in),
                                            n);  // LoopKind::unpack only reads the stream
}

void Cursor::seek_slow(size_t offset) {
  depth_ = 0;
  if (offset >= size_t(top_.size)) return;  // at the end: nothing is left to walk
  int64_t at = int64_t(offset);
  const LayoutNode* node = nullptr;
  uintptr_t base = base_;
  for (;;) {
    const LayoutNode& here = node ? *node : top_;
    int64_t i = find(here, at);
    if (here.is_leaf()) {
      frames()[depth_++] = {node, base, i, at};
      return;
    }
    frames()[depth_++] = {node, base, i + 1, 0};
    base += uintptr_t(place_of(here, i));
    node = &child_of(here, i);
  }
}

size_t Cursor::segments(std::span<iovec> out, size_t max_bytes, size_t& bytes) {
  bytes = 0;
  size_t n = std::min(max_bytes, remaining()), used = 0;
  if (out.empty() || n == 0) return 0;
  if (contiguous_) {
    out[0] = {contiguous_data(), n};
    position_ += n;
    bytes = n;
    return 1;
  }
  while (bytes < n) {
    Frame& frame = frames()[depth_ - 1];
    const LayoutNode& node = node_of(frame);
    if (frame.index == node.count) {
      --depth_;
      continue;
    }
    if (!node.is_leaf()) {
      CursorSteps::descend(*this, node, frame);
      continue;
    }
    int64_t length = length_of_block(node, frame.index);
    size_t piece = std::min(size_t(length - frame.within), n - bytes);
    auto* at = reinterpret_cast<std::byte*>(frame.base + uintptr_t(place_of(node, frame.index) + frame.within));
    bool joins = used > 0 && static_cast<std::byte*>(out[used - 1].iov_base) + out[used - 1].iov_len == at;
    if (joins) {
      out[used - 1].iov_len += piece;
    } else {
      if (used == out.size()) break;
      out[used++] = {at, piece};
    }
    bytes += piece;
    frame.within += int64_t(piece);
    if (frame.within == length) {
      frame.within = 0;
      ++frame.index;
    }
  }
  position_ += bytes;
  return used;
}

}  // namespace tern
