// TupleSender: the sending side of tuple queues (tuples.h has the drawings): which tuples get a queue, which messages
// go into it, and how it ends.
//
// Invariants: a tuple has at most one line that is asked or open, and its entry names it; a message is in its line's
// `out` from `post` until it has been received or is lost; a line without a name in any entry goes with its last
// message. tuple_sender.cc: asking, sending and ending; tuple_loss.cc: loss of the path.
// Thread rule: under the rank's lock.
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

class TupleSender {
 public:
  /// None of the references is owned; all outlive this.
  TupleSender(Counters& counts, Endpoints& endpoints, Sends& sends, ControlMessages& control, TupleContexts& contexts,
              const Tunables& tunables)
      : counts_(counts),
        endpoints_(endpoints),
        sends_(sends),
        control_(control),
        contexts_(contexts),
        max_queues_(uint32_t(tunables.tuple_queues)),
        copy_bytes_(size_t(tunables.tuple_copy_bytes)) {}

  /// True: the message has gone into its queue.
  bool send(SendRequest& send, size_t bytes);
  /// MPI_Cancel of a send that is in a queue.
  void cancel(SendRequest& send);

  void on_answer(Endpoint& peer, const wire::Header& header, const std::byte* payload, size_t bytes);
  void on_stop(Endpoint& peer, const wire::Header& header);
  void on_resume(Endpoint& peer, const wire::Header& header, const std::byte* payload, size_t bytes);
  void on_landed(Endpoint& peer, const wire::Header& header, const std::byte* payload, size_t bytes);
  void on_want(Endpoint& peer, const wire::Header& header, const std::byte* payload, size_t bytes);
  void on_peer_lost(Endpoint& peer);
  /// The lane goes on by another path.
  void on_queues_lost(Endpoint& peer);

  /// For tests.
  size_t lines() const { return lines_.live(); }
  void write_state(std::vector<uint64_t>& state);

 private:
  TupleEntry& entry_of(const TupleKey& key);
  void ask(Endpoint& peer, const TupleKey& key, TupleEntry& entry);
  bool post(TupleLine& line, SendRequest& send, size_t bytes);
  void arrived(TupleMessage& message, Error error);
  void end(TupleLine& line, uint64_t Counters::*cause);
  void put_off(TupleEntry& entry);
  void leave(TupleLine& line);
  void end_unused_line();
  void broken(TupleLine& line, const TupleTicket& ticket);
  void send_again(TupleMessage& message, uint32_t queue);

  Counters& counts_;  ///< the rank's
  Endpoints& endpoints_;
  Sends& sends_;
  ControlMessages& control_;
  TupleContexts& contexts_;
  const uint32_t max_queues_;
  const size_t copy_bytes_;

  std::unordered_map<TupleKey, TupleEntry, TupleKeyHash> entries_;
  Tokens<TupleLine> lines_;
  Pool<TupleLine> line_pool_;
  Pool<TupleMessage> messages_;
  uint64_t clock_ = 0;  ///< messages sent by this rank
};

}  // namespace tern
