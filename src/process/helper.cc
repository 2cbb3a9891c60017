#include "process/helper.h"

#include <system_error>

#include "base/assert.h"
#include "progress/event_thread.h"

namespace tern {

// Peers that share memory copy for one another, and adapters move data by themselves. The other paths need this rank's
// processor for every message; and a thread helps only if it can sleep on them.
bool Helper::some_peer_needs_it() const {
  for (PeerId peer = 0; peer < PeerId(rank_.peers.size()); ++peer) {
    if (peer == rank_.peers.me() || rank_.node.share_memory_with(peer)) continue;
    const Path* path = rank_.paths.to(peer);
    if (path && path->properties().needs_cpu && path->wait_fd() >= 0) return true;
  }
  return false;
}

Need Helper::needed(bool always, bool windows_only) const {
  const rma::Environment* windows = rank_.windows.get();
  if (windows && windows->wants_polls()) return Need::always;
  if (windows_only) return Need::nothing;
  // Origins of one-sided operations do not wait until a target calls its library.
  if (always || rank_.progress.has_work() || (windows && windows->serves())) return Need::now;
  if (rank_.partitioned.active()) return Need::now;
  return rank_.p2p.pending();
}

void Helper::begin() {
  const std::string& progress = rank_.tunables.progress;
  const bool shares_cores = rank_.tunables.oversubscribed == 1;
  const bool polls_windows = rank_.windows && rank_.windows->wants_polls();
  if (handler_ && polls_windows) handler_->poll_always();
  if (handler_ || (progress == "polling" && !polls_windows) || rank_.peers.size() == 1) return;
  const bool serves_windows = rank_.windows && rank_.windows->serves();
  if (progress == "auto" && !serves_windows && !some_peer_needs_it()) return;
  // A rank that only receives should not take the core from one that computes.
  const bool every_arrival = progress == "event-driven";
  const bool always = every_arrival || (progress == "event" && !shares_cores);
  const bool windows_only = progress == "polling";
  try {
    port_ = make_port_ ? make_port_(rank_.progress) : std::make_unique<EventThread>(rank_.progress, !shares_cores);
    handler_ = std::make_unique<EventHandler>(
        rank_.progress, *port_, [this, always, windows_only] { return needed(always, windows_only); },
        shares_cores ? EventLimits::shared_cores() : EventLimits(), every_arrival ? Arrivals::all : Arrivals::outside);
    if (rank_.engines) handler_->count_short_calls([&engines = *rank_.engines] { return engines.calls(); });
    port_->start(*handler_);
  } catch (const std::system_error& error) {
    handler_.reset();
    port_.reset();
    rank_.log.warn("no event thread can be had: " + errno_text(error.code().value()) +
                   ". Messages move only while this rank is inside MPI calls (as with TERN_PROGRESS=polling)");
    return;
  }
  rank_.driving.set_successor(handler_.get());
  set_helped(true);
}

void Helper::end() {
  if (!handler_) return;
  TERN_ASSERT(!rank_.driving.in_round());
  rank_.driving.set_successor(nullptr);
  const uint32_t depth = rank_.driving.give_way();  // the thread may be waiting for the mutex
  port_->stop();
  rank_.driving.come_back(depth);
  handler_.reset();
  port_.reset();
  set_helped(false);
}

void Helper::set_helped(bool helped) {
  if (rank_.engines) rank_.engines->close();
  rank_.paths.set_helped(helped);
}

}  // namespace tern
