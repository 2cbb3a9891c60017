// TERN_CHECK: what the current call is given, and where it waits. Source: MPI 5.0, 6.1, 11.3. Thread rule: under the
// rank's lock.
#include <fmt/format.h>

#include "capi/checks.h"

namespace tern::capi {

void Checks::use_session(const int32_t* of_communicator, int32_t session) {
  const int32_t before = of_communicator ? *of_communicator : session_.value_or(session);
  session_ = session;
  if (before == session) return;
  const char* model = "MPI_COMM_WORLD's (the World Model)";
  report(
      fmt::format("{} is given objects of two sessions: one is {}, one is {}. Make all of them from the same session "
                  "(MPI 5.0, 11.3)",
                  place(), before == 0 ? model : "a session's", session == 0 ? model : "of another session"));
}

// The ranks wait here for each other, not in the collective itself.
Error Checks::begin(Communicator& comm, wire::CheckedCollective call) {
  RankEnvironment& environment = comm.environment();
  environment.inside = &comm;
  environment.inside_root = -1;
  Error error = collectives_.begin(comm, std::move(call));
  environment.inside = nullptr;
  return error;
}

}  // namespace tern::capi
