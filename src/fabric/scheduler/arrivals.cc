// Arrivals on the lanes: counted, and passed up in the order in which they were sent. See path_scheduler.h.
#include "base/assert.h"
#include "fabric/scheduler/path_scheduler.h"

namespace tern {
namespace {

// Removes the scheduler's part from a header.
wire::Header accept(scheduler::Pair& pair, const wire::Header& header) {
  if (const int confirmed = header.flags >> wire::kConfirmShift; confirmed != 0)
    pair.unconfirmed.confirm(uint64_t(confirmed));
  return wire::make_header(header.kind, header.source, header.context, header.tag, header.token,
                           uint8_t(header.flags & wire::kKindFlags), header.carried);
}

}  // namespace

PathScheduler::Route& PathScheduler::route_of(Lane& lane) {
  if (!lane.owner) [[unlikely]]
    pair_at(lane.id);  // makes the owners of its lanes
  Route& route = *static_cast<Route*>(lane.owner);
  TERN_DEBUG_ASSERT(route.lane == &lane && route.index < route.pair->routes.size());
  route.note_use();
  return route;
}

void PathScheduler::on_message(Lane& from, const wire::Header& header, const std::byte* payload, size_t bytes) {
  Route& route = route_of(from);
  Pair& pair = *route.pair;
  if (wire::is_lane_kind(header.kind)) [[unlikely]] {
    on_control(route, header);
    return;
  }
  if (!pair.takes(route)) return;
  const wire::Header own = accept(pair, header);
  TERN_DEBUG_ASSERT(pair.phase != Phase::lost && !pair.arriving.open());
  if (pair.arrivals.count(bytes)) confirm_soon(pair);
  if (pair.arriving.begin_again()) [[unlikely]] {
    pair.arriving.end();
    Landing landing = pair.arriving.landing;
    landing.target.unpack(payload, bytes);
    sink_.on_landed(pair, own, landing, bytes, Error());
    return;
  }
  sink_.on_message(pair, own, payload, bytes);
}

Landing PathScheduler::on_header(Lane& from, const wire::Header& header, size_t bytes) {
  Route& route = route_of(from);
  Pair& pair = *route.pair;
  if (!pair.takes(route)) return {};
  const wire::Header own = accept(pair, header);
  TERN_DEBUG_ASSERT(!pair.arriving.open());
  if (!pair.arriving.begin_again()) pair.arriving.begin(own, sink_.on_header(pair, own, bytes), bytes);
  return pair.arriving.landing;
}

void PathScheduler::on_landed(Lane& from, const wire::Header&, Landing&, size_t bytes, Error error) {
  Route& route = route_of(from);
  Pair& pair = *route.pair;
  if (route.index != pair.in || !pair.arriving.open()) return;  // discarded, or it comes again
  if (error) return pair.arriving.interrupt();                  // on_peer_lost follows
  pair.arriving.end();
  if (pair.arrivals.count(bytes)) confirm_soon(pair);
  Landing landing = pair.arriving.landing;
  sink_.on_landed(pair, pair.arriving.header, landing, bytes, Error());
}

void PathScheduler::on_control(Route& route, const wire::Header& header) {
  Pair& pair = *route.pair;
  if (pair.phase == Phase::lost) return;
  switch (wire::LaneKind(header.kind)) {
    case wire::LaneKind::resume: on_resume(route, header); return;
    case wire::LaneKind::confirm:
      if (pair.takes(route)) pair.unconfirmed.confirm_up_to(header.context);
      return;
    case wire::LaneKind::probe: probes_.on_probe(route, header); return;
    case wire::LaneKind::probed: probes_.on_probed(route, header); return;
    case wire::LaneKind::hello:
      if (probes_.on_hello(route, header)) route_works(route);
      return;
    case wire::LaneKind::welcome:
      if (probes_.on_welcome(route, header)) route_works(route);
      return;
    case wire::LaneKind::leave: on_leave(route, header); return;
    case wire::LaneKind::left: on_left(route, header); return;
  }
}

}  // namespace tern
