// From the arguments of a collective call to the operands of src/coll/, and the checks that generated code
// cannot make:
// buffers that are the same memory, operations that do not exist on intercommunicators or need a topology.
// Source: MPI 5.0 chapter 6, sections 8.6 to 8.8. Thread rule: under the rank's lock.
#pragma once

#include <vector>

#include "capi/call.h"
#include "coll/collectives.h"

namespace tern::capi {

/// The operands of one call, and the arrays of datatypes that they point into.
struct CallOperands : Operands {
  std::vector<const Datatype*> send_types, receive_types;
};

inline CountArray counts_of(const IntArray& array) {
  return array.wide() ? CountArray(static_cast<const int64_t*>(array.data()))
                      : CountArray(static_cast<const int32_t*>(array.data()));
}
inline std::byte* bytes_of(const void* buffer) { return const_cast<std::byte*>(static_cast<const std::byte*>(buffer)); }
inline Side uniform(const void* buffer, Count count, const Datatype* type) {
  Side side;
  side.buffer = bytes_of(buffer);
  side.count = count;
  side.type = type;
  return side;
}
inline Side vector(const void* buffer, const IntArray& counts, const IntArray& displs, const Datatype* type) {
  Side side = uniform(buffer, 0, type);
  side.shape = Side::Shape::vector;
  side.counts = counts_of(counts);
  side.displs = counts_of(displs);
  return side;
}
inline Side general(const void* buffer, const IntArray& counts, const IntArray& displs,
                    const std::vector<const Datatype*>& types) {
  Side side = vector(buffer, counts, displs, nullptr);
  side.shape = Side::Shape::general;
  side.types = types.data();
  return side;
}
inline std::vector<const Datatype*> types_of(const TypeArray& array, int n) {
  std::vector<const Datatype*> types(static_cast<size_t>(n));
  for (size_t i = 0; i < types.size(); ++i) types[i] = &array[i];
  return types;
}

/// The same address for what is read and what is written. Absolute addresses (MPI_BOTTOM) cannot be compared
/// so.
inline bool same_memory(const void* a, const void* b) { return a == b && a != nullptr; }
[[gnu::cold]] Error aliased(const char* read, const char* written);
[[gnu::cold]] Error not_on_intercommunicator();
[[gnu::cold]] Error no_topology();

// The three forms of a collective; generated entry points choose.
inline Error run(Communicator& comm, Operation operation, const Operands& operands) {
  Request* none = nullptr;
  return collective(comm, operation, operands, Mode::blocking, none);
}
inline Error begin(Communicator& comm, Operation operation, const Operands& operands, Request*& request) {
  return collective(comm, operation, operands, Mode::nonblocking, request);
}
inline Error prepare(Communicator& comm, Operation operation, const Operands& operands, Request*& request) {
  return collective(comm, operation, operands, Mode::persistent, request);
}

}  // namespace tern::capi
