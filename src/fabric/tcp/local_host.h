// LocalHost: this host as the TCP path uses it: where it listens (the card), and which routes lead to a peer.
// Thread rule: under the rank's lock.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/tunables.h"
#include "fabric/ip/interfaces.h"
#include "fabric/ip/stream_port.h"
#include "fabric/tcp/watch_set.h"

namespace tern::tcp {

class LocalHost {
 public:
  /// The port is not owned, and outlives this.
  LocalHost(StreamPort& port, const Tunables& tunables)
      : port_(port),
        interfaces_(tunables.tcp_interfaces),
        congestion_(tunables.tcp_congestion),
        first_port_(uint16_t(tunables.tcp_port_first)) {}

  /// Listens on `addresses` (empty: on all that the tunables select), and lets `watched` watch for callers and for
  /// interfaces that go down. `this_host_only`: on loopback alone. Error: a setting is wrong, or there is no address to
  /// listen on and `needed`.
  Error listen(std::vector<LocalAddress> addresses, bool this_host_only, bool needed, WatchSet& watched);

  /// What the peers need to reach this rank.
  const std::string& card() const { return card_; }
  /// "127.0.0.1:4000 10.0.0.1:4000": where it listens.
  const std::string& listening() const { return listening_; }
  const std::string& congestion() const { return congestion_; }
  /// All routes worth trying to the peer with that card, best first. Error: there is none, or that is no card.
  Error ways_to(const std::string& card, std::vector<TcpCandidate>& ways);
  /// Our interface that the stream uses; 0: not known.
  uint32_t network(int handle) const { return network_of(addresses_, port_.local_address(handle)); }
  /// The name of our interface of that number; empty: not known.
  std::string interface_name(uint32_t network) const;
  /// Interfaces besides the loopback.
  bool several_networks() const;

 private:
  Error listen_on(const LocalAddress& local, uint16_t& port, WatchSet& watched);

  StreamPort& port_;
  const std::string interfaces_, congestion_;
  const uint16_t first_port_;
  wire::HostIdentity host_{};
  std::vector<LocalAddress> addresses_;
  std::string card_, listening_;
};

}  // namespace tern::tcp
