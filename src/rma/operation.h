// Operation: one call of MPI_Put and its kin (MPI 5.0, 12.3), and the numbers of the ABI that the calls about windows
// take. Thread rule: values.
#pragma once

#include <cstddef>
#include <cstdint>

#include "datatype/op.h"
#include "wire/window.h"

namespace tern::rma {

/// By the ABI's numbers.
enum class Flavor : int { create = 311, allocate = 312, dynamic = 313, shared = 314 };
namespace assertion {
inline constexpr int kNoCheck = 1024, kNoPrecede = 2048, kNoPut = 4096, kNoStore = 8192, kNoSucceed = 16384;
}
inline constexpr int kLockExclusive = 301, kLockShared = 302;

/// Data of an operation, or its result, that are not longer lie in its record. Longer ones are messages of their own,
/// between the user's memory and the window, without a copy.
inline constexpr size_t kMaxInsideBytes = 4096;

/// Of the elements' packed form; 0 for a null type.
size_t bytes_of(Count count, const Datatype* type);

/// The bytes that `count` elements of a datatype touch, from the address given. False: the numbers are too large.
bool touched(const Datatype& type, Count count, int64_t& low, int64_t& high);

struct Operation {
  wire::WindowAction action;
  OpId op = OpId::replace;  ///< of accumulates
  const void* origin = nullptr;
  Count origin_count = 0;
  Datatype* origin_type = nullptr;
  const void* compare = nullptr;
  void* result = nullptr;  ///< also where MPI_Get puts its data
  Count result_count = 0;
  Datatype* result_type = nullptr;
  int target = 0;
  Aint displacement = 0;
  Count target_count = 0;
  Datatype* target_type = nullptr;

  static Operation put(const void* origin, Count count, Datatype& type, int target, Aint displacement,
                       Count target_count, Datatype& target_type) {
    Operation o{wire::WindowAction::put};
    o.origin = origin, o.origin_count = count, o.origin_type = &type;
    o.target = target, o.displacement = displacement, o.target_count = target_count, o.target_type = &target_type;
    return o;
  }
  static Operation get(void* result, Count count, Datatype& type, int target, Aint displacement, Count target_count,
                       Datatype& target_type) {
    Operation o{wire::WindowAction::get};
    o.result = result, o.result_count = count, o.result_type = &type;
    o.target = target, o.displacement = displacement, o.target_count = target_count, o.target_type = &target_type;
    return o;
  }

  bool is_put() const { return action == wire::WindowAction::put; }
  bool is_get() const { return action == wire::WindowAction::get; }
  /// A result comes back.
  bool fetches() const { return !is_put() && action != wire::WindowAction::accumulate; }
  /// Data of the origin go to the target.
  bool brings() const { return !is_get() && op != OpId::no_op; }
  /// Of the target's elements that it works on.
  size_t worked_bytes() const {
    return is_get() || op == OpId::no_op ? bytes_of(target_count, target_type) : bytes_of(origin_count, origin_type);
  }
};

}  // namespace tern::rma
