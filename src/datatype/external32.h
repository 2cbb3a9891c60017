// The "external32" data representation (MPI 5.0, 14.5.2): big-endian, IEEE, byte-aligned, fixed lengths.
// Sizes in bytes. Thread rule: pure functions of their arguments.
#pragma once

#include <cstddef>

#include "base/error.h"
#include "datatype/datatype.h"

namespace tern::external32 {

/// Bytes of `count` elements in "external32".
Count packed_size(Count count, const Datatype& type);
/// Converts `count` elements at `in` to `out`, which has room for `room` bytes; `used` are written.
/// Error: no room (MPI_ERR_TRUNCATE).
Error pack(const void* in, Count count, const Datatype& type, std::byte* out, size_t room, size_t& used);
/// The way back; `available` bytes may be read, `used` are. Error: too few (MPI_ERR_TRUNCATE).
Error unpack(const std::byte* in, size_t available, void* out, Count count, const Datatype& type, size_t& used);
/// Unpacks the first `items` values only (a value-index pair is one); there are no more than the elements have.
void unpack_items(const std::byte* in, Count items, void* out, Count count, const Datatype& type);

}  // namespace tern::external32
