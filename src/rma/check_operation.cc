#include "rma/check_operation.h"

#include <algorithm>

namespace tern::rma {

using wire::WindowAction;

namespace {

Error range_error(const WindowContext& context, const MemoryMap& memory, const Operation& operation,
                  const std::string& what) {
  const int rank = operation.target;
  return Error(ErrorClass::rma_range, context.describe() + ", target " + std::to_string(rank) + ", displacement " +
                                          std::to_string(operation.displacement) + " (units of " +
                                          std::to_string(memory.disp_unit_of(rank)) + " bytes), " +
                                          std::to_string(operation.target_count) + " elements: " + what +
                                          " (the target's size is " + std::to_string(memory.size_of(rank)) + " bytes)");
}

Error check_range(const WindowContext& context, const MemoryMap& memory, const Operation& operation) {
  if (operation.target_count == 0 || operation.target_type->size() == 0) return {};
  if (context.flavor == Flavor::dynamic) return {};  // the target knows what is attached
  if (operation.displacement < 0) {
    return Error(ErrorClass::disp,
                 "argument 'target_disp' is " + std::to_string(operation.displacement) + ". It cannot be negative.");
  }
  int64_t low = 0, high = 0, start = 0;
  const bool sane = touched(*operation.target_type, operation.target_count, low, high) &&
                    !__builtin_mul_overflow(operation.displacement, memory.disp_unit_of(operation.target), &start) &&
                    !__builtin_add_overflow(low, start, &low) && !__builtin_add_overflow(high, start, &high);
  if (!sane || low < 0 || high > memory.size_of(operation.target)) {
    return range_error(
        context, memory, operation,
        sane ? "bytes " + std::to_string(low) + " to " + std::to_string(high) + " are not inside the target's memory"
             : "the displacement is too large");
  }
  return {};
}

Error check_types(const WindowContext& context, const Operation& operation) {
  const size_t there = bytes_of(operation.target_count, operation.target_type);
  const auto too_much = [&](const char* what, size_t has, size_t wants) {
    return Error(ErrorClass::truncate, std::string(what) + " are " + std::to_string(wants) +
                                           " bytes, but there is room "
                                           "for " +
                                           std::to_string(has));
  };
  if (operation.action == WindowAction::put) {
    const size_t here = bytes_of(operation.origin_count, operation.origin_type);
    return here > there ? too_much("the origin's data", there, here) : Error();
  }
  if (operation.action == WindowAction::get) {
    const size_t here = bytes_of(operation.result_count, operation.result_type);
    return there > here ? too_much("the target's data", here, there) : Error();
  }
  if (operation.action == WindowAction::compare_and_swap) {
    const Kind* kind = operation.target_type->kind();
    const TypeClass group = kind ? kind->type_class : TypeClass::pair;
    const bool allowed =
        kind && (group == TypeClass::c_integer || group == TypeClass::fortran_integer || group == TypeClass::logical ||
                 group == TypeClass::multi_language || group == TypeClass::byte || kind->id == type_id::kChar);
    if (allowed) return {};
    return Error(ErrorClass::type, "argument 'datatype' is " +
                                       (kind ? std::string(kind->name) : std::string("a derived datatype")) +
                                       ". MPI_Compare_and_swap takes integer, logical and byte types "
                                       "(MPI 5.0, 12.3.4).");
  }
  const Op& op = context.environment.op(operation.op);
  const auto& type = *operation.target_type;
  if (operation.op != OpId::no_op && !operation.origin_type)
    return Error(ErrorClass::type, "argument 'origin_datatype' is MPI_DATATYPE_NULL, which goes with MPI_NO_OP only");
  if (there == 0) {
    const size_t here = operation.op == OpId::no_op ? 0 : bytes_of(operation.origin_count, operation.origin_type);
    return here == 0 ? Error() : too_much("the origin's data", 0, here);
  }
  if (!op.valid_for_accumulate(type)) {
    const Kind* kind = type.basic_kind();
    return Error(ErrorClass::op,
                 std::string("argument 'op' is ") + op.name() + ", which is not defined for " +
                     (kind ? std::string(kind->name) : std::string("a datatype of several basic types")));
  }
  if (operation.op != OpId::no_op) {
    if (type.size() != 0 && !type.basic_kind())
      return Error(ErrorClass::type, "the target's datatype consists of several basic types. Accumulates take one.");
    const size_t here = bytes_of(operation.origin_count, operation.origin_type);
    if (here > there) return too_much("the origin's data", there, here);
    const Kind *mine = operation.origin_type->basic_kind(), *its = type.basic_kind();
    if (here != 0 && its && (!mine || !(*mine == *its)))
      return Error(ErrorClass::type, "the origin's datatype consists of " +
                                         (mine ? std::string(mine->name) : std::string("several basic types")) +
                                         ", the target's of " + its->name + ". For accumulates they must be the same.");
  }
  if (operation.action == WindowAction::get_accumulate) {
    const size_t here = bytes_of(operation.result_count, operation.result_type);
    if (there > here) return too_much("the target's data", here, there);
  }
  return {};
}

}  // namespace

Error check_operation(const WindowContext& context, const MemoryMap& memory, const Operation& operation) {
  if (Error error = context.check_rank(operation.target)) return error;
  if (Error error = check_types(context, operation)) return error;
  return check_range(context, memory, operation);
}

}  // namespace tern::rma
