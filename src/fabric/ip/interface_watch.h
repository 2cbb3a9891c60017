// Tells when an interface of this host goes down or loses its carrier: a connection over it is dead long before its
// silence shows that. (Netlink, RTM_NEWLINK: rtnetlink(7).) Thread rule: as Path. Errors: where the kernel does not let
// us listen there is no descriptor, and nothing is told.
#pragma once

#include <cstdint>
#include <vector>

#include "fabric/ip/socket.h"

namespace tern {

class InterfaceWatch {
 public:
  /// Listens from now on. An invalid descriptor when it cannot.
  static Descriptor open();
  /// Adds the interfaces (the kernel's numbers) that have gone down since the last call.
  static void read(int fd, std::vector<uint32_t>& down);
};

}  // namespace tern
