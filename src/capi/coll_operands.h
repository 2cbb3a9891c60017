// From the arguments of a collective call to the operands of src/coll/, and the checks that generated code
// cannot make: buffers that are the same memory, operations that do not exist on intercommunicators or need a topology.
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

/// Whether what is read and what is written have one address. Absolute addresses (MPI_BOTTOM) cannot be compared so.
inline bool same_memory(const void* a, const void* b) { return a == b && a != nullptr; }
/// Whether `a` blocks of one side and `b` of the other may overlap; false: surely not, as far as can be seen. Types are
/// not null.
inline bool may_overlap(const Side& one, int a, const Side& other, int b) {
  return one.buffer == other.buffer ||
         (one.buffer < other.buffer + other.stride() * b && other.buffer < one.buffer + one.stride() * a);
}
/// Whether they do; false also where it is not plain to see (blocks of different lengths, datatypes with holes).
bool overlap(const Side& one, int a, const Side& other, int b);
[[gnu::cold]] Error overlapping(const char* read, const char* written);
[[gnu::cold]] Error aliased(const char* read, const char* written);
[[gnu::cold]] Error not_on_intercommunicator();
[[gnu::cold]] Error no_topology();

/// The buffers of an operation that sends `sends` blocks (1: the same block to all, or one) and receives `receives`
/// must be apart (MPI 5.0, 6.5: use MPI_IN_PLACE), and a rank must send to itself what it receives from itself. `rank`:
/// this one; -1: there is no such block (intercommunicators).
Error check_buffers(const Side& send, int sends, const Side& receive, int receives, int rank);
/// As check_buffers of one block each, with few instructions in the usual case.
inline Error check_sides(const Side& send, int sends, const Side& receive, int receives, int rank) {
  if (send.shape == Side::Shape::uniform && receive.shape == Side::Shape::uniform &&
      !may_overlap(send, sends, receive, receives) && send.bytes() == receive.bytes()) [[likely]]
    return {};
  return check_buffers(send, sends, receive, receives, rank);
}

/// TERN_CHECK: whether the other ranks call the same.
[[gnu::cold]] Error check_collective(Call& call, Communicator& comm, Operation operation, const Operands& operands,
                                     Mode mode);

/// A blocking collective in a program whose other threads may be in MPI, too.
[[gnu::cold]] Error run_among_threads(Call& call, Communicator& comm, Operation operation, const Operands& operands);

// The three forms of a collective; generated entry points choose.
inline Error run(Call& call, Communicator& comm, Operation operation, const Operands& operands) {
  if (call.checks()) [[unlikely]] {
    if (Error error = check_collective(call, comm, operation, operands, Mode::blocking)) return error;
  }
  if (call.world().models.thread_level == MPI_THREAD_MULTIPLE) [[unlikely]]
    return run_among_threads(call, comm, operation, operands);
  Request* none = nullptr;
  return collective(comm, operation, operands, Mode::blocking, none);
}
inline Error begin(Call& call, Communicator& comm, Operation operation, const Operands& operands, Request*& request) {
  if (call.checks()) [[unlikely]] {
    if (Error error = check_collective(call, comm, operation, operands, Mode::nonblocking)) return error;
  }
  return collective(comm, operation, operands, Mode::nonblocking, request);
}
inline Error prepare(Call& call, Communicator& comm, Operation operation, const Operands& operands, Request*& request) {
  if (call.checks()) [[unlikely]] {
    if (Error error = check_collective(call, comm, operation, operands, Mode::persistent)) return error;
  }
  return collective(comm, operation, operands, Mode::persistent, request);
}

}  // namespace tern::capi
