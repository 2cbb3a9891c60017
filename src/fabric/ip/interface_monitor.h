// Tells when an interface of this host goes down or loses its carrier: a connection over it is dead long before its
// silence shows that. (Netlink, RTM_NEWLINK: rtnetlink(7).) Thread rule: as Path. Errors: if the kernel does not allow
// listening there is no descriptor, and nothing is reported.
#pragma once

#include <cstdint>
#include <vector>

#include "fabric/ip/socket.h"

namespace tern {

class InterfaceMonitor {
 public:
  /// Listens from now on. An invalid descriptor if it cannot.
  static Descriptor open();
  /// Adds the interfaces (the kernel's numbers) that have gone down since the last call.
  static void read(int fd, std::vector<uint32_t>& down);
};

}  // namespace tern
