// One-sided operations (MPI 5.0, 12.3): each is one rma::Operation, begun on its window.
#include "capi/promises.h"
#include "impl.gen.h"
#include "rma/window.h"

namespace tern::capi {

namespace {

using Action = wire::WindowAction;
using rma::Operation;

Operation accumulate(const void* origin, Count count, Datatype& type, int target, Aint displacement, Count target_count,
                     Datatype& target_type, Op& op) {
  Operation o = Operation::put(origin, count, type, target, displacement, target_count, target_type);
  o.action = Action::accumulate;
  o.op = op.id();
  return o;
}

Operation get_accumulate(const void* origin, Count count, Datatype* type, void* result, Count result_count,
                         Datatype& result_type, int target, Aint displacement, Count target_count,
                         Datatype& target_type, Op& op) {
  Operation o = accumulate(origin, count, target_type, target, displacement, target_count, target_type, op);
  o.origin_type = type;
  o.action = Action::get_accumulate;
  o.result = result, o.result_count = result_count, o.result_type = &result_type;
  return o;
}

Error run(Call& call, Window& win, const Operation& operation) {
  if (call.checks()) [[unlikely]]
    check_accumulate_promise(call, win, operation);
  return win.window->begin(operation, nullptr);
}
Error begin(Call& call, Window& win, const Operation& operation, Request*& request) {
  if (call.checks()) [[unlikely]]
    check_accumulate_promise(call, win, operation);
  return win.window->begin(operation, &request);
}

/// Fetching operations take one element of a predefined type.
Error one_element(const Datatype& type) {
  if (type.kind()) return {};
  return Error(ErrorClass::type,
               "argument 'datatype' is a derived datatype. MPI_Fetch_and_op and "
               "MPI_Compare_and_swap take predefined ones (MPI 5.0, 12.3.4).");
}

}  // namespace

namespace body {

Error Put(Call& call, const void* origin_addr, Count origin_count, Datatype& origin_datatype, int target_rank,
          Aint target_disp, Count target_count, Datatype& target_datatype, Window& win) {
  return run(call, win,
             Operation::put(origin_addr, origin_count, origin_datatype, target_rank, target_disp, target_count,
                            target_datatype));
}
Error Rput(Call& call, const void* origin_addr, Count origin_count, Datatype& origin_datatype, int target_rank,
           Aint target_disp, Count target_count, Datatype& target_datatype, Window& win, Request*& request) {
  return begin(call, win,
               Operation::put(origin_addr, origin_count, origin_datatype, target_rank, target_disp, target_count,
                              target_datatype),
               request);
}

Error Get(Call& call, void* origin_addr, Count origin_count, Datatype& origin_datatype, int target_rank,
          Aint target_disp, Count target_count, Datatype& target_datatype, Window& win) {
  return run(call, win,
             Operation::get(origin_addr, origin_count, origin_datatype, target_rank, target_disp, target_count,
                            target_datatype));
}
Error Rget(Call& call, void* origin_addr, Count origin_count, Datatype& origin_datatype, int target_rank,
           Aint target_disp, Count target_count, Datatype& target_datatype, Window& win, Request*& request) {
  return begin(call, win,
               Operation::get(origin_addr, origin_count, origin_datatype, target_rank, target_disp, target_count,
                              target_datatype),
               request);
}

Error Accumulate(Call& call, const void* origin_addr, Count origin_count, Datatype& origin_datatype, int target_rank,
                 Aint target_disp, Count target_count, Datatype& target_datatype, Op& op, Window& win) {
  return run(call, win,
             accumulate(origin_addr, origin_count, origin_datatype, target_rank, target_disp, target_count,
                        target_datatype, op));
}
Error Raccumulate(Call& call, const void* origin_addr, Count origin_count, Datatype& origin_datatype, int target_rank,
                  Aint target_disp, Count target_count, Datatype& target_datatype, Op& op, Window& win,
                  Request*& request) {
  return begin(call, win,
               accumulate(origin_addr, origin_count, origin_datatype, target_rank, target_disp, target_count,
                          target_datatype, op),
               request);
}

Error Get_accumulate(Call& call, const void* origin_addr, Count origin_count, Datatype* origin_datatype,
                     void* result_addr, Count result_count, Datatype& result_datatype, int target_rank,
                     Aint target_disp, Count target_count, Datatype& target_datatype, Op& op, Window& win) {
  return run(call, win,
             get_accumulate(origin_addr, origin_count, origin_datatype, result_addr, result_count, result_datatype,
                            target_rank, target_disp, target_count, target_datatype, op));
}
Error Rget_accumulate(Call& call, const void* origin_addr, Count origin_count, Datatype* origin_datatype,
                      void* result_addr, Count result_count, Datatype& result_datatype, int target_rank,
                      Aint target_disp, Count target_count, Datatype& target_datatype, Op& op, Window& win,
                      Request*& request) {
  return begin(call, win,
               get_accumulate(origin_addr, origin_count, origin_datatype, result_addr, result_count, result_datatype,
                              target_rank, target_disp, target_count, target_datatype, op),
               request);
}

Error Fetch_and_op(Call& call, const void* origin_addr, void* result_addr, Datatype& datatype, int target_rank,
                   Aint target_disp, Op& op, Window& win) {
  if (Error error = one_element(datatype)) return error;
  return run(
      call, win,
      get_accumulate(origin_addr, 1, &datatype, result_addr, 1, datatype, target_rank, target_disp, 1, datatype, op));
}

Error Compare_and_swap(Call& call, const void* origin_addr, const void* compare_addr, void* result_addr,
                       Datatype& datatype, int target_rank, Aint target_disp, Window& win) {
  if (Error error = one_element(datatype)) return error;
  Operation o = Operation::put(origin_addr, 1, datatype, target_rank, target_disp, 1, datatype);
  o.action = Action::compare_and_swap;
  o.compare = compare_addr;
  o.result = result_addr, o.result_count = 1, o.result_type = &datatype;
  return run(call, win, o);
}

}  // namespace body
}  // namespace tern::capi
