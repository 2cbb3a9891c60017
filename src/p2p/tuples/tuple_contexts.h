// TupleContexts: what is known of each communicator's point-to-point context: whether its messages may take queues, and
// which of its receives wait. Wildcards and probes see messages only in software, so they stop the queues that they
// fit; until all of those have stopped, receives of the context are held back, in order.
//
// Invariants: `holding` counts the listed queues whose `holds` is set. Receives are held only while that is not 0, or
// while one of them just begins again. A context is remembered while it has hints, queues, held receives or lines.
//
// Stopping a queue and beginning a receive are the caller's. Thread rule: under the rank's lock.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "base/assert.h"
#include "p2p/message_hints.h"
#include "p2p/tuples/records.h"

namespace tern {

/// One communicator's point-to-point context.
struct TupleContext {
  MessageHints hints;
  bool freed = false;               ///< its communicator is
  std::vector<TupleQueue*> queues;  ///< accepted or open
  uint32_t holding = 0;             ///< queues that must stop before `held` goes on
  std::deque<ReceiveRequest*> held;
  const ReceiveRequest* releasing = nullptr;  ///< which of them just begins
  /// Receives that name source and tag may pass one that waits.
  bool may_pass() const { return hints.allow_overtaking || never_wild(); }
  bool never_wild() const { return hints.no_any_source && hints.no_any_tag; }
  bool idle() const { return queues.empty() && held.empty() && holding == 0 && !releasing; }
  uint32_t wildcards = 0;  ///< how often queues were stopped by wildcards and probes
};

class TupleContexts {
 public:
  /// `everywhere`: all contexts want queues. `max_queues`: of a side.
  TupleContexts(bool everywhere, uint32_t max_queues) : everywhere_(everywhere), max_queues_(max_queues) {}

  void set_hints(uint64_t id, const MessageHints& hints);
  /// The communicator is freed. What is still open keeps them.
  void forget_hints(uint64_t id) {
    if (TupleContext* context = find(id)) context->freed = true;
  }
  bool everywhere() const { return everywhere_; }
  /// Whether its messages may take queues.
  bool wants(uint64_t id) const {
    if (everywhere_) return true;
    auto found = contexts_.find(id);
    return found != contexts_.end() && found->second.hints.tuple_queues;
  }
  /// Null: nothing is known of it.
  TupleContext* find(uint64_t id) {
    auto found = contexts_.find(id);
    return found == contexts_.end() ? nullptr : &found->second;
  }

  /// This rank sends by a queue of that context, and does so no more.
  void add_line(uint64_t id) { lines_.insert(id); }
  void remove_line(uint64_t id) {
    TERN_DEBUG_ASSERT(lines_.contains(id));
    lines_.erase(lines_.find(id));
  }
  /// A queue of this rank's receives is accepted, or has stopped (or is lost).
  void list(TupleQueue& queue);
  void unlist(TupleQueue& queue);

  /// True: the receive waits; `release` begins it again. Calls `stop(queue)` for queues that are in its way.
  template <typename Stop>
  bool hold_back(ReceiveRequest& receive, Stop&& stop);
  /// For probes. False: what there is cannot be said yet.
  template <typename Stop>
  bool visible(int source, int tag, uint64_t id, Stop&& stop) {
    TupleContext* context = find(id);
    if (!context) return true;
    if (context->holding != 0 || !context->held.empty()) return false;
    return !hold(*context, source, tag, stop);
  }
  /// Takes it out of those that wait; false: it does not.
  bool withdraw(ReceiveRequest& receive);
  /// Calls `begin(receive)` for those that need not wait any more.
  template <typename Begin>
  void release(uint64_t id, Begin&& begin) {
    if (TupleContext* context = find(id)) release(*context, begin);
  }
  template <typename Begin>
  void release_all(Begin&& begin) {
    for (auto& [id, context] : contexts_) release(context, begin);
  }

  /// For tests: calls `visit(context)`.
  template <typename Visit>
  void each(Visit&& visit) {
    for (auto& [id, context] : contexts_) visit(context);
  }

 private:
  template <typename Stop>
  bool hold(TupleContext& context, int source, int tag, Stop&& stop);
  template <typename Begin>
  void release(TupleContext& context, Begin&& begin);
  TupleContext& make(uint64_t id);

  const bool everywhere_;
  const uint32_t max_queues_;
  std::unordered_map<uint64_t, TupleContext> contexts_;
  std::unordered_multiset<uint64_t> lines_;  ///< their contexts
};

// Stops the queues that the wildcard (or probe) fits. True: its communicator's receives must wait for that.
template <typename Stop>
bool TupleContexts::hold(TupleContext& context, int source, int tag, Stop&& stop) {
  bool any = false;
  for (TupleQueue* queue : context.queues) {
    const bool fits =
        (source == kAnySource || source == queue->key.source) && (tag == kAnyTag || tag == queue->key.tag);
    if (!fits) continue;
    any = true;
    if (!queue->stopping) stop(*queue);
    if (queue->holds) continue;
    queue->holds = true;
    ++context.holding;
    TERN_DEBUG_ASSERT(context.holding <= context.queues.size());
  }
  context.wildcards += any;
  return any;
}

template <typename Stop>
bool TupleContexts::hold_back(ReceiveRequest& receive, Stop&& stop) {
  if (contexts_.empty()) return false;
  TupleContext* context = find(receive.context);
  if (!context || (!receive.wild() && context->may_pass())) return false;
  const bool next = context->releasing == &receive;
  const bool behind = context->holding != 0 || (!context->held.empty() && !next);
  if (!behind && !(receive.wild() && hold(*context, receive.source, receive.tag, stop))) return false;
  if (next) context->held.push_front(&receive);
  else context->held.push_back(&receive);
  return true;
}

template <typename Begin>
void TupleContexts::release(TupleContext& context, Begin&& begin) {
  if (context.releasing) return;  // from inside of the loop below, which goes on
  while (context.holding == 0 && !context.held.empty()) {
    ReceiveRequest* receive = context.held.front();
    context.held.pop_front();
    context.releasing = receive;
    begin(*receive);
    context.releasing = nullptr;
  }
}

}  // namespace tern
