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
/// Whether the bytes of `a` blocks of one side and `b` of the other overlap; false also where it is not plain to see
/// (blocks of different lengths, datatypes with holes).
inline bool overlap(const Side& one, int a, const Side& other, int b) {
  const auto plain = [](const Side& side) {
    return side.shape == Side::Shape::uniform && side.type && side.type->is_contiguous() && side.buffer;
  };
  if (!plain(one) || !plain(other)) return false;
  const Aint one_bytes = one.stride() * a, other_bytes = other.stride() * b;
  if (one_bytes == 0 || other_bytes == 0) return false;
  return one.buffer < other.buffer + other_bytes && other.buffer < one.buffer + one_bytes;
}
[[gnu::cold]] Error overlapping(const char* read, const char* written);
/// What a rank sends to itself is not what it receives from itself.
[[gnu::cold]] Error own_block_differs(size_t sent, size_t received);
[[gnu::cold]] Error aliased(const char* read, const char* written);
[[gnu::cold]] Error not_on_intercommunicator();
[[gnu::cold]] Error no_topology();

/// TERN_CHECK: whether the other ranks call the same.
[[gnu::cold]] Error check_collective(Call& call, Communicator& comm, Operation operation, const Operands& operands,
                                     Mode mode);

/// A blocking collective in a program whose other threads may be in MPI, too.
[[gnu::cold]] Error run_among_threads(Call& call, Communicator& comm, Operation operation, const Operands& operands);

// The three forms of a collective; generated entry points choose.
inline Error run(Call& call, Communicator& comm, Operation operation, const Operands& operands) {
  if (call.checked()) [[unlikely]] {
    if (Error error = check_collective(call, comm, operation, operands, Mode::blocking)) return error;
  }
  if (call.world().thread_level == MPI_THREAD_MULTIPLE) [[unlikely]]
    return run_among_threads(call, comm, operation, operands);
  Request* none = nullptr;
  return collective(comm, operation, operands, Mode::blocking, none);
}
inline Error begin(Call& call, Communicator& comm, Operation operation, const Operands& operands, Request*& request) {
  if (call.checked()) [[unlikely]] {
    if (Error error = check_collective(call, comm, operation, operands, Mode::nonblocking)) return error;
  }
  return collective(comm, operation, operands, Mode::nonblocking, request);
}
inline Error prepare(Call& call, Communicator& comm, Operation operation, const Operands& operands, Request*& request) {
  if (call.checked()) [[unlikely]] {
    if (Error error = check_collective(call, comm, operation, operands, Mode::persistent)) return error;
  }
  return collective(comm, operation, operands, Mode::persistent, request);
}

}  // namespace tern::capi
