// Message engines: with MPI_THREAD_MULTIPLE the messages of a communicator may have an engine of their own, so that
// threads with communicators of their own do not wait for each other. An engine is a PointToPoint (matching, requests,
// endpoints) over paths of its own, and a gate (progress/engine_gate.h): short calls take the gate alone, all others
// the rank's lock, as everything does that has no engine. There is one ProgressEngine, which polls the paths of all.
// An engine's paths: to the rank itself, to its node, and over a network.
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
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/counters.h"
#include "fabric/later_sink.h"
#include "fabric/self/self_path.h"
#include "p2p/point_to_point.h"
#include "progress/engine_gate.h"
#include "progress/work_left.h"

namespace tern {

struct Engine;

/// What the rank polls of an engine's path to other ranks. Closed: all of it, as of every path. Open: short calls look
/// into the rings themselves. A round looks there now and then, but not while they do. A thread that goes to sleep
/// closes the engine, and is woken by its messages; but while short calls look there, it sleeps for a short time only.
class EnginePoll final : public Pollable {
 public:
  /// `kept`: the path's sink, if that keeps messages; else null.
  EnginePoll(Engine& engine, Path& path, LaterSink* kept) : engine_(engine), path_(path), kept_(kept) {}
  int poll() override;
  const PollHints& hints() const override { return hints_; }
  int wait_fd() const override { return path_.wait_fd(); }
  bool arm() override;
  void disarm() override;
  bool arriving() const override;
  uint64_t next_deadline_ns() const override;
  /// A communicator of several ranks has this engine from now on; until then a round has no part of it. Every
  /// `interval`-th round polls it.
  void begin(uint32_t interval);
  /// The engine was open, and is closed now.
  void note_closed();
  /// A visit ends: what the path holds back is for the rounds of the rank while the engine is closed.
  void note_held() { hints_.holding = is_closed() && path_.hints().holding; }

 private:
  bool is_closed() const;
  bool short_calls_look(uint32_t& seen) const;
  bool keeps_any() const { return kept_ && kept_->keeps_any(); }
  bool is_due() const { return keeps_any() || path_.unsent_hint() == Need::now; }
  int poll_path();

  Engine& engine_;
  Path& path_;
  LaterSink* const kept_;
  PollHints hints_;
  bool begun_ = false;
  uint32_t skipped_ = 0;
  uint32_t seen_by_poll_ = 0, seen_by_arm_ = 0;  ///< of Engine::looks
  bool armed_ = false;
  uint64_t deadline_ns_ = ~uint64_t{0};  ///< a thread sleeps: when it looks whether short calls still look
};

/// An engine's path over a network, opened before the engine exists.
struct EngineNetwork {
  std::unique_ptr<Clock> clock;  ///< the path's: the rank's is used under the rank's lock
  std::unique_ptr<LaterSink> sink;
  std::unique_ptr<Path> path;
  uint32_t poll_interval = 1;  ///< every `poll_interval`-th round of the rank polls it
  bool asks_kernel = true;     ///< a look costs a system call
};

/// Lines of their own: threads on other cores use the neighbours. (Processors fetch lines in pairs.)
struct alignas(128) Engine {
  Engine(uint32_t engine_number, ProgressEngine& progress, const Tunables& tunables, PeerId me, Counters& its_counters);
  /// Its path to the ranks of the node, then that over a network, before any message; either may be missing.
  void add_node_path(std::unique_ptr<Path> path);
  void add_network(EngineNetwork parts);
  /// A communicator has this engine from now on. `members`: the number of its ranks; `far`: on several nodes.
  void begin(int members, bool far);
  /// A call has the rank's lock and uses the engine, until `end_visit`. `is_short`: as EngineGate.
  void begin_visit(bool is_short) {
    if (gate.begin_visit(std::this_thread::get_id(), is_short)) note_closed();
  }
  void end_visit();
  /// What short calls must not meet has come: from now on its communicators' calls take the rank's lock.
  void retire() {
    if (gate.retire(std::this_thread::get_id())) note_closed();
  }
  /// As EngineGate.
  void close() {
    if (gate.close(std::this_thread::get_id())) note_closed();
  }
  /// By the short call that is inside: it looks for messages. Returns how many such calls have done so.
  uint32_t count_look() {
    const uint32_t count = looks.load(std::memory_order_relaxed) + 1;
    looks.store(count, std::memory_order_relaxed);
    return count;
  }

  /// By each short call that is inside.
  void count_call() { calls_.store(calls() + 1, std::memory_order_relaxed); }
  uint32_t calls() const { return calls_.load(std::memory_order_relaxed); }

  /// Over memory.
  bool reaches_on_node(PeerId peer) const { return self.reaches(peer) || (node.path && node.path->reaches(peer)); }
  /// Whether a message from there may come while no thread of this rank is inside. kNoPeer: from anywhere.
  bool comes_by_itself(PeerId from) const { return (node.path || network.path) && !self.reaches(from); }
  /// Whether to look for it costs a system call.
  bool asks_kernel(PeerId from) const {
    return network.path && network_parts.asks_kernel && (from == kNoPeer || !node.path || !node.path->reaches(from));
  }

  /// Inside of the gate: takes what is there for short calls, as PointToPoint::poll_shortly.
  int poll_shortly(PeerId from);
  /// Inside of the gate, before it is left: what the network has not taken, and messages that wait for a poll of the
  /// rank. As WorkLeft::leave.
  bool leaves_work() {
    if (!network.path) return false;
    return left.leave(network_parts.sink->keeps_any() ? Need::now : network.path->unsent_hint());
  }
  /// Inside of the gate, by a call that was asked to wait: its messages leave now.
  void release_held() {
    if (network.path && network.path->hints().holding)
      (void)poll_network_shortly([&] { return network.path->poll_shortly(); });
  }

  const uint32_t number;
  EngineGate gate;
  WorkLeft left;                   ///< in it while it is open
  std::atomic<uint32_t> looks{0};  ///< looks of short calls (count_look); EnginePoll reads it
  Counters& counters;
  PointToPoint p2p;
  SelfPath self;
  struct PolledPath {
    std::unique_ptr<Path> path;  ///< null: none
    std::unique_ptr<EnginePoll> polling;
  };
  PolledPath node;
  EngineNetwork network_parts;  ///< its clock and sink outlive the path
  PolledPath network;

 private:
  void add_path(PolledPath& polled, std::unique_ptr<Path> path, LaterSink* kept);
  void note_closed();
  template <typename Poll>
  int poll_network_shortly(Poll&& poll) {
    LaterSink& sink = *network_parts.sink;
    sink.set_short(true);
    const int came = poll();
    sink.set_short(false);
    return sink.keeps_any() ? -1 : came;
  }
  template <typename Visitor>
  void each_path(Visitor&& visit) {
    if (node.path) visit(node);
    if (network.path) visit(network);
  }

  bool begun_ = false;  ///< a communicator has, or had, it
  std::atomic<uint32_t> calls_{0};
};

class Engines {
 public:
  static constexpr uint32_t kMost = 8;

  /// `counters`: an array of `count` sets, one of each engine. The caller owns it; it outlives this.
  Engines(uint32_t count, ProgressEngine& progress, const Tunables& tunables, PeerId me, Counters* counters);

  /// How many of them, from the first on, reach every rank of the job over the network. The members of a
  /// communicator agree on the smallest number when they make it: `agreed` below. 0: it has an engine only if its
  /// members share memory.
  uint32_t over_network() const { return over_network_; }
  /// The engine of a communicator by its context id and its members, the same at all of them. `peer(i)`: of member i.
  /// Null: none.
  template <typename Peer>
  Engine* of(uint64_t context, uint32_t agreed, int size, Peer&& peer) {
    Engine& engine = *all_[(context >> 2) % among(agreed)];
    if (agreed == 0 && !reaches_all(engine, size, peer)) return nullptr;
    engine.begin(size, agreed != 0);
    note_use();
    return &engine;
  }
  /// Whether a communicator of these members may have several of them, by its messages' tags: the same at all of them.
  template <typename Peer>
  bool of_tags(uint32_t agreed, int size, Peer&& peer) {
    for (uint32_t i = 0; agreed == 0 && i < count(); ++i) {
      if (!reaches_all(*all_[i], size, peer)) return false;
    }
    for (uint32_t i = 0; i < among(agreed); ++i) all_[i]->begin(size, agreed != 0);
    note_use();
    return among(agreed) > 1;
  }
  /// There is, or was, something for short calls (capi/without_lock.h): a communicator with an engine, or a window. May
  /// be asked without the rank's lock.
  bool in_use() const { return in_use_.load(std::memory_order_relaxed); }
  void note_use() { in_use_.store(true, std::memory_order_relaxed); }
  Engine& of_tag(uint64_t context, uint32_t agreed, int tag) {
    return *all_[(uint32_t(context >> 2) + uint32_t(tag)) % among(agreed)];
  }
  Engine& operator[](uint32_t number) { return *all_[number]; }
  uint32_t count() const { return uint32_t(all_.size()); }

  /// Before any communicator: the next engine's path over the network.
  void add_network(EngineNetwork parts) { all_[over_network_++]->add_network(std::move(parts)); }

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
  /// How many short calls they have had, modulo 2^32. By any thread.
  uint32_t calls() const;
  /// Adds their counts to `sum`. Short calls may go on meanwhile: then they are approximate, as all counts are without
  /// the rank's lock.
  void add_counters(Counters& sum) const;

 private:
  template <typename Peer>
  static bool reaches_all(const Engine& engine, int size, Peer&& peer) {
    for (int i = 0; i < size; ++i) {
      if (!engine.reaches_on_node(peer(i))) return false;
    }
    return true;
  }
  uint32_t among(uint32_t agreed) const { return agreed != 0 ? agreed : count(); }

  std::vector<std::unique_ptr<Engine>> all_;
  uint32_t over_network_ = 0;
  std::atomic<bool> in_use_{false};
};

}  // namespace tern
