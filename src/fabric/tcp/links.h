// The records of the TCP path: a peer, its streams, their connections, connections that are being made. Plain data,
// each field with what it means; who changes it is said where its object is (tcp_path.h).
//
//   Peer -- Stream 0 (all messages in order) -- Link (a connection that stands)
//        -- Stream 1 (parts of long messages) -- Setup (one that is being made)
//
// Thread rule: under the rank's lock.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/intrusive_list.h"
#include "fabric/ip/coalescing.h"
#include "fabric/ip/host_question.h"
#include "fabric/ip/interfaces.h"
#include "fabric/ip/stream_port.h"
#include "fabric/lane.h"
#include "fabric/tcp/drain_estimate.h"
#include "fabric/tcp/handshake.h"
#include "fabric/tcp/inbound.h"
#include "fabric/tcp/outbound.h"
#include "fabric/tcp/stripe_shares.h"

namespace tern::tcp {

struct Peer;
struct Stream;

/// Anything that the port watches. Owned by the WatchSet.
struct Watched {
  enum class Kind : uint8_t { dead, listener, setup, link, interfaces };
  virtual ~Watched() = default;
  Kind kind = Kind::dead;
  StreamHandle stream;
  uint32_t interest = 0;  ///< events asked for
  size_t slot = 0;        ///< where it stands in the WatchSet
};

/// A listening socket.
struct Listener : Watched {
  static constexpr Kind kKind = Kind::listener;
};

/// Tells which interfaces go down.
struct Interfaces : Watched {
  static constexpr Kind kKind = Kind::interfaces;
};

/// A connection that is being made.
struct Setup : Watched, ListHook<Setup> {  // hook: in Admission
  static constexpr Kind kKind = Kind::setup;
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
struct Link : Watched {
  static constexpr Kind kKind = Kind::link;
  Stream* lane = nullptr;
  std::string where;
};

enum class StreamState : uint8_t { fresh, calling, established, ended };

/// One stream to and from a peer, and the connections it has had. Stream 0 carries all messages in order; further
/// ones parts of long messages, each over another network if there is one.
struct Stream : ListHook<Stream> {  // hook: in the path's blocked streams
  Stream(Peer& owner, uint8_t number, TcpOutbound::Shared& sending);
  Peer& peer;
  const uint8_t index;
  StreamState state = StreamState::fresh;
  Link* link = nullptr;  ///< owned by the WatchSet
  TcpOutbound outbound;
  TcpInbound inbound;
  uint32_t generation = 0;  ///< of the last connection that stood
  uint32_t proposed = 0;    ///< of our last call
  uint32_t confirmed = 0;   ///< the last connection that the peer is known to have taken: by its verdict on our call
  uint32_t network = 0;     ///< our interface it runs over; 0: not known
  bool timed = false;       ///< in CallTimers
  int wake_bytes = 1;       ///< the socket tells a sleeper when it has so many
  Coalescing coalescing;    ///< of its small messages
  ServiceRate rate;         ///< of the parts sent lately
  DrainEstimate drain;      ///< of what our operations wait for
  // Being called:
  Setup* setup = nullptr;                ///< the outgoing attempt, if one is under way
  std::vector<TcpCandidate> candidates;  ///< the first one's network is the stream's own
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

  /// When its attempt, or the pause before the next, is over.
  uint64_t due_ns() const { return setup ? setup->deadline_ns : retry_ns; }
};

enum class PeerState : uint8_t { open, departed, lost };

struct Peer : Lane {
  Peer(PeerId id, Sink& sink, TcpOutbound::Shared& sending);
  PeerState state = PeerState::open;
  bool doomed = false;     ///< its operations fail, and it is lost, in the next poll
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
  Error reason() const { return Error(error_class, "rank " + std::to_string(id) + ": " + trouble); }
};

}  // namespace tern::tcp
