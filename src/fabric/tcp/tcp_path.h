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
// How a connection is made: the peer's card (wire/card.h) is looked up, its addresses are tried in the order
// of interfaces.h, both sides prove the job key (handshake.h), and of two connections made at the same time
// the lower rank's is kept. Nothing is sent on a connection before its last handshake message, so no message is
// lost in this.
//
// The path composes: LocalHost (where this rank listens, which routes lead to a peer), Admission (who may come in),
// CallTimers, Stripes (long messages in parts), Bursts (small ones together), HotLinks and WatchSet (what a poll looks
// at), ArrivalRate, and for each stream its two halves (outbound.h, inbound.h); links.h has the records.
// tcp_path.cc: the data's way; tcp_setup.cc, tcp_accept.cc: set-up of connections; tcp_close.cc: their end;
// tcp_stripe.cc: which streams a long message takes.
//
// Polling: while ranks spin, a poll reads the connections that were busy last (one system call), and looks at
// all of them (epoll) every few rounds. Waiting uses the epoll descriptor itself.
//
// Thread rule: as Path. Time: the rank's clock; only the orderly close at destruction waits in the kernel.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/peer_table.h"
#include "base/tunables.h"
#include "fabric/bursts.h"
#include "fabric/ip/stream_port.h"
#include "fabric/path.h"
#include "fabric/tcp/admission.h"
#include "fabric/tcp/arrival_rate.h"
#include "fabric/tcp/call_timers.h"
#include "fabric/tcp/handshake.h"
#include "fabric/tcp/hot_links.h"
#include "fabric/tcp/link_monitor.h"
#include "fabric/tcp/links.h"
#include "fabric/tcp/local_host.h"
#include "fabric/tcp/outbound.h"
#include "fabric/tcp/stripes.h"
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
  /// `lookup` gets what `peer` published as its card; called on first contact only. May block (a question to the
  /// launcher).
  using Lookup = std::function<Error(PeerId peer, std::string& card)>;

  /// Listens. Clock and sink outlive the path. Null exactly when `error` is set.
  static std::unique_ptr<TcpPath> create(const TcpOptions& options, const Tunables& tunables,
                                         std::unique_ptr<StreamPort> port, Clock& clock, Sink& sink, Lookup lookup,
                                         Error& error);
  /// Delivers what was sent, then closes (tcp_close.cc).
  ~TcpPath() override;

  /// What the peers need to reach this rank: any bytes, not secret, some hundred of them.
  const std::string& card() const { return host_.card(); }

  bool reaches(PeerId peer) const override { return peer != table_.me() && peer < table_.size(); }
  Lane& lane(PeerId peer) override { return peer_at(peer); }
  bool try_send(Lane& lane, const wire::Header& header, const void* payload, size_t bytes) override;
  void enqueue(SendOperation& operation) override;
  bool withdraw(SendOperation& operation) override;
  void give_up(Lane& lane) override;
  bool reopen(Lane& lane, uint32_t incarnation) override;
  int poll() override;
  int wait_fd() const override { return port_->descriptor(); }
  bool arm() override;
  void disarm() override;
  uint64_t next_deadline_ns() const override;
  bool arriving() const override;
  bool has_unsent() const override;
  void tell_on_the_way(std::vector<InTransit>& all) override;
  Need unsent_hint() const override {
    if (more_ || !bursts_.empty() || !calls_.empty() || !blocked_.empty() || !sending_.finished.empty() ||
        !doomed_.empty())
      return Need::now;
    return !may_be_unsure_ ? Need::nothing : sending_.sealed ? Need::now : Need::later;
  }

  /// Number of connections that have not proven the job key. For tests.
  size_t unproven() const { return admission_.unproven(); }
  /// Number of established connections. For tests.
  size_t connections() const { return links_; }
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
  Peer& peer_at(PeerId id);
  Stream& stream_at(Peer& peer, size_t index);
  int complete();
  TcpOutbound::Wait may_wait(Stream& stream, const wire::Header& header, size_t bytes);
  void end_bursts();
  int receive(Link& link);
  int receive_waiting(Peer& peer);
  bool flush(Stream& stream, bool more = false);  ///< returns whether bytes have left, or are known to have arrived
  bool try_again(Stream& stream);                 ///< the same; completes operations
  void look_after_unsure(uint64_t nap_ns);
  void watch_link(Stream& stream);
  void ask_for(Stream& stream, uint64_t bytes);
  int poll_events();

  // tcp_setup.cc, tcp_accept.cc
  Error start(const TcpOptions& options);
  Error look_up(Peer& peer);
  void contact(Stream& stream);
  void next_attempt(Stream& stream);
  void end_round(Stream& stream);
  bool host_answers(Stream& stream);
  void attempt_failed(Setup& setup, const std::string& trouble);
  void note_failure(Stream& stream, std::string trouble);
  void on_call_due(Stream& stream);
  void warn_of_silence(Stream& stream);
  void accept_some(tcp::Listener& listener);
  bool make_room();
  void pause_accepting();
  void doom_unconnected(int error);
  void on_setup(Setup& setup, uint32_t events);
  void await_rest(Setup& setup);
  bool send_output(Setup& setup);
  void commit(Setup& setup);
  void answer(Setup& setup);
  void conclude(Setup& setup);
  void establish(Setup& setup, Stream& stream);
  void drop(Setup& setup);
  void run_timers(uint64_t now);
  void shape(int handle);

  // tcp_close.cc
  void doom(Peer& peer, int error_class, std::string trouble);
  int lose(Peer& peer);
  int lose_doomed();
  int link_ended(Link& link, TcpInbound::State how);
  void give_up_link(Stream& stream);
  void link_broken(Stream& stream, std::string why, bool network_is_bad);
  void check_links();
  void on_interfaces(tcp::Interfaces& watch);
  int fail_operations(Peer& peer);
  void drop_streams(Peer& peer);

  // tcp_stripe.cc
  bool stripe(Peer& peer, SendOperation& operation);
  bool may_stripe(Peer& peer);
  size_t open_streams(Peer& peer, Stream** open);

  const PeerTable& table_;
  const std::unique_ptr<StreamPort> port_;  ///< outlives everything that holds a stream of it
  Clock& clock_;
  Sink& sink_;
  Lookup lookup_;
  const Log* const log_;  ///< may be null
  const TcpIdentity identity_;
  const int send_buffer_bytes_;
  const uint64_t connect_timeout_ns_;
  const size_t max_streams_, stripe_bytes_;

  tcp::LocalHost host_;
  TcpOutbound::Shared sending_;
  std::vector<std::unique_ptr<Peer>> peers_;  ///< by PeerId; null: never heard of
  std::vector<Peer*> doomed_;
  bool warned_ = false;  ///< of a peer that does not answer
  tcp::WatchSet watched_;
  tcp::Admission admission_;
  tcp::CallTimers calls_;
  tcp::Stripes stripes_;
  Bursts<tcp::Stream> bursts_;
  tcp::HotLinks hot_;
  tcp::ArrivalRate arrivals_;
  tcp::LinkMonitor link_watch_;
  /// With a connection, and data that the socket did not take or the peer does not have.
  IntrusiveList<Stream> blocked_;

  size_t links_ = 0;
  uint32_t rounds_since_events_ = 0;
  int armed_ = 0;               ///< threads that sleep on wait_fd
  bool more_ = false;           ///< a connection's turn was over before its data
  bool may_be_unsure_ = false;  ///< something was sent since `arm` found everything acknowledged (and nothing owed)
  uint64_t wake_ns_ = ~uint64_t{0};  ///< asleep: when to check what is not acknowledged
};

}  // namespace tern
