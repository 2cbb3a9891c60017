// CallPolicy: how a stream reaches its peer: which of the peer's addresses is tried next and for how long, what the
// answers mean, and when the peer is lost. It decides only; the Connector calls, waits, and tells it what became of an
// attempt.
//
//   begin -> next, failed, next, failed, ... (no address left) -> end_round -> pause -> next, failed, ... -> lost
//
// Owns the addresses, the marks of the present round and the question to the peer's host. Units: nanoseconds. Thread
// rule: a value of its stream.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "fabric/ip/host_question.h"
#include "fabric/ip/interfaces.h"

namespace tern::tcp {

class CallPolicy {
 public:
  /// What ended an attempt. `other`: its handshake did, or this host.
  enum class Failure : uint8_t { refused, unreachable, unanswered, other };
  /// What follows when no address is left. `host_lives`: a pause, and the time limit has begun again.
  enum class Outcome : uint8_t { pause, host_lives, lost };

  /// Begins, for the first time or after a connection was lost. `ways`: one or more, best first; stream k prefers the
  /// k-th of their networks. `limit_ns`: how long a peer may stay silent.
  void begin(std::vector<TcpCandidate> ways, size_t stream, uint64_t now_ns, uint64_t limit_ns);
  /// Of an earlier connection: the peer's host has closed it, it did not just fall silent.
  void note_closed(bool closed) { closed_ = closed; }
  /// A connection is there.
  void succeed();
  /// The time limit begins again.
  void extend(uint64_t now_ns) { give_up_ns_ = now_ns + limit_ns_; }

  /// The address to try now; null: none is left. `own_network`: only addresses of the stream's own network.
  const TcpCandidate* next(bool own_network);
  /// When an attempt at that address is over.
  uint64_t attempt_ends_ns(uint64_t now_ns) const;
  /// An attempt has ended. `what` names the address and the reason. `connected`: the peer's kernel had accepted it.
  void failed(std::string what, Failure why, bool connected, uint64_t now_ns);
  /// The next round begins with the first address.
  void rewind() { next_ = 0; }
  /// The next address is the first that is not of that network, if there is one.
  void avoid(uint32_t network);
  /// No address is left. May ask the peer's host by `port`, which outlives this.
  Outcome end_round(StreamPort& port, uint64_t now_ns);
  /// After end_round: the time until the addresses are tried again.
  uint64_t pause_ns() const;

  /// All addresses of this round that have not led to the peer, and why.
  std::string troubles() const;
  /// The stream's own network is known, and another one than `network`.
  bool wants_back_from(uint32_t network) const;
  /// Best first; empty before the first call.
  const std::vector<TcpCandidate>& ways() const { return ways_; }
  uint64_t give_up_ns() const { return give_up_ns_; }

 private:
  bool host_answers(StreamPort& port, uint64_t now_ns);
  void forget_round();

  std::vector<TcpCandidate> ways_;  ///< the first one's network is the stream's own
  size_t next_ = 0;
  std::vector<std::string> tried_;  ///< in this round
  uint64_t limit_ns_ = 0, give_up_ns_ = 0;
  int rounds_ = 0;             ///< how often all addresses have been tried
  int hang_ups_ = 0;           ///< how often a connection ended in its handshake
  bool again_ = false;         ///< there was a connection before
  bool closed_ = false;        ///< its peer's host has closed it
  bool only_refusals_ = true;  ///< in this round every address has refused the call
  bool refused_ = false;       ///< in this round one has
  bool unanswered_ = false;    ///< in this round one has not answered: its queue of calls may be full
  HostQuestion host_;          ///< asked when no address has answered for too long
};

}  // namespace tern::tcp
