// The scheduler's own messages to the peer's scheduler (wire/lanes.h), which are not counted among those of the lane.
// Thread rule: under the rank's lock.
#pragma once

#include <cstdint>

#include "base/assert.h"
#include "base/pool.h"
#include "fabric/scheduler/pair.h"
#include "wire/lanes.h"

namespace tern::scheduler {

class PeerNotes {
 public:
  /// Goes behind everything sent on that route. `path`: index of the route that it is about.
  void post(Route& route, wire::LaneKind kind, uint8_t path, uint32_t incarnation = 0, uint64_t count = 0) {
    route.note_use();
    const wire::Header header = wire::make_lane_header(kind, path, route.pair->incident, incarnation, count);
    if (route.path->try_send(*route.lane, header, nullptr, 0)) return;
    Note* note = queued_.create();
    TERN_DEBUG_ASSERT(route.pair && route.lane);
    note->owner = this;
    note->lane = route.lane;
    note->header = header;
    note->done = [](SendOperation& operation, Error) {
      auto& self = static_cast<Note&>(operation);
      self.owner->queued_.destroy(&self);
    };
    route.path->enqueue(*note);
  }

 private:
  struct Note final : SendOperation {
    PeerNotes* owner = nullptr;
  };
  Pool<Note, 16> queued_;  ///< in the paths' queues; a path may end before it has sent them
};

}  // namespace tern::scheduler
