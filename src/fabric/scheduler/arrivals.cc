// Arrivals on the lanes: counted, and passed up in the order in which they were sent. See path_scheduler.h.
#include "base/assert.h"
#include "fabric/scheduler/path_scheduler.h"

namespace tern {

PathScheduler::Route& PathScheduler::route_of(Lane& lane) {
  if (!lane.owner) [[unlikely]]
    pair_at(lane.id);  // makes the owners of its lanes
  Route& route = *static_cast<Route*>(lane.owner);
  TERN_DEBUG_ASSERT(route.lane == &lane && route.index < route.pair->routes.size());
  used_ |= route.path_bit;
  return route;
}

// Whether an arrival on this lane is the peer's next message. If not, the peer has left the lane, and the message comes
// again over another one.
bool PathScheduler::takes(const Route& route) const {
  const Pair& pair = *route.pair;
  if (pair.phase == Phase::lost || (pair.phase == Phase::resuming && !pair.peer_resumed)) return false;
  return route.index == pair.in;
}

// Removes the scheduler's part from a header.
wire::Header PathScheduler::accept(Pair& pair, const wire::Header& header) {
  if (const int confirmed = header.flags >> wire::kConfirmShift; confirmed != 0)
    confirm_up_to(pair, pair.confirmed + uint64_t(confirmed));
  return wire::make_header(header.kind, header.source, header.context, header.tag, header.token,
                           uint8_t(header.flags & wire::kKindFlags), header.carried);
}

void PathScheduler::on_message(Lane& from, const wire::Header& header, const std::byte* payload, size_t bytes) {
  Route& route = route_of(from);
  Pair& pair = *route.pair;
  if (wire::is_lane_kind(header.kind)) [[unlikely]] {
    on_control(route, header);
    return;
  }
  if (!takes(route)) return;
  const wire::Header own = accept(pair, header);
  TERN_DEBUG_ASSERT(pair.phase != Phase::lost && !pair.landing_open);
  count_arrival(pair, bytes);
  if (pair.interrupted) [[unlikely]] {
    pair.interrupted = false;
    Landing landing = pair.landing;
    landing.target.unpack(payload, bytes);
    sink_.on_landed(pair, own, landing, bytes, Error());
    return;
  }
  sink_.on_message(pair, own, payload, bytes);
}

Landing PathScheduler::on_header(Lane& from, const wire::Header& header, size_t bytes) {
  Route& route = route_of(from);
  Pair& pair = *route.pair;
  if (!takes(route)) return {};
  const wire::Header own = accept(pair, header);
  TERN_DEBUG_ASSERT(!pair.landing_open);
  pair.landing_open = true;
  if (pair.interrupted) {
    pair.interrupted = false;
    return pair.landing;
  }
  pair.landing_header = own;
  pair.landing_bytes = bytes;
  TERN_DEBUG_ASSERT(pair.landing_open && !pair.interrupted);
  pair.landing = sink_.on_header(pair, own, bytes);
  return pair.landing;
}

void PathScheduler::on_landed(Lane& from, const wire::Header&, Landing&, size_t bytes, Error error) {
  Route& route = route_of(from);
  Pair& pair = *route.pair;
  if (route.index != pair.in || !pair.landing_open) return;  // discarded, or it comes again
  pair.landing_open = false;
  if (error) {  // on_peer_lost follows
    pair.interrupted = true;
    return;
  }
  count_arrival(pair, bytes);
  Landing landing = pair.landing;
  sink_.on_landed(pair, pair.landing_header, landing, bytes, Error());
}

void PathScheduler::on_control(Route& route, const wire::Header& header) {
  Pair& pair = *route.pair;
  if (pair.phase == Phase::lost) return;
  switch (wire::LaneKind(header.kind)) {
    case wire::LaneKind::resume: on_resume(route, header); return;
    case wire::LaneKind::confirm:
      if (takes(route)) confirm_up_to(pair, header.context);
      return;
    case wire::LaneKind::probe: on_probe(route, header); return;
    case wire::LaneKind::probed: on_probed(route, header); return;
    case wire::LaneKind::hello:
      if (route.state != RouteState::probing || uint32_t(header.tag) != route.incarnation) return;
      post(route, wire::LaneKind::welcome, route.index, route.incarnation);
      route_works(route);
      return;
    case wire::LaneKind::welcome:
      if (route.state == RouteState::probing && uint32_t(header.tag) == route.incarnation) route_works(route);
      return;
    case wire::LaneKind::leave: on_leave(route, header); return;
    case wire::LaneKind::left: on_left(route, header); return;
  }
}

}  // namespace tern
