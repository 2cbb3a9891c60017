// What the bodies that make communicators share. Source: MPI 5.0 chapter 7. Thread rule: under the rank's
// lock.
#pragma once

#include "capi/call.h"
#include "coll/create/create.h"

namespace tern::capi {

/// The rank's means of making communicators.
inline create::Maker maker_of(Call& call) {
  Process& process = call.process();
  return {process.environment(), call.world().predefined.types.get(int(value_of(MPI_BYTE))), process.peers(),
          [&process] { return process.new_context(); }};
}

/// Sets the handler of `comm`, with a reference of its own; drops the old one.
void set_error_handler(Communicator& comm, ErrorHandler* handler);

/// Makes a new communicator one of a session (its handle; 0: of none), and its groups with it.
void derive_from_session(Communicator& comm, int32_t session);

/// Hands a new communicator to the user: it inherits the error handler of `parent`. Null stays null.
Communicator* hand_out(const Communicator& parent, Ref<Communicator>& fresh);

/// What MPI keeps of hints given at creation and by MPI_Comm_set_info (7.4.4); others are ignored. `info` may
/// be null.
void take_hints(Communicator& comm, const Info* info);

/// Error for bodies that work on intracommunicators only.
Error intra_only(const Communicator& comm);

}  // namespace tern::capi
