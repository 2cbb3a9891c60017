// Message engines: with MPI_THREAD_MULTIPLE the messages of a communicator may have an engine of their own, so that
// threads with communicators of their own do not wait for each other. An engine is a PointToPoint (matching, requests,
// endpoints) over paths of its own, and a gate (progress/engine_gate.h): short calls take the gate alone, all others
// the rank's lock, as everything does that has no engine. There is one ProgressEngine, which polls the paths of all.
//
// The engine has what the program sends and receives on its communicators; collectives, the making of communicators,
// windows and files use the rank's own PointToPoint. docs/hybrid.md tells users of it, docs/decisions/0011 why.
//
// Thread rule: under the rank's lock, but for the short calls of PointToPoint, inside of their engine's gate.
#pragma once

#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

#include "base/counters.h"
#include "fabric/self/self_path.h"
#include "p2p/point_to_point.h"
#include "progress/engine_gate.h"

namespace tern {

/// Lines of their own: threads on other cores use the neighbours. (Processors fetch lines in pairs.)
struct alignas(128) Engine {
  Engine(uint32_t engine_number, ProgressEngine& progress, const Tunables& tunables, PeerId me, Counters& its_counters)
      : number(engine_number), counters(its_counters), p2p(progress, tunables, &its_counters), self(me, p2p.sink()) {
    p2p.add_path(self);
    progress.add(self);
  }
  /// A call has the rank's lock and uses the engine, until `end_visit`. `is_short`: as EngineGate.
  void begin_visit(bool is_short) { gate.begin_visit(std::this_thread::get_id(), is_short); }
  void end_visit() {
    gate.end_visit([this] { return p2p.is_plain(); });
  }
  /// What short calls must not meet has come: from now on its communicators' calls take the rank's lock.
  void retire() { gate.retire(std::this_thread::get_id()); }

  const uint32_t number;
  EngineGate gate;
  Counters& counters;
  PointToPoint p2p;
  SelfPath self;
};

class Engines {
 public:
  static constexpr uint32_t kMost = 8;

  /// `counters`: an array of `count` sets, one of each engine. The caller owns it; it outlives this.
  Engines(uint32_t count, ProgressEngine& progress, const Tunables& tunables, PeerId me, Counters* counters);

  /// The engine of a communicator by its context id. `alone`: this rank is its only member. Null: none.
  Engine* of(uint64_t context, bool alone) { return alone ? all_[(context >> 2) % all_.size()].get() : nullptr; }
  Engine& operator[](uint32_t number) { return *all_[number]; }
  uint32_t count() const { return uint32_t(all_.size()); }

  /// The caller has all of them until it gives the rank's lock up.
  void close();
  void retire();
  /// Those that are closed.
  template <typename Visitor>
  void for_each_closed(Visitor&& visit) const {
    for (const auto& engine : all_) {
      if (!engine->gate.is_open()) visit(*engine);
    }
  }
  /// Adds their counts to `sum`. Short calls may go on meanwhile: then they are approximate, as all counts are without
  /// the rank's lock.
  void add_counters(Counters& sum) const;

 private:
  std::vector<std::unique_ptr<Engine>> all_;
};

}  // namespace tern
