// Shared memory between ranks (fabric/shm/): rings of cells and data, doorbells, the locks by which two ranks agree who
// copies. The ranks of a node are threads here, over one mapping.
#include <gtest/gtest.h>

#include <memory>
#include <set>
#include <vector>

#include "fabric/shm/shm_path.h"
#include "tests/explore/pieces.h"
#include "tests/peer_sink.h"

namespace tern::explore {
namespace {

constexpr size_t kRingBytes = 4096;

std::byte pattern(int tag, size_t i) { return std::byte(uint8_t(tag * 37 + int(i) + int(i >> 8))); }

/// Takes messages in the order of their tags, and compares every byte.
struct CountingSink final : test::PeerSink {
  void on_message(PeerId, const wire::Header& header, const std::byte* data, size_t bytes) override {
    require(header.tag == taken || bytes == 0, "messages come in order");
    for (size_t i = 0; i < bytes; ++i) require(data[i] == pattern(taken, i), "bytes are what was sent");
    ++taken;
  }
  Landing on_header(PeerId, const wire::Header& header, size_t bytes) override {
    require(header.tag == taken, "messages come in order");
    memory.assign(bytes, std::byte{0});
    Landing landing;
    landing.target = Cursor::bytes(memory.data(), bytes);
    return landing;
  }
  void on_landed(PeerId, const wire::Header&, Landing&, size_t bytes, Error) override {
    for (size_t i = 0; i < bytes; ++i) require(memory[i] == pattern(taken, i), "bytes are what was sent");
    ++taken;
  }
  void on_peer_lost(PeerId, Error) override { require(false, "nobody is lost"); }
  std::vector<std::byte> memory;
  int taken = 0;
};

struct Rank {
  explicit Rank(std::unique_ptr<ShmNode> node) : path(std::move(node), sink, Tunables()) {}

  bool try_send(PeerId to, size_t bytes, bool post = false) {
    std::vector<std::byte> data(bytes);
    for (size_t i = 0; i < bytes; ++i) data[i] = pattern(sent, i);
    wire::Header header{wire::Kind::eager};
    header.tag = sent;
    Lane& lane = path.lane(to);
    if (!(post ? path.try_post(lane, header, data.data(), bytes) : path.try_send(lane, header, data.data(), bytes)))
      return false;
    ++sent;
    return true;
  }
  void send(PeerId to, size_t bytes) {
    if (try_send(to, bytes)) return;
    waiting.resize(bytes);
    for (size_t i = 0; i < bytes; ++i) waiting[i] = pattern(sent, i);
    operation.lane = &path.lane(to);
    operation.header = wire::Header{wire::Kind::eager};
    operation.header.tag = sent++;
    operation.payload = Cursor::bytes(waiting.data(), bytes);
    operation.done = [](SendOperation& done, Error) { done.lane = nullptr; };
    path.enqueue(operation);
    wait_until([&] { return operation.lane == nullptr; });
  }
  /// As an engine: polls, arms, looks once more, sleeps.
  template <typename Condition>
  void wait_until(Condition&& done) {
    while (!done()) {
      if (path.poll() != 0 || !path.arm()) continue;
      if (path.poll() == 0 && !done()) wait_for([&] { return is_readable(path.node().doorbell()); });
      path.disarm();
    }
  }

  CountingSink sink;
  ShmPath path;
  int sent = 0;
  std::vector<std::byte> waiting;  ///< of `operation`
  SendOperation operation;
};

struct Node {
  explicit Node(int count) {
    std::vector<int> ids;
    for (int i = 0; i < count; ++i) ids.push_back(i);
    auto nodes = ShmNode::create_local(ids, kRingBytes);
    for (auto& node : nodes) ranks.push_back(std::make_unique<Rank>(std::move(node)));
  }
  void share_with(Execution& execution) {
    ShmNode& node = ranks[0]->path.node();
    execution.share(node.base(), node.segment_bytes());
  }
  Rank& operator[](size_t i) { return *ranks[i]; }
  std::vector<std::unique_ptr<Rank>> ranks;
};

/// One rank sends messages of these lengths, the other sleeps whenever there are none.
Program one_way(std::vector<size_t> lengths) {
  return [=](Execution& execution) {
    auto node = std::make_shared<Node>(2);
    node->share_with(execution);
    execution.thread([=] {
      for (const size_t bytes : lengths) require((*node)[0].try_send(1, bytes), "there is room");
    });
    execution.thread([=] {
      Rank& me = (*node)[1];
      me.wait_until([&] { return me.sink.taken == int(lengths.size()); });
    });
  };
}

TEST(ShmRing, SmallMessages) {
  const Bounds bounds{.preemptions = 2, .old_values = 2};
  const Program program = one_way({8, 32});
  const Outcome outcome = must_hold("ring, 2 messages in cells", bounds, program);
  EXPECT_GE(count_needed(outcome, bounds, program, "shm_"), 2u);
}

// In three chunks, the receiver copies out while the sender copies in.
TEST(ShmRing, AMessageInTheDataRing) {
  const Bounds bounds{.preemptions = 2, .old_values = 1};
  const Program program = one_way({1200});
  const Outcome outcome = must_hold("ring, 1 message of 3 chunks", bounds, program);
  EXPECT_GE(count_needed(outcome, bounds, program, "shm_"), 2u);
}

/// A node of two whose ring from rank 0 to rank 1 is full of small messages; the receiver has taken none.
std::shared_ptr<Node> node_with_full_ring(Execution& execution) {
  auto node = std::make_shared<Node>(2);
  Rank& sender = (*node)[0];
  while (sender.try_send(1, 8)) {
  }
  require(sender.sent == int(shm::kUsableCells), "the ring is full");
  node->share_with(execution);
  return node;
}

// Two messages are posted beside the full ring (one longer than a cell of the ring holds) while the receiver takes
// some, and one goes by the ring again as soon as that may be.
TEST(ShmRing, MessagesBesideAFullRing) {
  const Bounds bounds{.preemptions = 1, .old_values = 1};
  const Program program = [](Execution& execution) {
    auto node = node_with_full_ring(execution);
    execution.thread([=] {
      Rank& me = (*node)[0];
      require(me.try_send(1, 56, true) && me.try_send(1, 8, true), "there is room beside the ring");
      me.send(1, 8);
    });
    execution.thread([=] {
      Rank& me = (*node)[1];
      me.wait_until([&] { return me.sink.taken == int(shm::kUsableCells) + 3; });
    });
  };
  const Outcome outcome = must_hold("ring, 2 messages beside it", bounds, program);
  EXPECT_GE(count_needed(outcome, bounds, program, "shm_"), 8u);
}

// Enough messages that a sender whose receiver keeps up returns to the ring, fills it, and leaves it again.
TEST(ShmRing, BesideTheRingTwice) {
  constexpr int kMore = int(shm::kUsableCells) + 6;
  auto beside = std::make_shared<std::set<uint64_t>>();  // how many messages went beside the ring
  must_hold("ring, left twice", {.preemptions = 1, .old_values = 0}, [=](Execution& execution) {
    auto node = node_with_full_ring(execution);
    execution.thread([=] {
      Rank& me = (*node)[0];
      for (int i = 0; i < kMore; ++i) require(me.try_send(1, 8, true), "there is room");
    });
    execution.thread([=] {
      Rank& me = (*node)[1];
      me.wait_until([&] { return me.sink.taken == int(shm::kUsableCells) + kMore; });
    });
    execution.finally([=] { beside->insert((*node)[0].path.counters().shm_spilled); });
  });
  EXPECT_EQ(*beside->rbegin(), uint64_t(kMore)) << "all, when the receiver takes nothing meanwhile";
  EXPECT_LT(*beside->begin(), 12u) << "few, when it takes all at once";
  EXPECT_GT(beside->size(), 6u);
}

TEST(ShmRing, ASleeperNeedsItsBarrier) {
  Bounds bounds;
  bounds.no_barrier = true;
  EXPECT_EQ(explore(bounds, one_way({8})).failure, "every thread waits for ever");
}

// Two senders wake one receiver: exactly one rings.
TEST(ShmRing, TwoSenders) {
  must_hold("ring, 2 senders", {.preemptions = 2, .old_values = 1}, [](Execution& execution) {
    auto node = std::make_shared<Node>(3);
    node->share_with(execution);
    for (const size_t sender : {0u, 1u}) {
      execution.thread([=] {
        Rank& me = (*node)[sender];
        wire::Header header{wire::Kind::eager};
        const uint64_t nothing = 0;
        require(me.path.try_send(me.path.lane(2), header, &nothing, 0), "there is room");
      });
    }
    execution.thread([=] {
      Rank& me = (*node)[2];
      me.wait_until([&] { return me.sink.taken == 2; });
    });
  });
}

/// Sends of that length until the ring is full, and four more: they are queued, and their rank sleeps until there is
/// room.
Program full_ring(size_t bytes) {
  return [=](Execution& execution) {
    struct Operation : SendOperation {
      std::vector<std::byte> source;
      bool left = false;
    };
    struct State {
      Node node{2};
      Operation operations[4];
    };
    auto state = std::make_shared<State>();
    Rank& sender = state->node[0];
    while (sender.try_send(1, bytes)) {
    }
    state->node.share_with(execution);
    int tag = sender.sent;
    for (Operation& operation : state->operations) {
      for (size_t i = 0; i < bytes; ++i) operation.source.push_back(pattern(tag, i));
      operation.lane = &sender.path.lane(1);
      operation.header = wire::Header{wire::Kind::eager};
      operation.header.tag = tag++;
      operation.payload = Cursor::bytes(operation.source.data(), bytes);
      operation.done = [](SendOperation& done, Error) { static_cast<Operation&>(done).left = true; };
    }
    execution.thread([=] {
      Rank& me = state->node[0];
      for (Operation& operation : state->operations) me.path.enqueue(operation);
      me.wait_until([&] { return state->operations[3].left; });
    });
    execution.thread([=] {
      Rank& me = state->node[1];
      me.wait_until([&] { return me.sink.taken == tag; });
    });
  };
}

TEST(ShmRing, FullOfData) {
  const Bounds bounds{.preemptions = 2, .old_values = 1};
  const Program program = full_ring(500);
  const Outcome outcome = must_hold("ring, full of data", bounds, program);
  EXPECT_GE(count_needed(outcome, bounds, program, "shm_"), 3u);
}

TEST(ShmRing, FullOfCells) {
  const Bounds bounds{.preemptions = 1, .old_values = 1};
  const Program program = full_ring(8);
  const Outcome outcome = must_hold("ring, full of cells", bounds, program);
  EXPECT_GE(count_needed(outcome, bounds, program, "shm_"), 3u);
}

TEST(CopyLock, ExactlyOneCopies) {
  must_hold("copy lock", {.preemptions = 4, .old_values = 4}, [](Execution& execution) {
    struct State {
      State() : node(2) {}
      Node node;
      RemoteKey key, next;
      int got = 0;
    };
    auto state = std::make_shared<State>();
    state->key = state->node[0].path.remote_memory()->expose(nullptr, 0, {});
    state->node[0].path.copy_arbiter()->add_copy_lock(state->key);
    state->node.share_with(execution);
    execution.thread([=] {
      ShmPath& mine = state->node[0].path;
      const bool first = mine.copy_arbiter()->try_lock_copy(nullptr, state->key);
      state->got += first;
      if (!first) return;
      // Its owner has copied and gives it back; the next one takes the same word, which an old key does not open.
      mine.remote_memory()->conceal(state->key);
      state->next = mine.remote_memory()->expose(nullptr, 0, {});
      mine.copy_arbiter()->add_copy_lock(state->next);
      state->got += mine.copy_arbiter()->try_lock_copy(nullptr, state->next);
    });
    execution.thread([=] {
      ShmPath& theirs = state->node[1].path;
      const bool got = theirs.copy_arbiter()->try_lock_copy(&theirs.lane(0), state->key);
      state->got += got ? 2 : 0;
    });
    execution.finally([=] { EXPECT_EQ(state->got, 2) << "the owner twice, or the peer once"; });
  });
}

}  // namespace
}  // namespace tern::explore
