#include "datatype/signature.h"

#include <algorithm>

#include "base/assert.h"

namespace tern::signature {
namespace {

int64_t elements_of(const Kind& kind) { return kind.type_class == TypeClass::pair ? 2 : 1; }

Signature basics(const Kind& kind, int64_t count) {
  auto node = std::make_shared<SignatureNode>();
  node->kind = kind;
  node->count = count;
  node->bytes = kind.size * count;
  node->external_bytes = kind.external_size * count;
  node->elements = elements_of(kind) * count;
  return node;
}

bool same_basic(const Signature& a, const Signature& b) {
  return a->form == SignatureNode::Form::basic && b->form == SignatureNode::Form::basic && a->kind == b->kind;
}

// Basic elements in the first `bytes` of one node; bytes < node.bytes.
Count elements_in_part(const SignatureNode& node, Count bytes) {
  if (bytes == 0) return 0;
  switch (node.form) {
    case SignatureNode::Form::basic: {
      Count elements = bytes / node.kind.size * elements_of(node.kind);
      Count rest = bytes % node.kind.size;
      if (rest == 0) return elements;
      bool after_value = node.kind.type_class == TypeClass::pair && rest == Count(rep_size(node.kind.rep));
      return after_value ? elements + 1 : kUndefined;
    }
    case SignatureNode::Form::repeat: {
      const SignatureNode& part = *node.parts[0];
      Count rest = elements_in_part(part, bytes % part.bytes);
      return rest == kUndefined ? kUndefined : bytes / part.bytes * part.elements + rest;
    }
    case SignatureNode::Form::sequence: break;
  }
  Count elements = 0;
  for (const Signature& part : node.parts) {
    if (bytes < part->bytes) {
      Count rest = elements_in_part(*part, bytes);
      return rest == kUndefined ? kUndefined : elements + rest;
    }
    bytes -= part->bytes;
    elements += part->elements;
  }
  return elements;
}

// Bytes of the first `elements` basic elements of one node; elements < node.elements.
Count bytes_in_part(const SignatureNode& node, Count elements) {
  if (elements == 0) return 0;
  switch (node.form) {
    case SignatureNode::Form::basic: {
      Count each = elements_of(node.kind);
      return elements / each * node.kind.size + (elements % each ? Count(rep_size(node.kind.rep)) : 0);
    }
    case SignatureNode::Form::repeat: {
      const SignatureNode& part = *node.parts[0];
      return elements / part.elements * part.bytes + bytes_in_part(part, elements % part.elements);
    }
    case SignatureNode::Form::sequence: break;
  }
  Count bytes = 0;
  for (const Signature& part : node.parts) {
    if (elements < part->elements) return bytes + bytes_in_part(*part, elements);
    elements -= part->elements;
    bytes += part->bytes;
  }
  return bytes;
}

}  // namespace

Signature basic(const Kind& kind) { return basics(kind, 1); }

Signature repeat(int64_t count, const Signature& part) {
  if (count == 0 || !part) return nullptr;
  if (count == 1) return part;
  if (part->form == SignatureNode::Form::basic) return basics(part->kind, part->count * count);
  auto node = std::make_shared<SignatureNode>();
  node->form = SignatureNode::Form::repeat;
  bool nested = part->form == SignatureNode::Form::repeat;
  node->count = nested ? count * part->count : count;
  node->parts.push_back(nested ? part->parts[0] : part);
  node->bytes = part->bytes * count;
  node->external_bytes = part->external_bytes * count;
  node->elements = part->elements * count;
  return node;
}

Signature sequence(std::vector<Signature> parts) {
  std::vector<Signature> joined;
  joined.reserve(parts.size());
  for (Signature& part : parts) {
    if (!part) continue;
    if (!joined.empty() && same_basic(joined.back(), part))
      joined.back() = basics(part->kind, joined.back()->count + part->count);
    else joined.push_back(std::move(part));
  }
  if (joined.empty()) return nullptr;
  if (joined.size() == 1) return joined[0];
  auto node = std::make_shared<SignatureNode>();
  node->form = SignatureNode::Form::sequence;
  for (const Signature& part : joined) {
    node->bytes += part->bytes;
    node->external_bytes += part->external_bytes;
    node->elements += part->elements;
  }
  node->parts = std::move(joined);
  return node;
}

Count elements_in(const Signature& signature, Count bytes) {
  if (!signature) return bytes == 0 ? 0 : kUndefined;
  Count rest = elements_in_part(*signature, bytes % signature->bytes);
  return rest == kUndefined ? kUndefined : bytes / signature->bytes * signature->elements + rest;
}

Count bytes_of(const Signature& signature, Count elements) {
  if (!signature) return 0;
  return elements / signature->elements * signature->bytes + bytes_in_part(*signature, elements % signature->elements);
}

}  // namespace tern::signature
