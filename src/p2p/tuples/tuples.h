// Tuple queues: the network matches (Koop et al. 2009, "TupleQ"). What MPI needs around a path's queues
// (fabric/tuple_queues.h): which messages go into them, and how a tuple (communicator, source, tag) changes from the
// traditional way (lane, matching in software) to its queue and back without losing, doubling or reordering a message.
//
// Begin. The lane is ordered, so one message tells where the traditional part of the tuple ends:
//
//   sender                                        receiver
//     eager, eager                                  matched in software
//     ask ------------------------------------->    makes the queue
//     eager                                         matched in software
//     <------------------------------- answer
//     begin ----------------------------------->    its posted receives go into the queue, as do all from now on
//     message =================================>    straight into the oldest of them (the adapter waits for one)
//
// End. Either side may want it; there is one way, by the sender's word, and nothing is torn down:
//
//     <--------------------------------- stop       (a wildcard or a probe fits; a receive is cancelled; unused)
//     owed(index, bytes, order) x n ----------->    envelopes of what may still be in the queue
//     stopped(sent) --------------------------->    matched now, in software; posts a buffer for each when it is
//     eager                                         matched: all of them land. Then the queue is closed.
//
// Receives in the queue stay in Matching, too: the oldest of a key belongs to the oldest message of the key, whichever
// way that comes. Those that are left in the queue when all messages have landed are simply posted receives.
//
// Wildcards and probes see messages only in software. So (1) no queue is begun that a posted wildcard fits; (2) a
// wildcard or probe stops the queues that it fits, and until all have stopped, receives of its communicator are held
// back, in order, and it finds nothing. Messages that were in queues then take their place among those that came
// otherwise by the numbers that both ways share (TupleOwedBody::position, order).
//
// The paper closes all connections to the receiver instead and sends again; by the envelopes only the queues that fit
// are stopped, and no byte is sent twice.
//
// Repair. When the connection of a queue fails, the path replaces it by an exchange that this part carries
// (fabric/tuple_queues.h). Nothing of the above changes by it: messages are only later.
//
//     repair(ticket) ------------------------->    how many have landed; a new connection
//     <--------------------------------- resume
//     message =================================>   those that have not landed, again
//
// Loss. When the lane goes on by another path (fabric/scheduler/), its queues are over. They are stopped as above; then
// the messages that have not landed are fetched over the lane, in order, each when it is matched:
//
//     owed x n, stopped, lost ---------------->    the queue's path delivers nothing more
//     <------------------------------- landed      how many have landed
//     <--------------------------------- want      the next one has its receive
//     data ----------------------------------->
//
// tuple_sender.h, tuple_receiver.h: the two sides. They share only the contexts (tuple_contexts.h).
// Thread rule: under the rank's lock.
#pragma once

#include <cstdint>
#include <vector>

#include "p2p/tuples/tuple_contexts.h"
#include "p2p/tuples/tuple_receiver.h"
#include "p2p/tuples/tuple_sender.h"

namespace tern {

/// Both sides of a rank, and in which order they hear of what concerns both.
class Tuples {
 public:
  Tuples(ProgressEngine& progress, Endpoints& endpoints, Sends& sends, Receives& receives, Unexpected& unexpected,
         ControlMessages& control, const Tunables& tunables, bool everywhere)
      : contexts(everywhere, uint32_t(tunables.tuple_queues)),
        sender(progress.counters(), endpoints, sends, control, contexts, tunables),
        receiver(progress.counters(), endpoints, receives, unexpected, control, contexts, tunables) {}

  /// Gives it to the side that it is for.
  void on_message(Endpoint& peer, const wire::Header& header, const std::byte* payload, size_t bytes);
  void on_peer_lost(Endpoint& peer) {
    sender.on_peer_lost(peer);
    receiver.on_peer_lost(peer);
  }
  /// As of Sink.
  void on_queues_lost(Endpoint& peer) {
    sender.on_queues_lost(peer);
    receiver.on_queues_lost(peer);
  }
  /// For tests: all that decides what happens next, of one context, but for wildcards counted and queues unused
  /// (tuple_state.cc).
  void write_state(std::vector<uint64_t>& state);

  TupleContexts contexts;
  TupleSender sender;
  TupleReceiver receiver;
};

}  // namespace tern
