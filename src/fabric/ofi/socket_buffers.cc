#include "fabric/ofi/socket_buffers.h"

#include <dirent.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <memory>

namespace tern::ofi {
namespace {

// The address and port of libfabric's FI_SOCKADDR_IN or FI_SOCKADDR_IN6, which are the kernel's; others equal nothing.
bool is_same_address(const sockaddr_storage& ours, std::string_view theirs) {
  if (theirs.size() < sizeof(sockaddr_in)) return false;
  sockaddr_storage other{};
  std::memcpy(&other, theirs.data(), std::min(theirs.size(), sizeof other));
  if (ours.ss_family != other.ss_family) return false;
  if (ours.ss_family == AF_INET) {
    const auto &a = reinterpret_cast<const sockaddr_in&>(ours), &b = reinterpret_cast<const sockaddr_in&>(other);
    return a.sin_port == b.sin_port && a.sin_addr.s_addr == b.sin_addr.s_addr;
  }
  const auto &a = reinterpret_cast<const sockaddr_in6&>(ours), &b = reinterpret_cast<const sockaddr_in6&>(other);
  return ours.ss_family == AF_INET6 && a.sin6_port == b.sin6_port &&
         std::memcmp(&a.sin6_addr, &b.sin6_addr, sizeof a.sin6_addr) == 0;
}

bool has_address(int socket, std::string_view address) {
  sockaddr_storage own{}, peer{};
  socklen_t own_bytes = sizeof own, peer_bytes = sizeof peer;
  return (getsockname(socket, reinterpret_cast<sockaddr*>(&own), &own_bytes) == 0 && is_same_address(own, address)) ||
         (getpeername(socket, reinterpret_cast<sockaddr*>(&peer), &peer_bytes) == 0 && is_same_address(peer, address));
}

bool is_tcp(int descriptor) {
  int protocol = 0;
  socklen_t bytes = sizeof protocol;
  return getsockopt(descriptor, SOL_SOCKET, SO_PROTOCOL, &protocol, &bytes) == 0 && protocol == IPPROTO_TCP;
}

// The kernel enlarges the buffer for a reader that waits for kLeastBytes (SO_RCVLOWAT), and does not shrink it again.
// Unlike SO_RCVBUF, this is not limited by net.core.rmem_max, and the buffer may still grow.
void enlarge_buffer(int socket) {
  const int window = int(SocketBuffers::kLeastBytes), one = 1;
  (void)setsockopt(socket, SOL_SOCKET, SO_RCVLOWAT, &window, sizeof window);
  (void)setsockopt(socket, SOL_SOCKET, SO_RCVLOWAT, &one, sizeof one);
}

}  // namespace

void SocketBuffers::enlarge(std::string_view address) {
  const std::unique_ptr<DIR, int (*)(DIR*)> folder(opendir("/proc/self/fd"), closedir);
  if (!folder) return;
  while (const dirent* entry = readdir(folder.get())) {
    const int descriptor = std::atoi(entry->d_name);  // of "." and "..": 0, which is no such socket
    if (is_tcp(descriptor) && has_address(descriptor, address)) enlarge_buffer(descriptor);
  }
}

}  // namespace tern::ofi
