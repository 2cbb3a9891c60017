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
/// A descriptor that shows the end of this process; -1 if there is none.
int open_life_line();
/// "what: text of errno" as an operating error.
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
  /// This rank's socket. The others connect to the leader's. A member's never accepts: a connection to it shows the
  /// leader that the member can reach the leader too (same network namespace), its end that the member has given up. So
  /// no rank waits for one that cannot come.
  Descriptor listener;
};

}  // namespace tern
