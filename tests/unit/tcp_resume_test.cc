// Connections that break while data is on its way: everything arrives once, in order, whatever was under way; with
// checksums, also what was damaged above the kernel.
#include <linux/sockios.h>
#include <sys/ioctl.h>

#include <algorithm>
#include <set>

#include "datatype/construct.h"
#include "datatype/predefined.h"
#include "tcp_fixture.h"

namespace tern {
namespace {

// What each has sent the other, in order.
struct Ledger {
  std::vector<std::string> sent[2];
  void send(TcpWorld& world, PeerId from, std::string bytes, bool kept = false) {
    world.send(from, 1 - from, int32_t(sent[from].size()), bytes, kept);
    sent[from].push_back(std::move(bytes));
  }
  bool arrived(TcpWorld& world) const {
    return world[0].sink.arrivals.size() == sent[1].size() && world[1].sink.arrivals.size() == sent[0].size() &&
           std::all_of(world.sends.begin(), world.sends.end(), [](auto& s) { return s->completions != 0; });
  }
  void check(TcpWorld& world) const {
    for (PeerId to : {0u, 1u}) {
      auto& arrivals = world[to].sink.arrivals;
      ASSERT_EQ(arrivals.size(), sent[1 - to].size());
      for (size_t i = 0; i < arrivals.size(); ++i) {
        ASSERT_EQ(arrivals[i].header.tag, int32_t(i));
        ASSERT_EQ(arrivals[i].error, "");
        ASSERT_TRUE(arrivals[i].bytes == sent[1 - to][i]) << "message " << i << " to " << to;
      }
      EXPECT_TRUE(world[to].sink.lost.empty());
    }
    for (auto& send : world.sends) {
      ASSERT_EQ(send->completions, 1);
      ASSERT_EQ(send->error, "");
    }
  }
};

size_t random_size(Rng& rng) {
  switch (rng.below(8)) {
    case 0: return size_t(rng.below(2'000'000));
    case 1: return size_t(rng.below(200'000));
    case 2: return 3000 + size_t(rng.below(4000));
    default: return size_t(rng.below(500));
  }
}

// Both ways, sizes of every kind, breaks at random moments from either side.
enum class Form { plain, checked, encrypted };
void break_at_random(uint64_t seed, int messages, Form form) {
  SCOPED_TRACE("seed " + std::to_string(seed));
  Rng rng(seed);
  int buffer = seed % 3 == 0 ? 0 : seed % 3 == 1 ? 4096 : 100'000;
  TcpWorld world(2, [&](TcpOptions& options, Tunables& tunables) {
    options.send_buffer_bytes = buffer;
    tunables.tcp_crc = form == Form::checked;
    tunables.encrypt = form == Form::encrypted;
  });
  Ledger ledger;
  int breaks = 0;
  for (int i = 0; i < messages; ++i) {
    const PeerId from = PeerId(rng.below(2));
    ledger.send(world, from, pattern(random_size(rng), rng.next()), rng.chance(1, 2));
    for (uint64_t polls = rng.below(4); polls != 0; --polls) world.path(PeerId(rng.below(2))).poll();
    if (!rng.chance(1, 10)) continue;
    ++breaks;
    PeerId side = PeerId(rng.below(2));
    world.path(side).break_connection(1 - side);
  }
  ASSERT_TRUE(world.until([&] { return ledger.arrived(world); }, 30))
      << world[0].sink.arrivals.size() << " of " << ledger.sent[1].size() << " and " << world[1].sink.arrivals.size()
      << " of " << ledger.sent[0].size();
  ledger.check(world);
  ASSERT_TRUE(world.until([&] { return !world.path(0).has_unsent() && !world.path(1).has_unsent(); }));
  EXPECT_GT(world.path(0).counters().tcp_resumed + uint64_t(breaks == 0), 0u);
}

int seeds() {
  const char* wanted = std::getenv("TERN_TEST_SEEDS");
  return wanted ? std::atoi(wanted) : 12;
}

TEST(TcpResume, ABrokenConnectionIsGoneOnWith) {
  for (int seed = 1; seed <= seeds(); ++seed) break_at_random(uint64_t(seed), 120, Form::plain);
}

TEST(TcpResume, WithChecksumsToo) {
  for (int seed = 1; seed <= seeds(); ++seed) break_at_random(uint64_t(seed), 120, Form::checked);
}

TEST(TcpResume, EncryptedToo) {
  for (int seed = 1; seed <= seeds(); ++seed) break_at_random(uint64_t(seed), 120, Form::encrypted);
}

// The layer above is told of nothing.
TEST(TcpResume, AnIdleConnectionThatBreaksCostsNothingButANewOne) {
  TcpWorld world(2);
  world.send(0, 1, 0, "before");
  ASSERT_TRUE(world.until([&] { return world[1].sink.arrivals.size() == 1; }));
  for (int i = 0; i < 5; ++i) {
    world.path(PeerId(i % 2)).break_connection(PeerId(1 - i % 2));
    ASSERT_TRUE(world.until([&] {
      return world.path(0).counters().tcp_resumed == uint64_t(i + 1) &&
             world.path(1).counters().tcp_resumed == uint64_t(i + 1);
    }));
    world.send(1, 0, i, "after");
    ASSERT_TRUE(world.until([&] { return world[0].sink.arrivals.size() == size_t(i + 1); }));
  }
  EXPECT_TRUE(world[0].sink.lost.empty() && world[1].sink.lost.empty());
  EXPECT_EQ(world.path(0).connections(), 1u);
}

// The memory of a long message is not free before the peer has it: it is read again after a break.
TEST(TcpResume, ALongMessageIsCompleteWhenItNeedNotBeSentAgain) {
  TcpWorld world(2);
  world.send(0, 1, 0, "hello");
  ASSERT_TRUE(world.until([&] { return world[1].sink.arrivals.size() == 1; }));
  std::string content = pattern(3 << 20, 1);
  TestSend large(1, 1, content);
  world.path(0).enqueue(large.over(world.path(0)));
  // The peer does not look: the kernel takes what it takes, and the connection breaks with that in it.
  for (int i = 0; i < 200; ++i) world.path(0).poll();
  world.path(0).break_connection(1);
  bool seen = world.until([&] {
    if (large.completions == 1) std::fill(large.bytes.begin(), large.bytes.end(), 'x');
    return world[1].sink.arrivals.size() == 2 && large.completions == 1;
  });
  ASSERT_TRUE(seen);
  EXPECT_TRUE(world[1].sink.arrivals[1].bytes == content);
}

// Of what the kernel took and lost the sender's memory was long used for something else.
TEST(TcpResume, WhatIsSentAgainIsWhatWasSent) {
  for (size_t bytes : {4096u, 16384u, 65536u, 200'000u}) {
    TcpWorld world(2);
    Ledger ledger;
    ledger.send(world, 0, "hello");
    ASSERT_TRUE(world.until([&] { return world[1].sink.arrivals.size() == 1; }));
    const int count = int(800'000 / bytes);
    for (int i = 0; i < count; ++i) {
      ledger.send(world, 0, pattern(bytes, uint64_t(i)), true);
      if (i % 3 == 0) ledger.send(world, 0, pattern(100, uint64_t(i)));
      if (i % 7 == 0) world.path(0).poll();
    }
    // The receiver does not read: what it has not acknowledged is copied.
    auto free = [&] {
      return std::all_of(world.sends.begin(), world.sends.end(), [](auto& s) { return s->completions != 0; });
    };
    for (int i = 0; i < 1000 && !free(); ++i) world.path(0).poll();
    EXPECT_TRUE(free()) << bytes;
    EXPECT_EQ(world[1].sink.arrivals.size(), 1u);
    world.path(0).break_connection(1);
    ASSERT_TRUE(world.until([&] { return ledger.arrived(world); }));
    ledger.check(world);
  }
}

// A caller that says nothing of the sort cannot take a stream over: it would need the key.
TEST(TcpResume, StrangersCannotReplaceAConnection) {
  TcpWorld world(2);
  world.send(0, 1, 0, "hello");
  ASSERT_TRUE(world.until([&] { return world[1].sink.arrivals.size() == 1; }));
  wire::Card card;
  ASSERT_FALSE(wire::parse_card(world.path(1).card(), card));
  TcpIdentity stranger;
  stranger.name.rank = 0;
  stranger.version = wire::kVersion;
  stranger.key.fill(99);
  for (int i = 0; i < 20; ++i) {
    Descriptor fd;
    for (auto& address : card.addresses) {
      if (address.loopback() && address.family == 4) (void)begin_connect(SocketAddress(address), fd);
    }
    TcpHandshake forged(stranger, {0, 1}, 0, uint32_t(100 + i));
    (void)!::send(fd.get(), forged.output().data(), forged.output().size(), MSG_NOSIGNAL);
    for (int k = 0; k < 20; ++k) world.poll();
  }
  EXPECT_EQ(world.path(1).counters().tcp_resumed, 0u);
  world.send(0, 1, 1, "still the same");
  ASSERT_TRUE(world.until([&] { return world[1].sink.arrivals.size() == 2; }));
}

}  // namespace
}  // namespace tern
