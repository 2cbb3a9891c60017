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
// tuple_send.cc: the sender; tuple_receive.cc: the receiver; tuple_stop.cc: stopping, on the receiver's side;
// tuple_repair.cc: repair, both sides; tuple_loss.cc: loss of the path, both sides.
// Thread rule: under the rank's lock.
#pragma once

#include <cstdint>
#include <cstring>
#include <deque>
#include <memory>
#include <unordered_map>
#include <vector>

#include "base/intrusive_list.h"
#include "base/pool.h"
#include "fabric/tuple_queues.h"
#include "p2p/core/control_messages.h"
#include "p2p/core/receives.h"
#include "p2p/core/sends.h"
#include "p2p/matching/unexpected.h"
#include "p2p/message_hints.h"
#include "wire/tuples.h"

namespace tern {

class Tuples;
struct TupleLine;
struct TupleQueue;

/// What is exact about a message.
struct TupleKey {
  PeerId peer = kNoPeer;
  int source = 0;  ///< the sender's rank in the communicator
  int tag = 0;
  uint64_t context = 0;
  bool operator==(const TupleKey&) const = default;
};

struct TupleKeyHash {
  size_t operator()(const TupleKey& key) const {
    uint64_t x = key.context ^ (uint64_t(uint32_t(key.tag)) << 32 | key.peer) ^ uint64_t(uint32_t(key.source)) << 16;
    x *= 0x9e3779b97f4a7c15u;
    return size_t(x ^ (x >> 32));
  }
};

/// A message in a queue. Hook: in its line's `out`.
struct TupleMessage final : TupleSend, ListHook<TupleMessage> {
  enum class State : uint8_t {
    in_queue,
    returned,  ///< its path is lost; it is not known whether it has landed
    fetched,   ///< `again` is on its way
  };
  /// The message once more, over the lane.
  struct Again final : SendOperation {
    TupleMessage* message = nullptr;
  };
  TupleLine* line = nullptr;
  SendRequest* request = nullptr;  ///< null: copied, the sender is free
  uint32_t index = 0, position = 0, order = 0;
  State state = State::in_queue;
  bool lent = false;                    ///< `data` is the path's
  std::unique_ptr<std::byte[]> packed;  ///< of noncontiguous data
  std::unique_ptr<Again> again;         ///< null: the peer has not asked for it
};

/// The sender's end of one queue, from ask until its last message has arrived.
struct TupleLine {
  enum class State : uint8_t { asked, open, closing };
  Tuples* owner = nullptr;
  TupleQueues* path = nullptr;
  Endpoint* to = nullptr;
  TupleKey key;
  State state = State::asked;
  bool lost = false;    ///< its path is, and the lane goes on
  uint32_t token = 0;   ///< ours
  uint32_t remote = 0;  ///< the receiver's
  TupleSendQueue* queue = nullptr;
  uint32_t sent = 0;
  uint64_t used = 0;  ///< when, in messages sent by this rank
  IntrusiveList<TupleMessage> out;
  /// Of `out`: those in that state.
  size_t returned();
};

/// What a sender knows of a tuple.
struct TupleEntry {
  TupleLine* line = nullptr;  ///< asked or open; null: none
  uint32_t seen = 0;          ///< messages since the last change
  uint32_t ask_at = 0;        ///< ask at so many; ~0: never
  uint32_t ends = 0;          ///< how often it has been refused, or stopped
};

/// A message that was in a queue when the queue stopped.
struct TupleOwed {
  enum class State : uint8_t {
    waiting,    ///< for its receive: `message`
    wanted,     ///< by `receive`
    discarded,  ///< cancelled
    kept,       ///< its data is to be kept in `data` though it has no receive: one behind it was cancelled
  };
  TupleQueue* queue = nullptr;  ///< null: the peer is lost
  wire::TupleOwedBody body{};
  State state = State::waiting;
  UnexpectedMessage* message = nullptr;
  ReceiveRequest* receive = nullptr;
  bool posted = false;  ///< a buffer for it is in the queue
  bool known = true;    ///< false: it had landed unseen when the queue stopped; the size is told by its landing
  std::unique_ptr<std::byte[]> data;
};

/// A receive in a queue. Hook: in its queue's `postings`.
struct TuplePosting final : TupleReceive, ListHook<TuplePosting> {
  TupleQueue* queue = nullptr;
  ReceiveRequest* receive = nullptr;  ///< null: for `owed`, without a receive
  TupleOwed* owed = nullptr;
  std::unique_ptr<std::byte[]> bounce;  ///< for noncontiguous data
};

/// The receiver's end of one queue.
struct TupleQueue {
  enum class State : uint8_t {
    accepted,  ///< the sender still sends otherwise
    open,
    draining,  ///< stopped; messages are still in it
  };
  Tuples* owner = nullptr;
  Endpoint* from = nullptr;
  TupleKey key;
  State state = State::accepted;
  bool stopping = false;  ///< a stop is out
  bool lost = false;      ///< its path is, and the lane goes on: nothing more lands in it
  bool fetching = false;  ///< lost, and the sender waits for wants
  bool holds = false;     ///< it holds back its communicator's receives until it has stopped
  uint32_t token = 0;     ///< ours
  uint32_t remote = 0;    ///< the sender's
  TupleReceiveQueue* queue = nullptr;
  TupleQueues* path = nullptr;
  IntrusiveList<TuplePosting> postings;
  uint32_t posted = 0;                          ///< of `postings`: those that are receives' in Matching's order
  uint32_t landed = 0;                          ///< messages that have come through it
  uint32_t sent = 0;                            ///< draining: messages that will have
  bool backlog = false;                         ///< receives of the key wait for room in the queue
  bool exact = false;                           ///< MessageHints::exact_length
  uint64_t used = 0;                            ///< when, in messages landed at this rank
  std::vector<wire::TupleOwedBody> envelopes;   ///< until it has stopped
  std::deque<std::unique_ptr<TupleOwed>> owed;  ///< draining: not yet landed, in order
};

/// What a communicator's receives wait for.
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

class Tuples {
 public:
  /// A queue is given up for another only when its last message is so many queues' worth of messages ago: with more
  /// tuples in use than queues, those that have one keep it.
  static constexpr uint64_t kUnusedFactor = 4;

  Tuples(ProgressEngine& progress, Endpoints& endpoints, Sends& sends, Receives& receives, Unexpected& unexpected,
         ControlMessages& control, const Tunables& tunables, bool everywhere);
  ~Tuples();

  /// Of a communicator's point-to-point context.
  void set_hints(uint64_t context, const MessageHints& hints);
  void forget_hints(uint64_t context);
  /// Whether its messages may take queues.
  bool wants(uint64_t context) const {
    if (everywhere_) return true;
    auto found = contexts_.find(context);
    return found != contexts_.end() && found->second.hints.tuple_queues;
  }

  // --- The sender.
  /// True: the message has gone into its queue.
  bool send(SendRequest& send, size_t bytes);
  /// MPI_Cancel of a send that is in a queue.
  void cancel(SendRequest& send);

  // --- The receiver.
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

  void on_message(Endpoint& peer, const wire::Header& header, const std::byte* payload, size_t bytes);
  void on_peer_lost(Endpoint& peer);
  /// As of Sink; both sides of a queue.
  void on_queues_lost(Endpoint& peer);
  /// Of a tuple_data: where it goes, and when it is there.
  Landing landing_of(Endpoint& from, const wire::Header& header);
  void landed(Endpoint& from, const wire::Header& header, size_t bytes, Error error);
  /// A rank without tuple queues answers so.
  static void refuse(ControlMessages& control, Endpoint& peer, const wire::Header& header, bool never);

  /// For tests.
  size_t queues() const { return queues_.live(); }
  size_t lines() const { return lines_.live(); }
  /// All that decides what happens next, of one context, but for wildcards counted and queues unused (tuple_state.cc).
  void write_state(std::vector<uint64_t>& state);

 private:
  // tuple_send.cc
  TupleEntry& entry_of(const TupleKey& key);
  void ask(Endpoint& peer, const TupleKey& key, TupleEntry& entry);
  bool post(TupleLine& line, SendRequest& send, size_t bytes);
  void arrived(TupleMessage& message, Error error);
  void on_answer(Endpoint& peer, const wire::Header& header, const std::byte* payload, size_t bytes);
  void on_stop(Endpoint& peer, const wire::Header& header);
  void end(TupleLine& line, uint64_t Counters::*cause);
  void put_off(TupleEntry& entry);
  void leave(TupleLine& line);
  void end_unused_line();
  void forget_entries();

  // tuple_repair.cc
  void broken(TupleLine& line, const TupleTicket& ticket);
  void on_repair(Endpoint& peer, const wire::Header& header, const std::byte* payload, size_t bytes);
  void on_resume(Endpoint& peer, const wire::Header& header, const std::byte* payload, size_t bytes);

  // tuple_loss.cc
  TupleQueue* fetching_queue(Endpoint& from, const wire::Header& header) const;
  void on_lost(Endpoint& peer, const wire::Header& header, const std::byte* payload, size_t bytes);
  void on_landed(Endpoint& peer, const wire::Header& header, const std::byte* payload, size_t bytes);
  void on_want(Endpoint& peer, const wire::Header& header, const std::byte* payload, size_t bytes);
  void send_again(TupleMessage& message, uint32_t queue);
  void want(TupleQueue& queue, const TupleOwed& owed);
  bool offer(TupleQueue& queue, TuplePosting& posting);

  // tuple_receive.cc
  void on_ask(Endpoint& peer, const wire::Header& header, const std::byte* payload, size_t bytes);
  bool may_open(const TupleKey& key, const TupleContext* context);
  void forget_contexts();
  void on_begin(Endpoint& peer, const wire::Header& header);
  void feed(TupleQueue& queue);
  bool post(TupleQueue& queue, ReceiveRequest* receive, TupleOwed* owed);
  void landed(TuplePosting& posting, size_t bytes, Error error);
  void landed_owed(TupleQueue& queue, TuplePosting& posting, size_t bytes, Error error);
  wire::Header header_of(const TupleQueue& queue) const;
  TupleQueue* queue_of(const ReceiveRequest& receive);

  // tuple_stop.cc
  void stop(TupleQueue& queue, uint64_t Counters::*cause);
  bool hold(TupleContext& context, int source, int tag);
  void on_owed(Endpoint& peer, const wire::Header& header, const std::byte* payload, size_t bytes);
  void on_stopped(Endpoint& peer, const wire::Header& header, const std::byte* payload, size_t bytes);
  TupleOwed& owe(TupleQueue& queue, const wire::TupleOwedBody& body);
  void match_owed(TupleQueue& queue);
  void cancel_marked(const TupleKey& key);
  void wait_in_order(UnexpectedMessage& message);
  void land(TupleQueue& queue);
  void close(TupleQueue& queue);
  void close_if_drained(TupleQueue& queue);
  void release(TupleContext& context);
  void unlist(TupleQueue& queue);
  void stop_unused_queue();
  void acknowledge(Endpoint& to, const wire::TupleOwedBody& body);
  void lose_queue(TupleQueue& queue);

  Counters& counts_;  ///< the rank's
  Endpoints& endpoints_;
  Sends& sends_;
  Receives& receives_;
  Unexpected& unexpected_;
  ControlMessages& control_;
  const bool everywhere_;  ///< all contexts want queues
  const uint32_t max_queues_;
  const size_t copy_bytes_;
  const uint32_t max_wildcards_;

  // The sender.
  std::unordered_map<TupleKey, TupleEntry, TupleKeyHash> entries_;
  Tokens<TupleLine> lines_;
  Pool<TupleLine> line_pool_;
  Pool<TupleMessage> messages_;
  uint64_t clock_out_ = 0;

  // The receiver.
  std::unordered_map<TupleKey, TupleQueue*, TupleKeyHash> by_key_;  ///< accepted or open
  Tokens<TupleQueue> queues_;
  Pool<TuplePosting> postings_;
  std::unordered_map<uint64_t, TupleContext> contexts_;  ///< with hints, queues, held receives, or a past
  uint64_t clock_in_ = 0;
};

}  // namespace tern
