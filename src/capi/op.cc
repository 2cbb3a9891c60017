// Reduction operators of the C API: the user's functions are called with the handles they expect.
// Source: MPI 5.0 sections 6.9.5 to 6.9.7. Thread rule: bodies, under the rank's lock, which user functions
// may retake.
#include "datatype/op.h"

#include <algorithm>
#include <climits>

#include "capi/checks.h"
#include "capi/coll_operands.h"
#include "impl.gen.h"

namespace tern::capi::body {
namespace {

// Wraps a user's function, of either width. Counts beyond its width arrive in several calls.
template <typename Length, typename Function>
Op* wrap(World& world, Function* function, bool commute) {
  auto call_user = [&world, function](const void* in, void* inout, Count n, const Datatype& type) {
    LentType lent(world, const_cast<Datatype&>(type));
    // The longest count that the user's function takes.
    constexpr Count kMax = sizeof(Length) == sizeof(Count) ? INT64_MAX : INT_MAX;
    auto* from = static_cast<std::byte*>(const_cast<void*>(in));
    auto* to = static_cast<std::byte*>(inout);
    while (n > 0) {
      Count some = std::min(n, kMax);
      Length length = Length(some);
      MPI_Datatype handle = lent.handle;
      function(from, to, &length, &handle);
      from += some * type.extent();
      to += some * type.extent();
      n -= some;
    }
  };
  return new Op(call_user, commute);
}

}  // namespace

Error Op_create(Call& call, MPI_User_function* user_fn, bool commute, Op*& op) {
  if (!user_fn) return Error(ErrorClass::arg, "argument 'user_fn' is a null pointer");
  op = wrap<int>(call.world(), user_fn, commute);
  return {};
}

Error Op_create_c(Call& call, MPI_User_function_c* user_fn, bool commute, Op*& op) {
  if (!user_fn) return Error(ErrorClass::arg, "argument 'user_fn' is a null pointer");
  op = wrap<MPI_Count>(call.world(), user_fn, commute);
  return {};
}

Error Op_free(Call& call, Op*& op) {
  if (op->is_predefined()) return Error(ErrorClass::op, std::string(op->name()) + " is predefined and cannot be freed");
  Ref<Op>::adopt(op).reset();
  op = nullptr;
  return {};
}

Error Op_commutative(Call& call, Op& op, bool& commute) {
  commute = op.commutative();
  return {};
}

Error Reduce_local(Call& call, const void* inbuf, void* inoutbuf, Count count, Datatype& datatype, Op& op) {
  if (call.checking() && count != 0 && same_memory(inbuf, inoutbuf)) return aliased("inbuf", "inoutbuf");
  if (Checks* checks = call.checks()) [[unlikely]]
    checks->reduction(op, datatype);
  op.apply(inbuf, inoutbuf, count, datatype);
  return {};
}

}  // namespace tern::capi::body
