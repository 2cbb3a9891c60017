// Atomics and flush of the rdma path: exact with several ranks at one word under everything that does not lose the
// lane; an atomic takes effect after the puts before it; when the lane is lost, or the adapter cannot, there is an
// error.
#include <gtest/gtest.h>

#include <deque>
#include <set>

#include "fabric/rdma/rdma_path.h"
#include "progress/engine.h"
#include "sim/adapter.h"
#include "sim/machine.h"
#include "tests/peer_sink.h"
#include "tests/sim/seeds.h"

namespace tern::sim {
namespace {

using Kind = AtomicOperation::Kind;

class LossSink final : public test::PeerSink {
 public:
  void on_message(PeerId, const wire::Header&, const std::byte*, size_t) override {}
  Landing on_header(PeerId, const wire::Header&, size_t) override { return {}; }
  void on_landed(PeerId, const wire::Header&, Landing&, size_t, Error) override {}
  void on_peer_lost(PeerId peer, Error error) override {
    lost.push_back(peer);
    trouble = error.text();
  }
  std::string trouble;
  std::vector<PeerId> lost;
};

struct Atomic : AtomicOperation {
  int calls = 0;
  ErrorClass error = ErrorClass::success;
};
struct Put : TransferOperation {
  uint64_t value = 0;
  int calls = 0;
  bool failed = false;
};
struct Flush : FlushOperation {
  int calls = 0;
  bool failed = false;
};

/// What rank 0 exposes.
struct Words {
  uint64_t added = 0, compared = 0, swapped = 0;
  uint64_t put[8] = {}, told[8] = {};  ///< by rank: put, then told of by an atomic
};
struct Home {
  alignas(64) Words words;
  RemoteKey key;
  int done = 0;
};

struct Bench {
  explicit Bench(Machine::Rank& rank)
      : strand(rank.strand),
        clock(rank.make_clock()),
        port(rank.make_wait_port()),
        launcher(rank.make_launcher()),
        peers({0, rank.index()}, uint32_t(launcher->size())),
        engine(*clock, driving, *port) {
    RdmaOptions options;
    options.peers = &peers;
    options.keep = Keep::trusted;
    Error error;
    auto made = RdmaPath::create(
        options, rank.machine.options().tunables, rank.make_hca(), *clock, sink,
        [this](PeerId peer, std::string& card) { return launcher->get(int(peer), "rdma-card", card); }, error);
    EXPECT_FALSE(error) << error.text();
    EXPECT_FALSE(launcher->put("rdma-card", made->card()));
    bare = made.get();
    path = rank.with_faults(std::move(made), *clock);
    memory = path->remote_memory();
    EXPECT_FALSE(launcher->fence());
    engine.add(*path);
  }
  void begin(Atomic& operation, const Home& home, Kind kind, uint64_t& word, uint64_t operand, uint64_t compare = 0,
             uint64_t bytes_on = 0, Lane* lane = nullptr) {
    operation.lane = lane ? lane : &path->lane(0);
    operation.kind = kind;
    operation.remote_address = reinterpret_cast<uintptr_t>(&word) + bytes_on;
    operation.key = home.key;
    operation.operand = operand;
    operation.compare = compare;
    operation.done = [](AtomicOperation& self, Error error) {
      ++static_cast<Atomic&>(self).calls;
      static_cast<Atomic&>(self).error = ErrorClass(error.error_class());
    };
    memory->atomic(operation);
  }
  uint64_t run(const Home& home, Kind kind, uint64_t& word, uint64_t operand, uint64_t compare = 0,
               Lane* lane = nullptr) {
    Atomic operation;
    begin(operation, home, kind, word, operand, compare, 0, lane);
    engine.wait_until([&] { return operation.calls != 0; });
    EXPECT_EQ(operation.calls, 1);
    EXPECT_EQ(int(operation.error), int(ErrorClass::success)) << sink.trouble;
    return operation.result;
  }
  void begin(Put& operation, const Home& home, uint64_t& word, uint64_t value, Lane* lane = nullptr) {
    operation.value = value;
    operation.lane = lane ? lane : &path->lane(0);
    operation.local = Cursor::bytes(&operation.value, sizeof operation.value);
    operation.bytes = sizeof operation.value;
    operation.remote_address = reinterpret_cast<uintptr_t>(&word);
    operation.key = home.key;
    operation.done = [](TransferOperation& self, Error error) {
      ++static_cast<Put&>(self).calls;
      static_cast<Put&>(self).failed = bool(error);
    };
    memory->put(operation);
  }
  void begin(Flush& operation) {
    operation.lane = &path->lane(0);
    operation.done = [](FlushOperation& self, Error error) {
      ++static_cast<Flush&>(self).calls;
      static_cast<Flush&>(self).failed = bool(error);
    };
    memory->flush(operation);
  }
  /// Every rank polls until all have done (rank 0 and `others`): greetings want an answer, and a last acknowledgement
  /// that was lost is asked for again.
  void finish(Home& home, int others) {
    engine.wait_until([&] { return !path->has_unsent(); });
    ++home.done;
    while (home.done < others + 1) {
      strand.charge_ns(1000);
      engine.poll();
    }
    EXPECT_FALSE(launcher->fence());
    if (!path->reaches(0)) memory->conceal(home.key);
  }

  Strand& strand;
  LossSink sink;
  std::unique_ptr<Clock> clock;
  Driving driving;
  std::unique_ptr<WaitPort> port;
  std::unique_ptr<Launcher> launcher;
  PeerTable peers;
  ProgressEngine engine;
  RdmaPath* bare = nullptr;
  std::unique_ptr<Path> path;
  RemoteMemory* memory = nullptr;
};

WorldOptions options_of(uint64_t seed, bool faults) {
  Rng rng(seed * 977 + faults);
  WorldOptions options;
  options.seed = seed;
  options.ranks = uint32_t(2 + rng.below(5));
  options.ranks_per_node = uint32_t(1 + rng.below(3));
  options.tunables.rdma_keepalive_ms = 0;
  options.tunables.rdma_sends = int64_t(8 + rng.below(8));
  options.adapter.max_queue_depth = uint32_t(64 + rng.below(300));
  options.adapter.max_reads = uint32_t(1 + rng.below(8));
  options.adapter.atomic_swap = rng.chance(1, 2);
  if (!faults) return options;
  options.faults = Faults::random(rng);
  options.adapter_faults.storm_in_1024 = uint32_t(rng.below(2) * rng.below(50));
  options.adapter_faults.storm_ns = 1'000'000;
  options.adapter_faults.datagram_loss_in_1024 = uint32_t(rng.below(2) * rng.below(600));
  return options;
}

// Rank 0 only looks on, and sees what the order of puts and atomics promises.
void watch(Bench& bench, Home& home, uint64_t rounds, uint32_t ranks) {
  auto read = [](const uint64_t& word) { return *const_cast<const volatile uint64_t*>(&word); };
  for (bool all = false; !all; bench.engine.poll()) {
    bench.strand.charge_ns(500);  // nobody wakes it
    all = true;
    for (uint32_t rank = 1; rank < ranks; ++rank) {
      const uint64_t told = read(home.words.told[rank]);
      EXPECT_GE(read(home.words.put[rank]), told) << "an atomic has overtaken a put";
      all = all && told == rounds;
    }
  }
}

// Returns what this rank's swaps have brought back.
void operate(Bench& bench, Home& home, uint32_t me, uint64_t rounds, Rng& rng, std::vector<uint64_t>& swapped) {
  Words& words = home.words;
  std::deque<Put> puts;
  std::deque<Atomic> tells;
  uint64_t seen = 0;
  for (uint64_t i = 1; i <= rounds; ++i) {
    bench.begin(puts.emplace_back(), home, words.put[me], i);
    bench.begin(tells.emplace_back(), home, Kind::fetch_add, words.told[me], 1);
    if (rng.chance(1, 4)) {
      Flush flush;
      bench.begin(flush);
      bench.engine.wait_until([&] { return flush.calls != 0; });
      EXPECT_EQ(flush.calls, 1);
      EXPECT_FALSE(flush.failed);
      for (const Put& put : puts) EXPECT_EQ(put.calls, 1) << "a flush is over before a put";
      for (const Atomic& tell : tells) EXPECT_EQ(tell.calls, 1) << "a flush is over before an atomic";
    }
    const uint64_t before = bench.run(home, Kind::fetch_add, words.added, 1);
    EXPECT_GE(before, seen);
    seen = before + 1;
    for (uint64_t guess = 0;;) {
      const uint64_t found = bench.run(home, Kind::compare_swap, words.compared, guess + 3, guess);
      if (found == guess) break;
      guess = found;
    }
    if (bench.memory->remote_properties().atomic_swap)
      swapped.push_back(bench.run(home, Kind::swap, words.swapped, me * 1'000'000 + i));
  }
  Flush flush;
  bench.begin(flush);
  bench.engine.wait_until([&] { return flush.calls != 0; });
  uint64_t tell = 0;
  for (const Atomic& each : tells) EXPECT_EQ(each.result, tell++) << "in the order of their beginning";
}

TEST(RdmaAtomics, SeveralRanksAtOneWordAreExact) {
  constexpr uint64_t kRounds = 12;
  for (const bool faults : {false, true}) {
    for_seeds(40, [&](uint64_t seed) {
      WorldOptions options = options_of(seed, faults);
      const uint32_t ranks = options.ranks;
      Home home;
      std::vector<uint64_t> swapped;
      Report report = Machine(options).run([&](Machine::Rank& rank) {
        Bench bench(rank);
        EXPECT_TRUE(bench.memory->remote_properties().atomics);
        EXPECT_EQ(bench.memory->remote_properties().atomic_swap, options.adapter.atomic_swap);
        if (rank.index() == 0) {
          home.key = bench.memory->expose(&home.words, sizeof home.words, {.write = true, .atomic = true});
          EXPECT_FALSE(home.key.empty());
        }
        EXPECT_FALSE(bench.launcher->fence());
        Rng rng(rank.seed);
        if (rank.index() == 0) watch(bench, home, kRounds, ranks);
        else operate(bench, home, rank.index(), kRounds, rng, swapped);
        bench.finish(home, int(ranks) - 1);
      });
      ASSERT_TRUE(report.ok()) << report.failure;
      EXPECT_EQ(home.words.added, kRounds * (ranks - 1));
      EXPECT_EQ(home.words.compared, 3 * kRounds * (ranks - 1));
      if (!options.adapter.atomic_swap) return;
      // Everything that was stored came back once, or is there at the end.
      std::set<uint64_t> values(swapped.begin(), swapped.end());
      values.insert(home.words.swapped);
      EXPECT_EQ(values.size(), kRounds * (ranks - 1) + 1);
      EXPECT_TRUE(values.contains(0));
    });
  }
}

/// How many of the additions of all ranks to a word of rank 0 are lost, if rank 0 adds by its adapter, or by its CPU.
uint64_t lost_additions(uint64_t seed, bool by_adapter, const char* channels) {
  constexpr uint64_t kRounds = 30;
  const uint64_t own_rounds = by_adapter ? kRounds : 3000;  // by its CPU 2 ms, in which the others connect and add
  WorldOptions options = options_of(seed, by_adapter);
  options.tunables.rdma_channels = channels;
  options.adapter_faults.datagram_loss_in_1024 %= 100;  // of messages, too
  const uint32_t ranks = options.ranks;
  Home home;
  Report report = Machine(options).run([&](Machine::Rank& rank) {
    Bench bench(rank);
    const bool owner = rank.index() == 0;
    if (owner) {
      EXPECT_FALSE(bench.memory->remote_properties().atomics_with_cpu);
      home.key = bench.memory->expose(&home.words, sizeof home.words, {.read = true, .write = true, .atomic = true});
    }
    EXPECT_FALSE(bench.launcher->fence());
    Lane* own = owner ? bench.memory->own_lane() : nullptr;
    for (uint64_t i = 0; i < (owner ? own_rounds : kRounds); ++i) {
      if (owner && !by_adapter) {
        ++home.words.added;
        bench.strand.charge_ns(700);
        bench.engine.poll();
      } else {
        bench.run(home, Kind::fetch_add, home.words.added, 1, 0, own);
      }
    }
    if (owner && by_adapter) {
      Put put;
      bench.begin(put, home, home.words.put[0], 7, own);
      bench.engine.wait_until([&] { return put.calls != 0; });
      EXPECT_FALSE(put.failed);
      EXPECT_EQ(home.words.put[0], 7u);
    }
    bench.finish(home, int(ranks) - 1);
  });
  EXPECT_TRUE(report.ok()) << report.failure;
  return own_rounds + kRounds * (ranks - 1) - home.words.added;
}

TEST(RdmaAtomics, TheOwnerOfTheWordsTakesPartByItsOwnLane) {
  for (const char* channels : {"rc", "dc", "auto", "ud"}) {
    for_seeds(15, [&](uint64_t seed) { EXPECT_EQ(lost_additions(seed, true, channels), 0u) << channels; });
  }
}

// What the lane is for: adapters that do not exclude the CPU.
TEST(RdmaAtomics, WithoutItAdditionsAreLost) {
  uint64_t lost = 0;
  for_seeds(15, [&](uint64_t seed) { lost += lost_additions(seed, false, "rc"); });
  EXPECT_GT(lost, 0u);
}

// More atomics than words for their answers and places in the send queue wait, in order.
TEST(RdmaAtomics, ManyAtOnceWaitForRoom) {
  WorldOptions options = options_of(2, false);
  options.ranks = 2;
  options.ranks_per_node = 1;
  Home home;
  Report report = Machine(options).run([&](Machine::Rank& rank) {
    Bench bench(rank);
    if (rank.index() == 0) home.key = bench.memory->expose(&home.words, sizeof home.words, {.atomic = true});
    EXPECT_FALSE(bench.launcher->fence());
    if (rank.index() == 1) {
      std::deque<Atomic> atomics(2000);
      for (Atomic& each : atomics) bench.begin(each, home, Kind::fetch_add, home.words.added, 1);
      Flush flush;
      bench.begin(flush);
      EXPECT_EQ(flush.calls, 0);
      bench.engine.wait_until([&] { return flush.calls != 0; });
      for (size_t i = 0; i < atomics.size(); ++i) ASSERT_EQ(atomics[i].result, i) << bench.sink.trouble;
      Flush again;  // nothing is on its way: over at once
      bench.begin(again);
      EXPECT_EQ(again.calls, 1);
    }
    bench.finish(home, 1);
  });
  ASSERT_TRUE(report.ok()) << report.failure;
  EXPECT_EQ(home.words.added, 2000u);
}

TEST(RdmaAtomics, WhatCannotBeIsAnErrorOfTheOperationOnly) {
  WorldOptions options = options_of(3, false);
  options.ranks = 2;
  options.adapter.atomic_swap = false;
  Home home;
  Report report = Machine(options).run([&](Machine::Rank& rank) {
    Bench bench(rank);
    if (rank.index() == 0) home.key = bench.memory->expose(&home.words, sizeof home.words, {.atomic = true});
    EXPECT_FALSE(bench.launcher->fence());
    if (rank.index() == 1) {
      Atomic swap, unaligned, unexposed;
      bench.begin(swap, home, Kind::swap, home.words.added, 1);
      EXPECT_EQ(int(swap.error), int(ErrorClass::unsupported_operation));
      bench.begin(unaligned, home, Kind::fetch_add, home.words.added, 1, 0, 4);
      EXPECT_EQ(int(unaligned.error), int(ErrorClass::other));
      Home nowhere;
      bench.begin(unexposed, nowhere, Kind::fetch_add, nowhere.words.added, 1);
      EXPECT_EQ(int(unexposed.error), int(ErrorClass::other));
      for (const Atomic* each : {&swap, &unaligned, &unexposed}) EXPECT_EQ(each->calls, 1);
      EXPECT_EQ(bench.run(home, Kind::fetch_add, home.words.added, 7), 0u);
      EXPECT_TRUE(bench.sink.lost.empty());
    }
    bench.finish(home, 1);
  });
  ASSERT_TRUE(report.ok()) << report.failure;
  EXPECT_EQ(home.words.added, 7u);
}

// The target dies: what is on its way, what waits for room and what comes later ends with an error, once.
TEST(RdmaAtomics, ALostLaneEndsAllWithAnError) {
  for_seeds(20, [](uint64_t seed) {
    WorldOptions options = options_of(seed, false);
    options.ranks = 3;
    options.ranks_per_node = 1;
    options.tunables.rdma_timeout_ms = 1;
    options.tunables.rdma_retries = 1;
    options.tunables.rdma_connect_timeout_s = 1;
    options.faults.losses.push_back({0, 600'000 + seed * 37'000, 1000});
    Home home;
    Report report = Machine(options).run([&](Machine::Rank& rank) {
      Bench bench(rank);
      if (rank.index() == 0) home.key = bench.memory->expose(&home.words, sizeof home.words, {.atomic = true});
      EXPECT_FALSE(bench.launcher->fence());
      if (rank.index() == 0) bench.engine.wait_until([] { return false; });
      ASSERT_FALSE(home.key.empty());
      std::deque<Atomic> atomics;
      Flush flush;
      while (bench.sink.lost.empty()) {
        for (int i = 0; i < 100; ++i) bench.begin(atomics.emplace_back(), home, Kind::fetch_add, home.words.added, 1);
        flush = Flush();
        bench.begin(flush);
        bench.engine.wait_until([&] { return flush.calls != 0; });
      }
      EXPECT_TRUE(flush.failed);
      EXPECT_EQ(bench.sink.lost, std::vector<PeerId>{0});
      bool failed = false;
      for (const Atomic& each : atomics) {
        EXPECT_EQ(each.calls, 1);
        EXPECT_TRUE(!failed || each.error == ErrorClass::proc_aborted) << "none succeeds after one that has failed";
        failed = failed || each.error != ErrorClass::success;
      }
      EXPECT_TRUE(failed);
      Atomic late;
      bench.begin(late, home, Kind::fetch_add, home.words.added, 1);
      EXPECT_EQ(int(late.error), int(ErrorClass::proc_aborted));
    });
    ASSERT_TRUE(report.ok()) << report.failure;
  });
}

}  // namespace
}  // namespace tern::sim
