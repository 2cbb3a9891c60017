// TupleQueues: queues of posted receives, into which peers send without a control message and without matching in
// software (Koop et al. 2009, "TupleQ"): one queue for each (communicator, source, tag), which the sender names in each
// message. A path that has them returns them from Path::tuple_queues.
//
// A queue joins one sender with one receiver. The path's user makes it by an exchange of messages
// (p2p/tuples/tuples.h):
//
//   sender                                   receiver
//     ask -> ticket ---------------------->    accept(ticket) -> queue, answer
//     join(answer) <----------------------
//     send, send ... ----------------------->  the memory of the receives posted, in order
//
// A message that finds no receive waits at its sender, in the adapter, without either rank's CPU. It keeps one of the
// pair's `ways` occupied: no other queue of the pair can use that way meanwhile. So a late receive never delays a
// message of another queue. When all ways are occupied, `send` returns false.
//
// A way may fail (a queue pair in error) though both ranks live. What is not known to have arrived goes again, in
// order and once, after an exchange that the path's user carries, too:
//
//   sender                                   receiver
//     `broken` -> ticket ----------------->    repair(ticket) -> answer: how many messages have landed
//     resume(answer) <---------------------
//     sends the others again --------------->
//
// Ownership: queues belong to the path, from ask (accept) until leave (close). A lost lane ends its sends with an error
// before Sink::on_peer_lost; its queues stay until leave (close). Where another path goes on (`replaceable`),
// Sink::on_queues_lost comes instead: what ended with an error is sent otherwise by the queues' user.
// Thread rule: as Path. Re-entrance: `done` is called from poll only; it may call everything here.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/error.h"
#include "fabric/lane.h"

namespace tern {

/// What two paths tell each other about a queue; opaque plain bytes.
struct TupleTicket {
  std::byte bytes[56] = {};
};

/// The sender's end of a queue.
struct TupleSendQueue {
  /// Set by the path's user. Called from poll: the queue's way has failed, `ticket` is for the receiver's `repair`. Its
  /// messages stay where they are, and it takes no further one until `resume`.
  void (*broken)(TupleSendQueue&, const TupleTicket& ticket) = nullptr;
  void* user = nullptr;  ///< the user's

 protected:
  ~TupleSendQueue() = default;
};

/// The receiver's end.
struct TupleReceiveQueue {
 protected:
  ~TupleReceiveQueue() = default;
};

/// A receive in a queue. The memory belongs to the path until `done`, or until the queue is closed.
struct TupleReceive {
  std::byte* buffer = nullptr;
  size_t capacity = 0;
  bool exact = false;  ///< no longer message is expected (if one comes after all, its way must be repaired)
  /// `bytes`: of the message; bytes beyond `capacity` are lost. Called once.
  void (*done)(TupleReceive&, size_t bytes, Error) = nullptr;
};

/// A message to a queue. The memory belongs to the path until `done`.
struct TupleSend {
  TupleSendQueue* queue = nullptr;
  const std::byte* data = nullptr;
  size_t bytes = 0;  ///< at most TupleQueueProperties::longest_bytes
  /// No error: a posted receive has taken it.
  void (*done)(TupleSend&, Error) = nullptr;
};

/// Constant.
struct TupleQueueProperties {
  size_t longest_bytes = 0;  ///< longest message, even if the receive it meets is shorter
  uint32_t depth = 0;        ///< receives that one queue holds at a time
  /// Nothing lands in a lost lane's queues after Sink::on_peer_lost, and `done` of all that has landed comes before.
  bool ends_with_lane = false;
  bool replaceable = false;  ///< the lane may go on by another path without its queues (Sink::on_queues_lost)
};

class TupleQueues {
 public:
  const TupleQueueProperties& tuple_properties() const { return tuple_properties_; }

  // --- The sender.
  /// Begins a queue; `ticket` is for the peer. Null: not possible now.
  virtual TupleSendQueue* ask(Lane& to, TupleTicket& ticket) = 0;
  /// The peer has accepted: messages may be sent.
  virtual Error join(TupleSendQueue& queue, const TupleTicket& answer) = 0;
  /// Hands the message over. False: nothing has happened, since other queues occupy all ways or too many messages wait.
  virtual bool send(TupleSend& message) = 0;
  /// Ends a queue, asked for or joined, that carries no message.
  virtual void leave(TupleSendQueue& queue) = 0;
  /// The receiver's answer to `broken`. Null: it has closed the queue, so all messages have landed. Sends again what
  /// has not landed, and calls `done` of the others.
  virtual void resume(TupleSendQueue& queue, const TupleTicket* answer) = 0;
  /// The receiver cannot repair it: the lane is lost.
  virtual void abandon(TupleSendQueue& queue) = 0;
  /// Memory for a copy of so many bytes of a message, from which `send` needs no registration; null: none is left.
  virtual std::byte* lend(size_t bytes) = 0;
  virtual void give_back(std::byte* memory) = 0;

  // --- The receiver.
  /// Null: not possible now. Not logged: the sender goes on without a queue.
  virtual TupleReceiveQueue* accept(Lane& from, const TupleTicket& ticket, TupleTicket& answer) = 0;
  /// False, and nothing has happened: the queue is full, or the adapter rejects the memory.
  virtual bool post(TupleReceiveQueue& queue, TupleReceive& receive) = 0;
  /// Its sender's way has failed. An error: it cannot be used any more.
  virtual Error repair(TupleReceiveQueue& queue, const TupleTicket& ticket, TupleTicket& answer) = 0;
  /// Ends a queue that its sender no longer uses. Its receives are dropped without a callback.
  virtual void close(TupleReceiveQueue& queue) = 0;

 protected:
  ~TupleQueues() = default;
  TupleQueueProperties tuple_properties_;
};

}  // namespace tern
