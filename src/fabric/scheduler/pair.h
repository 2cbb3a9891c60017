// A peer as the path scheduler sees it: the routes to it, which of them is in use each way, and what goes on.
// Thread rule: under the rank's lock.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/intrusive_list.h"
#include "fabric/path.h"
#include "fabric/scheduler/arrival_count.h"
#include "fabric/scheduler/unconfirmed.h"

namespace tern::scheduler {

struct Pair;

enum class RouteState : uint8_t {
  up,       ///< or never used
  closing,  ///< given up; its path has not confirmed that yet
  down,
  probing,  ///< restarted, not yet known to work
};

/// One path's lane to the peer. The path owns the lane, whose owner this is.
struct Route {
  Pair* pair = nullptr;
  Path* path = nullptr;
  Lane* lane = nullptr;
  uint8_t* used = nullptr;  ///< the scheduler's paths over which something went or came, a bit each
  uint8_t index = 0;        ///< in Pair::routes
  uint8_t path_bit = 0;     ///< in `used`
  RouteState state = RouteState::up;
  uint32_t incarnation = 0;

  void note_use() const { *used |= path_bit; }
};

/// The message whose payload is arriving. If its lane is lost it comes again, into the same memory.
class ArrivingMessage {
 public:
  bool open() const { return state_ == State::open; }
  /// Nothing has begun, or it will come again.
  bool none() const { return state_ == State::none; }
  void begin(const wire::Header& message, const Landing& place, size_t size) {
    header = message;
    landing = place;
    bytes = size;
    state_ = State::open;
  }
  void end() { state_ = State::none; }
  /// Its lane is lost: the rest of it is discarded.
  void interrupt() {
    if (open()) state_ = State::interrupted;
  }
  /// The next message is the interrupted one, from its beginning. False: none was interrupted.
  bool begin_again() {
    if (state_ != State::interrupted) return false;
    state_ = State::open;
    return true;
  }

  wire::Header header{};
  Landing landing;
  size_t bytes = 0;

 private:
  enum class State : uint8_t { none, open, interrupted } state_ = State::none;
};

enum class Phase : uint8_t {
  steady,
  resuming,  ///< between the loss of a lane and the peer's resume
  leaving,   ///< a better lane works; the peer has not confirmed all messages of this one
  lost,
};

struct Pair : Lane {
  Pair(PeerId peer, Unconfirmed::Shared& shared) : Lane(peer), unconfirmed(*this, shared) {}

  std::vector<Route> routes;  ///< best first
  Phase phase = Phase::steady;
  uint8_t out = 0, in = 0;  ///< routes in use
  uint8_t next_out = 0;     ///< while leaving: the better one
  // Sending.
  Unconfirmed unconfirmed;
  IntrusiveList<SendOperation> waiting;  ///< for the end of the phase
  // Receiving.
  ArrivalCount arrivals;
  bool confirm_due = false;  ///< a confirmation alone is due
  ArrivingMessage arriving;
  // Resuming.
  uint32_t incident = 0;
  uint8_t lost_route = 0;
  bool resume_sent = false, peer_resumed = false;
  uint64_t peer_has = 0;
  std::string trouble;  ///< why the last lane was lost
  bool queues = false;  ///< tuple queues were begun on the best lane since it is in use
  // Failing back.
  uint64_t probe_ns = ~uint64_t{0}, probe_pause_ns = 0;

  Route& route_out() { return routes[out]; }
  /// Messages may go out now.
  bool ready() const { return phase == Phase::steady && waiting.empty(); }
  /// The lane of that path; null: another one is in use.
  Lane* lane_in_use(const Path& path) {
    Route& route = route_out();
    if (phase != Phase::steady || route.path != &path) return nullptr;
    route.note_use();
    return route.lane;
  }
  /// Whether an arrival on this route is the peer's next message. If not, the peer has left the lane, and the message
  /// comes again over another one.
  bool takes(const Route& route) const {
    if (phase == Phase::lost || (phase == Phase::resuming && !peer_resumed)) return false;
    return route.index == in;
  }
  /// The route that everything takes from now on; null: none is left. Prefers one that is in use, so that what was sent
  /// on it is not abandoned.
  Route* choose_route() {
    for (uint8_t used : {out, in}) {
      if (routes[used].state == RouteState::up) return &routes[used];
    }
    for (Route& route : routes) {
      if (route.state == RouteState::up) return &route;
    }
    return nullptr;
  }
};

}  // namespace tern::scheduler
