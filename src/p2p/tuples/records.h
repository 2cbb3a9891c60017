// The records of tuple queues: what each side knows of a tuple, a queue and a message in it. Plain data; the side that
// owns an object changes it (tuple_sender.h, tuple_receiver.h). Thread rule: under the rank's lock.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "base/intrusive_list.h"
#include "fabric/tuple_queues.h"
#include "p2p/core/receives.h"
#include "p2p/core/sends.h"
#include "p2p/matching/unexpected.h"
#include "wire/tuples.h"

namespace tern {

class TupleReceiver;
class TupleSender;
struct TupleLine;
struct TupleQueue;

/// A queue is unused when this rank has sent (or received) kTupleUnusedFactor * tunable tuple_queues messages since the
/// queue's last one. Only an unused queue is given up for another tuple. So if more tuples are in use than there are
/// queues, those that have one keep it.
inline constexpr uint64_t kTupleUnusedFactor = 4;

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
  TupleSender* owner = nullptr;
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
  /// How many of `out` are in that state.
  size_t returned() {
    size_t count = 0;
    for (TupleMessage* message = out.front(); message; message = out.next(message))
      count += message->state == TupleMessage::State::returned;
    return count;
  }
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
  ScratchBlock data;
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
  TupleReceiver* owner = nullptr;
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

  bool drained() const { return state == State::draining && landed == sent; }
  /// Of its messages, once it has stopped.
  wire::Header header() const { return wire::make_header(wire::Kind::tuple_owed, key.source, key.context, key.tag, 0); }
  TupleOwed& owe(const wire::TupleOwedBody& body) {
    owed.push_back(std::make_unique<TupleOwed>());
    owed.back()->queue = this;
    owed.back()->body = body;
    return *owed.back();
  }
};

}  // namespace tern
