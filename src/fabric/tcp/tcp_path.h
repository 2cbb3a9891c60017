// The TCP path: one connection per pair of ranks that have something to say to each other, made on first
// contact.
//
// A message: try_send (or enqueue and flush) writes frame head and payload in one system call; the peer's
// poll reads many small ones at once, and long ones straight into the user's memory. Source: the LA-MPI TCP
// path of the second paper (docs: sections 3.2 and 4.3): connections on demand, no reliability or flow
// control of our own above the kernel's, events rather than scans. Different from it: one connection carries
// both directions.
//
// A connection is made so: the peer's card (wire/card.h) is looked up, its addresses are tried in the order
// of interfaces.h, both sides prove the job key (handshake.h), and of two connections made at the same time
// the lower rank's is kept. Nothing is sent on a connection before its last handshake message, so none of
// this loses a message.
//
// tcp_path.cc: the data's way; tcp_setup.cc, tcp_accept.cc: how connections come; tcp_close.cc: how they go.
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
#include "base/tunables.h"
#include "fabric/path.h"
#include "fabric/tcp/handshake.h"
#include "fabric/tcp/inbound.h"
#include "fabric/tcp/interfaces.h"
#include "fabric/tcp/outbound.h"
#include "fabric/tcp/socket.h"

namespace tern {

/// What the TCP path must be told; the rest is in the tunables.
struct TcpOptions {
  PeerId rank = 0;
  uint32_t size = 1;            ///< ranks of the job: connections from others are refused
  TcpKey key{};                 ///< the job's secret
  bool this_host_only = false;  ///< all ranks share this host's network: listen on loopback alone
  /// The kernel's send buffer of every connection; 0: the kernel sizes it itself, which is best (tests make
  /// it tiny).
  int send_buffer_bytes = 0;
  /// This host's addresses, instead of asking the kernel (tests).
  std::vector<LocalAddress> addresses;
};

class TcpPath final : public Path {
 public:
  /// Gets what `peer` published as its card; called on first contact only. May block (a question to the
  /// launcher).
  using Lookup = std::function<Error(PeerId peer, std::string& card)>;

  /// Listens. Clock and sink outlive the path. Null exactly when `error` is set.
  static std::unique_ptr<TcpPath> create(const TcpOptions& options, const Tunables& tunables, Clock& clock,
                                         Sink& sink, Lookup lookup, Error& error);
  /// Delivers what was sent, then closes (tcp_close.cc).
  ~TcpPath() override;

  /// What the peers need to reach this rank: any bytes, not secret, some hundred of them.
  const std::string& card() const { return card_; }

  bool reaches(PeerId peer) const override { return peer != identity_.rank && peer < options_.size; }
  bool try_send(PeerId peer, const wire::Header& header, const void* payload, size_t bytes) override;
  void enqueue(SendOperation& operation) override;
  bool withdraw(SendOperation& operation) override;
  int poll() override;
  int wait_fd() const override { return epoll_.get(); }
  bool arm() override;
  void disarm() override;
  uint64_t next_deadline_ns() const override;
  bool has_unsent() const override;

  /// Connections that have not proven the job key, now. For tests.
  size_t unproven() const { return unproven_; }
  /// Established connections, now. For tests.
  size_t connections() const { return links_; }
  /// Loses the connection to a peer as a network failure would. For tests.
  void break_connection(PeerId peer);

 private:
  /// Anything with a descriptor in the epoll set.
  struct Endpoint {
    enum class Kind : uint8_t { dead, listener, setup, link };
    virtual ~Endpoint() = default;
    Kind kind = Kind::dead;
    Descriptor fd;
    uint32_t interest = 0;  ///< epoll events asked for
    size_t slot = 0;        ///< where it stands in endpoints_
  };
  struct Peer;
  /// A listening socket.
  struct Listener : Endpoint {};
  /// A connection that is being made.
  struct Setup : Endpoint, ListHook<Setup> {
    explicit Setup(const TcpIdentity& self) : handshake(self) {}
    Setup(const TcpIdentity& self, PeerId target) : handshake(self, target) {}
    TcpHandshake handshake;
    Peer* peer = nullptr;      ///< outgoing: whom we call; incoming: null
    bool connected = true;     ///< outgoing: false until the kernel has connected
    uint64_t deadline_ns = 0;  ///< ~0: none
    std::string where;         ///< the other end's address, for messages
  };
  /// An established connection.
  struct Link : Endpoint {
    Peer* peer = nullptr;
    TcpInbound inbound;
    std::string where;
  };
  enum class PeerState : uint8_t { fresh, calling, established, departed, lost };
  struct Peer : ListHook<Peer> {  // hook: in blocked_
    PeerId id = 0;
    PeerState state = PeerState::fresh;
    bool doomed = false;     ///< in doomed_: its operations fail, and it is lost, in the next poll
    bool announced = false;  ///< the sink knows of the loss
    Link* link = nullptr;    ///< owned by endpoints_
    TcpOutbound outbound;
    // Being called:
    Setup* setup = nullptr;  ///< the outgoing attempt, if one is under way
    std::vector<TcpCandidate> candidates;
    size_t next_candidate = 0;
    int rounds = 0;             ///< how often all candidates have been tried
    int hang_ups = 0;           ///< how often a connection ended in its handshake
    bool only_refusals = true;  ///< in this round every address answered "nobody listens here"
    uint64_t give_up_ns = 0;
    uint64_t retry_ns = ~uint64_t{0};
    std::string trouble;  ///< the last attempt's, then why the peer is lost
    int error_class = 0;
  };

  TcpPath(const TcpOptions& options, const Tunables& tunables, Clock& clock, Sink& sink, Lookup lookup);

  // tcp_path.cc
  Peer& peer_at(PeerId id);
  int complete();
  int receive(Link& link);
  void flush(Peer& peer);
  int poll_events();
  void heat(Link& link);
  void cool(Link& link);

  // tcp_setup.cc, tcp_accept.cc
  Error start();
  Error listen(const LocalAddress& local, uint16_t first_port, uint16_t& port);
  void contact(Peer& peer);
  void next_attempt(Peer& peer);
  void end_round(Peer& peer);
  void attempt_failed(Setup& setup, const std::string& trouble);
  void accept_some(Listener& listener);
  bool make_room();
  void go_deaf();
  void on_setup(Setup& setup, uint32_t events);
  bool send_output(Setup& setup);
  void answer(Setup& setup);
  void conclude(Setup& setup);
  void establish(Setup& setup, Peer& peer);
  void drop(Setup& setup);
  void run_timers(uint64_t now);
  Endpoint* adopt(std::unique_ptr<Endpoint> endpoint, Endpoint::Kind kind);
  void watch(Endpoint& endpoint, uint32_t events);
  void retire(Endpoint& endpoint);
  void shape(int fd) const;

  // tcp_close.cc
  void doom(Peer& peer, int error_class, std::string trouble);
  int lose(Peer& peer);
  int lose_doomed();
  int link_ended(Link& link, TcpInbound::State how);
  int fail_operations(Peer& peer);
  Error reason(const Peer& peer) const;
  void close_in_order();

  TcpOptions options_;
  Clock& clock_;
  Sink& sink_;
  Lookup lookup_;
  TcpIdentity identity_;
  std::string card_;
  wire::HostIdentity host_{};
  std::vector<LocalAddress> addresses_;
  std::string interfaces_;
  uint16_t first_port_ = 0;
  uint64_t connect_timeout_ns_ = 0;

  Descriptor epoll_;
  std::vector<std::unique_ptr<Peer>> peers_;  ///< by PeerId; null: never heard of
  std::vector<std::unique_ptr<Endpoint>> endpoints_;
  std::vector<std::unique_ptr<Endpoint>> retired_;  ///< may still be named by events that are being handled
  std::unique_ptr<std::byte[]> scratch_;

  /// Connections in their handshake at one time. A peer's hello comes with its connection, and who has
  /// greeted is the last to be put out, so a flood of others does not displace it.
  static constexpr size_t kMaxUnproven = 256;
  static constexpr size_t kHot = 4;
  Link* hot_[kHot] = {};  ///< read without asking epoll; the one that brought something last is first
  size_t hot_count_ = 0;
  uint32_t turn_ = 0;
  uint32_t rounds_since_events_ = 0;
  int armed_ = 0;      ///< threads that sleep on wait_fd
  bool more_ = false;  ///< a connection's turn was over before its data were

  SendList finished_;            ///< left altogether; `done` is due
  IntrusiveList<Peer> blocked_;  ///< established, with data that the socket did not take
  std::vector<Peer*> doomed_;
  IntrusiveList<Setup> unproven_list_;  ///< incoming, oldest first
  size_t unproven_ = 0;
  size_t links_ = 0;
  size_t calling_ = 0;             ///< peers in state calling: their timers run
  uint64_t deafness_ends_ns_ = 0;  ///< descriptors ran out: listeners are off until then; 0: they are on
};

}  // namespace tern
