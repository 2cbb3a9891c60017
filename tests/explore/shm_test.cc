// Shared memory between ranks (fabric/shm/): rings of cells and data, doorbells, the locks by which two ranks agree who
// copies. The ranks of a node are threads here, over one mapping.
#include <gtest/gtest.h>

#include <memory>
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

  bool try_send(PeerId to, size_t bytes) {
    std::vector<std::byte> data(bytes);
    for (size_t i = 0; i < bytes; ++i) data[i] = pattern(sent, i);
    wire::Header header{wire::Kind::eager};
    header.tag = sent;
    if (!path.try_send(path.lane(to), header, data.data(), bytes)) return false;
    ++sent;
    return true;
  }
  /// As RealIdle: polls, arms, looks once more, sleeps.
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
    ShmPath& owner = state->node[0].path;
    state->key = owner.expose(nullptr, 0, {});
    owner.add_copy_lock(state->key);
    state->node.share_with(execution);
    execution.thread([=] {
      ShmPath& mine = state->node[0].path;
      const bool first = mine.try_lock_copy(nullptr, state->key);
      state->got += first;
      if (!first) return;
      // Its owner has copied and gives it back; the next one takes the same word, which an old key does not open.
      mine.conceal(state->key);
      state->next = mine.expose(nullptr, 0, {});
      mine.add_copy_lock(state->next);
      state->got += mine.try_lock_copy(nullptr, state->next);
    });
    execution.thread([=] {
      ShmPath& theirs = state->node[1].path;
      const bool got = theirs.try_lock_copy(&theirs.lane(0), state->key);
      state->got += got ? 2 : 0;
    });
    execution.finally([=] { EXPECT_EQ(state->got, 2) << "the owner twice, or the peer once"; });
  });
}

}  // namespace
}  // namespace tern::explore
