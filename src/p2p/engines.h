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

#include <atomic>
#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

#include "base/counters.h"
#include "fabric/self/self_path.h"
#include "p2p/point_to_point.h"
#include "progress/engine_gate.h"

namespace tern {

struct Engine;

/// What the rank polls of an engine's path to other ranks. Closed: all of it, as of every path. Open: short calls look
/// into the rings themselves. A round looks there now and then, but not while they do. A thread that goes to sleep
/// closes the engine, and is woken by its messages; but while short calls look there, it sleeps for a short time only.
class EnginePoll final : public Pollable {
 public:
  EnginePoll(Engine& engine, Path& path) : engine_(engine), path_(path) {}
  int poll() override;
  const PollHints& hints() const override { return hints_; }
  int wait_fd() const override { return path_.wait_fd(); }
  bool arm() override;
  void disarm() override;
  bool arriving() const override;
  uint64_t next_deadline_ns() const override;
  /// A communicator of several ranks has this engine from now on; until then a round has no part of it.
  void begin();
  /// The engine was open, and is closed now.
  void note_closed();

 private:
  bool short_calls_look(uint32_t& seen) const;

  Engine& engine_;
  Path& path_;
  PollHints hints_;
  bool begun_ = false;
  uint32_t skipped_ = 0;
  uint32_t seen_by_poll_ = 0, seen_by_arm_ = 0;  ///< of Engine::looks
  bool armed_ = false;
  uint64_t deadline_ns_ = ~uint64_t{0};  ///< a thread sleeps: when it looks whether short calls still look
};

/// Lines of their own: threads on other cores use the neighbours. (Processors fetch lines in pairs.)
struct alignas(128) Engine {
  Engine(uint32_t engine_number, ProgressEngine& progress, const Tunables& tunables, PeerId me, Counters& its_counters);
  /// Its way to other ranks, before any message.
  void add_path(std::unique_ptr<Path> path);
  /// A communicator has this engine from now on. `members`: the number of its ranks.
  void begin(int members);
  /// A call has the rank's lock and uses the engine, until `end_visit`. `is_short`: as EngineGate.
  void begin_visit(bool is_short) {
    if (gate.begin_visit(std::this_thread::get_id(), is_short) && polling) polling->note_closed();
  }
  void end_visit() {
    gate.end_visit([this] { return p2p.is_plain(); });
  }
  /// What short calls must not meet has come: from now on its communicators' calls take the rank's lock.
  void retire() {
    if (gate.retire(std::this_thread::get_id()) && polling) polling->note_closed();
  }
  /// By the short call that is inside: it looks for messages. Returns how many such calls have done so.
  uint32_t count_look() {
    const uint32_t count = looks.load(std::memory_order_relaxed) + 1;
    looks.store(count, std::memory_order_relaxed);
    return count;
  }

  bool reaches(PeerId peer) const { return self.reaches(peer) || (others && others->reaches(peer)); }

  const uint32_t number;
  EngineGate gate;
  std::atomic<uint32_t> looks{0};  ///< looks of short calls (count_look); EnginePoll reads it
  Counters& counters;
  PointToPoint p2p;
  SelfPath self;
  std::unique_ptr<Path> others;         ///< null: its communicators have no other members
  std::unique_ptr<EnginePoll> polling;  ///< of that path

 private:
  bool begun_ = false;  ///< a communicator has, or had, it
};

class Engines {
 public:
  static constexpr uint32_t kMost = 8;

  /// `counters`: an array of `count` sets, one of each engine. The caller owns it; it outlives this.
  Engines(uint32_t count, ProgressEngine& progress, const Tunables& tunables, PeerId me, Counters* counters);

  /// The engine of a communicator by its context id and its members, the same at all of them. `peer(i)`: of member i.
  /// Null: none.
  template <typename Peer>
  Engine* of(uint64_t context, int size, Peer&& peer) {
    Engine& engine = *all_[(context >> 2) % all_.size()];
    if (!reaches_all(engine, size, peer)) return nullptr;
    engine.begin(size);
    note_use();
    return &engine;
  }
  /// Whether a communicator of these members may have all of them, by its messages' tags: the same at all of them.
  template <typename Peer>
  bool of_tags(int size, Peer&& peer) {
    for (const auto& engine : all_) {
      if (!reaches_all(*engine, size, peer)) return false;
    }
    for (const auto& engine : all_) engine->begin(size);
    note_use();
    return count() > 1;
  }
  /// There is, or was, something for short calls (capi/without_lock.h): a communicator with an engine, or a window. May
  /// be asked without the rank's lock.
  bool in_use() const { return in_use_.load(std::memory_order_relaxed); }
  void note_use() { in_use_.store(true, std::memory_order_relaxed); }
  Engine& of_tag(uint64_t context, int tag) { return *all_[(uint32_t(context >> 2) + uint32_t(tag)) % all_.size()]; }
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
  template <typename Peer>
  static bool reaches_all(const Engine& engine, int size, Peer&& peer) {
    for (int i = 0; i < size; ++i) {
      if (!engine.reaches(peer(i))) return false;
    }
    return true;
  }

  std::vector<std::unique_ptr<Engine>> all_;
  std::atomic<bool> in_use_{false};
};

}  // namespace tern
