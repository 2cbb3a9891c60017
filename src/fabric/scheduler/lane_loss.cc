// Loss of lanes, going on over other lanes, and changing back. See path_scheduler.h.
#include <algorithm>
#include <utility>

#include "base/assert.h"
#include "fabric/scheduler/path_scheduler.h"

namespace tern {

void PathScheduler::say(const Pair& pair, const std::string& what) const {
  if (log_) log_->info("rank " + std::to_string(pair.id) + ": " + what);
}

void PathScheduler::tell(Event event, const Pair& pair) const {
  if (counters().watched != 0) counters().tell(event, {int32_t(pair.id), 0, pair.incident, 0});
}

// A lane's path reports the lane as lost, after Path::give_up or by itself.
void PathScheduler::on_peer_lost(Lane& from, Error error) {
  Route& route = route_of(from);
  Pair& pair = *route.pair;
  const bool queues = route.index == 0 && std::exchange(pair.queues, false);
  lose_route(route, error);
  if (queues && pair.phase != Phase::lost) sink_.on_queues_lost(pair);
}

void PathScheduler::lose_route(Route& route, const Error& error) {
  Pair& pair = *route.pair;
  const bool wanted = route.state == RouteState::closing;
  TERN_DEBUG_ASSERT(pair.out < pair.routes.size() && &pair.routes[route.index] == &route);
  route.state = RouteState::down;
  if (pair.phase == Phase::lost) return;
  if (!wanted || pair.trouble.empty()) pair.trouble = std::string(error.text());
  if (pair.phase == Phase::resuming && !(pair.resume_sent && route.index == pair.out)) {
    if (!pair.resume_sent) send_resume(pair);
    return;
  }
  const bool used = route.index == pair.out || route.index == pair.in ||
                    (pair.phase == Phase::leaving && route.index == pair.next_out);
  if (!used) {
    probes_.plan(pair);
    return;
  }
  say(pair, std::string(route.path->properties().name) + " is lost (" + pair.trouble + ")");
  begin_resume(pair, route.index, pair.incident + 1);
  send_resume(pair);
}

// Both sides call this once for each incident, because of the loss itself or of the other side's resume.
void PathScheduler::begin_resume(Pair& pair, uint8_t lost_route, uint32_t incident) {
  TERN_ASSERT(pair.phase != Phase::lost && lost_route < pair.routes.size());
  if (pair.phase == Phase::steady) ++unsettled_;
  pair.phase = Phase::resuming;
  pair.incident = incident;
  pair.lost_route = lost_route;
  TERN_DEBUG_ASSERT(unsettled_ != 0);
  pair.resume_sent = pair.peer_resumed = false;
  tell(Event::path_lost, pair);
  pair.arriving.interrupt();
  Route& lost = pair.routes[lost_route];
  if (lost.state == RouteState::up || lost.state == RouteState::probing) {
    lost.state = RouteState::closing;
    lost.path->give_up(*lost.lane);
  }
}

// Called when nothing more comes from the lost lane: the number of arrived messages is final.
void PathScheduler::send_resume(Pair& pair) {
  TERN_ASSERT(pair.phase == Phase::resuming && !pair.resume_sent);
  if (std::any_of(pair.routes.begin(), pair.routes.end(),
                  [](const Route& route) { return route.state == RouteState::closing; }))
    return;
  Route* chosen = pair.choose_route();
  if (!chosen) {
    lose(pair, Error(ErrorClass::proc_aborted, pair.trouble));
    return;
  }
  pair.out = chosen->index;
  pair.resume_sent = true;
  pair.arrivals.tell_all();
  say(pair, std::string("going on over ") + chosen->path->properties().name);
  notes_.post(*chosen, wire::LaneKind::resume, pair.lost_route, 0, pair.arrivals.arrived());
  try_finish_resume(pair);
}

void PathScheduler::on_resume(Route& route, const wire::Header& header) {
  Pair& pair = *route.pair;
  const uint32_t incident = header.token;
  const auto lost = uint8_t(header.flags & wire::kKindFlags);
  if (int32_t(incident - pair.incident) < 0 || lost >= pair.routes.size()) return;
  if (incident != pair.incident) {
    begin_resume(pair, lost, incident);
  } else if (pair.phase != Phase::resuming || pair.peer_resumed) {
    return;
  }
  TERN_DEBUG_ASSERT(pair.phase != Phase::steady && incident == pair.incident);
  pair.peer_resumed = true;
  pair.peer_has = header.context;
  TERN_DEBUG_ASSERT(route.index < pair.routes.size());
  pair.in = route.index;
  if (pair.resume_sent) {
    try_finish_resume(pair);
  } else {
    send_resume(pair);
  }
}

// Sends again what the peer does not have, then what has waited. First lets a working path send what it has in its
// queue: the peer discards it.
void PathScheduler::try_finish_resume(Pair& pair) {
  if (!pair.resume_sent || !pair.peer_resumed || pair.unconfirmed.in_paths() != 0) return;
  TERN_ASSERT(pair.phase == Phase::resuming && unsettled_ > 0);
  pair.unconfirmed.confirm_up_to(pair.peer_has);
  pair.phase = Phase::steady;
  --unsettled_;
  pair.unconfirmed.repeat([&](SendOperation& carried) {
    ++counters().lane_resent;
    hand_over(pair, carried);
  });
  ++counters().lane_failovers;
  tell(Event::path_restored, pair);
  flush_waiting(pair);
  probes_.plan(pair);
}

void PathScheduler::flush_waiting(Pair& pair) {
  while (pair.phase == Phase::steady && pair.waiting.front()) forward(pair, *pair.waiting.pop_front());
}

// No path reaches the peer any more.
void PathScheduler::lose(Pair& pair, const Error& error) {
  TERN_ASSERT(pair.phase != Phase::lost && (pair.phase == Phase::steady || unsettled_ > 0));
  if (pair.phase != Phase::steady) --unsettled_;
  pair.phase = Phase::lost;
  pair.probe_ns = ~uint64_t{0};
  const std::string text(error.text());
  pair.trouble = text;
  const int error_class = error.error_class();
  IntrusiveList<SendOperation> failed;
  pair.unconfirmed.surrender(failed);
  while (SendOperation* operation = pair.waiting.pop_front()) failed.push_back(operation);
  while (SendOperation* operation = failed.pop_front()) operation->done(*operation, Error(error_class, text));
  if (scheduler::ArrivingMessage& arriving = pair.arriving; !arriving.none()) {
    arriving.end();
    sink_.on_landed(pair, arriving.header, arriving.landing, arriving.bytes, Error(error_class, text));
  }
  sink_.on_peer_lost(pair, Error(error_class, text));
}

// --- Changing back

// The lane carries messages both ways, or at least to this rank; this rank sends on it if it is better.
void PathScheduler::route_works(Route& route) {
  Pair& pair = *route.pair;
  TERN_ASSERT(route.state == RouteState::probing && pair.phase != Phase::lost);
  route.state = RouteState::up;
  pair.probe_pause_ns = 0;
  if (pair.phase != Phase::steady || route.index >= pair.out) return;
  pair.phase = Phase::leaving;
  ++unsettled_;
  pair.next_out = route.index;
  TERN_DEBUG_ASSERT(pair.next_out < pair.out);
  notes_.post(pair.route_out(), wire::LaneKind::leave, route.index);
}

// Called in the order of the peer's messages: all earlier ones have arrived.
void PathScheduler::on_leave(Route& route, const wire::Header& header) {
  Pair& pair = *route.pair;
  const auto index = uint8_t(header.flags & wire::kKindFlags);
  if (!pair.takes(route) || header.token != pair.incident || index >= pair.routes.size()) return;
  pair.in = index;
  notes_.post(pair.route_out(), wire::LaneKind::left, index);
}

void PathScheduler::on_left(Route& route, const wire::Header& header) {
  Pair& pair = *route.pair;
  if (pair.phase != Phase::leaving || header.token != pair.incident) return;
  say(pair, std::string("back on ") + pair.routes[pair.next_out].path->properties().name);
  TERN_ASSERT(unsettled_ > 0 && pair.next_out < pair.routes.size());
  pair.phase = Phase::steady;
  --unsettled_;
  pair.out = pair.next_out;
  ++counters().lane_failbacks;
  confirm_soon(pair);
  flush_waiting(pair);
  probes_.plan(pair);
}

}  // namespace tern
