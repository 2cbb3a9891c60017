#include "fabric/scheduler/probes.h"

#include <algorithm>

#include "base/assert.h"

namespace tern::scheduler {
namespace {

// Longest pause between two probes of a lost path, in TERN_PATH_FAILBACK_MS. A probe costs four small messages and a
// new connection: with 16 s between probes that is nothing, and a repaired path is used within 16 s.
constexpr uint64_t kLongestPause = 16;

}  // namespace

void Probes::plan(Pair& pair) {
  if (!table_.comes_before(pair.id) || pair.phase == Phase::lost || pair.probe_ns != ~uint64_t{0}) return;
  const bool better = std::any_of(pair.routes.begin(), pair.routes.begin() + pair.out,
                                  [](const Route& route) { return route.state == RouteState::down; });
  if (!better) return;
  pair.probe_pause_ns = std::clamp(2 * pair.probe_pause_ns, first_ns_, kLongestPause * first_ns_);
  pair.probe_ns = clock_.now_ns() + pair.probe_pause_ns;
  TERN_DEBUG_ASSERT(pair.probe_pause_ns >= first_ns_);
  next_ns_ = std::min(next_ns_, pair.probe_ns);
  hints_.dormant = false;
}

void Probes::run(const std::vector<std::unique_ptr<Pair>>& pairs) {
  const uint64_t now_ns = clock_.now_ns();
  if (now_ns < next_ns_) return;
  TERN_DEBUG_ASSERT(planned());
  next_ns_ = ~uint64_t{0};
  for (auto& pair : pairs) {
    if (!pair || pair->probe_ns == ~uint64_t{0}) continue;
    if (pair->probe_ns > now_ns) {
      next_ns_ = std::min(next_ns_, pair->probe_ns);
      continue;
    }
    pair->probe_ns = ~uint64_t{0};
    for (Route& route : pair->routes) {
      if (pair->phase != Phase::steady || route.index >= pair->out) break;
      if (route.state != RouteState::down) continue;
      ++route.incarnation;
      notes_.post(pair->route_out(), wire::LaneKind::probe, route.index, route.incarnation);
      break;
    }
    plan(*pair);  // in case this one fails
  }
}

void Probes::on_probe(Route& route, const wire::Header& header) {
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
  if (!probed.path->reopen(*probed.lane, incarnation)) return;
  probed.state = RouteState::probing;
  notes_.post(pair.route_out(), wire::LaneKind::probed, probed.index, incarnation);
}

void Probes::on_probed(Route& route, const wire::Header& header) {
  Pair& pair = *route.pair;
  const size_t index = header.flags & wire::kKindFlags;
  if (index >= pair.routes.size()) return;
  Route& probed = pair.routes[index];
  if (probed.state != RouteState::down || uint32_t(header.tag) != probed.incarnation) return;
  if (!probed.path->reopen(*probed.lane, probed.incarnation)) return;
  probed.state = RouteState::probing;
  notes_.post(probed, wire::LaneKind::hello, probed.index, probed.incarnation);
}

bool Probes::on_hello(Route& route, const wire::Header& header) {
  if (!on_welcome(route, header)) return false;
  notes_.post(route, wire::LaneKind::welcome, route.index, route.incarnation);
  return true;
}

}  // namespace tern::scheduler
