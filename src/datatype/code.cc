// The form, in numbers of 7 bits a byte (signed ones zigzag):
//
//   version | basic type: id, or 0 value id, index id (both 0: none) | lower, upper bound | offset, node (none: 255)
//   node: kind, then
//     block     length                    strided  count, stride, length      blocks  count, length, offsets
//     pieces    count, (offset, length)…  loop     count, stride, node        select  count, offsets, node
//     sequence  count, (offset, node)…
//
// Offsets are differences to the one before.
#include "datatype/code.h"

#include <algorithm>

namespace tern::datatype_code {
namespace {

constexpr uint8_t kVersion = 1;   // of this format
constexpr uint8_t kNoData = 255;  // the kind of a type without data
constexpr int kMaxDepth = 64;     // of nested types; bounds the parser's recursion
/// Bound of every size, offset and span: sums and differences of two stay in 64 bits.
constexpr int64_t kMax = int64_t{1} << 60;

using Node = LayoutNode;

class Encoder {
 public:
  void byte(uint8_t value) { out.push_back(std::byte(value)); }
  void number(uint64_t value) {
    for (; value >= 128; value >>= 7) byte(uint8_t(value | 128));
    byte(uint8_t(value));
  }
  void difference(int64_t value) { number(uint64_t(value) << 1 ^ uint64_t(value >> 63)); }
  void offsets(const Node& node) {
    int64_t before = 0;
    for (int64_t i = 0; i < node.count; ++i) {
      difference(node.offsets[i] - before);
      before = node.offsets[i];
    }
  }
  void node(const Node& node);

  std::vector<std::byte> out;
};

void Encoder::node(const Node& node) {
  byte(uint8_t(node.kind));
  if (node.kind == Node::Kind::block) return number(uint64_t(node.length));
  number(uint64_t(node.count));
  int64_t before = 0;
  switch (node.kind) {
    case Node::Kind::block: return;
    case Node::Kind::strided: difference(node.stride); return number(uint64_t(node.length));
    case Node::Kind::blocks: number(uint64_t(node.length)); return offsets(node);
    case Node::Kind::loop: difference(node.stride); return this->node(*node.children[0]);
    case Node::Kind::select: offsets(node); return this->node(*node.children[0]);
    case Node::Kind::pieces:
    case Node::Kind::sequence:
      for (int64_t i = 0; i < node.count; ++i) {
        difference(node.offsets[i] - before);
        before = node.offsets[i];
        if (node.kind == Node::Kind::pieces) number(uint64_t(node.starts[i + 1] - node.starts[i]));
        else this->node(*node.children[i]);
      }
      return;
  }
}

/// A layout and the bytes it touches, relative to where it is placed.
struct Part {
  Layout layout;
  int64_t low = 0, high = 0;
};

class Decoder {
 public:
  explicit Decoder(std::span<const std::byte> code) : left_(code) {}

  uint8_t byte() {
    if (left_.empty()) return fail();
    const auto value = uint8_t(left_[0]);
    left_ = left_.subspan(1);
    return value;
  }
  uint64_t raw() {
    uint64_t value = 0;
    for (int shift = 0; shift < 63; shift += 7) {
      const uint8_t next = byte();
      value |= uint64_t(next & 127) << shift;
      if (!(next & 128)) return value;
    }
    return fail();
  }
  /// 1 .. kMax.
  int64_t number() {
    const uint64_t value = raw();
    return value == 0 || value > uint64_t(kMax) ? fail() + 1 : int64_t(value);
  }
  int64_t difference() {
    const uint64_t value = raw();
    return bounded(int64_t(value >> 1) ^ -int64_t(value & 1));
  }
  int64_t bounded(int64_t value) { return value > kMax || value < -kMax ? fail() : value; }
  int64_t times(int64_t a, int64_t b) {
    int64_t product = 0;
    return __builtin_mul_overflow(a, b, &product) ? fail() : bounded(product);
  }
  Part node(int depth);

  uint8_t fail() {
    failed = true;
    left_ = {};
    return 0;
  }
  bool at_end() const { return left_.empty(); }
  bool failed = false;

 private:
  /// `count` offsets; each takes a byte of the code at least.
  std::vector<int64_t> offsets(int64_t count) {
    std::vector<int64_t> all;
    if (count > int64_t(left_.size())) fail();
    int64_t at = 0;
    for (int64_t i = 0; i < count && !failed; ++i) all.push_back(at = bounded(at + difference()));
    return all;
  }
  Part checked(Layout layout, int64_t low, int64_t high) {
    low = bounded(low), high = bounded(high);
    if (failed || !layout.node) {
      fail();
      return {};
    }
    return {std::move(layout), low, high};
  }
  Part repeated(int64_t count, int64_t stride, const Part& child);
  Part placed(std::vector<int64_t> offsets, const Part& child);
  Part pieces(int64_t count);
  Part sequence(int64_t count, int depth);

  std::span<const std::byte> left_;
};

Part Decoder::repeated(int64_t count, int64_t stride, const Part& child) {
  if (failed) return {};
  const int64_t last = times(count - 1, stride);
  times(count, child.layout.size());
  // Merging with the child's own loop multiplies their counts.
  times(count, child.layout.node->count);
  if (failed) return {};
  return checked(layout::repeat(count, stride, child.layout), child.low + std::min<int64_t>(last, 0),
                 child.high + std::max<int64_t>(last, 0));
}

Part Decoder::placed(std::vector<int64_t> offsets, const Part& child) {
  if (failed || offsets.empty()) {
    fail();
    return {};
  }
  times(int64_t(offsets.size()), child.layout.size());
  times(int64_t(offsets.size()), child.layout.node->count);
  if (failed) return {};
  const auto [least, most] = std::minmax_element(offsets.begin(), offsets.end());
  const int64_t low = child.low + *least, high = child.high + *most;
  return checked(layout::at_offsets(std::move(offsets), child.layout), low, high);
}

Part Decoder::pieces(int64_t count) {
  std::vector<int64_t> offsets, lengths;
  int64_t at = 0, total = 0, low = kMax, high = -kMax;
  for (int64_t i = 0; i < count && !failed; ++i) {
    offsets.push_back(at = bounded(at + difference()));
    lengths.push_back(number());
    total = bounded(total + lengths.back());
    low = std::min(low, at);
    high = std::max(high, at + lengths.back());
  }
  if (failed) return {};
  return checked(layout::pieces(std::move(offsets), std::move(lengths)), low, high);
}

Part Decoder::sequence(int64_t count, int depth) {
  std::vector<Layout> parts;
  int64_t at = 0, total = 0, low = kMax, high = -kMax;
  for (int64_t i = 0; i < count && !failed; ++i) {
    at = bounded(at + difference());
    Part part = node(depth + 1);
    if (failed) break;
    total = bounded(total + part.layout.size());
    low = std::min(low, at + part.low);
    high = std::max(high, at + part.high);
    part.layout.offset = bounded(part.layout.offset + at);
    parts.push_back(std::move(part.layout));
  }
  if (failed) return {};
  return checked(layout::sequence(std::move(parts)), low, high);
}

Part Decoder::node(int depth) {
  const auto kind = Node::Kind(byte());
  if (depth > kMaxDepth || kind > Node::Kind::sequence) fail();
  const auto block = [&] {
    const int64_t length = number();
    return failed ? Part() : Part{layout::block(length), 0, length};
  };
  if (failed) return {};
  if (kind == Node::Kind::block) return block();
  const int64_t count = number();
  switch (kind) {
    case Node::Kind::strided: {
      const int64_t stride = difference();
      return repeated(count, stride, block());
    }
    case Node::Kind::loop: {
      const int64_t stride = difference();
      return repeated(count, stride, node(depth + 1));
    }
    case Node::Kind::blocks: {
      const Part child = block();
      return placed(offsets(count), child);
    }
    case Node::Kind::select: {
      std::vector<int64_t> where = offsets(count);
      return placed(std::move(where), node(depth + 1));
    }
    case Node::Kind::pieces: return pieces(count);
    default: return sequence(count, depth);
  }
}

/// The basic type that the code names; `kind` stays as it is when there is none. False: it names no type.
bool read_kind(Decoder& in, Kind& kind, bool& some) {
  const uint64_t id = in.raw();
  const uint64_t value = id == 0 ? in.raw() : 0, index = id == 0 ? in.raw() : 0;
  if (in.failed || std::max({id, value, index}) > INT16_MAX) return false;
  some = id != 0 || value != 0;
  if (!some) return index == 0;
  if (id != 0) {
    const Kind* row = kind_of(int(id));
    if (row) kind = *row;
    return row && row->size != 0;
  }
  const Kind *first = kind_of(int(value)), *second = kind_of(int(index));
  return first && second && make_pair_kind(*first, *second, kind);
}

}  // namespace

std::vector<std::byte> encode(const Datatype& type) {
  Encoder out;
  out.byte(kVersion);
  const Kind* kind = type.basic_kind();
  out.number(uint64_t(kind ? kind->id : 0));
  if (!kind || kind->id == 0) {
    out.number(uint64_t(kind ? kind->value_id : 0));
    out.number(uint64_t(kind ? kind->index_id : 0));
  }
  out.difference(type.lower_bound());
  out.difference(type.upper_bound());
  if (!type.layout().node) {
    out.byte(kNoData);
    return std::move(out.out);
  }
  out.byte(0);
  out.difference(type.layout().offset);
  out.node(*type.layout().node);
  return std::move(out.out);
}

Error decode(std::span<const std::byte> code, Ref<Datatype>& made) {
  Decoder in(code);
  Kind kind;
  bool some = false;
  Datatype::Parts parts;
  const bool right = in.byte() == kVersion && read_kind(in, kind, some);
  parts.bounds.lower = in.difference();
  parts.bounds.upper = in.difference();
  const uint8_t data = in.byte();
  if (right && !in.failed && data == 0) {
    const int64_t offset = in.difference();
    Part part = in.node(1);
    part.layout.offset = in.bounded(part.layout.offset + offset);
    parts.bounds.true_lower = in.bounded(part.low + offset);
    parts.bounds.true_upper = in.bounded(part.high + offset);
    parts.layout = std::move(part.layout);
    parts.bounds.empty = false;
  }
  const int64_t size = parts.layout.size();
  const bool whole = !some || size % std::max<int64_t>(kind.size, 1) == 0;
  if (!right || in.failed || !in.at_end() || (data != 0 && data != kNoData) || !whole)
    return Error(ErrorClass::type, "the code of a datatype that another rank has sent is damaged");
  if (size != 0) {
    parts.signature = some ? signature::repeat(size / kind.size, signature::basic(kind))
                           : signature::repeat(size, signature::basic(*kind_of(type_id::kByte)));
  }
  parts.committed = true;
  parts.bounds.markers = true;
  parts.envelope.combiner = Combiner::structure;
  made = Ref<Datatype>::adopt(new Datatype(std::move(parts)));
  return {};
}

}  // namespace tern::datatype_code
