// The type signature of a datatype: the sequence of predefined types without displacements (MPI 5.0, 5.1),
// kept as repeats and sequences, so that 10^9 doubles are one node. From it come MPI_Get_elements,
// "external32" and the one basic type of a homogeneous datatype. Thread rule: immutable once built, freely
// shared.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "datatype/kind.h"

namespace tern {

struct SignatureNode;
using Signature = std::shared_ptr<const SignatureNode>;  ///< null: no elements

struct SignatureNode {
  enum class Form : uint8_t { basic, repeat, sequence };
  Form form = Form::basic;
  Kind kind;                     ///< basic; `count` of them in a row
  int64_t count = 1;             ///< basic: repetitions; repeat: of the one part
  int64_t bytes = 0;             ///< in native packed form
  int64_t external_bytes = 0;    ///< in "external32"
  int64_t elements = 0;          ///< basic elements; a value-index pair has two
  std::vector<Signature> parts;  ///< repeat: one; sequence: two or more
};

namespace signature {
Signature basic(const Kind& kind);
Signature repeat(int64_t count, const Signature& part);
Signature sequence(std::vector<Signature> parts);
/// Basic elements in the first `bytes` packed bytes of repeated copies of `signature`; kUndefined when the
/// cut falls inside an element.
Count elements_in(const Signature& signature, Count bytes);
/// Packed bytes of the first `elements` basic elements of repeated copies of `signature` (for
/// MPI_Status_set_elements).
Count bytes_of(const Signature& signature, Count elements);

/// Calls fn(kind, n) for each run of equal basic types in order; stops early when fn returns false.
template <typename Fn>
bool for_each_run(const SignatureNode& node, Fn&& fn) {
  if (node.form == SignatureNode::Form::basic) return fn(node.kind, node.count);
  if (node.form == SignatureNode::Form::repeat) {
    for (int64_t i = 0; i < node.count; ++i)
      if (!for_each_run(*node.parts[0], fn)) return false;
    return true;
  }
  for (const Signature& part : node.parts)
    if (!for_each_run(*part, fn)) return false;
  return true;
}
}  // namespace signature

}  // namespace tern
