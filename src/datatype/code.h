// The code of a datatype: a short text of bytes from which another rank makes a datatype with the same layout, for
// one-sided operations (the target has never seen the origin's datatype). It holds the bounds, the nest of loops
// (layout.h) and the basic type, if there is one; not the constructor calls.
//
// The decoder trusts nothing: sizes, strides and offsets are bounded, so that no sum of them overflows, the memory it
// takes is proportional to the code, and the true bounds are worked out from the layout, not believed.
// Thread rule: as Datatype.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "base/error.h"
#include "datatype/datatype.h"

namespace tern::datatype_code {

std::vector<std::byte> encode(const Datatype& type);
/// A committed datatype. Error (MPI_ERR_TYPE): the bytes are no code.
Error decode(std::span<const std::byte> code, Ref<Datatype>& made);

}  // namespace tern::datatype_code
