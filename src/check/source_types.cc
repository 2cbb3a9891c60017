#include "check/source_types.h"

namespace tern::check {

using dwarf::Entry;
using dwarf::Value;

namespace {

uint64_t type_of(const Entry& entry) { return entry.type.kind == Value::Kind::reference ? entry.type.number : 0; }

// DWARF 5, 7.8.
Leaf::Kind kind_of_encoding(uint64_t encoding, uint64_t bytes) {
  switch (encoding) {
    case 0x02: return Leaf::Kind::boolean;
    case 0x03: return Leaf::Kind::complex;
    case 0x04: return Leaf::Kind::floating;
    case 0x05: return bytes == 1 ? Leaf::Kind::raw : Leaf::Kind::signed_integer;
    case 0x06: return Leaf::Kind::raw;
    case 0x07: return bytes == 1 ? Leaf::Kind::raw : Leaf::Kind::unsigned_integer;
    case 0x08: return Leaf::Kind::raw;
    case 0x10: return bytes == 1 ? Leaf::Kind::raw : Leaf::Kind::unsigned_integer;  // char16_t
    default: return Leaf::Kind::unknown;
  }
}

}  // namespace

SourceTypes::Found SourceTypes::find(uint64_t type) const {
  Found found;
  if (type == 0) return found;
  found.unit = file_.unit_of(type);
  if (found.unit) found.entry = file_.entry(*found.unit, type);
  return found;
}

SourceTypes::Found SourceTypes::plain(uint64_t type) const {
  Found found = find(type);
  for (int i = 0; i < kMaxDepth && found.entry; ++i) {
    switch (found.entry.tag) {
      case dwarf::kTypedef:
      case dwarf::kConstType:
      case dwarf::kVolatileType:
      case dwarf::kRestrictType:
      case dwarf::kAtomicType: found = find(type_of(found.entry)); break;
      default: return found;
    }
  }
  return {};
}

template <typename Function>
void SourceTypes::dimensions(const Found& array, Function on_dimension) const {
  if (!array.entry.has_children) return;
  for (uint64_t at = array.entry.next; at != 0;) {
    const Entry child = file_.entry(*array.unit, at);
    if (child.tag == 0) return;
    uint64_t elements = 0;
    if (child.count.is_number()) elements = child.count.number;
    else if (child.upper_bound.is_number()) elements = child.upper_bound.number + 1;  // C counts from 0
    if (child.tag == dwarf::kSubrangeType) on_dimension(elements);
    at = file_.behind(*array.unit, child);
  }
}

uint64_t SourceTypes::size(uint64_t type, int depth) const {
  const Found found = plain(type);
  if (!found.entry || depth == kMaxDepth || found.entry.dynamic) return 0;
  if (found.entry.byte_size.is_number()) return found.entry.byte_size.number;
  switch (found.entry.tag) {
    case dwarf::kPointerType:
    case dwarf::kReferenceType:
    case dwarf::kRvalueReferenceType: return sizeof(void*);
    case dwarf::kArrayType: {
      uint64_t bytes = size(type_of(found.entry), depth + 1);
      bool any = false;
      dimensions(found, [&](uint64_t elements) {
        any = true;
        if (__builtin_mul_overflow(bytes, elements, &bytes)) bytes = 0;
      });
      return any ? bytes : 0;
    }
    default: return 0;
  }
}

Leaf SourceTypes::leaf(uint64_t type, uint64_t offset, int depth) const {
  const Found found = plain(type);
  if (!found.entry || depth == kMaxDepth || found.entry.dynamic) return {};
  const uint64_t bytes = size(type, depth);
  switch (found.entry.tag) {
    case dwarf::kBaseType:
      if (offset >= bytes) return {};
      return {kind_of_encoding(found.entry.encoding.number, bytes), bytes, offset, std::string(found.entry.name)};
    case dwarf::kEnumerationType: return {Leaf::Kind::enumeration, bytes, offset, name(type)};
    case dwarf::kPointerType:
    case dwarf::kReferenceType:
    case dwarf::kRvalueReferenceType: return {Leaf::Kind::pointer, bytes, offset, name(type)};
    case dwarf::kArrayType: {
      const uint64_t each = size(type_of(found.entry), depth + 1);
      return each == 0 ? Leaf() : leaf(type_of(found.entry), offset % each, depth + 1);
    }
    case dwarf::kStructureType:
    case dwarf::kClassType: return member(found, offset, depth);
    default: return {};  // a union may hold anything
  }
}

// The member at the offset; bases are members without a name.
Leaf SourceTypes::member(const Found& structure, uint64_t offset, int depth) const {
  if (!structure.entry.has_children || structure.entry.declaration) return {};
  for (uint64_t at = structure.entry.next; at != 0;) {
    const Entry child = file_.entry(*structure.unit, at);
    if (child.tag == 0) return {Leaf::Kind::padding, 1, 0, "padding"};
    at = file_.behind(*structure.unit, child);
    if (child.tag != dwarf::kMember && child.tag != dwarf::kInheritance) continue;
    if (child.bit_field) return {};
    if (!child.member_offset.is_number()) {
      if (child.tag == dwarf::kMember && child.declaration) continue;  // static
      return {};                                                       // a virtual base
    }
    const uint64_t begin = child.member_offset.number, bytes = size(type_of(child), depth + 1);
    if (bytes == 0 && begin <= offset) return {};  // an array without a length
    if (offset < begin || offset - begin >= bytes) continue;
    Leaf found = leaf(type_of(child), offset - begin, depth + 1);
    if (found.kind == Leaf::Kind::raw && bytes == 1) found.kind = Leaf::Kind::character;
    return found;
  }
  return {};
}

uint64_t SourceTypes::target(uint64_t type) const {
  const Found found = plain(type);
  switch (found.entry.tag) {
    case dwarf::kPointerType:
    case dwarf::kReferenceType:
    case dwarf::kRvalueReferenceType: return type_of(found.entry);
    default: return 0;
  }
}

std::string SourceTypes::name(uint64_t type, int depth) const {
  const Found found = find(type);
  if (!found.entry || depth == kMaxDepth) return "void";
  const uint64_t inner = type_of(found.entry);
  std::string own(found.entry.name);
  switch (found.entry.tag) {
    case dwarf::kConstType: return "const " + name(inner, depth + 1);
    case dwarf::kVolatileType:
    case dwarf::kRestrictType:
    case dwarf::kAtomicType: return name(inner, depth + 1);
    case dwarf::kPointerType: return name(inner, depth + 1) + "*";
    case dwarf::kReferenceType:
    case dwarf::kRvalueReferenceType: return name(inner, depth + 1) + "&";
    case dwarf::kArrayType: {
      std::string text = name(inner, depth + 1);
      dimensions(found, [&](uint64_t elements) { text += "[" + (elements ? std::to_string(elements) : "") + "]"; });
      return text;
    }
    case dwarf::kStructureType: return "struct " + own;
    case dwarf::kEnumerationType: return "enum " + own;
    default: return own;
  }
}

}  // namespace tern::check
