// The records of the TCP path: a peer, its streams, their connections, connections in the making. Plain data; each
// field says what it means, the owner of each object who changes it (tcp_path.h).
//
//   Peer -- Stream 0 (all messages in order) -- Link (an established connection)
//        -- Stream 1 (parts of long messages) -- Setup (a connection in the making)
//
// Thread rule: under the rank's lock.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/intrusive_list.h"
#include "fabric/coalescing.h"
#include "fabric/ip/interfaces.h"
#include "fabric/ip/stream_port.h"
#include "fabric/lane.h"
#include "fabric/tcp/call_policy.h"
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
  StreamHandle handle;
  uint32_t interest = 0;  ///< events asked for
  size_t slot = 0;        ///< its place in the WatchSet
};

/// A listening socket.
struct Listener : Watched {
  static constexpr Kind kKind = Kind::listener;
};

/// Reports interfaces that go down.
struct Interfaces : Watched {
  static constexpr Kind kKind = Kind::interfaces;
};

/// A connection in the making.
struct Setup : Watched, ListHook<Setup> {  // hook: in Admission
  static constexpr Kind kKind = Kind::setup;
  explicit Setup(const TcpIdentity& self) : handshake(self) {}
  Setup(const TcpIdentity& self, const RankName& target, uint8_t index, uint32_t number, uint32_t stood)
      : handshake(self, target, index, number, stood), generation(number) {}
  TcpHandshake handshake;
  Stream* stream = nullptr;  ///< outgoing: the calling stream; incoming: null
  uint32_t generation = 0;   ///< outgoing
  bool connected = true;     ///< outgoing: false until the kernel has connected
  uint64_t deadline_ns = 0;  ///< ~0: none
  std::string where;         ///< the other end's address, for messages
};

/// An established connection.
struct Link : Watched {
  static constexpr Kind kKind = Kind::link;
  Stream* stream = nullptr;
  std::string where;
};

enum class StreamState : uint8_t { fresh, calling, established, ended };

/// One stream to and from a peer, over one connection after the other. Stream 0 carries all messages in order; further
/// ones parts of long messages, each over another network if there is one.
struct Stream : ListHook<Stream> {  // hook: in the path's blocked streams
  Stream(Peer& owner, uint8_t number, TcpOutbound::Shared& sending);
  Peer& peer;
  const uint8_t index;
  StreamState state = StreamState::fresh;
  Link* link = nullptr;  ///< owned by the WatchSet
  TcpOutbound outbound;
  TcpInbound inbound;
  uint32_t generation = 0;  ///< of the last established connection
  uint32_t proposed = 0;    ///< of our last call
  uint32_t confirmed = 0;   ///< the last connection that the peer is known to use: by its verdict on our call
  uint32_t network = 0;     ///< our interface that it uses; 0: not known
  bool timed = false;       ///< in CallTimers
  int wake_bytes = 1;       ///< bytes at which the socket wakes a sleeper
  Coalescing coalescing;    ///< of its small messages
  ServiceRate rate;         ///< of the parts sent lately
  DrainEstimate drain;      ///< of the data that operations wait for
  // While calling:
  Setup* setup = nullptr;  ///< the outgoing attempt, if there is one
  CallPolicy call;
  uint64_t retry_ns = ~uint64_t{0};
  uint64_t warn_ns = ~uint64_t{0};  ///< when the user is told that nobody answers
  std::string loss;                 ///< how the last connection was lost; empty: there was none

  /// When its attempt, or the pause before the next one, is over, or something is to be said of it.
  uint64_t due_ns() const { return std::min(setup ? setup->deadline_ns : retry_ns, warn_ns); }
};

enum class PeerState : uint8_t { open, departed, lost };

struct Peer : Lane {
  Peer(PeerId id, Sink& sink, TcpOutbound::Shared& sending);
  PeerState state = PeerState::open;
  bool doomed = false;     ///< lost in the next poll; its operations fail then
  bool announced = false;  ///< the sink knows of the loss
  bool given_up = false;   ///< in favour of another path: an established connection does not save it
  bool looked_up = false;
  TcpInbound::Shared receiving;
  /// The first is always there, until the peer has said goodbye: then there are none.
  std::unique_ptr<Stream> streams[wire::kMaxStreams];
  SendList stranded;                     ///< operations begun since then; they fail in the next poll
  std::vector<TcpCandidate> candidates;  ///< best first
  uint32_t stripes = 0;                  ///< messages sent in parts so far
  std::string trouble;                   ///< the last attempt's, then why the peer is lost
  int error_class = 0;
  Stream& first() { return *streams[0]; }
  /// Takes back all operations that have not left.
  void surrender(SendList& out) {
    for (auto& stream : streams) {
      if (stream) stream->outbound.surrender(out);
    }
    while (SendOperation* operation = stranded.pop_front()) out.push_back(operation);
  }
  bool has_departed() const { return state == PeerState::departed || !streams[0]; }
  bool connected() const { return streams[0] && streams[0]->link; }
  Error reason() const { return Error(error_class, "rank " + std::to_string(id) + ": " + trouble); }
};

}  // namespace tern::tcp
