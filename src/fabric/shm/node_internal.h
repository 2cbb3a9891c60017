// What node.cc and node_join.cc share: the mapping, and the state of a node that is still joining.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <string>

#include "base/descriptor.h"
#include "base/limits.h"
#include "fabric/shm/node.h"

namespace tern {

namespace shm {
int open_doorbell();
/// A descriptor for the end of this very process; -1 where there is none.
int open_life_line();
/// "what: what errno means" as an operating error.
Error system_error(const char* what);
}  // namespace shm

/// The mapped segment; shared by the nodes of one OS process in tests.
struct ShmNode::Mapping {
  std::byte* base = nullptr;
  size_t bytes = 0;
  Descriptor memfd;
  ~Mapping() {
    if (base) munmap(base, bytes);
  }
};

struct ShmNode::Joining {
  ShmSetup setup;
  /// My socket. The leader's is where the others come; a member's is never accepted from: that it can be
  /// connected to tells the leader that the member can reach the leader too (same network namespace), that it
  /// closes tells the leader that the member has given up. So nobody ever waits for a rank that cannot come.
  Descriptor listener;
};

}  // namespace tern
