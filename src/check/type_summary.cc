#include "check/type_summary.h"

#include <algorithm>

namespace tern::check {
namespace {

constexpr uint64_t kPrime = (uint64_t{1} << 61) - 1;  // a Mersenne prime: the chance of a collision is below 2^-50
constexpr uint64_t kBase = 0x0a1b2c3d4e5f6071;        // any number below it

__extension__ typedef unsigned __int128 Wide;

uint64_t multiplied(uint64_t a, uint64_t b) {
  const Wide product = Wide{a} * b;
  const uint64_t sum = uint64_t(product & kPrime) + uint64_t(product >> 61);
  return sum >= kPrime ? sum - kPrime : sum;
}

uint64_t added(uint64_t a, uint64_t b) {
  const uint64_t sum = a + b;
  return sum >= kPrime ? sum - kPrime : sum;
}

/// A sequence of elements e1 .. en: e1 * base^(n-1) + ... + en.
struct Sequence {
  uint64_t elements = 0;
  uint64_t power = 1;  ///< base^n
  uint64_t hash = 0;

  Sequence then(const Sequence& next) const {
    return {elements + next.elements, multiplied(power, next.power), added(multiplied(hash, next.power), next.hash)};
  }
  Sequence repeated(uint64_t times) const {
    Sequence result, square = *this;
    for (; times != 0; times >>= 1, square = square.then(square)) {
      if (times & 1) result = result.then(square);
    }
    return result;
  }
};

Sequence element(int id) { return {1, kBase, uint64_t(id) * 0x9e3779b97f4a7c15u % kPrime}; }

// A value with its index is two elements (MPI 5.0, 6.9.4).
Sequence of_kind(const Kind& kind) {
  return kind.type_class == TypeClass::pair ? element(kind.value_id).then(element(kind.index_id)) : element(kind.id);
}

Sequence whole(const SignatureNode& node) {
  if (node.form == SignatureNode::Form::basic) return of_kind(node.kind).repeated(uint64_t(node.count));
  Sequence one;
  for (const Signature& part : node.parts) one = one.then(whole(*part));
  return one.repeated(node.form == SignatureNode::Form::repeat ? uint64_t(node.count) : 1);
}

// The first n elements; at most all.
Sequence first(const SignatureNode& node, uint64_t n) {
  if (n == 0) return {};
  if (n >= uint64_t(node.elements)) return whole(node);
  Sequence result;
  if (node.form == SignatureNode::Form::sequence) {
    for (const Signature& part : node.parts) {
      const uint64_t here = std::min(n, uint64_t(part->elements));
      result = result.then(first(*part, here));
      n -= here;
    }
    return result;
  }
  const uint64_t each = uint64_t(node.elements) / uint64_t(node.count);
  if (node.form == SignatureNode::Form::repeat) {
    return whole(*node.parts[0]).repeated(n / each).then(first(*node.parts[0], n % each));
  }
  result = of_kind(node.kind).repeated(n / each);
  return n % each == 0 ? result : result.then(element(node.kind.value_id));
}

bool has_packed(const SignatureNode& node) {
  if (node.form == SignatureNode::Form::basic) return node.kind.id == type_id::kPacked;
  for (const Signature& part : node.parts) {
    if (has_packed(*part)) return true;
  }
  return false;
}

}  // namespace

wire::TypeSummary summary_of(Count count, const Datatype& type) {
  const SignatureNode* node = type.signature().get();
  if (!node || count <= 0) return {};
  const Sequence all = whole(*node).repeated(uint64_t(count));
  const Kind* basic = type.basic_kind();
  return {.elements = all.elements,
          .hash = all.hash,
          .bytes = uint64_t(count) * uint64_t(type.size()),
          .basic = basic ? basic->id : 0,
          .flags = has_packed(*node) ? wire::TypeSummary::kPacked : 0};
}

bool same(const wire::TypeSummary& a, const wire::TypeSummary& b) {
  if ((a.flags | b.flags) & wire::TypeSummary::kPacked) return true;
  return a.elements == b.elements && a.hash == b.hash;
}

bool may_receive(const wire::TypeSummary& sent, Count count, const Datatype& type) {
  const SignatureNode* node = type.signature().get();
  if (sent.elements == 0 || !node || count <= 0 || sent.flags & wire::TypeSummary::kPacked || has_packed(*node))
    return true;
  const uint64_t each = uint64_t(node->elements);
  if (sent.bytes > uint64_t(count) * uint64_t(type.size())) return true;  // truncated
  const uint64_t copies = sent.elements / each;
  return whole(*node).repeated(copies).then(first(*node, sent.elements % each)).hash == sent.hash;
}

std::string words(const wire::TypeSummary& summary) {
  if (summary.elements == 0) return "nothing";
  if (const Kind* kind = kind_of(summary.basic)) {
    const uint64_t count = kind->type_class == TypeClass::pair ? summary.elements / 2 : summary.elements;
    return std::to_string(count) + " x " + kind->name;
  }
  return std::to_string(summary.elements) + " elements of several datatypes (" + std::to_string(summary.bytes) +
         " bytes)";
}

}  // namespace tern::check
