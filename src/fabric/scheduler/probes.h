// Failing back: whether a better path works again. The lower rank of the pair asks, after a pause that doubles, so that
// two probes do not cross:
//
//     probe(path) over the lane in use; both restart that lane; hello and welcome over it.
//
// Units: nanoseconds. Thread rule: under the rank's lock.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/clock.h"
#include "base/peer_table.h"
#include "fabric/scheduler/pair.h"
#include "fabric/scheduler/peer_notes.h"

namespace tern::scheduler {

class Probes {
 public:
  /// All references outlive this. `first_ns`: the first pause. `hints`: not dormant while a probe is planned.
  Probes(const PeerTable& table, Clock& clock, PeerNotes& notes, PollHints& hints, uint64_t first_ns)
      : table_(table), clock_(clock), notes_(notes), hints_(hints), first_ns_(first_ns) {}

  /// If a better route than the one in use is down, it is probed after a pause.
  void plan(Pair& pair);
  /// Sends the probes that are due.
  void run(const std::vector<std::unique_ptr<Pair>>& pairs);
  bool planned() const { return next_ns_ != ~uint64_t{0}; }
  uint64_t next_ns() const { return next_ns_; }

  /// The peer's messages. `route`: over which they came.
  void on_probe(Route& route, const wire::Header& header);
  void on_probed(Route& route, const wire::Header& header);
  /// Over the probed route itself. True: it works.
  bool on_hello(Route& route, const wire::Header& header);
  bool on_welcome(Route& route, const wire::Header& header) const {
    return route.state == RouteState::probing && uint32_t(header.tag) == route.incarnation;
  }

 private:
  const PeerTable& table_;
  Clock& clock_;
  PeerNotes& notes_;
  PollHints& hints_;
  const uint64_t first_ns_;
  uint64_t next_ns_ = ~uint64_t{0};
};

}  // namespace tern::scheduler
