// TupleReceiver: the receiving side of tuple queues (tuples.h has the drawings): which queues are accepted, which
// buffers lie in them, how they stop, and what becomes of the messages that were in one when it stopped.
//
// Invariants: by_key_ has exactly the queues that are accepted or open, and so have the contexts' lists; `posted` of an
// open queue are the oldest receives of its key in Matching, in the same order; `owed` of a draining one are its
// messages from `landed` to `sent`. tuple_receiver.cc: accepting and filling; tuple_stop.cc: stopping;
// tuple_loss.cc: loss of the path. Thread rule: under the rank's lock.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "base/pool.h"
#include "base/tunables.h"
#include "p2p/core/control_messages.h"
#include "p2p/core/tokens.h"
#include "p2p/tuples/records.h"
#include "p2p/tuples/tuple_contexts.h"

namespace tern {

/// The answer to a tuple_ask of a rank that gives no queue. `never`: it need not ask again.
void refuse_tuple_queue(ControlMessages& control, Endpoint& peer, const wire::Header& ask, bool never);

class TupleReceiver {
 public:
  /// None of the references is owned; all outlive this.
  TupleReceiver(Counters& counts, Endpoints& endpoints, Receives& receives, Unexpected& unexpected,
                ControlMessages& control, TupleContexts& contexts, const Tunables& tunables)
      : counts_(counts),
        endpoints_(endpoints),
        receives_(receives),
        unexpected_(unexpected),
        control_(control),
        contexts_(contexts),
        max_queues_(uint32_t(tunables.tuple_queues)),
        max_wildcards_(uint32_t(tunables.tuple_wildcards)) {}
  ~TupleReceiver();

  /// True: the receive waits until queues have stopped, and begins again then.
  bool hold_back(ReceiveRequest& receive);
  /// An exact receive has been posted in Matching.
  void posted(ReceiveRequest& receive);
  /// MPI_Cancel. False: it is a receive like any other.
  bool cancel(ReceiveRequest& receive);
  /// For probes: false: what there is cannot be said yet.
  bool visible(int source, int tag, uint64_t context);
  /// A receive takes a message that was in a queue.
  void take(ReceiveRequest& receive, UnexpectedMessage& message);
  /// The message was taken back by its sender.
  void discard(UnexpectedMessage& message);
  /// Of a tuple_data: where it goes, and when it is there.
  Landing landing_of(Endpoint& from, const wire::Header& header);
  void landed(Endpoint& from, const wire::Header& header, size_t bytes, Error error);

  void on_ask(Endpoint& peer, const wire::Header& header, const std::byte* payload, size_t bytes);
  void on_begin(Endpoint& peer, const wire::Header& header);
  void on_owed(Endpoint& peer, const wire::Header& header, const std::byte* payload, size_t bytes);
  void on_stopped(Endpoint& peer, const wire::Header& header, const std::byte* payload, size_t bytes);
  void on_repair(Endpoint& peer, const wire::Header& header, const std::byte* payload, size_t bytes);
  void on_lost(Endpoint& peer, const wire::Header& header, const std::byte* payload, size_t bytes);
  void on_peer_lost(Endpoint& peer);
  /// The lane goes on by another path.
  void on_queues_lost(Endpoint& peer);

  /// For tests.
  size_t queues() const { return queues_.live(); }
  void write_state(std::vector<uint64_t>& state);

 private:
  bool may_open(const TupleKey& key, const TupleContext* context);
  void feed(TupleQueue& queue);
  bool post(TupleQueue& queue, ReceiveRequest* receive, TupleOwed* owed);
  bool offer(TupleQueue& queue, TuplePosting& posting);
  void landed(TuplePosting& posting, size_t bytes, Error error);
  void landed_owed(TupleQueue& queue, TuplePosting& posting, size_t bytes, Error error);
  TupleQueue* queue_of(const ReceiveRequest& receive);
  void stop(TupleQueue& queue, uint64_t Counters::*cause);
  void stop_unused_queue();
  void match_owed(TupleQueue& queue);
  void wait_in_order(UnexpectedMessage& message);
  void cancel_marked(const TupleKey& key);
  void release_held(uint64_t context);
  void land(TupleQueue& queue);
  void close(TupleQueue& queue);
  void lose_queue(TupleQueue& queue);
  void acknowledge(Endpoint& to, const wire::TupleOwedBody& body);
  TupleQueue* fetching_queue(Endpoint& from, const wire::Header& header) const;
  void want(TupleQueue& queue, const TupleOwed& owed);

  Counters& counts_;  ///< the rank's
  Endpoints& endpoints_;
  Receives& receives_;
  Unexpected& unexpected_;
  ControlMessages& control_;
  TupleContexts& contexts_;
  const uint32_t max_queues_, max_wildcards_;

  std::unordered_map<TupleKey, TupleQueue*, TupleKeyHash> by_key_;
  Tokens<TupleQueue> queues_;
  Pool<TuplePosting> postings_;
  uint64_t clock_ = 0;  ///< messages landed at this rank
};

}  // namespace tern
