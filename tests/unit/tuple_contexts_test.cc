// Which receives of a communicator wait until tuple queues have stopped (p2p/tuples/tuple_contexts.h).
#include <gtest/gtest.h>

#include <vector>

#include "datatype/kind.h"
#include "datatype/predefined.h"
#include "p2p/core/receives.h"
#include "p2p/tuples/tuple_contexts.h"
#include "tests/unit/still.h"

namespace tern {
namespace {

using test::NobodyWaits, test::StillClock;

constexpr uint64_t kContext = 64;

struct NoActions final : RequestActions {
  void begin(SendRequest&) override {}
  void begin(ReceiveRequest&) override {}
  void cancel(SendRequest&) override {}
  void cancel(SentRequest&) override {}
  void cancel(ReceiveRequest&) override {}
};

struct TupleContextsTest : testing::Test {
  ReceiveRequest& receive(int source, int tag) {
    return receives.make({.buffer = nullptr,
                          .count = 0,
                          .type = &types.get(type_id::kByte),
                          .peer = source == kAnySource ? kNoPeer : PeerId(source),
                          .source = source,
                          .tag = tag,
                          .context = kContext},
                         nullptr);
  }
  TupleQueue& queue(int source, int tag) {
    auto& made = queues.emplace_back(std::make_unique<TupleQueue>());
    made->key = {PeerId(source), source, tag, kContext};
    contexts.list(*made);
    return *made;
  }
  bool holds_back(ReceiveRequest& request) {
    return contexts.hold_back(request, [this](TupleQueue& its) {
      its.stopping = true;
      stopped.push_back(&its);
    });
  }
  bool visible(int source, int tag) {
    return contexts.visible(source, tag, kContext, [this](TupleQueue& its) {
      its.stopping = true;
      stopped.push_back(&its);
    });
  }
  std::vector<ReceiveRequest*> release() {
    std::vector<ReceiveRequest*> begun;
    contexts.release(kContext, [&](ReceiveRequest& request) {
      if (!holds_back(request)) begun.push_back(&request);
    });
    return begun;
  }

  StillClock clock;
  Driving driving;
  NobodyWaits port;
  ProgressEngine progress{clock, driving, port};
  PredefinedTypes types;
  NoActions actions;
  Heartbeat heartbeat{progress};
  Receives receives{progress, actions, heartbeat, progress.counters()};
  TupleContexts contexts{true, 2};
  std::vector<std::unique_ptr<TupleQueue>> queues;
  std::vector<TupleQueue*> stopped;
};

TEST_F(TupleContextsTest, AWildcardStopsTheQueuesThatItFitsAndWaitsForThem) {
  TupleQueue &one = queue(1, 5), &other = queue(2, 6);
  ReceiveRequest &exact = receive(1, 5), &wild = receive(kAnySource, 5), &behind = receive(2, 6);
  EXPECT_FALSE(holds_back(exact));
  EXPECT_TRUE(holds_back(wild));
  EXPECT_EQ(stopped, std::vector<TupleQueue*>{&one});
  EXPECT_TRUE(holds_back(behind));  // receives of a context begin in order
  EXPECT_FALSE(visible(2, 6));
  EXPECT_TRUE(release().empty());
  contexts.unlist(one);
  EXPECT_EQ(release(), (std::vector<ReceiveRequest*>{&wild, &behind}));
  EXPECT_EQ(stopped.size(), 1u);
  EXPECT_FALSE(other.holds);
  contexts.unlist(other);
}

TEST_F(TupleContextsTest, TheNextWildcardStopsItsOwnQueuesWhenItIsReleased) {
  TupleQueue &one = queue(1, 5), &other = queue(2, 6);
  ReceiveRequest &first = receive(kAnySource, 5), &second = receive(kAnySource, 6);
  EXPECT_TRUE(holds_back(first));
  EXPECT_TRUE(holds_back(second));
  contexts.unlist(one);
  EXPECT_EQ(release(), std::vector<ReceiveRequest*>{&first});
  EXPECT_EQ(stopped, (std::vector<TupleQueue*>{&one, &other}));
  contexts.unlist(other);
  EXPECT_EQ(release(), std::vector<ReceiveRequest*>{&second});
}

TEST_F(TupleContextsTest, AReceiveThatWaitsCanBeTakenBack) {
  TupleQueue& one = queue(1, 5);
  ReceiveRequest &wild = receive(kAnySource, kAnyTag), &exact = receive(1, 5);
  EXPECT_FALSE(contexts.withdraw(wild));
  EXPECT_TRUE(holds_back(wild));
  EXPECT_TRUE(holds_back(exact));
  EXPECT_TRUE(contexts.withdraw(wild));
  EXPECT_FALSE(contexts.withdraw(wild));
  contexts.unlist(one);
  EXPECT_EQ(release(), std::vector<ReceiveRequest*>{&exact});
}

TEST_F(TupleContextsTest, AProbeStopsQueuesAndFindsNothingUntilTheyHave) {
  TupleQueue& one = queue(1, 5);
  EXPECT_TRUE(visible(1, 6));
  EXPECT_FALSE(visible(1, kAnyTag));
  EXPECT_EQ(stopped, std::vector<TupleQueue*>{&one});
  EXPECT_EQ(contexts.find(kContext)->wildcards, 1u);
  contexts.unlist(one);
  EXPECT_TRUE(visible(1, kAnyTag));
}

TEST_F(TupleContextsTest, ReceivesMayPassWhereTheHintsSaySo) {
  contexts.set_hints(kContext, {.allow_overtaking = true});
  TupleQueue &one = queue(1, 5), &other = queue(2, 6);
  ReceiveRequest &wild = receive(kAnySource, 5), &exact = receive(2, 6);
  EXPECT_TRUE(holds_back(wild));
  EXPECT_FALSE(holds_back(exact));
  contexts.unlist(one);
  contexts.unlist(other);
  EXPECT_EQ(release(), std::vector<ReceiveRequest*>{&wild});
}

TEST_F(TupleContextsTest, WhatIsOpenIsRememberedAmongThousands) {
  TupleQueue& listed = queue(1, 5);
  contexts.set_hints(1, {.exact_length = true});
  contexts.set_hints(2, {});
  contexts.add_line(2);
  contexts.add_line(2);
  contexts.remove_line(2);
  contexts.set_hints(3, {.exact_length = true});
  contexts.forget_hints(3);
  for (uint64_t id = 1000; id < 3000; ++id) contexts.set_hints(id, {});
  EXPECT_TRUE(contexts.find(kContext));
  EXPECT_TRUE(contexts.find(1));
  EXPECT_TRUE(contexts.find(2));
  EXPECT_FALSE(contexts.find(3));
  EXPECT_FALSE(contexts.find(1000));
  contexts.unlist(listed);
}

}  // namespace
}  // namespace tern
