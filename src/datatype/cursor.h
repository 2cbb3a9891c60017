// Cursor: a resumable position in the packed stream of (buffer, count, datatype). It copies fragments cut
// anywhere, in either direction, or hands out the pieces for scatter-gather. A value: copyable, no heap
// allocation for contiguous data and for nests up to kInlineDepth. It refers to the datatype's layout without
// holding it: the owner of a cursor keeps a reference to the datatype (a request does). Contiguous data need
// only the buffer. Thread rule: a value; no sharing.
#pragma once

#include <sys/uio.h>

#include <cstddef>
#include <cstring>
#include <memory>
#include <span>

#include "datatype/datatype.h"

namespace tern {

class Cursor {
 public:
  Cursor() : contiguous_(true) {}
  Cursor(void* base, Count count, const Datatype& type) : base_(reinterpret_cast<uintptr_t>(base)), contiguous_(true) {
    if (type.is_contiguous()) end_ = count > 0 ? size_t(count) * size_t(type.size()) : 0;
    else start_walk(count, type);
  }
  static Cursor bytes(void* base, size_t n);
  Cursor(const Cursor& other)
      : base_(other.base_), position_(other.position_), end_(other.end_), contiguous_(other.contiguous_) {
    if (!contiguous_) copy_walk(other);
  }
  Cursor& operator=(const Cursor& other) {
    if (this == &other) return *this;
    base_ = other.base_;
    position_ = other.position_;
    end_ = other.end_;
    contiguous_ = other.contiguous_;
    if (!contiguous_) copy_walk(other);
    return *this;
  }

  size_t remaining() const { return end_ - position_; }
  /// Bytes before the position.
  size_t position() const { return position_; }
  bool is_contiguous() const { return contiguous_; }
  /// Address of the next byte; only if is_contiguous().
  std::byte* contiguous_data() const {
    TERN_DEBUG_ASSERT(contiguous_);
    return reinterpret_cast<std::byte*>(base_ + position_);
  }

  /// Copies up to n bytes out and advances; returns how many.
  size_t pack(std::byte* out, size_t n) {
    if (n > remaining()) n = remaining();
    if (!contiguous_) return pack_slow(out, n);
    if (n) std::memcpy(out, contiguous_data(), n);
    position_ += n;
    return n;
  }
  /// Copies up to n bytes in and advances; returns how many.
  size_t unpack(const std::byte* in, size_t n) {
    if (n > remaining()) n = remaining();
    if (!contiguous_) return unpack_slow(in, n);
    if (n) std::memcpy(contiguous_data(), in, n);
    position_ += n;
    return n;
  }
  /// Advances by n, at most to the end.
  void skip(size_t n) { seek(position_ + (n < remaining() ? n : remaining())); }
  /// Goes to an absolute offset in the packed stream, at most the end.
  void seek(size_t offset) {
    if (offset > end_) offset = end_;
    if (!contiguous_ && offset != position_) seek_slow(offset);
    position_ = offset;
  }
  /// Limits remaining() to n.
  void truncate(size_t n) {
    if (n < remaining()) end_ = position_ + n;
  }
  /// Fills `out` with the next pieces, at most `max_bytes` in all, and advances; pieces that touch are
  /// joined. Returns how many entries were filled and in `bytes` their sum.
  size_t segments(std::span<iovec> out, size_t max_bytes, size_t& bytes);

  static constexpr int kInlineDepth = 8;  ///< of nested types without an allocation

 private:
  friend struct CursorSteps;  // cursor.cc
  struct Frame {
    const LayoutNode* node;  ///< null: top_
    uintptr_t base;          ///< where the node lies
    int64_t index;           ///< the next block or child
    int64_t within;          ///< bytes of that block already passed; leaves only
  };

  void start_walk(Count count, const Datatype& type);
  size_t pack_slow(std::byte* out, size_t n);
  size_t unpack_slow(const std::byte* in, size_t n);
  void seek_slow(size_t offset);
  void copy_walk(const Cursor& other);
  Frame* frames() { return deep_ ? deep_.get() : inline_; }
  const LayoutNode& node_of(const Frame& frame) const { return frame.node ? *frame.node : top_; }

  uintptr_t base_ = 0;
  size_t position_ = 0;
  size_t end_ = 0;
  bool contiguous_;
  int depth_ = 0;                  ///< frames in use
  std::unique_ptr<Frame[]> deep_;  ///< instead of inline_ when the nest is deeper
  // Below: only when not contiguous; otherwise never touched.
  union {
    LayoutNode top_;  ///< `count` elements of the datatype; children may point to element_
  };
  const LayoutNode* element_;   ///< one element, owned by the datatype
  Frame inline_[kInlineDepth];  // left uninitialised: the first depth_ are valid
};

}  // namespace tern
