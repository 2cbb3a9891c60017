// The ofi path's tuple queues and their repair, over a provider in this process, with and without what providers may
// lack, and behind the filters of EFA, cxi and PSM3.
#include "fabric/ofi/ofi_tuples.h"

#include "ofi_world.h"

namespace tern {
namespace {

using namespace test;

struct TestTuple {
  explicit TestTuple(OfiWorld& its) : world(its) {
    TupleTicket ticket, answer;
    sender = world.path(0).tuple_queues();
    receiver = world.path(1).tuple_queues();
    out = sender->ask(world.path(0).lane(1), ticket);
    in = receiver->accept(world.path(1).lane(0), ticket, answer);
    EXPECT_FALSE(sender->join(*out, answer));
    out->user = this;
    out->broken = [](TupleSendQueue& queue, const TupleTicket& its_ticket) {
      auto& self = *static_cast<TestTuple*>(queue.user);
      TupleTicket answer_to_it;
      ++self.repairs;
      if (self.receiver->repair(*self.in, its_ticket, answer_to_it)) return;
      self.sender->resume(queue, &answer_to_it);
    };
  }
  struct Receive : TupleReceive {
    std::string memory;
    size_t bytes = 0;
    int completions = 0;
  };
  struct Send : TupleSend {
    std::string memory, error;
    int completions = 0;
  };
  void post(size_t capacity) {
    auto& receive = *receives.emplace_back(std::make_unique<Receive>());
    receive.memory.resize(capacity, '?');
    receive.buffer = reinterpret_cast<std::byte*>(receive.memory.data());
    receive.capacity = capacity;
    receive.done = [](TupleReceive& its, size_t bytes, Error error) {
      EXPECT_FALSE(error) << error.text();
      static_cast<Receive&>(its).bytes = bytes;
      ++static_cast<Receive&>(its).completions;
    };
    EXPECT_TRUE(receiver->post(*in, receive));
  }
  bool send(const std::string& text, bool copied = false) {
    auto& message = *sends.emplace_back(std::make_unique<Send>());
    message.memory = text;
    message.queue = out;
    message.data = reinterpret_cast<const std::byte*>(message.memory.data());
    message.bytes = text.size();
    if (copied) {
      std::byte* copy = sender->lend(text.size());
      std::memcpy(copy, text.data(), text.size());
      message.data = copy;
    }
    message.done = [](TupleSend& its, Error error) {
      static_cast<Send&>(its).error = error.text();
      ++static_cast<Send&>(its).completions;
    };
    const bool taken = sender->send(message);
    if (!taken) sends.pop_back();
    return taken;
  }
  /// As a sender does that takes another way if the queue does not take the message now.
  void insist(const std::string& text) {
    EXPECT_TRUE(world.until([&] { return send(text); }));
  }
  bool all_over() const {
    return std::all_of(sends.begin(), sends.end(), [](auto& send) { return send->completions == 1; }) &&
           std::all_of(receives.begin(), receives.end(), [](auto& receive) { return receive->completions == 1; });
  }
  OfiWorld& world;
  TupleQueues *sender, *receiver;
  TupleSendQueue* out;
  TupleReceiveQueue* in;
  int repairs = 0;
  std::vector<std::unique_ptr<Receive>> receives;
  std::vector<std::unique_ptr<Send>> sends;
};

/// Each filter before a provider that completes sends when they are matched, and before one that buffers them.
void with_and_without_match_complete(const std::function<void(OfiWorld&)>& test) {
  for (const char* filter : kFilters) {
    for (const bool matches : {true, false}) {
      SCOPED_TRACE(std::string(filter) + (matches ? " match complete" : " buffered"));
      OfiWorld world(filter, [&](Capabilities& able) { able.match_complete = matches; });
      test(world);
    }
  }
}

TEST(OfiPath, TupleQueuesMatchInOrderAndCutOffWhatIsTooLong) {
  with_and_without_match_complete([](OfiWorld& world) {
    TestTuple tuple(world);
    for (size_t i = 0; i < 20; ++i) tuple.post(100 + i);
    for (size_t i = 0; i < 20; ++i) tuple.insist(content(i == 5 ? 200 : 50 + i, char('a' + i)));
    ASSERT_TRUE(world.until([&] { return tuple.all_over(); }));
    for (size_t i = 0; i < 20; ++i) {
      const std::string sent = content(i == 5 ? 200 : 50 + i, char('a' + i));
      ASSERT_EQ(tuple.receives[i]->bytes, sent.size());
      const size_t kept = std::min(sent.size(), size_t(100 + i));
      ASSERT_EQ(tuple.receives[i]->memory.substr(0, kept), sent.substr(0, kept));
    }
    tuple.post(10);
    tuple.sender->leave(*tuple.out);
    tuple.receiver->close(*tuple.in);
    world.until([&] { return world[1].fake->posted_tagged() == 0; });
    EXPECT_EQ(world[1].fake->posted_tagged(), 0u);
  });
}

TEST(OfiPath, ASendToAQueueIsOverWhenAReceiveHasTakenIt) {
  with_and_without_match_complete([](OfiWorld& world) {
    TestTuple tuple(world);
    tuple.insist("early");
    world.until([&] { return tuple.sends[0]->completions == 1; }, 0.05);
    EXPECT_EQ(tuple.sends[0]->completions, 0);
    tuple.post(10);
    ASSERT_TRUE(world.until([&] { return tuple.all_over(); }));
    // Also when the receiver has closed it since.
    tuple.post(10);
    tuple.insist("last");
    ASSERT_TRUE(world.until([&] { return tuple.receives[1]->completions == 1; }));
    tuple.receiver->close(*tuple.in);
    ASSERT_TRUE(world.until([&] { return tuple.all_over(); }));
    tuple.sender->leave(*tuple.out);
  });
}

// A sender that keeps copies does not wait: it is told of many messages at once, with one that it waits for, or after a
// moment.
TEST(OfiPath, OfCopiesTheSenderIsToldOnceForMany) {
  for (const bool marks : {true, false}) {
    SCOPED_TRACE(marks);
    OfiWorld world("", [&](Capabilities& able) {
      able.match_complete = false;
      able.marks = marks;
    });
    TestTuple tuple(world);
    world.clock.held_ns = world.clock.now_ns();
    auto exchange = [&](size_t messages, bool copied) {
      for (size_t i = 0; i < messages; ++i) tuple.post(10);
      for (size_t i = 0; i < messages; ++i) ASSERT_TRUE(tuple.send("message", copied));
      world.poll_some();
      EXPECT_TRUE(
          std::all_of(tuple.receives.begin(), tuple.receives.end(), [](auto& its) { return its->completions; }));
    };
    exchange(8, true);
    EXPECT_EQ(tuple.all_over(), !marks);
    EXPECT_EQ(world.path(1).has_unsent(), marks);
    exchange(1, false);  // the sender waits for it
    EXPECT_TRUE(tuple.all_over());
    exchange(8, true);
    EXPECT_EQ(tuple.all_over(), !marks);
    EXPECT_LE(world.path(1).next_deadline_ns(), world.clock.held_ns + kSecond_ns);
    world.clock.held_ns += kSecond_ns;
    world.poll_some();
    EXPECT_TRUE(tuple.all_over());
    exchange(64, true);  // more than a quarter of the queue's depth
    EXPECT_EQ(tuple.sends[40]->completions, 1);
  }
}

TEST(OfiPath, AQueueIsRepairedWithoutLosingOrDoublingAMessage) {
  with_and_without_match_complete([](OfiWorld& world) {
    TestTuple tuple(world);
    for (size_t i = 0; i < 30; ++i) tuple.post(100);
    for (size_t i = 0; i < 10; ++i) tuple.insist(content(80, char('a' + i)));
    ASSERT_TRUE(world.until([&] { return tuple.sends[9]->completions == 1; }));
    world.wire.fail_tagged = 8;  // the next eight, then none
    for (size_t i = 10; i < 18; ++i) {
      while (!tuple.send(content(80, char('a' + i)))) {  // "again" by chance; no poll in between
      }
    }
    ASSERT_TRUE(world.until([&] { return tuple.sends[17]->completions == 1; }));
    EXPECT_EQ(tuple.repairs, 1);
    for (size_t i = 18; i < 30; ++i) tuple.insist(content(80, char('a' + i)));
    ASSERT_TRUE(world.until([&] { return tuple.all_over(); }));
    for (size_t i = 0; i < 30; ++i) ASSERT_EQ(tuple.receives[i]->memory.substr(0, 80), content(80, char('a' + i)));
    EXPECT_TRUE(world[0].sink.lost.empty());
  });
}

TEST(OfiPath, ALostLaneEndsTheSendsOfItsQueues) {
  OfiWorld world;
  TestTuple tuple(world);
  ASSERT_TRUE(tuple.send("nobody takes it"));
  world.path(0).give_up(world.path(0).lane(1));
  ASSERT_TRUE(world.until([&] { return tuple.sends[0]->completions == 1; }));
  EXPECT_NE(tuple.sends[0]->error, "");
  EXPECT_EQ(world[0].sink.lost.count(1), 1u);
  tuple.sender->leave(*tuple.out);
}

}  // namespace
}  // namespace tern
