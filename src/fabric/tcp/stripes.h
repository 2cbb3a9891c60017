// Stripes: the long messages that are being sent in parts, over several streams of their peer (tcp_stripe.cc has the
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
  /// What is still on its way is forgotten; its messages' done-functions are not called.
  ~Stripes();

  /// Shares the operation out among the streams (two or more, that stand; the peer's first is the first of them) and
  /// enqueues the parts; the caller flushes those of which `shares` is not 0, and the first. From the last part on, the
  /// operation's done-function is due.
  void send(Peer& peer, SendOperation& operation, std::span<Stream* const> open, size_t* shares, Counters& counters);

 private:
  struct Stripe;
  Clock& clock_;
  IntrusiveList<Stripe> striped_;  ///< on their way
};

}  // namespace tern::tcp
