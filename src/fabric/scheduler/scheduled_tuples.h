// ScheduledTuples: the tuple queues of the best of several paths (path_scheduler.h). A queue is begun only while the
// lane of that path is in use; when the lane is lost, its queues are over (Sink::on_queues_lost), and the next ones are
// begun when the path is in use again.
// Thread rule: as Path.
#pragma once

#include <functional>
#include <utility>

#include "fabric/tuple_queues.h"

namespace tern {

class ScheduledTuples final : public TupleQueues {
 public:
  /// The best path's lane to a peer; null: another one is in use.
  using LaneInUse = std::function<Lane*(Lane&)>;

  ScheduledTuples(TupleQueues& best, LaneInUse lane_in_use) : best_(best), lane_in_use_(std::move(lane_in_use)) {
    tuple_properties_ = best.tuple_properties();
    tuple_properties_.replaceable = true;
  }

  TupleSendQueue* ask(Lane& to, TupleTicket& ticket) override {
    Lane* lane = lane_in_use_(to);
    return lane ? best_.ask(*lane, ticket) : nullptr;
  }
  Error join(TupleSendQueue& queue, const TupleTicket& answer) override { return best_.join(queue, answer); }
  bool send(TupleSend& message) override { return best_.send(message); }
  void leave(TupleSendQueue& queue) override { best_.leave(queue); }
  void resume(TupleSendQueue& queue, const TupleTicket* answer) override { best_.resume(queue, answer); }
  void abandon(TupleSendQueue& queue) override { best_.abandon(queue); }
  std::byte* lend(size_t bytes) override { return best_.lend(bytes); }
  void give_back(std::byte* memory) override { best_.give_back(memory); }
  TupleReceiveQueue* accept(Lane& from, const TupleTicket& ticket, TupleTicket& answer) override {
    Lane* lane = lane_in_use_(from);
    return lane ? best_.accept(*lane, ticket, answer) : nullptr;
  }
  bool post(TupleReceiveQueue& queue, TupleReceive& receive) override { return best_.post(queue, receive); }
  Error repair(TupleReceiveQueue& queue, const TupleTicket& ticket, TupleTicket& answer) override {
    return best_.repair(queue, ticket, answer);
  }
  void close(TupleReceiveQueue& queue) override { best_.close(queue); }

 private:
  TupleQueues& best_;
  const LaneInUse lane_in_use_;
};

}  // namespace tern
