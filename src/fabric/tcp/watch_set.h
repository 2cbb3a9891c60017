// WatchSet: everything that the port watches for the TCP path, and its owner.
//
// An event may still name something that was retired while events are handled: it stays, marked dead, until the next
// poll. Thread rule: under the rank's lock.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "base/assert.h"
#include "fabric/tcp/links.h"

namespace tern::tcp {

class WatchSet {
 public:
  /// The port is not owned, and outlives this.
  explicit WatchSet(StreamPort& port) : port_(port) {}

  /// Takes ownership; nothing is watched yet.
  template <typename Kind>
  Kind& adopt(std::unique_ptr<Kind> watched) {
    Kind& entered = *watched;
    entered.kind = Kind::kKind;
    entered.slot = all_.size();
    all_.push_back(std::move(watched));
    return entered;
  }
  void watch(Watched& watched, uint32_t events) {
    if (watched.interest == events) return;
    port_.watch(watched.handle.get(), watched.interest, events, &watched);
    watched.interest = events;
  }
  /// Closes its stream.
  void retire(Watched& watched) {
    if (watched.handle) watch(watched, 0);
    watched.handle.reset();
    TERN_DEBUG_ASSERT(watched.kind != Watched::Kind::dead);
    watched.kind = Watched::Kind::dead;
    const size_t slot = watched.slot;
    TERN_DEBUG_ASSERT(slot < all_.size() && all_[slot].get() == &watched);
    retired_.push_back(std::move(all_[slot]));
    if (slot + 1 != all_.size()) {
      all_[slot] = std::move(all_.back());
      all_[slot]->slot = slot;
    }
    all_.pop_back();
  }
  /// Frees what was retired: no event names it any more.
  void forget_retired() { retired_.clear(); }
  void retire_all() {
    while (!all_.empty()) retire(*all_.back());
  }
  /// Calls `visit` with each of that kind; it must not adopt or retire any.
  template <typename Kind, typename Visit>
  void each(Visit&& visit) {
    for (auto& watched : all_) {
      if (watched->kind == Kind::kKind) visit(static_cast<Kind&>(*watched));
    }
  }

 private:
  StreamPort& port_;
  std::vector<std::unique_ptr<Watched>> all_, retired_;
};

}  // namespace tern::tcp
