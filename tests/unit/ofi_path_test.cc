// The ofi path over a provider in this process: order, content, strangers, loss and a new incarnation, transfers; with
// and without what providers may lack, and behind the filters of EFA, cxi and PSM3.
#include "fabric/ofi/ofi_path.h"

#include <malloc.h>
#include <signal.h>

#include <algorithm>
#include <cstring>
#include <memory>

#include "fabric/ofi/ofi.h"
#include "ofi_world.h"

namespace tern {
namespace {

using namespace test;

void exchange(OfiWorld& world) {
  const size_t sizes[] = {0, 1, 63, 64, 65, 940, 999, 1000, 1001, 1064, 5000, 70'000};
  int32_t tag = 0;
  for (int round = 0; round < 20; ++round) {
    for (size_t bytes : sizes) {
      world.send(0, 1, tag, content(bytes, 'a'));
      world.send(1, 0, tag++, content(bytes, 'b'));
    }
  }
  ASSERT_TRUE(world.until(
      [&] { return world[0].sink.arrivals.size() == size_t(tag) && world[1].sink.arrivals.size() == size_t(tag); }));
  for (PeerId rank : {0u, 1u}) {
    for (int32_t i = 0; i < tag; ++i) {
      const Arrival& arrival = world[rank].sink.arrivals[size_t(i)];
      ASSERT_EQ(arrival.header.tag, i);
      ASSERT_EQ(arrival.bytes, content(sizes[size_t(i) % std::size(sizes)], rank == 1 ? 'a' : 'b'));
    }
  }
  ASSERT_TRUE(world.until([&] { return !world.path(0).has_unsent() && !world.path(1).has_unsent(); }));
  for (auto& send : world.sends) EXPECT_EQ(send->completions, 1);
}

TEST(OfiPath, MessagesAreWholeAndInOrderBehindEveryFilter) {
  for (const char* filter : kFilters) {
    SCOPED_TRACE(filter);
    OfiWorld world(filter);
    exchange(world);
    const bool reorders = *filter != '\0';
    world.until([&] { return !reorders || world.path(0).counters().ofi_held != 0; });
    EXPECT_EQ(world.path(0).counters().ofi_held != 0, reorders);
  }
}

TEST(OfiPath, MessagesNeedNeitherBuffersForManyNorInjection) {
  OfiWorld world("", [](Capabilities& able) {
    able.multi_receive = false;
    able.inject_bytes = 0;
    able.needs_local = true;
    able.sends = able.receives = 4;
  });
  exchange(world);
}

TEST(OfiPath, FramesAreLongerWhereTheProviderStreamsThem) {
  auto frames_of_64_KiB = [](const char* filter, bool streams, int64_t eager_bytes) {
    OfiWorld world(
        filter, [&](Capabilities& able) { able.streams = streams; },
        [&](Tunables& tunables) { tunables.ofi_eager_bytes = eager_bytes, tunables.ofi_receive_bytes = 1 << 20; });
    const std::string bytes = content(65'536, 'a');
    world.send(0, 1, 1, bytes);
    EXPECT_TRUE(world.until([&] { return world[1].sink.arrivals.size() == 1; }));
    EXPECT_EQ(world[1].sink.arrivals.at(0).bytes, bytes);
    return world.path(1).counters().ofi_received;
  };
  EXPECT_EQ(frames_of_64_KiB("", true, 0), 1u);
  EXPECT_EQ(frames_of_64_KiB("", false, 0), 4u);
  EXPECT_EQ(frames_of_64_KiB("", true, 16'384), 4u) << "a limit that the user has set";
  EXPECT_EQ(frames_of_64_KiB("efa", true, 0), 4u) << "what the filter plays has no streams";
}

#if __GLIBC_PREREQ(2, 33)
// Buffers are shared by all peers. What the provider keeps of a peer is beside it (docs/libfabric.md).
TEST(OfiPath, AThousandPeersTakeLittleMemory) {
  constexpr uint32_t kPeers = 1000;
  constexpr size_t kMost = 1024;  // bytes for each
  OfiWorld world("", {}, {}, kPeers + 1);
  const auto message_to = [&](PeerId peer) {
    world.send(0, peer, 1, "met");
    ASSERT_TRUE(world.until([&] { return !world.path(0).has_unsent(); }));
  };
  message_to(1);
  const size_t before = mallinfo2().uordblks;
  for (PeerId peer = 2; peer <= kPeers; ++peer) message_to(peer);
  const size_t each = (mallinfo2().uordblks - before) / (kPeers - 1);
  EXPECT_LE(each, kMost);
  std::printf("%zu bytes for a peer\n", each);
  world.path(1).poll();
  EXPECT_EQ(world.path(1).counters().ofi_forged, kPeers - 1) << "those to ranks that are not here";
}
#endif

TEST(OfiPath, FramesOfStrangersChangeNothing) {
  OfiWorld world;
  world.send(0, 1, 1, "first");
  ASSERT_TRUE(world.until([&] { return world[1].sink.arrivals.size() == 1; }));
  std::string forged = world[1].fake->heard().front();
  // Source and proof. (Who knows a proof has read the job's messages.)
  for (size_t i : {4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23}) {
    std::string other = forged;
    other[i] = char(other[i] ^ 1);
    world[1].fake->strange_message(other);
  }
  world[1].fake->strange_message("x");
  world[1].fake->strange_message(forged);  // a replay
  world.send(0, 1, 2, "second");
  ASSERT_TRUE(world.until([&] { return world[1].sink.arrivals.size() == 2; }));
  EXPECT_EQ(world[1].sink.arrivals[1].bytes, "second");
  EXPECT_GT(world.path(1).counters().ofi_forged, 10u);
}

/// Rank 0 sends bursts of numbered words to rank 1, and polls after each within the same microsecond.
struct WordBursts {
  OfiWorld world;
  wire::Header header{.kind = wire::Kind::eager, .flags = wire::kRequested};
  int32_t sent = 0;

  WordBursts() { world.clock.held_ns = 1'000'000; }
  /// How many messages of the provider they were, until the next poll, and with it.
  std::pair<size_t, size_t> burst(int words) {
    const size_t before = heard();
    for (int i = 0; i < words; ++i) {
      header.tag = sent;
      const uint64_t word = uint64_t(sent++);
      EXPECT_TRUE(world.path(0).try_send(world.path(0).lane(1), header, &word, sizeof word));
    }
    carry_out();
    const size_t alone = heard() - before;
    world.path(0).poll();
    carry_out();
    const size_t all = heard() - before;
    world.path(0).poll();
    world.path(1).poll();
    world.clock.held_ns += 100'000;
    return {alone, all};
  }
  void train() {
    for (int i = 0; i < 8; ++i) EXPECT_EQ(burst(3).first, 3u) << "nothing is known of this program yet";
  }
  void carry_out() {
    ofi::Completion none;
    world[0].fake->poll(&none, 0);
  }
  size_t heard() { return world[1].fake->heard().size(); }
  void check() {
    ASSERT_EQ(world[1].sink.arrivals.size(), size_t(sent));
    for (int32_t i = 0; i < sent; ++i) ASSERT_EQ(world[1].sink.arrivals[size_t(i)].header.tag, i);
    EXPECT_EQ(world.path(1).counters().ofi_received, uint64_t(sent));
  }
};

TEST(OfiPath, SmallMessagesOfABurstShareAFrame) {
  WordBursts bursts;
  bursts.train();
  EXPECT_EQ(bursts.burst(10), std::pair(size_t(0), size_t(1)));
  EXPECT_EQ(bursts.burst(1), std::pair(size_t(0), size_t(1))) << "so far another one has followed";
  // 1,088 bytes of a frame have room for 19 such words with their heads.
  EXPECT_EQ(bursts.burst(1 + 2 * 19), std::pair(size_t(2), size_t(3)));
  bursts.check();
}

TEST(OfiPath, OnlyWhatALaterCallSurelySendsWaits) {
  WordBursts bursts;
  bursts.train();
  bursts.header.flags = 0;
  EXPECT_EQ(bursts.burst(5).first, 5u) << "its sender may never call again";
  bursts.world.path(0).set_helped(true);
  EXPECT_EQ(bursts.burst(5).first, 1u) << "the first leaves, since its sender blocks";
  EXPECT_FALSE(bursts.world.path(0).hints().holding);
  ASSERT_TRUE(bursts.world.path(0).arm());
  EXPECT_EQ(bursts.burst(5).first, 5u) << "the rank is about to sleep";
  bursts.world.path(0).disarm();
  bursts.check();
}

TEST(OfiPath, WhatWaitsIsTold) {
  WordBursts bursts;
  bursts.train();
  for (int i = 0; i < 2; ++i) bursts.burst(1);  // so the first of the next burst does not wait for another
  Path& path = bursts.world.path(0);
  for (int i = 0; i < 2; ++i) {
    ASSERT_TRUE(path.try_send(path.lane(1), bursts.header, nullptr, 0));
    bursts.carry_out();
    path.poll();  // (of a burst that has no second message)
    EXPECT_FALSE(path.has_unsent());
    ASSERT_TRUE(path.try_send(path.lane(1), bursts.header, nullptr, 0));
    bursts.carry_out();
    ASSERT_TRUE(path.try_send(path.lane(1), bursts.header, nullptr, 0));
    EXPECT_TRUE(path.hints().holding);
    EXPECT_TRUE(path.has_unsent());
    EXPECT_EQ(path.unsent_hint(), Need::now);
    EXPECT_FALSE(path.arm());
    bursts.burst(0);
    EXPECT_FALSE(path.hints().holding);
    EXPECT_FALSE(path.has_unsent());
  }
}

// What has no room leaves together with what follows it.
TEST(OfiPath, ABacklogOfSmallMessagesLeavesInFewFrames) {
  constexpr size_t kMessages = 100;
  OfiWorld world("", [](Capabilities& able) { able.sends = 1; });
  for (size_t i = 0; i < kMessages; ++i) world.send(0, 1, int32_t(i), content(i, 'a'));
  ASSERT_TRUE(world.until([&] { return world[1].sink.arrivals.size() == kMessages; }));
  for (size_t i = 0; i < kMessages; ++i) {
    EXPECT_EQ(world[1].sink.arrivals[i].header.tag, int32_t(i));
    EXPECT_EQ(world[1].sink.arrivals[i].bytes, content(i, 'a'));
  }
  EXPECT_LE(world[1].fake->heard().size(), kMessages / 8);
}

TEST(OfiPath, WhatFollowsAFrameIsBelievedForItselfOnly) {
  OfiWorld world;
  for (int32_t tag = 0; tag < 2; ++tag) world.send(0, 1, tag, "12345");
  ASSERT_TRUE(world.until([&] { return world[1].sink.arrivals.size() == 2; }));
  const std::string first = world[1].fake->heard()[0];
  std::string again = first, other = first;
  again.resize(wire::ofi_stride(first.size()));
  other[16] = char(other[16] ^ 1);  // the proof
  world[1].fake->strange_message(again + other);
  world[1].fake->strange_message(again + first.substr(0, first.size() - 1));
  world[1].fake->strange_message(again);  // (filled up, and nothing follows)
  world.path(1).poll();
  EXPECT_EQ(world.path(1).counters().ofi_forged, 2u);
  EXPECT_EQ(world[1].sink.arrivals.size(), 2u) << "all others were replays";
}

TEST(OfiPath, ALossNamesTheCallAndANewIncarnationTakesNothingOld) {
  OfiWorld world;
  world.send(0, 1, 1, content(5000, 'a'));
  ASSERT_TRUE(world.until([&] { return world[1].sink.arrivals.size() == 1; }));
  world.wire.cut = true;
  world.send(0, 1, 2, content(500'000, 'a'));
  ASSERT_TRUE(world.until([&] { return world[0].sink.lost.count(1) == 1; }));
  EXPECT_NE(world[0].sink.lost[1].find("provider fake: fi_sendmsg: error 107"), std::string::npos)
      << world[0].sink.lost[1];
  EXPECT_EQ(world.sends.back()->completions, 1);
  EXPECT_NE(world.sends.back()->error, "");
  world.path(1).give_up(world.path(1).lane(0));
  ASSERT_TRUE(world.until([&] { return world[1].sink.lost.count(0) == 1; }));
  world.wire.cut = false;
  const std::string old = world[1].fake->heard().front();
  for (PeerId rank : {0u, 1u}) {
    ASSERT_TRUE(world.path(rank).reopen(world.path(rank).lane(1 - rank), 1));
    world[rank].sink.arrivals.clear();
  }
  world[1].fake->strange_message(old);
  exchange(world);
  EXPECT_EQ(world.path(1).counters().ofi_forged, 0u);
}

TEST(OfiPath, ASilentPeerIsGivenUpOnlyWhereAnotherPathReachesIt) {
  for (const bool replaceable : {false, true}) {
    OfiWorld world("", {}, [](Tunables& tunables) {
      tunables.ofi_failover_ms = 50;
      tunables.ofi_keepalive_ms = 40;
    });
    if (replaceable) {
      world.path(0).set_replaceable();
      world.path(1).set_replaceable();
    }
    EXPECT_EQ(world.path(0).remote_memory() == nullptr, replaceable);
    exchange(world);
    world.wire.silent = true;
    world.send(0, 1, 1, "lost");
    world.until([&] { return world[0].sink.lost.count(1) == 1; }, 0.4);
    EXPECT_EQ(world[0].sink.lost.count(1), replaceable ? 1u : 0u);
  }
}

// What the provider has not got rid of is owed an answer, also if the peer was heard after it was sent: when it takes
// nothing more, this rank cannot speak again.
TEST(OfiPath, APeerWhoseMessagesStayWithTheProviderIsGivenUp) {
  OfiWorld world("", {}, [](Tunables& tunables) { tunables.ofi_failover_ms = 50; });
  world.path(0).set_replaceable();
  world.path(1).set_replaceable();
  exchange(world);
  world.wire.stuck_from = 0;
  world.send(0, 1, 1, "stays");
  const size_t heard = world[0].sink.arrivals.size();
  world.send(1, 0, 2, "arrives");
  ASSERT_TRUE(world.until([&] { return world[0].sink.arrivals.size() == heard + 1; }));
  EXPECT_TRUE(world.until([&] { return world[0].sink.lost.count(1) == 1; }));
}

struct Transfer : TransferOperation {
  int completions = 0;
  std::string error;
  Transfer(Lane& to, void* memory, size_t length, uint64_t address, const RemoteKey& its) {
    lane = &to;
    local = Cursor::bytes(memory, length);
    bytes = length;
    remote_address = address;
    key = its;
    done = [](TransferOperation& operation, Error result) {
      auto& self = static_cast<Transfer&>(operation);
      ++self.completions;
      self.error = result.text();
    };
  }
};

TEST(OfiPath, TransfersReachExposedMemoryAndNoOther) {
  for (const char* filter : kFilters) {
    for (const bool by_address : {false, true}) {
      SCOPED_TRACE(filter);
      OfiWorld world(
          filter,
          [&](Capabilities& able) {
            able.virtual_addresses = by_address;
            able.max_bytes = 30'000;
          },
          [](Tunables& tunables) { tunables.rdma_registration_bytes = 0; });  // kept ones let peers in for longer
      std::string memory = content(100'000, 'm'), local(100'000, '?');
      RemoteMemory& owner = memory_of(world.path(1));
      const RemoteKey key = owner.expose(memory.data(), memory.size(), {true, true, true});
      const auto address = reinterpret_cast<uintptr_t>(memory.data());
      Lane& lane = world.path(0).lane(1);
      Transfer get(lane, local.data(), local.size(), address, key);
      memory_of(world.path(0)).get(get);
      ASSERT_TRUE(world.until([&] { return get.completions == 1; }));
      EXPECT_EQ(get.error, "");
      EXPECT_EQ(local, memory);
      const std::string data = content(70'000, 'p');
      Transfer put(lane, const_cast<char*>(data.data()), data.size(), address + 100, key);
      memory_of(world.path(0)).put(put);
      FlushOperation flush;
      static int flushed;
      flushed = 0;
      flush.lane = &lane;
      flush.done = [](FlushOperation&, Error error) { flushed += error ? 100 : 1; };
      memory_of(world.path(0)).flush(flush);
      EXPECT_EQ(flushed, 0);
      ASSERT_TRUE(world.until([&] { return flushed == 1; }));
      EXPECT_EQ(put.completions, 1);
      EXPECT_EQ(memory.substr(100, data.size()), data);
      owner.conceal(key);
      Transfer late(lane, local.data(), 8, address, key);
      memory_of(world.path(0)).get(late);
      ASSERT_TRUE(world.until([&] { return late.completions == 1; }));
      EXPECT_NE(late.error, "");
      exchange(world);  // the lane lives on
    }
  }
}

// Of a rank whose card was not read, too. That is left to a poll, as is the end of an operation.
TEST(OfiPath, ShortPollsTakeFramesAndLeaveTheRest) {
  OfiWorld world("", {}, [](Tunables& tunables) { tunables.ofi_keepalive_ms = 40; });
  auto& arrivals = world[1].sink.arrivals;
  OfiPath& path = world.path(1);
  const auto poll_shortly = [&] {
    for (int i = 0; i < 20; ++i) {
      world.path(0).poll();
      if (path.poll_shortly() < 0) return false;
    }
    return true;
  };
  EXPECT_FALSE(path.may_send_shortly(path.lane(0), 8));
  world.send(0, 1, 1, "first");
  world.send(0, 1, 2, content(5'000, 'x'));
  EXPECT_TRUE(poll_shortly());
  ASSERT_EQ(arrivals.size(), 2u);
  EXPECT_EQ(arrivals[1].bytes, content(5'000, 'x'));
  EXPECT_FALSE(path.may_send_shortly(path.lane(0), 8)) << "its card was not read";

  // Rank 0 hears nothing for long, and asks.
  const uint64_t end = world.clock.now_ns() + uint64_t(kPatience * 20e9);
  while (poll_shortly() && world.clock.now_ns() < end) {
  }
  EXPECT_EQ(path.poll_shortly(), -1) << "until a poll has come";
  EXPECT_EQ(path.unsent_hint(), Need::now);
  path.poll();
  EXPECT_TRUE(path.may_send_shortly(path.lane(0), 8));
  EXPECT_TRUE(poll_shortly());

  std::string memory = content(100, 'm'), local(100, '?');
  RemoteMemory& owner = memory_of(world.path(0));
  const RemoteKey key = owner.expose(memory.data(), memory.size(), {true, true, true});
  Transfer get(path.lane(0), local.data(), local.size(), reinterpret_cast<uintptr_t>(memory.data()), key);
  memory_of(path).get(get);
  EXPECT_FALSE(poll_shortly());
  EXPECT_EQ(get.completions, 0);
  EXPECT_FALSE(path.arm());
  ASSERT_TRUE(world.until([&] { return get.completions == 1; }));
  EXPECT_EQ(local, memory);
  owner.conceal(key);
}

// An adapter carries a write out, and nobody at the target hears of it. A frame must tell a rank that sleeps until
// then, even when there was no room for it just after the write.
TEST(OfiPath, APutThatItsTargetWaitsForIsToldByAFrame) {
  for (const bool wakes : {false, true}) {
    OfiWorld world("", {}, [](Tunables& tunables) { tunables.ofi_sends = 1; });
    uint64_t word = 0, value = 5;
    RemoteMemory& owner = memory_of(world.path(1));
    const RemoteKey key = owner.expose(&word, sizeof word, {true, true, true});
    Transfer put(world.path(0).lane(1), &value, sizeof value, reinterpret_cast<uintptr_t>(&word), key);
    put.wakes = wakes;
    memory_of(world.path(0)).put(put);
    world.send(0, 1, 1, "takes the only buffer");
    ASSERT_TRUE(world.until([&] { return put.completions == 1 && world[1].sink.arrivals.size() == 1; }));
    EXPECT_EQ(word, value);
    ASSERT_TRUE(world.until([&] { return !world.path(0).has_unsent(); }));
    world.path(1).poll();
    EXPECT_EQ(world[1].fake->heard().size(), wakes ? 2 : 1);
    EXPECT_EQ(world.path(1).counters().ofi_received, wakes ? 2 : 1);
    owner.conceal(key);
  }
}

TEST(OfiPath, RegistrationsOfTheProgramsMemoryAreKeptWhereTheyPin) {
  if (!MappingMonitor::create()) GTEST_SKIP() << "this kernel (or container) has no userfaultfd: nothing is kept";
  for (const bool pins : {true, false}) {
    OfiWorld world("", [&](Capabilities& able) { able.needs_local = able.pins = pins; });
    // The kernel lets one of the two ranks watch a page, not both: they are processes of their own elsewhere.
    struct alignas(65'536) Pages {
      char bytes[50'000] = {};
    };
    const auto memory = std::make_unique<Pages>(), local = std::make_unique<Pages>();
    content(sizeof memory->bytes, 'm').copy(memory->bytes, sizeof memory->bytes);
    const RemoteKey key = memory_of(world.path(1)).expose(memory->bytes, sizeof memory->bytes, {.read = true});
    const size_t before = world[0].fake->registered;
    for (int round = 0; round < 5; ++round) {
      Transfer get(world.path(0).lane(1), local->bytes, sizeof local->bytes, reinterpret_cast<uintptr_t>(memory->bytes),
                   key);
      memory_of(world.path(0)).get(get);
      ASSERT_TRUE(world.until([&] { return get.completions == 1; }));
      ASSERT_EQ(std::memcmp(local->bytes, memory->bytes, sizeof memory->bytes), 0);
    }
    EXPECT_EQ(world[0].fake->registered - before, pins ? 1u : 0u);
  }
}

TEST(OfiPath, AtomicsReturnWhatWasThere) {
  OfiWorld world("efa");
  alignas(8) uint64_t word = 40;
  const RemoteKey key = memory_of(world.path(1)).expose(&word, sizeof word, {true, true, true});
  struct Atomic : AtomicOperation {
    bool over = false;
  };
  auto run = [&](AtomicOperation::Kind kind, uint64_t operand, uint64_t compare) {
    Atomic operation;
    operation.lane = &world.path(0).lane(1);
    operation.kind = kind;
    operation.remote_address = reinterpret_cast<uintptr_t>(&word);
    operation.key = key;
    operation.operand = operand;
    operation.compare = compare;
    operation.done = [](AtomicOperation& its, Error error) {
      EXPECT_FALSE(error) << error.text();
      static_cast<Atomic&>(its).over = true;
    };
    memory_of(world.path(0)).atomic(operation);
    EXPECT_TRUE(world.until([&] { return operation.over; }));
    return operation.result;
  };
  EXPECT_EQ(run(AtomicOperation::Kind::fetch_add, 2, 0), 40u);
  EXPECT_EQ(run(AtomicOperation::Kind::compare_swap, 7, 41), 42u);
  EXPECT_EQ(run(AtomicOperation::Kind::compare_swap, 7, 42), 42u);
  EXPECT_EQ(run(AtomicOperation::Kind::swap, 9, 0), 7u);
  EXPECT_EQ(word, 9u);
}

TEST(OfiPath, AnAtomicOfSeveralWordsIsOneOperationOfTheProvider) {
  OfiWorld world("efa", [](Capabilities& able) { able.atomic_words = 8; });
  alignas(8) uint64_t words[3] = {100, 200, 300};
  uint64_t many[3] = {1, 2, 3};
  AtomicOperation operation;
  operation.lane = &world.path(0).lane(1);
  operation.remote_address = reinterpret_cast<uintptr_t>(words);
  operation.key = memory_of(world.path(1)).expose(words, sizeof words, {true, true, true});
  operation.words = 3;
  operation.many = many;
  operation.done = [](AtomicOperation& its, Error) { its.lane = nullptr; };
  memory_of(world.path(0)).atomic(operation);
  ASSERT_TRUE(world.until([&] { return operation.lane == nullptr; }));
  EXPECT_TRUE(many[0] == 100 && many[1] == 200 && many[2] == 300);
  EXPECT_TRUE(words[0] == 101 && words[1] == 202 && words[2] == 303);
  EXPECT_EQ(world[0].fake->atomics, 1u);
}

// Of providers in software: the target copies what a write carries as it would copy a message, and a frame takes many
// short puts along.
TEST(OfiTransfers, ShortOnesGoByMessageWhereTheTargetCopiesThem) {
  OfiWorld hardware, software("", [](Capabilities&able) { able.copied_by_target = true; }),
      played("cxi", [](Capabilities&able) { able.copied_by_target = true; });
  auto of = [](OfiWorld& world) -> const RemoteMemoryProperties& {
    return memory_of(world.path(0)).remote_properties();
  };
  EXPECT_EQ(of(hardware).least_bytes, 0u);
  EXPECT_EQ(of(played).least_bytes, 0u);
  EXPECT_GT(of(software).least_bytes, software.path(0).properties().eager_bytes / 3);
  EXPECT_LT(of(software).least_bytes, software.path(0).properties().eager_bytes) << "no two of them share a frame";
  EXPECT_TRUE(of(software).put && of(software).atomics);
}

// `sockets` on two cores: while an answer is out its thread polls, on the core that the answering process needs.
TEST(OfiTransfers, ShortOnesGoByMessageWhereTheAnswerCostsACore) {
  OfiWorld usual, crowded("", [](Capabilities&able) { able.takes_core = true; });
  const RemoteMemoryProperties &free = memory_of(usual.path(0)).remote_properties(),
                               &costly = memory_of(crowded.path(0)).remote_properties();
  EXPECT_TRUE(free.get && free.put && free.atomics && free.atomic_swap);
  EXPECT_EQ(free.least_bytes, 0u);
  EXPECT_TRUE(costly.get && costly.put && !costly.atomics && !costly.atomic_swap);
  EXPECT_GE(costly.least_bytes, crowded.path(0).properties().eager_bytes);
}

// Libraries that libfabric brings along (libpsm2) install handlers when they are loaded.
TEST(OfiProviders, LoadingThemLeavesTheHandlersOfSignalsAsTheyWere) {
  constexpr int kSignals[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT, SIGINT, SIGTERM};
  struct sigaction before[std::size(kSignals)], after;
  for (size_t i = 0; i < std::size(kSignals); ++i) sigaction(kSignals[i], nullptr, &before[i]);
  std::string why_none;
  ofi::find_choices(Tunables(), why_none);
  for (size_t i = 0; i < std::size(kSignals); ++i) {
    sigaction(kSignals[i], nullptr, &after);
    EXPECT_EQ(after.sa_handler, before[i].sa_handler) << kSignals[i];
  }
}

TEST(OfiPath, CardsOfOtherProvidersAreRefusedWithARemedy) {
  wire::OfiCard card;
  card.provider = "efa";
  card.address = "somewhere";
  wire::OfiCard parsed;
  const std::string text = wire::build_ofi_card(card);
  ASSERT_FALSE(wire::parse_ofi_card(text, parsed));
  EXPECT_EQ(parsed.address, card.address);
  for (size_t cut = 0; cut < text.size(); ++cut) EXPECT_TRUE(wire::parse_ofi_card(text.substr(0, cut), parsed));
}

}  // namespace
}  // namespace tern
