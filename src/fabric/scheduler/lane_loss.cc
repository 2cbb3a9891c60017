// Loss of lanes, going on over other lanes, and failing back. See path_scheduler.h.
#include <algorithm>

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

// A lane's path reports the lane as lost, after close_lane or by itself.
void PathScheduler::on_peer_lost(Lane& from, Error error) {
  Way& way = way_of(from);
  Pair& pair = *way.pair;
  const bool wanted = way.state == WayState::closing;
  way.state = WayState::down;
  if (pair.phase == Phase::lost) return;
  if (!wanted || pair.trouble.empty()) pair.trouble = std::string(error.text());
  if (pair.phase == Phase::resuming && !(pair.resume_sent && way.index == pair.out)) {
    if (!pair.resume_sent) send_resume(pair);
    return;
  }
  const bool used =
      way.index == pair.out || way.index == pair.in || (pair.phase == Phase::leaving && way.index == pair.next_out);
  if (!used) {
    plan_probe(pair);
    return;
  }
  say(pair, std::string(way.path->properties().name) + " is lost (" + pair.trouble + ")");
  tell(Event::path_lost, pair);
  begin_resume(pair, way.index, pair.incident + 1);
  send_resume(pair);
}

// Both sides call this once for each incident, because of the loss itself or of the other side's resume.
void PathScheduler::begin_resume(Pair& pair, uint8_t lost_way, uint32_t incident) {
  if (pair.phase == Phase::steady) ++unsettled_;
  pair.phase = Phase::resuming;
  pair.incident = incident;
  pair.lost_way = lost_way;
  pair.resume_sent = pair.peer_resumed = false;
  if (pair.landing_open) {  // the rest of it is discarded: the message comes again
    pair.landing_open = false;
    pair.interrupted = true;
  }
  Way& lost = pair.ways[lost_way];
  if (lost.state == WayState::up || lost.state == WayState::probing) {
    lost.state = WayState::closing;
    lost.path->give_up(*lost.lane);
  }
}

// The lane that everything takes from now on; -1: none is left. Prefers a lane that is in use, so that what was sent on
// it is not abandoned.
int PathScheduler::choose_way(const Pair& pair) const {
  for (uint8_t used : {pair.out, pair.in}) {
    if (pair.ways[used].state == WayState::up) return used;
  }
  for (const Way& way : pair.ways) {
    if (way.state == WayState::up) return way.index;
  }
  return -1;
}

// Called when nothing more comes from the lost lane: the number of arrived messages is final.
void PathScheduler::send_resume(Pair& pair) {
  if (std::any_of(pair.ways.begin(), pair.ways.end(), [](const Way& way) { return way.state == WayState::closing; }))
    return;
  const int chosen = choose_way(pair);
  if (chosen < 0) {
    lose(pair, Error(ErrorClass::proc_aborted, pair.trouble));
    return;
  }
  pair.out = uint8_t(chosen);
  pair.resume_sent = true;
  pair.told = pair.arrived;
  pair.untold_bytes = 0;
  say(pair, std::string("going on over ") + pair.ways[pair.out].path->properties().name);
  post(pair.ways[pair.out], wire::LaneKind::resume, pair.lost_way, 0, pair.arrived);
  try_finish_resume(pair);
}

void PathScheduler::on_resume(Way& way, const wire::Header& header) {
  Pair& pair = *way.pair;
  const uint32_t incident = header.token;
  const auto lost = uint8_t(header.flags & wire::kKindFlags);
  if (int32_t(incident - pair.incident) < 0 || lost >= pair.ways.size()) return;
  if (incident != pair.incident) {
    begin_resume(pair, lost, incident);
  } else if (pair.phase != Phase::resuming || pair.peer_resumed) {
    return;
  }
  pair.peer_resumed = true;
  pair.peer_has = header.context;
  pair.in = way.index;
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
  confirm_up_to(pair, pair.peer_has);
  pair.phase = Phase::steady;
  --unsettled_;
  for (Kept* kept = pair.kept.front(); kept; kept = pair.kept.next(kept)) {
    ++counters().lane_resent;
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
  if (pair.phase != Phase::steady) --unsettled_;
  pair.phase = Phase::lost;
  pair.probe_ns = ~uint64_t{0};
  const std::string text(error.text());
  pair.trouble = text;
  const int error_class = error.error_class();
  IntrusiveList<SendOperation> failed;
  while (Kept* kept = pair.kept.pop_front()) {
    if (kept->user) {
      --held_;
      failed.push_back(kept->user);
      kept->user = nullptr;
    }
    release(*kept);
  }
  while (SendOperation* operation = pair.waiting.pop_front()) failed.push_back(operation);
  while (SendOperation* operation = failed.pop_front()) operation->done(*operation, Error(error_class, text));
  if (pair.interrupted || pair.landing_open) {
    pair.interrupted = pair.landing_open = false;
    sink_.on_landed(pair, pair.landing_header, pair.landing, pair.landing_bytes, Error(error_class, text));
  }
  sink_.on_peer_lost(pair, Error(error_class, text));
}

// --- Failing back

// The lower rank of a pair probes, so that two probes do not cross.
void PathScheduler::plan_probe(Pair& pair) {
  if (!table_.comes_before(pair.id) || pair.phase == Phase::lost || pair.probe_ns != ~uint64_t{0}) return;
  const bool better = std::any_of(pair.ways.begin(), pair.ways.begin() + pair.out,
                                  [](const Way& way) { return way.state == WayState::down; });
  if (!better) return;
  pair.probe_pause_ns = std::clamp(2 * pair.probe_pause_ns, first_probe_ns_, kLongestPause * first_probe_ns_);
  pair.probe_ns = clock_.now_ns() + pair.probe_pause_ns;
  next_probe_ns_ = std::min(next_probe_ns_, pair.probe_ns);
  hints_.dormant = false;
}

void PathScheduler::run_probes(uint64_t now_ns) {
  if (now_ns < next_probe_ns_) return;
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
    for (Way& way : pair->ways) {
      if (way.index >= pair->out || way.state != WayState::down) continue;
      ++way.incarnation;
      post(pair->ways[pair->out], wire::LaneKind::probe, way.index, way.incarnation);
      break;
    }
    plan_probe(*pair);  // in case this one fails
  }
}

void PathScheduler::on_probe(Way& way, const wire::Header& header) {
  Pair& pair = *way.pair;
  const size_t index = header.flags & wire::kKindFlags;
  if (index >= pair.ways.size()) return;
  Way& probed = pair.ways[index];
  const auto incarnation = uint32_t(header.tag);
  if (int32_t(incarnation - probed.incarnation) <= 0) return;
  if (probed.state == WayState::probing) {
    // The last probe failed at the peer, and only this side has opened its lane. The next probe finds it
    // closed.
    probed.state = WayState::closing;
    probed.path->give_up(*probed.lane);
    return;
  }
  if (probed.state != WayState::down) return;
  probed.incarnation = incarnation;
  if (!probed.path->reopen(*probed.lane, incarnation)) return;
  probed.state = WayState::probing;
  post(pair.ways[pair.out], wire::LaneKind::probed, probed.index, incarnation);
}

void PathScheduler::on_probed(Way& way, const wire::Header& header) {
  Pair& pair = *way.pair;
  const size_t index = header.flags & wire::kKindFlags;
  if (index >= pair.ways.size()) return;
  Way& probed = pair.ways[index];
  if (probed.state != WayState::down || uint32_t(header.tag) != probed.incarnation) return;
  if (!probed.path->reopen(*probed.lane, probed.incarnation)) return;
  probed.state = WayState::probing;
  post(probed, wire::LaneKind::hello, probed.index, probed.incarnation);
}

// The lane carries messages both ways, or at least to this rank; this rank sends on it if it is better.
void PathScheduler::way_works(Way& way) {
  Pair& pair = *way.pair;
  way.state = WayState::up;
  pair.probe_pause_ns = 0;
  if (pair.phase != Phase::steady || way.index >= pair.out) return;
  pair.phase = Phase::leaving;
  ++unsettled_;
  pair.next_out = way.index;
  post(pair.ways[pair.out], wire::LaneKind::leave, way.index);
}

// Called in the order of the peer's messages: all earlier ones have arrived.
void PathScheduler::on_leave(Way& way, const wire::Header& header) {
  Pair& pair = *way.pair;
  const auto index = uint8_t(header.flags & wire::kKindFlags);
  if (!takes(way) || header.token != pair.incident || index >= pair.ways.size()) return;
  pair.in = index;
  post(pair.ways[pair.out], wire::LaneKind::left, index);
}

void PathScheduler::on_left(Way& way, const wire::Header& header) {
  Pair& pair = *way.pair;
  if (pair.phase != Phase::leaving || header.token != pair.incident) return;
  say(pair, std::string("back on ") + pair.ways[pair.next_out].path->properties().name);
  pair.phase = Phase::steady;
  --unsettled_;
  pair.out = pair.next_out;
  ++counters().lane_failbacks;
  confirm_soon(pair);
  flush_waiting(pair);
  plan_probe(pair);
}

}  // namespace tern
