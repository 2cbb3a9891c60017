// Calls under the rank's lock that use what short calls use without it (without_lock.h): windows, and message engines
// (p2p/engines.h): what they visit, and requests whose handles are of an engine.
#include "capi/call.h"
#include "capi/requests.h"
#include "rma/window.h"

namespace tern::capi {

void Call::visit(Engine& engine, bool is_short) {
  if (!world_.threads) return;  // a child that the rank has forked
  if (!(state_ & kVisits)) engines_ = 0;
  state_ |= kVisits;
  const uint32_t bit = 1u << engine.number;
  if (engines_ & bit) return;
  engines_ |= bit;
  engine.begin_visit(is_short);
}

void Call::visit_all(const Communicator& comm) {
  comm.for_each_engine([&](Engine& engine) { visit(engine, false); });
}

void Call::enter_to_visit(MPI_Comm handle, int tag) {
  world_.lock->acquire();
  if (!world_.engines || !world_.engines->in_use()) return;
  Communicator* comm = world_.handles.comms.find(value_of(handle));
  if (comm && comm->has_engine()) visit(*comm->engine(tag), true);
}

void Call::end_visits() {
  Engines* engines = world_.process ? world_.process->engines() : nullptr;
  for (uint32_t i = 0; engines && i < engines->count(); ++i) {
    if (engines_ & 1u << i) (*engines)[i].end_visit();
  }
}

void Call::visit(Window& window) {
  if (!world_.engines) return;  // no short calls
  state_ |= kVisitsWindow;
  window.window->begin_visit();
}

void Call::end_window_visit() { window_->window->end_visit(!world_.observed); }

Request* Call::find_in_engine(MPI_Request handle) {
  Engine* engine = world_.engine_of(handle);
  if (!engine) return nullptr;
  visit(*engine, true);
  return world_.requests_of(*engine).find_user(value_of(handle));
}

Request* Call::take_from_engine(MPI_Request* handle) {
  Request* request = find_in_engine(*handle);
  if (!request || request->persistent()) return request;
  retire_in_engine(*handle);
  *handle = MPI_REQUEST_NULL;
  return request;
}

void Call::retire_in_engine(MPI_Request handle) {
  Engine* engine = world_.engine_of(handle);
  TERN_ASSERT(engine);
  world_.requests_of(*engine).retire(value_of(handle));
}

// Its handle tells which engine it is of, and the engine which communicator: no reference is counted, since short calls
// must not do that.
void Call::give_to_engine(Request& request, MPI_Request* handle) {
  for (uint32_t i = 0; i < world_.process->engines()->count(); ++i) {
    Engine& engine = (*world_.process->engines())[i];
    if (!(engines_ & 1u << i) || engine.p2p.context_of(request) == 0) continue;
    world_.handles.requests.retire(value_of(*handle));
    request.handle = 0;
    *handle = handle_of(world_.requests_of(engine), &request, MPI_REQUEST_NULL);
    if (!request.persistent()) forget_communicator(request);
    return;
  }
}

void Call::keep_from_short_calls(MPI_Request handle) {
  if (Engine* engine = world_.engine_of(handle)) engine->retire();
}

}  // namespace tern::capi
