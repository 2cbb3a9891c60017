// The type signature of (count, datatype) as a few numbers that two ranks can compare (MPI 5.0, 3.3.1 and 5.1: the
// sequence of basic types, whatever the layout). The hash is a polynomial in the elements: sequences that are equal
// have equal hashes however they were built, and a long repetition costs its logarithm. Two basic types match if they
// are the same; MPI_PACKED matches all. Thread rule: pure functions.
#pragma once

#include <string>

#include "datatype/datatype.h"
#include "wire/check.h"

namespace tern::check {

wire::TypeSummary summary_of(Count count, const Datatype& type);
/// Whether the two signatures are equal. Nothing and nothing are.
bool same(const wire::TypeSummary& a, const wire::TypeSummary& b);
/// Whether a receive of (count, type) may take what was sent: it begins with the same elements. A message that is
/// longer than the receive is truncated, which is another error: true.
bool may_receive(const wire::TypeSummary& sent, Count count, const Datatype& type);
/// "10 x MPI_INT", "3 elements of several datatypes (24 bytes)", "nothing".
std::string words(const wire::TypeSummary& summary);

}  // namespace tern::check
