// Connector: how connections are made. It calls peers (call_policy.h decides where and how long), admits callers,
// carries the handshake through on both sides, and decides of two connections made at the same time which one is kept
// (the lower rank's). An established connection is given to Traffic; a peer that cannot be reached is doomed (peers.h).
//
// The peer's card (wire/card.h) is looked up, its addresses are tried in the order of interfaces.h, both sides prove
// the job key (handshake.h). Nothing is sent on a connection before its last handshake message, so no message is lost
// in this.
//
// Owns the connections in the making (their memory is the WatchSet's), this host's listeners and the timers of calls.
// Invariants: a stream has an outgoing attempt exactly when its `setup` is set; an incoming one has no stream until it
// is proven. connector.cc: calls and timers; connector_accept.cc: incoming calls and the handshake.
// Thread rule: as Path. Units: nanoseconds.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/tunables.h"
#include "fabric/ip/stream_port.h"
#include "fabric/tcp/admission.h"
#include "fabric/tcp/call_timers.h"
#include "fabric/tcp/handshake.h"
#include "fabric/tcp/links.h"
#include "fabric/tcp/local_host.h"
#include "fabric/tcp/peers.h"
#include "fabric/tcp/traffic.h"
#include "fabric/tcp/watch_set.h"

namespace tern::tcp {

class Connector {
 public:
  /// Gets what `peer` published as its card; called on first contact only. May block (a question to the launcher).
  using Lookup = std::function<Error(PeerId peer, std::string& card)>;
  struct Options {
    TcpIdentity identity;
    Lookup lookup;
    int send_buffer_bytes = 0;      ///< of every connection; 0: the kernel's choice
    uint64_t silence_limit_ns = 0;  ///< how long a peer may stay silent
    const Log* log = nullptr;       ///< not owned; may be null
  };

  /// None of the references is owned; all outlive this.
  Connector(Options options, const Tunables& tunables, StreamPort& port, Clock& clock, WatchSet& watched, Peers& peers,
            Traffic& traffic)
      : options_(std::move(options)),
        port_(port),
        clock_(clock),
        watched_(watched),
        peers_(peers),
        traffic_(traffic),
        host_(port, tunables) {}
  /// Listens (LocalHost::listen).
  Error listen(const std::vector<LocalAddress>& addresses, bool this_host_only);
  const LocalHost& host() const { return host_; }
  bool encrypts() const { return options_.identity.encrypts; }

  // --- Calls.

  /// Learns the peer's addresses, once.
  Error look_up(Peer& peer);
  /// Calls: for the first time, or after a connection was lost.
  void contact(Stream& stream);
  /// The stream's connection is over: it continues over another one. (No sink is called here.)
  void call_again(Stream& stream, std::string why, bool network_is_bad);
  /// An outgoing attempt has ended without a connection.
  void attempt_failed(Setup& setup, const std::string& trouble, CallPolicy::Failure why = CallPolicy::Failure::other);
  /// The stream calls no more.
  void stop(Stream& stream);

  // --- Events and timers.

  void accept_some(Listener& listener);
  /// `events` have come for it.
  void advance(Setup& setup, uint32_t events);
  void run_timers(uint64_t now);
  uint64_t next_deadline_ns() const { return std::min(admission_.next_deadline_ns(), calls_.next_deadline_ns()); }
  bool calling() const { return !calls_.empty(); }
  /// Something is in the making, or callers wait.
  bool busy() const { return calling() || unproven() != 0 || admission_.paused(); }
  size_t unproven() const { return admission_.unproven(); }

 private:
  void next_attempt(Stream& stream);
  void begin_attempt(Stream& stream, std::unique_ptr<Setup> setup);
  void end_round(Stream& stream);
  void note_failure(Stream& stream, std::string what, CallPolicy::Failure why, bool connected);
  void on_call_due(Stream& stream);
  void warn_of_silence(Stream& stream);
  void drop(Setup& setup);
  void shape(int handle);

  bool make_room();
  void pause_accepting();
  void doom_unconnected(int error);
  void fail(Setup& setup, const std::string& trouble);
  void await_rest(Setup& setup);
  bool send_output(Setup& setup);
  void commit(Setup& setup);
  void answer(Setup& setup);
  void conclude(Setup& setup);
  void establish(Setup& setup, Stream& stream);

  const Options options_;
  StreamPort& port_;
  Clock& clock_;
  WatchSet& watched_;
  Peers& peers_;
  Traffic& traffic_;
  LocalHost host_;
  Admission admission_;
  CallTimers calls_;
  bool warned_ = false;  ///< of a peer that does not answer
};

}  // namespace tern::tcp
