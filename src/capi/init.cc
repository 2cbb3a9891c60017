// The World Model: MPI_Init to MPI_Finalize, threads, MPI_Abort. Source: MPI 5.0 sections 11.2, 11.4, 11.6.
#include <cstdio>
#include <new>
#include <thread>

#include "capi/checks.h"
#include "capi/environment.h"
#include "capi/jobs.h"
#include "capi/leftovers.h"
#include "fmt/format.h"
#include "impl.gen.h"

namespace tern::capi {

namespace {

Error init(Call& call, int required, int* argc, char*** argv) {
  World& world = call.world();
  if (world.models.stage == World::Stage::initialised) {
    return Error(ErrorClass::other, "called twice. MPI_Initialized tells whether MPI_Init was called.");
  }
  if (world.models.stage == World::Stage::finalized) {
    return Error(ErrorClass::other,
                 "called after MPI_Finalize. MPI_COMM_WORLD can be had once only; sessions "
                 "(MPI_Session_init) can "
                 "be had again.");
  }
  if (Error error = world.start(required)) return error;
  world.models.main_thread = std::this_thread::get_id();
  world.models.stage = World::Stage::initialised;
  Process& process = *world.process;
  world.handles.comms.set_predefined(value_of(MPI_COMM_WORLD), &process.world());
  world.handles.comms.set_predefined(value_of(MPI_COMM_SELF), &process.self());
  fill_environment(world.predefined.environment, argc ? *argc : 0, argv ? *argv : nullptr, &process);
  world.handles.infos.set_predefined(value_of(MPI_INFO_ENV), &world.predefined.environment);
  return meet_parents(call);
}

}  // namespace

namespace body {

Error Init(Call& call, int* argc, char*** argv) { return init(call, MPI_THREAD_SINGLE, argc, argv); }

Error Init_thread(Call& call, int* argc, char*** argv, int required, int& provided) {
  if (required < MPI_THREAD_SINGLE || required > MPI_THREAD_MULTIPLE) {
    return Error(ErrorClass::arg, fmt::format("argument 'required' is {}, which is no thread level. Pass "
                                              "MPI_THREAD_SINGLE, _FUNNELED, _SERIALIZED or _MULTIPLE.",
                                              required));
  }
  if (Error error = init(call, required, argc, argv)) return error;
  provided = call.world().models.thread_level;
  return {};
}

Error Initialized(Call& call, bool& flag) {
  flag = call.world().models.stage != World::Stage::before;
  return {};
}

Error Finalized(Call& call, bool& flag) {
  flag = call.world().models.stage == World::Stage::finalized;
  return {};
}

Error Finalize(Call& call) {
  World& world = call.world();
  if (world.forked && world.models.stage == World::Stage::initialised) {
    world.models.stage = World::Stage::finalized;
    world.running = 0;
    std::fprintf(
        stderr,
        "[tern rank %d] warning: MPI_Finalize is called by a process that the rank has forked, which is no rank: "
        "it does nothing there\n",
        world.rank());
    return {};
  }
  if (world.models.stage != World::Stage::initialised) {
    return Error(ErrorClass::other, world.models.stage == World::Stage::before ? "called without MPI_Init. Sessions "
                                                                                 "end with MPI_Session_finalize."
                                                                               : "called twice. MPI_Finalized tells "
                                                                                 "whether MPI_Finalize was called.");
  }
  Process& process = *world.process;
  // First of all, as if MPI_COMM_SELF were freed: its attributes go, last set first, while MPI still works
  // (11.2.4).
  if (Error error = process.self().attributes.clear(process.self())) return error;
  if (world.checks) {
    if (Error error = world.checks->finalize()) return error;
  } else {
    tell_of_requests(world);
  }
  if (world.buffers.rank.attached()) world.buffers.rank.flush(process.progress());
  for (auto& [comm, buffer] : world.buffers.comms) buffer->flush(process.progress());
  world.buffers.comms.clear();
  world.models.stage = World::Stage::finalized;
  world.handles.comms.set_predefined(value_of(MPI_COMM_WORLD), nullptr);
  world.handles.comms.set_predefined(value_of(MPI_COMM_SELF), nullptr);
  world.handles.infos.set_predefined(value_of(MPI_INFO_ENV), nullptr);
  return world.stop();
}

Error Query_thread(Call& call, int& provided) {
  provided = call.world().models.thread_level;
  return {};
}

Error Is_thread_main(Call& call, bool& flag) {
  flag = std::this_thread::get_id() == call.world().models.main_thread;
  return {};
}

// It does not return, even where there is no memory for its words.
Error Abort(Call& call, Communicator& comm, int errorcode) try {
  call.world().abort_job(
      errorcode, fmt::format("MPI_Abort: called with error code {} on {}. The job ends.", errorcode, describe(comm)));
} catch (const std::bad_alloc&) {
  call.world().abort_job(errorcode, "MPI_Abort");
}

}  // namespace body
}  // namespace tern::capi
