// What a program leaves undone and the library knows of without asking: lines at MPI_Finalize, and of two threads in
// collective operations of one communicator. TERN_CHECK (checks.h) finds more, and names the places.
// Thread rule: under the rank's lock.
#pragma once

#include "capi/world.h"

namespace tern::capi {

/// In MPI_Finalize, first of all: requests that are not completed, another thread than the one of MPI_Init.
void tell_of_requests(const World& world);
/// When all ranks are in MPI_Finalize, and nothing is on its way: messages that were never received.
void tell_of_messages(World& world);

/// A thread in a blocking collective, in programs with MPI_THREAD_MULTIPLE.
class InCollective {
 public:
  /// Warns, once in a rank, if another thread is in one of the same communicator.
  InCollective(World& world, const Communicator& comm);
  ~InCollective();
  InCollective(const InCollective&) = delete;
  InCollective& operator=(const InCollective&) = delete;

 private:
  World& world_;
  const Communicator& comm_;
};

}  // namespace tern::capi
