// The path scheduler over two paths that do as the test says: whose lane is lost, and whether a lane that is opened
// again works.
#include "fabric/scheduler/path_scheduler.h"

#include <gtest/gtest.h>

#include <cstring>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "tests/peer_sink.h"

namespace tern {
namespace {

class TestClock final : public Clock {
 public:
  uint64_t now_ns() override { return now; }
  uint64_t now = 1'000'000;
};

/// Messages to the other end of a wire arrive in its next poll.
class WirePath final : public CountingPath {
 public:
  struct OnlyLane final : Lane {
    using Lane::Lane;
  };
  WirePath(PeerId peer, Sink& sink) : lane_(peer), sink_(sink) { properties_.eager_bytes = 1024; }

  bool reaches(PeerId peer) const override { return peer == lane_.id; }
  Lane& lane(PeerId) override { return lane_; }
  bool try_send(Lane&, const wire::Header& header, const void* payload, size_t bytes) override {
    if (state != State::open) return false;
    if (broken) return lose("the wire is cut"), false;
    other->arrived_.push_back({header, std::string(static_cast<const char*>(payload), bytes)});
    return true;
  }
  void enqueue(SendOperation& operation) override {
    operation.total_bytes = operation.payload.remaining();
    queued_.push_back(&operation);
  }
  void give_up(Lane&) override {
    if (state == State::open) lose("given up");
  }
  bool reopen(Lane&, uint32_t) override {
    if (state != State::lost) return false;
    state = State::open;
    arrived_.clear();
    return true;
  }
  bool has_unsent() const override { return false; }
  int poll() override {
    if (state == State::losing) {
      state = State::lost;
      while (SendOperation* operation = queued_.pop_front()) operation->done(*operation, error());
      sink_.on_peer_lost(lane_, error());
      return 1;
    }
    while (state == State::open && !queued_.empty()) {
      SendOperation& operation = *queued_.front();
      std::string text(operation.total_bytes, '\0');
      Cursor payload = operation.payload;
      if (!text.empty()) payload.pack(reinterpret_cast<std::byte*>(text.data()), text.size());
      if (!try_send(lane_, operation.header, text.data(), text.size())) break;
      queued_.pop_front()->done(operation, Error());
    }
    int done = 0;
    for (std::deque<Message> now = std::exchange(arrived_, {}); state == State::open && !now.empty(); now.pop_front()) {
      const Message& message = now.front();
      ++delivered;
      sink_.on_message(lane_, message.header, reinterpret_cast<const std::byte*>(message.text.data()),
                       message.text.size());
      ++done;
    }
    return done;
  }

  enum class State { open, losing, lost } state = State::open;
  bool broken = false;  ///< the next message finds the wire cut
  int delivered = 0;    ///< messages of any kind
  WirePath* other = nullptr;

 private:
  struct Message {
    wire::Header header;
    std::string text;
  };
  Error error() const { return Error(ErrorClass::proc_aborted, why_); }
  void lose(const char* why) {
    why_ = why;
    state = State::losing;
  }

  OnlyLane lane_;
  Sink& sink_;
  const char* why_ = "";
  std::deque<Message> arrived_;
  IntrusiveList<SendOperation> queued_;
};

struct Texts final : test::PeerSink {
  void on_message(PeerId, const wire::Header&, const std::byte* payload, size_t bytes) override {
    got.emplace_back(reinterpret_cast<const char*>(payload), bytes);
  }
  Landing on_header(PeerId, const wire::Header&, size_t) override { return {}; }
  void on_landed(PeerId, const wire::Header&, Landing&, size_t, Error) override {}
  void on_peer_lost(PeerId, Error error) override { lost = std::string(error.text()); }
  std::vector<std::string> got;
  std::string lost;
};

/// Two ranks, two wires between them.
struct TwoWires {
  struct Rank {
    Rank(uint32_t me, const Tunables& tunables, Clock& clock)
        : peers({1, me}, 2), scheduler(peers, tunables, clock, sink, nullptr) {
      for (auto& wire : wires) {
        wire = std::make_unique<WirePath>(1 - me, scheduler.sink_below());
        scheduler.add_path(*wire);
      }
      scheduler.count_into(counters);
    }
    void send(const std::string& text) {
      wire::Header header{};
      header.kind = wire::Kind::eager;
      ASSERT_TRUE(scheduler.try_send(scheduler.lane(PeerId(1 - peers.me())), header, text.data(), text.size()));
    }
    Counters counters;
    PeerTable peers;
    Texts sink;
    PathScheduler scheduler;
    std::unique_ptr<WirePath> wires[2];
  };
  TwoWires() {
    tunables.path_failback_ms = 1;
    for (uint32_t me : {0, 1}) ranks.emplace_back(me, tunables, clock);
    for (int wire : {0, 1}) {
      ranks[0].wires[wire]->other = ranks[1].wires[wire].get();
      ranks[1].wires[wire]->other = ranks[0].wires[wire].get();
    }
  }
  void run(int milliseconds) {
    for (int step = 0; step < 10 * milliseconds; ++step, clock.now += 100'000) {
      for (Rank& rank : ranks) {
        for (auto& wire : rank.wires) wire->poll();
        rank.scheduler.poll();
      }
    }
  }
  Tunables tunables;
  TestClock clock;
  std::deque<Rank> ranks;
};

TEST(PathScheduler, GoesOnOverTheOtherPathAndComesBack) {
  TwoWires world;
  world.ranks[0].send("first");
  world.run(1);
  for (auto& rank : world.ranks) rank.wires[0]->broken = true;
  world.ranks[1].wires[0]->give_up(world.ranks[1].wires[0]->lane(0));
  world.run(20);
  world.ranks[0].send("second");
  world.run(1);
  for (auto& rank : world.ranks) rank.wires[0]->broken = false;
  world.run(200);
  world.ranks[0].send("third");
  world.run(1);
  EXPECT_EQ(world.ranks[1].sink.got, (std::vector<std::string>{"first", "second", "third"}));
  for (auto& rank : world.ranks) {
    EXPECT_EQ(rank.sink.lost, "");
    EXPECT_EQ(rank.counters.lane_failovers, 1u);
    EXPECT_EQ(rank.counters.lane_failbacks, 1u);
  }
}

// Each confirmation alone is a message that both sides have to handle.
TEST(PathScheduler, AStreamOneWayIsSeldomConfirmed) {
  TwoWires world;
  for (int i = 0; i < 1024; ++i) {
    world.ranks[0].send("text");
    if (i % 16 == 0) world.run(1);
  }
  world.run(1);
  EXPECT_EQ(world.ranks[1].sink.got.size(), 1024u);
  EXPECT_GT(world.ranks[0].wires[0]->delivered, 0);
  EXPECT_LE(world.ranks[0].wires[0]->delivered, 8);
}

/// What MPI_T would pass on to a tool.
struct Heard final : EventTap {
  void on_event(Event event, const EventData& data) override { events.emplace_back(event, data); }
  void listen(Counters& counters) {
    counters.tap = this;
    counters.watched |= Counters::kListened;
  }
  std::vector<std::pair<Event, EventData>> events;
};

// Also at the rank that only hears from the other that a path is lost.
TEST(PathScheduler, BothRanksAreToldOfALossAndOfItsEnd) {
  TwoWires world;
  Heard heard[2];
  for (size_t rank : {0, 1}) heard[rank].listen(world.ranks[rank].counters);
  world.ranks[0].send("first");
  world.run(1);
  for (int64_t incident : {1, 2}) {
    world.ranks[1].wires[0]->give_up(world.ranks[1].wires[0]->lane(0));
    world.run(200);
    for (size_t rank : {0, 1}) {
      const auto& events = heard[rank].events;
      ASSERT_EQ(events.size(), 2 * size_t(incident)) << rank;
      EXPECT_EQ(world.ranks[rank].counters.lane_failovers, uint64_t(incident));
      EXPECT_EQ(events[events.size() - 2].first, Event::path_lost);
      EXPECT_EQ(events.back().first, Event::path_restored);
      for (const auto& [event, data] : {events[events.size() - 2], events.back()}) {
        EXPECT_EQ(data.a, int(1 - rank));
        EXPECT_EQ(data.x, events.back().second.x);
      }
    }
  }
  EXPECT_LT(heard[0].events[0].second.x, heard[0].events[2].second.x);
}

// The rank that asks finds its own side of the path still dead, when the other has opened its side already. The next
// probe must find both sides closed again.
TEST(PathScheduler, AProbeThatCameToNothingIsRepeated) {
  TwoWires world;
  world.ranks[0].send("first");
  world.run(1);
  world.ranks[0].wires[0]->broken = true;  // of the asking rank only
  world.ranks[0].wires[0]->give_up(world.ranks[0].wires[0]->lane(1));
  world.run(50);
  EXPECT_EQ(world.ranks[0].counters.lane_failbacks, 0u);
  world.ranks[0].wires[0]->broken = false;
  world.run(200);
  for (auto& rank : world.ranks) EXPECT_EQ(rank.counters.lane_failbacks, 1u);
  world.ranks[0].send("second");
  world.run(1);
  EXPECT_EQ(world.ranks[1].sink.got, (std::vector<std::string>{"first", "second"}));
}

}  // namespace
}  // namespace tern
