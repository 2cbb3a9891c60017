#include "fabric/ip/socket.h"

#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace tern {
namespace {

void set(int fd, int level, int option, int value) { (void)setsockopt(fd, level, option, &value, sizeof value); }

bool is_loopback(const SocketAddress& address) {
  if (address.storage.ss_family == AF_INET) {
    auto& in = reinterpret_cast<const sockaddr_in&>(address.storage);
    return ntohl(in.sin_addr.s_addr) >> 24 == 127;
  }
  return IN6_IS_ADDR_LOOPBACK(&reinterpret_cast<const sockaddr_in6&>(address.storage).sin6_addr);
}

// Within one host congestion control only costs. A host set to BBR would pace this traffic all the same: 1 MiB one way
// takes 160 us with it, 96 with Reno, which every kernel has. On networks the host's choice is kept. It must be set
// before a connection begins (on the listener for accepted ones): a connection that has begun with BBR stays paced.
void choose_congestion(int fd, const SocketAddress& end, std::string_view congestion) {
  if (congestion.empty() && is_loopback(end)) congestion = "reno";
  if (!congestion.empty())
    (void)setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, congestion.data(), socklen_t(congestion.size()));
}

void prepare_stream(int fd) {
  set(fd, IPPROTO_TCP, TCP_NODELAY, 1);
  set(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
  ask_if_alive(fd, false);
}

}  // namespace

SocketAddress::SocketAddress(const wire::CardAddress& address, uint32_t scope) {
  if (address.family == 4) {
    auto* in = reinterpret_cast<sockaddr_in*>(&storage);
    in->sin_family = AF_INET;
    in->sin_port = htons(address.port);
    std::memcpy(&in->sin_addr, address.bytes.data(), 4);
    bytes = sizeof *in;
  } else {
    auto* in = reinterpret_cast<sockaddr_in6*>(&storage);
    in->sin6_family = AF_INET6;
    in->sin6_port = htons(address.port);
    in->sin6_scope_id = scope;
    std::memcpy(&in->sin6_addr, address.bytes.data(), 16);
    bytes = sizeof *in;
  }
}

uint16_t SocketAddress::port() const {
  return storage.ss_family == AF_INET6 ? ntohs(reinterpret_cast<const sockaddr_in6*>(&storage)->sin6_port)
                                       : ntohs(reinterpret_cast<const sockaddr_in*>(&storage)->sin_port);
}

void SocketAddress::set_port(uint16_t port) {
  if (storage.ss_family == AF_INET6) reinterpret_cast<sockaddr_in6*>(&storage)->sin6_port = htons(port);
  else reinterpret_cast<sockaddr_in*>(&storage)->sin_port = htons(port);
}

std::string SocketAddress::text() const {
  wire::CardAddress address;
  address.port = port();
  if (storage.ss_family == AF_INET) {
    std::memcpy(address.bytes.data(), &reinterpret_cast<const sockaddr_in*>(&storage)->sin_addr, 4);
  } else if (storage.ss_family == AF_INET6) {
    address.family = 6;
    std::memcpy(address.bytes.data(), &reinterpret_cast<const sockaddr_in6*>(&storage)->sin6_addr, 16);
  } else {
    return "an unknown address";
  }
  return wire::to_text(address);
}

Descriptor listen_on(const SocketAddress& address, std::string_view congestion) {
  Descriptor fd(socket(address.storage.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd) return fd;
  if (address.storage.ss_family == AF_INET6) set(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, 1);
  choose_congestion(fd.get(), address, congestion);
  // The backlog: how many peers may connect while this rank computes. The kernel reduces it to net.core.somaxconn
  // (4096 since Linux 5.4).
  if (bind(fd.get(), address.get(), address.bytes) != 0 || listen(fd.get(), 65535) != 0) {
    int error = errno;
    fd.reset();
    errno = error;
  }
  return fd;
}

SocketAddress local_address(int fd) {
  SocketAddress address;
  address.bytes = sizeof address.storage;
  if (getsockname(fd, address.get(), &address.bytes) != 0) return {};
  return address;
}

int begin_connect(const SocketAddress& address, Descriptor& out, std::string_view congestion) {
  out = Descriptor(socket(address.storage.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!out) return errno;
  choose_congestion(out.get(), address, congestion);
  prepare_stream(out.get());
  int result;
  do {
    result = connect(out.get(), address.get(), address.bytes);
  } while (result != 0 && errno == EINTR);
  return result == 0 ? 0 : errno;
}

void ask_if_alive(int fd, bool often) {
  const KeepAlive& keep = often ? kAskOften : kAskSeldom;
  set(fd, IPPROTO_TCP, TCP_KEEPIDLE, keep.idle_s);
  set(fd, IPPROTO_TCP, TCP_KEEPINTVL, keep.interval_s);
  set(fd, IPPROTO_TCP, TCP_KEEPCNT, keep.probes);
}

Descriptor accept_from(int listener, SocketAddress& from) {
  from.bytes = sizeof from.storage;
  Descriptor fd(accept4(listener, from.get(), &from.bytes, SOCK_NONBLOCK | SOCK_CLOEXEC));
  if (fd) prepare_stream(fd.get());
  return fd;
}

int find_route(const SocketAddress& address) {
  // Connecting a datagram socket asks the routing table and nothing else.
  Descriptor fd(socket(address.storage.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  return fd && connect(fd.get(), address.get(), address.bytes) == 0 ? 0 : errno;
}

}  // namespace tern
