// Stripes: long messages that are sent in parts, over several streams of their peer (tcp_stripe.cc has the
// drawing). Thread rule: under the rank's lock.
#pragma once

#include <span>

#include "base/clock.h"
#include "base/counters.h"
#include "base/intrusive_list.h"
#include "fabric/tcp/links.h"

namespace tern::tcp {

class Stripes {
 public:
  /// Not owned; outlives this.
  explicit Stripes(Clock& clock) : clock_(clock) {}
  /// Messages still under way are dropped; their done-functions are not called.
  ~Stripes();

  /// Divides the operation among the streams (two or more established ones; the peer's first is the first of them) and
  /// enqueues the parts. The caller flushes the first and those with shares. After the last part the operation's
  /// done-function is due.
  void send(Peer& peer, SendOperation& operation, std::span<Stream* const> open, size_t* shares, Counters& counters);

 private:
  struct Stripe;
  Clock& clock_;
  IntrusiveList<Stripe> striped_;  ///< under way
};

}  // namespace tern::tcp
