// Functions for sockets: addresses between the wire's form and the kernel's, listening, connecting. All sockets are
// non-blocking, close on exec, and have Nagle's algorithm off (a message is written as a whole; waiting for more only
// costs). Thread rule: pure functions.
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>

#include <cstdint>
#include <string>
#include <string_view>

#include "base/descriptor.h"
#include "base/error.h"
#include "base/limits.h"
#include "wire/card.h"

namespace tern {

/// A kernel's address. `scope` is the index of this host's interface, for link-local IPv6.
struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t bytes = 0;

  SocketAddress() = default;
  explicit SocketAddress(const wire::CardAddress& address, uint32_t scope = 0);
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
  sockaddr* get() { return reinterpret_cast<sockaddr*>(&storage); }
  uint16_t port() const;
  void set_port(uint16_t port);
  /// "10.0.0.1:4000"
  std::string text() const;
};

/// Listens on `address`; port 0: the system chooses. An invalid descriptor and errno on failure. `congestion`: the
/// congestion control of accepted connections; empty: the host's.
Descriptor listen_on(const SocketAddress& address, std::string_view congestion = {});
/// The address a socket is bound to.
SocketAddress local_address(int fd);
/// Begins to connect; 0 (done), EINPROGRESS, or the error. `congestion`: as listen_on.
int begin_connect(const SocketAddress& address, Descriptor& out, std::string_view congestion = {});
/// Keep-alive probes of the kernel. The first is sent after `idle_s` seconds of silence, the next ones every
/// `interval_s` seconds; `probes` unanswered ones end the connection.
struct KeepAlive {
  int idle_s, interval_s, probes;
};
/// Without probes a peer whose host loses power while neither side sends would never be missed: lost after 60 + 6 * 10
/// s, at one small packet a minute. (TCP_USER_TIMEOUT is not used: it would also end connections to a peer that lives
/// but does not read because it computes.)
inline constexpr KeepAlive kAskSeldom{60, 10, 6};
/// For a connection whose answer is awaited when no data is unacknowledged, so that the kernel repeats nothing.
inline constexpr KeepAlive kAskOften{1, 1, 2};

/// Lets the kernel probe the peer's kernel by kAskOften (`often`) or kAskSeldom. A peer that only computes answers.
void ask_if_alive(int fd, bool often);
/// The next connection that waits at a listener; an invalid descriptor and errno when there is none.
Descriptor accept_from(int listener, SocketAddress& from);
/// 0 if the kernel knows a route to `address`, else an errno number (no packet is sent).
int find_route(const SocketAddress& address);

}  // namespace tern
