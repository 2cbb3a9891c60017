// Loss of lanes, going on over other lanes, and failing back. See path_scheduler.h.
#include <algorithm>
#include <utility>

#include "base/assert.h"
#include "fabric/scheduler/path_scheduler.h"

namespace tern {
namespace {

// The pause between two probes of a lost path grows to so many times TERN_PATH_FAILBACK_MS. A probe costs four small
// messages and a new connection: with 16 s between probes that is nothing, and a repaired path is used within 16 s.
constexpr uint64_t kLongestPause = 16;

}  // namespace

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
    plan_probe(pair);
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
  if (pair.landing_open) {  // the rest of it is discarded: the message comes again
    pair.landing_open = false;
    pair.interrupted = true;
  }
  Route& lost = pair.routes[lost_route];
  if (lost.state == RouteState::up || lost.state == RouteState::probing) {
    lost.state = RouteState::closing;
    TERN_DEBUG_ASSERT(lost.state == RouteState::closing);
    lost.path->give_up(*lost.lane);
  }
}

// The lane that everything takes from now on; -1: none is left. Prefers a lane that is in use, so that what was sent on
// it is not abandoned.
int PathScheduler::choose_route(const Pair& pair) const {
  for (uint8_t used : {pair.out, pair.in}) {
    if (pair.routes[used].state == RouteState::up) return used;
  }
  for (const Route& route : pair.routes) {
    if (route.state == RouteState::up) return route.index;
  }
  return -1;
}

// Called when nothing more comes from the lost lane: the number of arrived messages is final.
void PathScheduler::send_resume(Pair& pair) {
  TERN_ASSERT(pair.phase == Phase::resuming && !pair.resume_sent);
  if (std::any_of(pair.routes.begin(), pair.routes.end(),
                  [](const Route& route) { return route.state == RouteState::closing; }))
    return;
  const int chosen = choose_route(pair);
  if (chosen < 0) {
    lose(pair, Error(ErrorClass::proc_aborted, pair.trouble));
    return;
  }
  pair.out = uint8_t(chosen);
  pair.resume_sent = true;
  TERN_DEBUG_ASSERT(pair.routes[pair.out].state == RouteState::up && pair.told <= pair.arrived);
  pair.told = pair.arrived;
  pair.untold_bytes = 0;
  say(pair, std::string("going on over ") + pair.routes[pair.out].path->properties().name);
  post(pair.routes[pair.out], wire::LaneKind::resume, pair.lost_route, 0, pair.arrived);
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

// First lets a working path send what it has in its queue: the peer discards it.
void PathScheduler::try_finish_resume(Pair& pair) {
  if (pair.resume_sent && pair.peer_resumed && pair.in_path == 0) finish_resume(pair);
}

// Sends again what the peer does not have, then what has waited.
void PathScheduler::finish_resume(Pair& pair) {
  TERN_ASSERT(pair.phase == Phase::resuming && unsettled_ > 0);
  confirm_up_to(pair, pair.peer_has);
  TERN_DEBUG_ASSERT(pair.in_path == 0 && pair.resume_sent && pair.peer_resumed);
  pair.phase = Phase::steady;
  --unsettled_;
  for (Kept* kept = pair.kept.front(); kept; kept = pair.kept.next(kept)) {
    ++counters().lane_resent;
    TERN_DEBUG_ASSERT(!kept->confirmed && kept->pair == &pair);
    hand_over(*kept);
  }
  ++counters().lane_failovers;
  tell(Event::path_restored, pair);
  flush_waiting(pair);
  plan_probe(pair);
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
  while (Kept* kept = pair.kept.pop_front()) {
    if (kept->user) {
      TERN_DEBUG_ASSERT(held_ != 0);
      --held_;
      failed.push_back(kept->user);
      kept->user = nullptr;
      TERN_DEBUG_ASSERT(!kept->copied);
    }
    release(*kept);
  }
  while (SendOperation* operation = pair.waiting.pop_front()) failed.push_back(operation);
  while (SendOperation* operation = failed.pop_front()) operation->done(*operation, Error(error_class, text));
  if (pair.interrupted || pair.landing_open) {
    pair.interrupted = pair.landing_open = false;
    sink_.on_landed(pair, pair.landing_header, pair.landing, pair.landing_bytes, Error(error_class, text));
  }
  TERN_DEBUG_ASSERT(pair.kept.empty() && pair.waiting.empty() && !pair.landing_open);
  sink_.on_peer_lost(pair, Error(error_class, text));
}

// --- Failing back

// The lower rank of a pair probes, so that two probes do not cross.
void PathScheduler::plan_probe(Pair& pair) {
  if (!table_.comes_before(pair.id) || pair.phase == Phase::lost || pair.probe_ns != ~uint64_t{0}) return;
  const bool better = std::any_of(pair.routes.begin(), pair.routes.begin() + pair.out,
                                  [](const Route& route) { return route.state == RouteState::down; });
  if (!better) return;
  pair.probe_pause_ns = std::clamp(2 * pair.probe_pause_ns, first_probe_ns_, kLongestPause * first_probe_ns_);
  pair.probe_ns = clock_.now_ns() + pair.probe_pause_ns;
  TERN_DEBUG_ASSERT(pair.probe_pause_ns >= first_probe_ns_);
  next_probe_ns_ = std::min(next_probe_ns_, pair.probe_ns);
  hints_.dormant = false;
}

void PathScheduler::run_probes(uint64_t now_ns) {
  if (now_ns < next_probe_ns_) return;
  TERN_DEBUG_ASSERT(next_probe_ns_ != ~uint64_t{0});
  next_probe_ns_ = ~uint64_t{0};
  for (auto& pair : pairs_) {
    if (!pair || pair->probe_ns == ~uint64_t{0}) continue;
    if (pair->probe_ns > now_ns) {
      next_probe_ns_ = std::min(next_probe_ns_, pair->probe_ns);
      continue;
    }
    pair->probe_ns = ~uint64_t{0};
    if (pair->phase != Phase::steady) {
      plan_probe(*pair);
      continue;
    }
    for (Route& route : pair->routes) {
      if (route.index >= pair->out || route.state != RouteState::down) continue;
      ++route.incarnation;
      post(pair->routes[pair->out], wire::LaneKind::probe, route.index, route.incarnation);
      break;
    }
    plan_probe(*pair);  // in case this one fails
  }
}

void PathScheduler::on_probe(Route& route, const wire::Header& header) {
  Pair& pair = *route.pair;
  const size_t index = header.flags & wire::kKindFlags;
  if (index >= pair.routes.size()) return;
  Route& probed = pair.routes[index];
  const auto incarnation = uint32_t(header.tag);
  if (int32_t(incarnation - probed.incarnation) <= 0) return;
  if (probed.state == RouteState::probing) {
    // The last probe failed at the peer, and only this side has opened its lane. The next probe finds it
    // closed.
    probed.state = RouteState::closing;
    probed.path->give_up(*probed.lane);
    return;
  }
  if (probed.state != RouteState::down) return;
  probed.incarnation = incarnation;
  TERN_DEBUG_ASSERT(probed.state == RouteState::down);
  if (!probed.path->reopen(*probed.lane, incarnation)) return;
  probed.state = RouteState::probing;
  post(pair.routes[pair.out], wire::LaneKind::probed, probed.index, incarnation);
}

void PathScheduler::on_probed(Route& route, const wire::Header& header) {
  Pair& pair = *route.pair;
  const size_t index = header.flags & wire::kKindFlags;
  if (index >= pair.routes.size()) return;
  Route& probed = pair.routes[index];
  if (probed.state != RouteState::down || uint32_t(header.tag) != probed.incarnation) return;
  if (!probed.path->reopen(*probed.lane, probed.incarnation)) return;
  probed.state = RouteState::probing;
  post(probed, wire::LaneKind::hello, probed.index, probed.incarnation);
}

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
  post(pair.routes[pair.out], wire::LaneKind::leave, route.index);
}

// Called in the order of the peer's messages: all earlier ones have arrived.
void PathScheduler::on_leave(Route& route, const wire::Header& header) {
  Pair& pair = *route.pair;
  const auto index = uint8_t(header.flags & wire::kKindFlags);
  if (!takes(route) || header.token != pair.incident || index >= pair.routes.size()) return;
  pair.in = index;
  post(pair.routes[pair.out], wire::LaneKind::left, index);
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
  plan_probe(pair);
}

}  // namespace tern
