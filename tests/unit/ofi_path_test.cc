// The ofi path over a provider in this process: order, content, strangers, loss and a new incarnation, transfers, tuple
// queues and their repair; with and without what providers may lack, and behind the filters of EFA, cxi and PSM3.
#include "fabric/ofi/ofi_path.h"

#include <malloc.h>
#include <signal.h>

#include <algorithm>

#include "fabric/ofi/filter_port.h"
#include "fabric/ofi/ofi.h"
#include "ofi_fake.h"
#include "tcp_fixture.h"

namespace tern {
namespace {

using ofi::Capabilities;
using test::FakePort;
using test::FakeWire;

/// The real time, or a moment.
struct HeldClock final : Clock {
  uint64_t now_ns() override { return held_ns != 0 ? held_ns : real.now_ns(); }
  RealClock real;
  uint64_t held_ns = 0;  ///< 0: it goes on
};

class OfiWorld {
 public:
  struct Rank {
    Rank(PeerId id, uint32_t size) : peers({5, id}, size) {}
    PeerTable peers;
    KeepingSink sink;
    FakePort* fake = nullptr;
    std::unique_ptr<OfiPath> path;
  };
  static constexpr uint32_t kRanks = 2;
  /// `job`: ranks that the job has; those that are not in this process have the card of the last one here.
  explicit OfiWorld(const char* filter = "", std::function<void(Capabilities&)> adjust = {},
                    std::function<void(Tunables&)> tune = {}, uint32_t job = kRanks) {
    if (adjust) adjust(wire.able);
    for (PeerId id = 0; id < kRanks; ++id) {
      auto fake = std::make_unique<FakePort>(wire);
      ranks.push_back(std::make_unique<Rank>(id, job));
      Rank& rank = *ranks.back();
      rank.fake = fake.get();
      std::unique_ptr<ofi::Port> port = std::move(fake);
      ofi::FilterKind kind;
      EXPECT_TRUE(ofi::parse_filter(filter, kind));
      if (kind != ofi::FilterKind::none) port = std::make_unique<ofi::FilterPort>(std::move(port), kind, id + 1);
      OfiOptions options;
      options.peers = &rank.peers;
      options.key.fill(7);
      Tunables tunables;
      tunables.ofi_eager_bytes = 1000;
      tunables.ofi_receive_bytes = 65536;
      tunables.ofi_sends = 16;
      if (tune) tune(tunables);
      Error error;
      rank.path = OfiPath::create(
          options, tunables, std::move(port), clock, rank.sink,
          [this](PeerId peer, std::string& card) {
            card = ranks[std::min(peer, kRanks - 1)]->path->card();
            return Error();
          },
          error);
      EXPECT_FALSE(error) << error.text();
    }
  }
  Rank& operator[](PeerId id) { return *ranks[id]; }
  OfiPath& path(PeerId id) { return *ranks[id]->path; }
  bool until(const std::function<bool()>& done, double seconds = 20) {
    const uint64_t end = clock.now_ns() + uint64_t(kPatience * seconds * 1e9);
    while (!done()) {
      for (auto& rank : ranks) rank->path->poll();
      if (clock.now_ns() > end) return false;
    }
    return true;
  }
  void send(PeerId from, PeerId to, int32_t tag, const std::string& bytes) {
    const wire::Header header{.kind = wire::Kind::eager, .tag = tag};
    if (bytes.size() <= path(from).properties().eager_bytes &&
        path(from).try_send(path(from).lane(to), header, bytes.data(), bytes.size()))
      return;
    sends.push_back(std::make_unique<TestSend>(to, tag, bytes));
    path(from).enqueue(sends.back()->over(path(from)));
  }

  /// What has been sent so far, and all that follows from it, takes no more polls than these.
  void poll_some() {
    for (int i = 0; i < 20; ++i) {
      for (auto& rank : ranks) rank->path->poll();
    }
  }

  FakeWire wire;
  HeldClock clock;
  std::vector<std::unique_ptr<TestSend>> sends;
  std::vector<std::unique_ptr<Rank>> ranks;
};

std::string content(size_t bytes, char seed) {
  std::string text(bytes, '\0');
  for (size_t i = 0; i < bytes; ++i) text[i] = char(seed + i * 7 + i / 251);
  return text;
}

RemoteMemory& memory_of(Path& path) { return *path.remote_memory(); }

constexpr const char* kFilters[] = {"", "efa", "cxi", "psm3"};

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
    std::string memory = content(50'000, 'm'), local(50'000, '?');
    const RemoteKey key = memory_of(world.path(1)).expose(memory.data(), memory.size(), {.read = true});
    const size_t before = world[0].fake->registered;
    for (int round = 0; round < 5; ++round) {
      Transfer get(world.path(0).lane(1), local.data(), local.size(), reinterpret_cast<uintptr_t>(memory.data()), key);
      memory_of(world.path(0)).get(get);
      ASSERT_TRUE(world.until([&] { return get.completions == 1; }));
      ASSERT_EQ(local, memory);
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
  /// As one who has other ways if the queue does not take it now.
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
