// Which of this host's addresses the IP paths (TCP, UDP) listen on, and which of a peer's they try first.
//
// There are no name look-ups: addresses come from the kernel (getifaddrs) and from the peer's card. The addresses alone
// decide which networks two hosts share, so that hosts with a cluster's network beside the office's, and IPv6-only
// hosts, work:
//
//   1. same host and network namespace: loopback
//   2. a network that both hosts are on (same family, same prefix)
//   3. a network that may be routed to the peer's: public to public, private to private, then mixed
//   4. link-local IPv6, through each of this host's interfaces: only trying shows whether it is the right one
//
// Within a class the faster interface first, IPv4 before IPv6. An address that this host has as well, although the peer
// is on another host (container bridges use the same one everywhere), does not lead to the peer.
//
// Thread rule: pure functions except `usable_interfaces` and `host_identity`, which ask the kernel.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "fabric/ip/socket.h"
#include "wire/card.h"

namespace tern {

/// One address of one interface of this host.
struct LocalAddress {
  std::string interface;
  uint32_t index = 0;  ///< the kernel's number of the interface: the scope of link-local addresses
  wire::CardAddress address;
};

/// A way to try: the address, and the interface for link-local addresses.
struct TcpCandidate {
  wire::CardAddress address;
  uint32_t scope = 0;
  int rank = 0;          ///< lower is better
  uint32_t network = 0;  ///< this host's interface (LocalAddress::index); 0: through a router, interface not known
  bool operator==(const TcpCandidate&) const = default;
};

wire::HostIdentity host_identity();

/// Addresses of interfaces that are up. `wanted`: tcp_interfaces; empty: all except those of containers and
/// virtual machines. Loopback addresses are always included (for ranks on this host). Error: `wanted` is not
/// understood, or matches nothing.
Error usable_interfaces(std::string_view wanted, std::vector<LocalAddress>& out);

/// The rule behind it, for the test: keeps what `wanted` selects.
Error select_interfaces(std::string_view wanted, const std::vector<LocalAddress>& all, std::vector<LocalAddress>& out);

/// True for interfaces that managers of containers and virtual machines make for themselves.
bool belongs_to_containers(std::string_view interface);

/// The interface (LocalAddress::index) that has this address; 0: none.
uint32_t network_of(const std::vector<LocalAddress>& ours, const SocketAddress& local);

/// Every way to a peer worth trying, best first.
std::vector<TcpCandidate> rank_candidates(const std::vector<LocalAddress>& ours, const wire::HostIdentity& our_host,
                                          const wire::Card& theirs);

}  // namespace tern
