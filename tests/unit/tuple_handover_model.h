// The model for tuple_handover_test.cc: a lane and tuple queues between two ranks whose every step is chosen by an
// explorer. Thread rule: one thread.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <deque>
#include <functional>
#include <vector>

#include "fabric/path.h"
#include "fabric/tuple_queues.h"

namespace tern::test {

/// A queue of the model, both ends.
struct ModelQueue {
  struct Sender final : TupleSendQueue {
    uint32_t id = 0;
  } sender;
  struct Receiver final : TupleReceiveQueue {
    uint32_t id = 0;
  } receiver;
  bool asked = true, accepted = false;  ///< the ends that are in use
  bool failed = false;                  ///< its connection; until `resume`
  std::deque<TupleSend*> waiting;       ///< without a buffer
  std::deque<TupleSend*> unacknowledged;
  std::deque<TupleReceive*> buffers;
  std::deque<std::pair<TupleReceive*, size_t>> unseen;  ///< landed; with the message's length
};

struct ModelItem {
  wire::Header header{};
  std::vector<std::byte> bytes;
};

/// What both ranks share.
struct HandoverModel {
  std::deque<ModelItem> toward[2];
  std::deque<ModelQueue> queues;  ///< all that were made; elements stay where they are
  std::function<bool()> is_busy;  ///< whether `send` finds no way
  uint32_t depth = 128;           ///< of a queue
  ModelQueue* of(const TupleTicket& ticket) {
    uint32_t id = 0;
    std::memcpy(&id, ticket.bytes, sizeof id);
    return &queues.at(id);
  }
};

class HandoverPath final : public Path, public TupleQueues {
 public:
  HandoverPath(HandoverModel& model, PeerId me, Sink& sink) : model_(model), me_(me), lane_(1 - me), sink_(sink) {
    properties_.name = "model";
    properties_.eager_bytes = 64;
    tuple_properties_.longest_bytes = 64;
    tuple_properties_.depth = model.depth;
  }

  /// The next poll does this.
  std::function<void()> next;
  void deliver() {
    ModelItem item = std::move(model_.toward[me_].front());
    model_.toward[me_].pop_front();
    sink_.on_message(lane_, item.header, item.bytes.data(), item.bytes.size());
  }

  // --- Path
  bool reaches(PeerId peer) const override { return peer != me_; }
  Lane& lane(PeerId) override { return lane_; }
  TupleQueues* tuple_queues() override { return this; }
  bool try_send(Lane& lane, const wire::Header& header, const void* payload, size_t bytes) override {
    auto* data = static_cast<const std::byte*>(payload);
    model_.toward[lane.id].push_back({header, std::vector<std::byte>(data, data + bytes)});
    return true;
  }
  void enqueue(SendOperation& operation) override {
    ModelItem item{operation.header, std::vector<std::byte>(operation.payload.remaining())};
    operation.payload.pack(item.bytes.data(), item.bytes.size());
    model_.toward[operation.lane->id].push_back(std::move(item));
    sent_.push_back(&operation);
  }
  bool has_unsent() const override { return false; }
  bool has_sent() { return !sent_.empty(); }
  int poll() override {
    int done = 0;
    if (next) {
      std::exchange(next, nullptr)();
      ++done;
    }
    for (; SendOperation* operation = sent_.pop_front(); ++done) operation->done(*operation, Error());
    return done;
  }

  // --- TupleQueues
  TupleSendQueue* ask(Lane&, TupleTicket& ticket) override {
    const uint32_t id = uint32_t(model_.queues.size());
    ModelQueue& queue = model_.queues.emplace_back();
    queue.sender.id = queue.receiver.id = id;
    std::memcpy(ticket.bytes, &id, sizeof id);
    return &queue.sender;
  }
  Error join(TupleSendQueue&, const TupleTicket&) override { return {}; }
  bool send(TupleSend& message) override {
    ModelQueue& queue = of(*message.queue);
    if (queue.failed || model_.is_busy()) return false;
    queue.waiting.push_back(&message);
    return true;
  }
  void leave(TupleSendQueue& left) override {
    ModelQueue& queue = of(left);
    EXPECT_TRUE(queue.waiting.empty() && queue.unacknowledged.empty()) << "left with messages on their way";
    queue.asked = false;
  }
  std::byte* lend(size_t) override { return nullptr; }
  void give_back(std::byte*) override {}
  TupleReceiveQueue* accept(Lane&, const TupleTicket& ticket, TupleTicket& answer) override {
    ModelQueue& queue = *model_.of(ticket);
    queue.accepted = true;
    answer = ticket;
    return &queue.receiver;
  }
  bool post(TupleReceiveQueue& to, TupleReceive& receive) override {
    ModelQueue& queue = of(to);
    if (queue.buffers.size() >= model_.depth) return false;
    queue.buffers.push_back(&receive);
    return true;
  }
  void close(TupleReceiveQueue& closed) override {
    ModelQueue& queue = of(closed);
    EXPECT_TRUE(queue.waiting.empty() && queue.unseen.empty()) << "closed with messages on their way";
    queue.buffers.clear();
    queue.accepted = false;
  }
  void resume(TupleSendQueue& repaired, const TupleTicket* answer) override {
    ModelQueue& queue = of(repaired);
    EXPECT_TRUE(queue.failed);
    EXPECT_TRUE(answer || queue.waiting.empty()) << "the receiver is gone, and a message has not landed";
    queue.failed = false;
    while (!queue.unacknowledged.empty()) acknowledge(queue);
  }
  void abandon(TupleSendQueue&) override { ADD_FAILURE() << "a repair was given up"; }
  Error repair(TupleReceiveQueue&, const TupleTicket& ticket, TupleTicket& answer) override {
    answer = ticket;
    return {};
  }

  // --- The explorer's steps, inside of a poll.
  static void land(ModelQueue& queue) {
    TupleSend* message = queue.waiting.front();
    TupleReceive* buffer = queue.buffers.front();
    queue.waiting.pop_front();
    queue.buffers.pop_front();
    std::memcpy(buffer->buffer, message->data, std::min(message->bytes, buffer->capacity));
    queue.unseen.emplace_back(buffer, message->bytes);
    queue.unacknowledged.push_back(message);
  }
  static void see(ModelQueue& queue) {
    auto [receive, bytes] = queue.unseen.front();
    queue.unseen.pop_front();
    receive->done(*receive, bytes, Error());
  }
  static void acknowledge(ModelQueue& queue) {
    TupleSend* message = queue.unacknowledged.front();
    queue.unacknowledged.pop_front();
    message->done(*message, Error());
  }
  static void fail(ModelQueue& queue) {
    TupleTicket ticket;
    std::memcpy(ticket.bytes, &queue.sender.id, sizeof queue.sender.id);
    queue.failed = true;
    queue.sender.broken(queue.sender, ticket);
  }

 private:
  ModelQueue& of(TupleSendQueue& queue) { return model_.queues.at(static_cast<ModelQueue::Sender&>(queue).id); }
  ModelQueue& of(TupleReceiveQueue& queue) { return model_.queues.at(static_cast<ModelQueue::Receiver&>(queue).id); }

  HandoverModel& model_;
  const PeerId me_;
  struct PeerLane : Lane {
    using Lane::Lane;
  } lane_;
  Sink& sink_;
  IntrusiveList<SendOperation> sent_;
};

}  // namespace tern::test
