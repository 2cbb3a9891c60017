#include "check/declarations.h"

#include <algorithm>
#include <cstring>

#include "datatype/cursor.h"
#include "datatype/signature.h"
#include "fmt/format.h"

namespace tern::check {

namespace {

using LeafKind = Leaf::Kind;

/// Elements of a buffer whose types are compared: the first ones show it.
constexpr int kCompared = 64;

bool is_signed(Rep rep) { return rep >= Rep::i8 && rep <= Rep::i128; }

bool integer_fits(const Kind& kind, const Leaf& leaf) {
  switch (leaf.kind) {
    case LeafKind::enumeration:
    case LeafKind::pointer: return true;
    case LeafKind::boolean: return kind.type_class == TypeClass::logical;
    case LeafKind::signed_integer:
    case LeafKind::unsigned_integer:
      if (kind.type_class == TypeClass::multi_language || kind.type_class == TypeClass::character) return true;
      if (kind.type_class == TypeClass::logical) return kind.size > 1;  // MPI_LOGICAL, of which C has no type
      return is_signed(kind.rep) == (leaf.kind == LeafKind::signed_integer);
    default: return false;
  }
}

// Whether an element of this kind may begin at the leaf.
bool fits(const Kind& kind, const Leaf& leaf) {
  if (leaf.kind == LeafKind::unknown || leaf.kind == LeafKind::raw) return true;
  if (leaf.kind == LeafKind::padding) return false;
  const uint64_t part = kind.type_class == TypeClass::complex ? kind.size / 2u : kind.size;
  const bool floating = kind.type_class == TypeClass::floating || kind.type_class == TypeClass::complex;
  if (floating) {  // a complex number may be sent as its parts, and two numbers as a complex one
    if (leaf.kind == LeafKind::floating) return leaf.bytes == part && leaf.offset == 0;
    return leaf.kind == LeafKind::complex && leaf.bytes == 2 * part && leaf.offset % part == 0;
  }
  return leaf.offset == 0 && leaf.bytes == kind.size && integer_fits(kind, leaf);
}

/// Calls on_element(address, kind) for the first elements, until it returns false.
template <typename Function>
void for_each_element(const Use& use, Function on_element) {
  iovec pieces[kCompared];
  size_t moved = 0, piece = 0, within = 0;
  Cursor cursor(const_cast<void*>(use.buffer), use.count, *use.type);
  size_t known;
  if (cursor.is_contiguous()) {
    pieces[0] = {const_cast<void*>(use.buffer), cursor.remaining()};
    known = 1;
  } else {
    known = cursor.segments(pieces, SIZE_MAX, moved);
  }
  int seen = 0;
  const auto take = [&](const Kind& kind) {
    if (piece == known || ++seen > kCompared || pieces[piece].iov_len - within < kind.size) return false;
    const auto address = reinterpret_cast<uintptr_t>(pieces[piece].iov_base) + within;
    within += kind.size;
    if (within == pieces[piece].iov_len) {
      within = 0;
      ++piece;
    }
    return bool(on_element(address, kind));
  };
  const auto run = [&](const Kind& kind, int64_t n) {
    for (int64_t i = 0; i < n; ++i) {
      if (kind.type_class != TypeClass::pair) {
        if (!take(kind)) return false;
      } else if (!take(*kind_of(kind.value_id)) || !take(*kind_of(kind.index_id))) {
        return false;
      }
    }
    return true;
  };
  for (Count i = 0; i < use.count; ++i) {
    if (!signature::for_each_run(*use.type->signature(), run)) return;
  }
}

}  // namespace

std::vector<Declarations::Subject> Declarations::subjects(uintptr_t buffer) {
  std::vector<Subject> found, pointers;
  const std::vector<Frame> frames = findings_.frames();
  for (size_t i = 0; i + 1 < frames.size(); ++i) {
    const uintptr_t end = frames[i + 1].sp;
    if (i != 0 && (buffer < frames[i].sp || buffer >= end)) continue;
    VariablesOfFile* file = variables_.of(frames[i].pc - 1);
    if (!file) continue;
    for (Variable& variable : file->visible(frames[i], end)) {
      if (buffer >= variable.begin && buffer - variable.begin < variable.bytes) {
        found.push_back({std::move(variable), &file->types()});
        continue;
      }
      const uint64_t target = i == 0 && variable.bytes == sizeof buffer ? file->types().target(variable.type) : 0;
      uintptr_t pointed = 0;
      if (target != 0) std::memcpy(&pointed, reinterpret_cast<const void*>(variable.begin), sizeof pointed);
      if (pointed == buffer && target != 0)
        pointers.push_back({{"*" + variable.name, target, buffer, 0}, &file->types()});
    }
  }
  return found.empty() ? pointers : found;
}

std::string Declarations::judge(const Use& use, const Subject& subject) {
  const Variable& variable = subject.variable;
  const std::string what = fmt::format("'{}', which is {}", variable.name, subject.types->name(variable.type));
  if (variable.bytes != 0) {
    const Bytes bytes = Bytes::of(use.buffer, use.count, *use.type);
    uintptr_t end = 0;
    for (const Bytes::Range& range : bytes.ranges) end = std::max(end, range.end);
    const uintptr_t begin = bytes.ranges.empty() ? variable.begin : bytes.ranges.front().begin;
    if (begin < variable.begin) return fmt::format("begins {} bytes before {}", variable.begin - begin, what);
    if (end > variable.begin + variable.bytes)
      return fmt::format("ends {} bytes behind {} ({} bytes)", end - variable.begin - variable.bytes, what,
                         variable.bytes);
  }
  const uint64_t each = variable.bytes != 0 ? variable.bytes : subject.types->size(variable.type);
  if (each == 0) return {};
  std::string wrong;
  for_each_element(use, [&](uintptr_t address, const Kind& kind) {
    if (kind.size == 1 && kind.type_class != TypeClass::logical)
      return true;  // as bytes, which programs do with MPI_CHAR
    const uint64_t offset = (address - variable.begin) % each;
    const Leaf leaf = subject.types->leaf(variable.type, offset);
    if (address < variable.begin || fits(kind, leaf)) return true;
    wrong = fmt::format("has {} at byte {} of {}", kind.name, address - variable.begin, what);
    if (!subject.types->name(variable.type).starts_with(leaf.type)) wrong += fmt::format(", with {} there", leaf.type);
    return false;
  });
  return wrong;
}

void Declarations::check(const Use& use) {
  if (!use.buffer || use.count <= 0 || use.type->size() == 0 || !use.type->signature()) return;
  std::string wrong;
  for (const Subject& subject : subjects(reinterpret_cast<uintptr_t>(use.buffer))) {
    wrong = judge(use, subject);
    if (wrong.empty()) return;  // of several that may be meant, one fits
  }
  if (wrong.empty()) return;
  findings_.report("the buffer of " + findings_.place() + " " + wrong +
                   ". Count and datatype must describe the variable as it is declared (MPI 5.0, 3.3.1).");
}

}  // namespace tern::check
