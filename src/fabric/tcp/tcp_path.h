// The TCP path: one connection per pair of ranks that have something to say to each other, made on first
// contact.
//
// A message: try_send (or enqueue and flush) writes frame head and payload in one system call; the peer's
// poll reads many small ones at once, and long ones straight into the user's memory. Source: the LA-MPI TCP
// path of the second paper (docs: sections 3.2 and 4.3): connections on demand, no reliability or flow
// control of our own above the kernel's, events rather than scans. Different from it: one connection carries
// both directions.
//
// A peer has streams, called lanes: the first carries all messages in order, further ones parts of long messages
// (tcp_stripe.cc). A lane is not its connection: when that is lost (a reset, a cable) the lane calls again, over
// another network if there is one, and both streams go on from the byte they had got to (outbound.h, inbound.h).
// Only a peer that answers nowhere for as long as a first call may take, or whose host says that nobody listens
// there any more, is lost. A lane that had to leave its own network returns to it when it can be reached again.
//
// A connection is made so: the peer's card (wire/card.h) is looked up, its addresses are tried in the order
// of interfaces.h, both sides prove the job key (handshake.h), and of two connections made at the same time
// the lower rank's is kept. Nothing is sent on a connection before its last handshake message, so none of
// this loses a message.
//
// tcp_path.cc: the data's way; tcp_setup.cc, tcp_accept.cc: how connections come; tcp_close.cc: how they go;
// tcp_stripe.cc: long messages over several of them.
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
#include "fabric/ip/coalescing.h"
#include "fabric/ip/host_question.h"
#include "fabric/ip/interfaces.h"
#include "fabric/ip/socket.h"
#include "fabric/ip/stream_port.h"
#include "fabric/path.h"
#include "fabric/tcp/drain_estimate.h"
#include "fabric/tcp/handshake.h"
#include "fabric/tcp/inbound.h"
#include "fabric/tcp/outbound.h"
#include "fabric/tcp/stripe_shares.h"

namespace tern {

/// What the TCP path must be told; the rest is in the tunables.
struct TcpOptions {
  const PeerTable* peers = nullptr;  ///< not owned: connections from ranks that are not in it are refused
  TcpKey key{};                      ///< the job's secret
  bool this_host_only = false;       ///< all ranks share this host's network: listen on loopback alone
  /// The kernel's send buffer of every connection; 0: the kernel sizes it itself, which is best (tests make
  /// it tiny).
  int send_buffer_bytes = 0;
  /// This host's addresses, instead of asking the kernel (tests).
  std::vector<LocalAddress> addresses;
  const Log* log = nullptr;  ///< not owned; null: says nothing
};

class TcpPath final : public CountingPath {
 public:
  /// Gets what `peer` published as its card; called on first contact only. May block (a question to the
  /// launcher).
  using Lookup = std::function<Error(PeerId peer, std::string& card)>;

  /// Listens. Clock and sink outlive the path. Null exactly when `error` is set.
  static std::unique_ptr<TcpPath> create(const TcpOptions& options, const Tunables& tunables,
                                         std::unique_ptr<StreamPort> port, Clock& clock, Sink& sink, Lookup lookup,
                                         Error& error);
  /// Delivers what was sent, then closes (tcp_close.cc).
  ~TcpPath() override;

  /// What the peers need to reach this rank: any bytes, not secret, some hundred of them.
  const std::string& card() const { return card_; }

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
  Need unsent_hint() const override {
    if (more_ || !bursts_.empty() || timed_ != 0 || !blocked_.empty() || !sending_.finished.empty() || !doomed_.empty())
      return Need::now;
    return !may_be_unsure_ ? Need::nothing : sending_.sealed ? Need::now : Need::later;
  }

  /// Connections that have not proven the job key, now. For tests.
  size_t unproven() const { return unproven_; }
  /// Established connections, now. For tests.
  size_t connections() const { return links_; }
  /// Loses the connections to a peer as a network failure would. For tests.
  void break_connection(PeerId peer);
  /// Closes everything at once, as the kernel does when a process is killed; only destruction may follow. For tests.
  void abort();

 private:
  /// Anything that the port watches.
  struct Endpoint {
    enum class Kind : uint8_t { dead, listener, setup, link, interfaces };
    virtual ~Endpoint() = default;
    Kind kind = Kind::dead;
    StreamHandle stream;
    uint32_t interest = 0;  ///< events asked for
    size_t slot = 0;        ///< where it stands in endpoints_
  };
  struct Peer;
  /// A listening socket.
  struct Listener : Endpoint {};
  /// Tells which interfaces go down.
  struct Interfaces : Endpoint {};
  struct Stream;
  /// A connection that is being made.
  struct Setup : Endpoint, ListHook<Setup> {
    explicit Setup(const TcpIdentity& self) : handshake(self) {}
    Setup(const TcpIdentity& self, const RankName& target, uint8_t index, uint32_t number, uint32_t stood)
        : handshake(self, target, index, number, stood), generation(number) {}
    TcpHandshake handshake;
    Stream* lane = nullptr;    ///< outgoing: what we call for; incoming: null
    uint32_t generation = 0;   ///< outgoing
    bool connected = true;     ///< outgoing: false until the kernel has connected
    uint64_t deadline_ns = 0;  ///< ~0: none
    std::string where;         ///< the other end's address, for messages
  };
  /// An established connection.
  struct Link : Endpoint {
    Stream* lane = nullptr;
    std::string where;
  };
  enum class StreamState : uint8_t { fresh, calling, established, ended };
  /// One stream to and from a peer, and the connections it has had. Stream 0 carries all messages in order; further
  /// ones parts of long messages, each over another network if there is one.
  struct Stream : ListHook<Stream> {  // hook: in blocked_
    Stream(Peer& owner, uint8_t number, TcpOutbound::Shared& sending);
    Peer& peer;
    const uint8_t index;
    StreamState state = StreamState::fresh;
    Link* link = nullptr;  ///< owned by endpoints_
    TcpOutbound outbound;
    TcpInbound inbound;
    uint32_t generation = 0;  ///< of the last connection that stood
    uint32_t proposed = 0;    ///< of our last call
    uint32_t network = 0;     ///< our interface it runs over; 0: not known
    bool timed = false;       ///< counted in timed_
    int wake_bytes = 1;       ///< the socket tells a sleeper when it has so many
    Coalescing coalescing;    ///< of its small messages
    ServiceRate rate;         ///< of the parts sent lately
    DrainEstimate drain;      ///< of what our operations wait for
    // Being called:
    Setup* setup = nullptr;                ///< the outgoing attempt, if one is under way
    std::vector<TcpCandidate> candidates;  ///< the first one's network is the lane's own
    size_t next_candidate = 0;
    int rounds = 0;             ///< how often all candidates have been tried
    int hang_ups = 0;           ///< how often a connection ended in its handshake
    bool only_refusals = true;  ///< in this round every address answered "nobody listens here"
    bool refused = false;       ///< in this round one did
    bool unanswered = false;    ///< in this round one said nothing at all: its queue of calls may be full
    bool closed = false;        ///< the peer's host has ended the connection before, it did not just fall silent
    uint64_t give_up_ns = 0;
    uint64_t retry_ns = ~uint64_t{0};
    std::string loss;   ///< how the connection before was lost; empty: there was none
    HostQuestion host;  ///< when nobody has answered for too long
  };
  enum class PeerState : uint8_t { open, departed, lost };
  struct Peer : Lane {
    Peer(PeerId id, Sink& sink, TcpOutbound::Shared& sending);
    PeerState state = PeerState::open;
    bool doomed = false;     ///< in doomed_: its operations fail, and it is lost, in the next poll
    bool announced = false;  ///< the sink knows of the loss
    bool given_up = false;   ///< for another path: a connection that stands does not save it
    bool looked_up = false;
    TcpInbound::Shared receiving;
    std::unique_ptr<Stream> lanes[wire::kMaxLanes];  ///< the first is always there
    std::vector<TcpCandidate> candidates;            ///< best first
    uint32_t stripes = 0;                            ///< messages sent in parts so far, if only one
    std::string trouble;                             ///< the last attempt's, then why the peer is lost
    int error_class = 0;
    Stream& first() { return *lanes[0]; }
  };
  struct Stripe;

  TcpPath(const TcpOptions& options, const Tunables& tunables, std::unique_ptr<StreamPort> port, Clock& clock,
          Sink& sink, Lookup lookup);

  // tcp_path.cc
  Peer& peer_at(PeerId id);
  Stream& stream_at(Peer& peer, size_t index);
  int complete();
  TcpOutbound::Wait may_wait(Stream& lane, const wire::Header& header, size_t bytes);
  void end_bursts();
  int receive(Link& link);
  int receive_waiting(Peer& peer);
  void note_arrived(uint64_t bytes);
  bool flush(Stream& lane, bool more = false);  ///< whether bytes have left, or are known to have arrived
  bool try_again(Stream& lane);                 ///< the same; frees senders
  void look_after_unsure(uint64_t nap_ns);
  void watch_link(Stream& lane);
  void ask_for(Stream& lane, uint64_t bytes);
  int poll_events();
  void heat(Link& link);
  void cool(Link& link);

  // tcp_setup.cc, tcp_accept.cc
  Error start();
  Error listen(const LocalAddress& local, uint16_t first_port, uint16_t& port);
  Error look_up(Peer& peer);
  void contact(Stream& lane);
  void next_attempt(Stream& lane);
  void end_round(Stream& lane);
  bool host_answers(Stream& lane);
  void attempt_failed(Setup& setup, const std::string& trouble);
  void set_timed(Stream& lane, bool timed);
  void accept_some(Listener& listener);
  bool make_room();
  void go_deaf();
  void on_setup(Setup& setup, uint32_t events);
  bool send_output(Setup& setup);
  void commit(Setup& setup);
  void answer(Setup& setup);
  void conclude(Setup& setup);
  void establish(Setup& setup, Stream& lane);
  void drop(Setup& setup);
  void run_timers(uint64_t now);
  Endpoint* adopt(std::unique_ptr<Endpoint> endpoint, Endpoint::Kind kind);
  void watch(Endpoint& endpoint, uint32_t events);
  void retire(Endpoint& endpoint);
  void shape(int stream);

  // tcp_close.cc
  void doom(Peer& peer, int error_class, std::string trouble);
  int lose(Peer& peer);
  int lose_doomed();
  int link_ended(Link& link, TcpInbound::State how);
  void give_up_link(Stream& lane);
  void link_broken(Stream& lane, std::string why, bool network_is_bad);
  void check_links(uint64_t now);
  bool several_networks() const;
  void on_interfaces(Interfaces& watch);
  int fail_operations(Peer& peer);
  Error reason(const Peer& peer) const;
  void close_in_order();

  // tcp_stripe.cc
  void forget_stripes();
  bool stripe(Peer& peer, SendOperation& operation);
  bool may_stripe(Peer& peer);
  size_t open_lanes(Peer& peer, Stream** open);

  TcpOptions options_;
  const PeerTable& table_;
  const std::unique_ptr<StreamPort> port_;  ///< outlives everything that holds a stream of it
  Clock& clock_;
  Sink& sink_;
  Lookup lookup_;
  TcpIdentity identity_;
  std::string card_;
  wire::HostIdentity host_{};
  std::vector<LocalAddress> addresses_;
  std::string interfaces_, congestion_;
  uint16_t first_port_ = 0;
  uint64_t connect_timeout_ns_ = 0;
  size_t max_lanes_ = 1, stripe_bytes_ = 0;
  bool encrypted_ = false;

  std::vector<std::unique_ptr<Peer>> peers_;  ///< by PeerId; null: never heard of
  std::vector<std::unique_ptr<Endpoint>> endpoints_;
  std::vector<std::unique_ptr<Endpoint>> retired_;  ///< may still be named by events that are being handled
  TcpOutbound::Shared sending_;

  /// Connections in their handshake at one time. A peer's hello comes with its connection, and who has
  /// greeted is the last to be put out, so a flood of others does not displace it.
  static constexpr size_t kMaxUnproven = 256;
  static constexpr size_t kHot = 4;
  Link* hot_[kHot] = {};  ///< read without asking epoll; the one that brought something last is first
  size_t hot_count_ = 0;
  uint32_t turn_ = 0;
  uint32_t rounds_since_events_ = 0;
  int armed_ = 0;               ///< threads that sleep on wait_fd
  bool more_ = false;           ///< a connection's turn was over before its data were
  bool may_be_unsure_ = false;  ///< something was sent since `arm` found everything acknowledged (and nothing owed)

  IntrusiveList<Stream> blocked_;  ///< with a connection, and data that the socket did not take or the peer has not got
  std::vector<Stream*> bursts_;    ///< whose small messages may wait for the next
  uint64_t polls_ = 0;
  std::vector<Peer*> doomed_;
  IntrusiveList<Stripe> striped_;       ///< on their way
  IntrusiveList<Setup> unproven_list_;  ///< incoming, oldest first
  size_t unproven_ = 0;
  size_t links_ = 0;
  size_t timed_ = 0;                 ///< lanes that call, or want back to their own network: their timers run
  uint64_t next_check_ns_ = 0;       ///< when links are looked at again
  uint64_t arrived_ns_ = 0;          ///< when much was read of a message that goes on
  uint64_t arrived_bytes_ = 0;       ///< since then
  uint64_t wake_ns_ = ~uint64_t{0};  ///< asleep: when to look after what is not acknowledged
  uint64_t deafness_ends_ns_ = 0;    ///< descriptors ran out: listeners are off until then; 0: they are on
};

}  // namespace tern
