// Promises that a program makes in info keys (mpi_assert_..., no_locks, same_size ...) and breaks: each is served all
// the same, and TERN_CHECK tells of it. Source: MPI 5.0, 7.4.4, 12.2.1. Thread rule: under the rank's lock. All of this
// is called under TERN_CHECK only.
#pragma once

#include "capi/call.h"
#include "rma/window.h"

namespace tern::capi {

/// A receive or probe of `comm` with these arguments.
void check_receive_promises(Call& call, const Communicator& comm, int source, int tag);
/// A receive of `room_bytes` is over.
void check_length_promise(Call& call, const Communicator& comm, Count room_bytes, const Status& status);

/// The window has just been made.
void check_window_promises(Call& call, Window& win);
/// It is about to be locked.
void check_lock_promise(Call& call, Window& win);
/// Accumulates of one origin that nothing separates, to the same place by several operators.
void check_accumulate_promise(Call& call, Window& win, const rma::Operation& operation);
/// What was begun on the window is over.
inline void synchronised(Call& call, Window& win) {
  if (call.checks()) [[unlikely]]
    win.accumulates.clear();
}

}  // namespace tern::capi
