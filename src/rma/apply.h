// Apply: what operations do to the memory of a window; the only code that changes it. (Data that a path writes straight
// into a window are those of a put, at a place that MemoryMap::locate has found.) Used by the origin, for memory that
// it maps, and by the target, for what comes as records.
//
// Accumulates of several ranks exclude each other by a word of the target's Control (AccumulateGuard), so that every
// type and operator is atomic, and long ones run at the speed of the plain loops. Exception: words that an adapter
// changes, too, are changed by the processor's atomics (`word`).
//
// Source: MPI 5.0, 12.3 and 12.7.1. Thread rule: under the rank's lock.
#pragma once

#include <atomic>
#include <cstring>

#include "fabric/remote_memory.h"
#include "rma/environment.h"
#include "rma/memory_map.h"
#include "rma/operation.h"

namespace tern::rma {

class Apply {
 public:
  Apply(Environment& environment, const MemoryMap& memory)
      : environment_(environment), memory_(memory), part_(memory.part()) {}

  // --- The commonest forms, which are all in one piece. `place`: of the guard, as MemoryMap::place_of.

  /// A put or a get of bytes that lie together.
  static void copy_bytes(void* to, const void* from, size_t bytes) {
    if (bytes == 8) std::memcpy(to, from, 8);  // one instruction instead of a call
    else std::memcpy(to, from, bytes);
  }
  static bool is_sum_or_exchange(OpId op) { return op == OpId::sum || op == OpId::replace || op == OpId::no_op; }
  /// A sum, an exchange, or nothing, of one integer of 4 or 8 bytes. `result`: null, or where the value before goes,
  /// which may be where the operand is.
  void integer(int place, std::byte* there, size_t bytes, OpId op, const void* operand, void* result) const {
    const AccumulateGuard alone(part_, place, memory_.place());
    if (bytes == 8) change<uint64_t>(there, op, operand, result);
    else change<uint32_t>(there, op, operand, result);
  }
  /// `operands`: the new value, and the one to compare. `result` may be where they are.
  void integer_compare_and_swap(int place, std::byte* there, size_t bytes, const std::byte* operands,
                                void* result) const {
    const AccumulateGuard alone(part_, place, memory_.place());
    if (bytes == 8) exchange_if_equal<uint64_t>(there, operands, result);
    else exchange_if_equal<uint32_t>(there, operands, result);
  }
  /// An accumulate by the operator's plain loop over elements of a predefined type that lie together, aligned for it.
  void loop(int place, OpId op, const void* from, std::byte* there, Count count, const Kind& kind) const {
    const AccumulateGuard alone(part_, place, memory_.place());
    environment_.op(op).apply_basic(from, there, count, kind);
  }
  /// One word that adapters change, too, by an atomic of the processor; returns the value before.
  static uint64_t word(std::byte* there, AtomicOperation::Kind kind, uint64_t operand, uint64_t compare);

  // --- All forms. `bytes`: of the packed stream.

  /// A put: `from` goes to `there`; a get: the other way round.
  static void copy(Cursor from, Cursor to, size_t bytes);
  void accumulate(int place, OpId op, const Cursor& from, const Cursor& there, size_t bytes, const Kind* kind) const {
    const AccumulateGuard alone(part_, place, memory_.place());
    combine(op, from, there, bytes, kind);
  }
  /// `fetch` is called first, with nobody else at the memory: it takes the value before.
  template <typename Fetch>
  void get_accumulate(int place, OpId op, const Cursor& from, const Cursor& there, size_t bytes, const Kind* kind,
                      Fetch&& fetch) const {
    const AccumulateGuard alone(part_, place, memory_.place());
    fetch();
    combine(op, from, there, bytes, kind);
  }
  /// Of one element of at most kMaxComparedBytes; `brought` and `compared`: its bytes.
  static constexpr size_t kMaxComparedBytes = 32;
  template <typename Fetch>
  void compare_and_swap(int place, const Cursor& there, size_t bytes, const void* brought, const void* compared,
                        Fetch&& fetch) const {
    const AccumulateGuard alone(part_, place, memory_.place());
    fetch();
    swap_if_equal(there, bytes, brought, compared);
  }

 private:
  template <typename Word>
  static void change(std::byte* there, OpId op, const void* operand, void* result) {
    Word now, brought = 0;
    std::memcpy(&now, there, sizeof now);
    if (op != OpId::no_op) std::memcpy(&brought, operand, sizeof brought);
    if (op == OpId::sum) brought += now;
    if (op != OpId::no_op) std::memcpy(there, &brought, sizeof brought);
    if (result) std::memcpy(result, &now, sizeof now);
  }
  template <typename Word>
  static void exchange_if_equal(std::byte* there, const std::byte* operands, void* result) {
    Word brought, wanted, now;
    std::memcpy(&brought, operands, sizeof brought);
    std::memcpy(&wanted, operands + sizeof brought, sizeof wanted);
    std::memcpy(&now, there, sizeof now);
    if (now == wanted) std::memcpy(there, &brought, sizeof brought);
    std::memcpy(result, &now, sizeof now);
  }
  void combine(OpId op, const Cursor& from, const Cursor& there, size_t bytes, const Kind* kind) const;
  static void swap_if_equal(Cursor there, size_t bytes, const void* brought, const void* compared);

  Environment& environment_;
  const MemoryMap& memory_;
  const SharedPart& part_;
};

}  // namespace tern::rma
