// The rank that the C API acts for: one pointer. An ordinary process has one World; the simulator swaps
// the pointer when it switches fibers, so that many ranks run MPI programs in one operating-system process.
// Thread rule: changed only by the simulator, between fibers.
#pragma once

namespace tern::capi {

struct World;

extern World* current_world;

/// The World of the running rank; never null.
inline World& current() { return *current_world; }
/// Makes another World current and returns the one that was (simulator).
inline World* exchange_current(World* world) {
  World* before = current_world;
  current_world = world;
  return before;
}

}  // namespace tern::capi
