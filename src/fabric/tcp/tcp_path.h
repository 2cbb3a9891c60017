// The TCP path: one connection per pair of ranks that communicate, made on first contact.
//
// A message: try_send (or enqueue and flush) writes frame head and payload in one system call; the peer's
// poll reads many small ones at once, and long ones directly into the user's memory. Source: the TCP path of LA-MPI
// (Majumder 2004, sections 3.2 and 4.3): connections on demand, no reliability or flow control beyond the kernel's,
// events rather than scans. Different from it: one connection carries both directions.
//
// A peer has streams: the first carries all messages in order, further ones parts of long messages
// (tcp_stripe.cc). A stream outlives its connection: when that is lost (a reset, a cable) the stream calls again, over
// another network if there is one, and both sides continue at the byte they had reached (outbound.h, inbound.h).
// A peer is lost only if it answers at no address for as long as a first call may take, or if its host refuses calls
// to a port where it listened before. A stream that had to leave its own network returns to it when that works again.
//
// The path composes: Peers (what is known of each), Connector (how connections are made), Traffic (the bytes on them),
// Stripes (long messages in parts), WatchSet (what the port watches), LinkMonitor (whose network is lost). It says
// itself what the end of a connection means: tcp_close.cc. tcp_stripe.cc: which streams a long message takes.
//
// Thread rule: as Path. Time: the rank's clock; only the orderly close at destruction waits in the kernel.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/peer_table.h"
#include "base/tunables.h"
#include "fabric/ip/stream_port.h"
#include "fabric/path.h"
#include "fabric/tcp/connector.h"
#include "fabric/tcp/link_monitor.h"
#include "fabric/tcp/links.h"
#include "fabric/tcp/outbound.h"
#include "fabric/tcp/peers.h"
#include "fabric/tcp/stripes.h"
#include "fabric/tcp/traffic.h"
#include "fabric/tcp/watch_set.h"

namespace tern {

/// Parameters of the TCP path that are not tunables.
struct TcpOptions {
  const PeerTable* peers = nullptr;  ///< not owned: connections from ranks that are not in it are refused
  TcpKey key{};                      ///< the job's secret
  bool this_host_only = false;       ///< all ranks share this host's network: listen on loopback alone
  /// The kernel's send buffer of every connection; 0: the kernel sizes it itself, which is best (tests make
  /// it tiny).
  int send_buffer_bytes = 0;
  /// This host's addresses, instead of asking the kernel (tests).
  std::vector<LocalAddress> addresses;
  const Log* log = nullptr;  ///< not owned; null: no log
};

class TcpPath final : public CountingPath {
 public:
  using Lookup = tcp::Connector::Lookup;

  /// Listens. Clock and sink outlive the path. Null exactly when `error` is set.
  static std::unique_ptr<TcpPath> create(const TcpOptions& options, const Tunables& tunables,
                                         std::unique_ptr<StreamPort> port, Clock& clock, Sink& sink, Lookup lookup,
                                         Error& error);
  /// Delivers what was sent, then closes (tcp_close.cc).
  ~TcpPath() override;

  /// What the peers need to reach this rank: any bytes, not secret, some hundred of them.
  const std::string& card() const { return connector_.host().card(); }

  bool reaches(PeerId peer) const override { return peers_.reaches(peer); }
  Lane& lane(PeerId peer) override { return peers_.at(peer); }
  bool try_send(Lane& lane, const wire::Header& header, const void* payload, size_t bytes) override;
  void enqueue(SendOperation& operation) override;
  bool withdraw(SendOperation& operation) override;
  void give_up(Lane& lane) override;
  bool reopen(Lane& lane, uint32_t incarnation) override;
  int poll() override;
  int poll_shortly() override;
  bool may_send_shortly(const Lane& lane, size_t bytes) const override {
    return bytes < stripe_bytes_ && static_cast<const Peer&>(lane).connected();
  }
  int wait_fd() const override { return port_->descriptor(); }
  bool arm() override { return !left_.link && !peers_.any_doomed() && traffic_.arm(); }
  void disarm() override { traffic_.disarm(); }
  uint64_t next_deadline_ns() const override {
    return std::min(traffic_.next_deadline_ns(), connector_.next_deadline_ns());
  }
  bool arriving() const override { return traffic_.arriving(); }
  bool has_unsent() const override;
  void tell_on_the_way(std::vector<InTransit>& all) override;
  Need unsent_hint() const override {
    return left_.link || connector_.calling() || peers_.any_doomed() ? Need::now : traffic_.unsent_hint();
  }
  void count_into(Counters& counters) override {
    CountingPath::count_into(counters);
    traffic_.count_into(counters);
  }

  /// Number of connections that have not proven the job key. For tests.
  size_t unproven() const { return connector_.unproven(); }
  /// Number of established connections. For tests.
  size_t connections() const { return traffic_.connections(); }
  /// Loses the connections to a peer as a network failure would. For tests.
  void break_connection(PeerId peer);
  /// Closes everything at once, as the kernel does when a process is killed; only destruction may follow. For tests.
  void abort();

 private:
  using Link = tcp::Link;
  using Peer = tcp::Peer;
  using Setup = tcp::Setup;
  using Stream = tcp::Stream;

  TcpPath(const TcpOptions& options, const Tunables& tunables, std::unique_ptr<StreamPort> port, Clock& clock,
          Sink& sink, Lookup lookup);

  // tcp_path.cc
  int poll_events();
  int receive(Link& link);
  int after(Link& link, TcpInbound::State state);
  int receive_waiting(Peer& peer);

  // tcp_close.cc
  int lose(Peer& peer);
  int lose_doomed();
  int link_ended(Link& link, TcpInbound::State how);
  void check_links();
  void on_interfaces(tcp::Interfaces& watch);
  void drop_streams(Peer& peer);

  // tcp_stripe.cc
  bool stripe(Peer& peer, SendOperation& operation);
  bool may_stripe(Peer& peer);
  size_t open_streams(Peer& peer, Stream** open);

  const std::unique_ptr<StreamPort> port_;  ///< outlives everything that holds a stream of it
  Clock& clock_;
  Sink& sink_;
  const size_t max_streams_, stripe_bytes_;

  TcpOutbound::Shared sending_;
  tcp::Peers peers_;
  tcp::WatchSet watched_;
  tcp::Traffic traffic_;
  tcp::Connector connector_;
  tcp::Stripes stripes_;
  tcp::LinkMonitor link_watch_;
  /// What poll_shortly has left to poll: a connection, and what was found there.
  struct {
    Link* link = nullptr;
    TcpInbound::State state = TcpInbound::State::idle;
  } left_;
};

}  // namespace tern
