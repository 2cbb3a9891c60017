// The shared-memory path between processes: start-up, every size and shape of message under full rings, loss
// of a peer, cross-memory attach, memory for collectives.
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <system_error>
#include <thread>

#include "fabric/shm/node_memory.h"
#include "tests/unit/shm_helpers.h"

namespace tern::test {

namespace {

/// A send of any shape that is still on its way.
struct Outgoing : SendOperation {
  std::vector<std::byte> memory;
  std::unique_ptr<CheckingSink::TypeOwner> type;
  bool finished = false, failed = false;
};

std::unique_ptr<Outgoing> start_send(TestRank& me, PeerId to, size_t n, bool strided, bool queue, bool post = false) {
  wire::Header header{wire::Kind::eager};
  header.source = int32_t(me.rank);
  const uint32_t number = me.sent[to]++;
  header.tag = int32_t(number);
  std::vector<std::byte> data(n);
  for (size_t i = 0; i < n; ++i) data[i] = pattern(me.rank, number, i);
  Lane& lane = me.path->lane(to);
  if (post && n <= kAlwaysWholeBytes && me.path->try_post(lane, header, data.data(), n)) return nullptr;
  if (!strided && !queue && n <= me.path->properties().eager_bytes && me.path->try_send(lane, header, data.data(), n))
    return nullptr;
  auto out = std::make_unique<Outgoing>();
  out->lane = &me.path->lane(to);
  out->header = header;
  if (strided && n != 0) {
    out->type = std::make_unique<CheckingSink::TypeOwner>(n);
    out->payload = out->type->over(out->memory, n);
    for (size_t i = 0; i < n; ++i) out->memory[i / 7 * 10 + i % 7] = data[i];
  } else {
    out->memory = std::move(data);
    out->payload = Cursor::bytes(out->memory.data(), n);
  }
  out->done = [](SendOperation& operation, Error error) {
    auto& mine = static_cast<Outgoing&>(operation);
    mine.finished = true;
    mine.failed = bool(error);
  };
  me.path->enqueue(*out);
  return out;
}

size_t random_size(Rng& rng, size_t most) {
  switch (rng.below(5)) {
    case 0: return rng.below(34);
    case 1: return rng.below(1100);
    case 2: return rng.below(9000);
    case 3: return rng.below(40000);
    default: return rng.below(20) == 0 ? rng.below(most) : rng.below(200);
  }
}

bool exchange(int rank, int ranks, std::unique_ptr<ShmNode> node, Common& common, uint32_t each, bool sleepy,
              uint64_t seed) {
  Tunables tunables;
  if (sleepy) tunables.spin_us = tunables.yield_rounds = 3;
  TestRank me(uint32_t(rank), size_t(ranks), std::move(node), true, tunables);
  Rng rng(seed * 977 + uint64_t(rank));
  std::vector<std::unique_ptr<Outgoing>> outgoing;
  uint32_t left = each * uint32_t(ranks - 1);
  auto reap = [&] { std::erase_if(outgoing, [](auto& o) { return o->finished; }); };
  while (left != 0) {
    const auto to = PeerId(rng.below(uint64_t(ranks)));
    if (to == PeerId(rank) || me.sent[to] == each) continue;
    --left;
    const bool strided = rng.below(4) == 0, queue = rng.below(4) == 0;
    auto out = start_send(me, to, random_size(rng, 300000), strided, queue, rng.below(2) == 0);
    if (out) outgoing.push_back(std::move(out));
    if (rng.below(3) == 0) me.engine->poll();
    if (sleepy && rng.below(50) == 0) usleep(useconds_t(rng.below(300)));
    reap();
    if (outgoing.size() > 8)
      me.engine->wait_until([&] {
        reap();
        return outgoing.size() <= 4;
      });
  }
  const uint64_t want = uint64_t(each) * uint64_t(ranks - 1);
  me.engine->wait_until([&] {
    reap();
    return outgoing.empty() && me.sink.messages == want;
  });
  EXPECT_EQ(me.sink.messages, want);
  EXPECT_FALSE(me.path->has_unsent());
  EXPECT_TRUE(me.sink.lost.empty());
  common_fence(common, ranks);
  me.path.reset();
  common_fence(common, ranks);
  return true;
}

TEST(ShmPath, EverySizeBothWays) {
  for (uint64_t seed = 1; seed <= 3; ++seed) {
    run_processes(2, 65536, [&](int rank, auto node, Common& common) {
      return exchange(rank, 2, std::move(node), common, 1500, false, seed);
    });
  }
}
TEST(ShmPath, SmallestRing) {
  run_processes(3, 8192, [&](int rank, auto node, Common& common) {
    return exchange(rank, 3, std::move(node), common, 600, false, 11);
  });
}
TEST(ShmPath, ManySleepyRanks) {
  for (int ranks : {4, 12}) {
    run_processes(ranks, 16384, [&](int rank, auto node, Common& common) {
      return exchange(rank, ranks, std::move(node), common, ranks == 4 ? 500 : 60, true, 21);
    });
  }
}

TEST(ShmPath, FullWayTakesNothingAndKeepsOrder) {
  run_processes(2, 65536, [](int rank, auto node, Common& common) {
    TestRank me(uint32_t(rank), 2, std::move(node), true);
    if (rank == 1) {
      common_fence(common, 2);
      me.engine->wait_until([&] { return me.sink.messages == 200; });
    } else {
      std::vector<std::unique_ptr<Outgoing>> outgoing;
      int queued = 0;
      for (int i = 0; i < 200; ++i) {
        auto out = start_send(me, 1, i % 2 ? 8 : 700, false, false);
        if (out) ++queued, outgoing.push_back(std::move(out));
      }
      EXPECT_GE(queued, 200 - int(shm::kCells));  // there are so many cells and nobody has polled
      EXPECT_TRUE(me.path->has_unsent());
      // The last one is still whole: it can be taken back, once; then it is sent again.
      Outgoing& last = *outgoing.back();
      EXPECT_TRUE(me.path->withdraw(last));
      EXPECT_FALSE(me.path->withdraw(last));
      me.path->enqueue(last);
      common_fence(common, 2);
      me.engine->wait_until([&] {
        std::erase_if(outgoing, [](auto& o) { return o->finished; });
        return outgoing.empty();
      });
    }
    common_fence(common, 2);
    return true;
  });
}

// A rank posts thousands of small messages to one that does not poll, and needs no later call for them to arrive.
class ShmSpill : public testing::TestWithParam<uint32_t> {};
INSTANTIATE_TEST_SUITE_P(Cells, ShmSpill, testing::Values(shm::kSpillCells, 2 * shm::kCells));

TEST_P(ShmSpill, MessagesArePostedBesideAFullRing) {
  const uint32_t cells = GetParam();
  auto nodes = ShmNode::create_local({0, 1}, 8192, {.spill_cells = cells});
  CheckingSink sinks[2] = {CheckingSink(2), CheckingSink(2)};
  ShmPath sender(std::move(nodes[0]), sinks[0], Tunables{}), receiver(std::move(nodes[1]), sinks[1], Tunables{});
  Lane& lane = sender.lane(1);
  wire::Header header{wire::Kind::eager};
  uint64_t sent = 0;
  const auto send = [&](size_t n, bool post) {
    std::byte data[kAlwaysWholeBytes];
    for (size_t i = 0; i < n; ++i) data[i] = pattern(0, uint32_t(sent), i);
    header.tag = int32_t(sent);
    const bool taken = post ? sender.try_post(lane, header, data, n) : sender.try_send(lane, header, data, n);
    sent += taken;
    return taken;
  };
  for (int round = 0; round < 3; ++round) {
    const uint64_t before = sent;
    while (send(round % 2 ? 56 : 8, false)) continue;  // the ring, or its data
    while (send(sent % 65, true)) continue;
    EXPECT_GE(sent - before, cells - shm::kCells);
    EXPECT_FALSE(send(8, false));
    EXPECT_FALSE(sender.has_unsent());
    while (receiver.poll() != 0) continue;
    EXPECT_EQ(sinks[1].messages, sent);
    EXPECT_TRUE(send(8, false)) << "by the ring again";
    PeekedMessage next;
    while (receiver.poll() != 0) continue;
    EXPECT_TRUE(send(8, false));
    EXPECT_TRUE(receiver.peek(receiver.lane(0), next)) << "where it can be peeked at";
    while (receiver.poll() != 0) continue;
    EXPECT_EQ(sinks[1].messages, sent);
  }
  EXPECT_GT(sender.counters().shm_spilled, 3 * (cells - 2 * shm::kCells));
}

TEST(ShmPath, WithoutSpillCellsWhatIsPostedIsNotTaken) {
  auto nodes = ShmNode::create_local({0, 1}, 8192, {.spill_cells = 0});
  CheckingSink sinks[2] = {CheckingSink(2), CheckingSink(2)};
  ShmPath sender(std::move(nodes[0]), sinks[0], Tunables{}), receiver(std::move(nodes[1]), sinks[1], Tunables{});
  uint32_t sent = 0;
  const auto send = [&] {
    wire::Header header{wire::Kind::eager};
    header.tag = int32_t(sent);
    const std::byte data[1] = {pattern(0, sent, 0)};
    const bool taken = sender.try_post(sender.lane(1), header, data, 1);
    sent += taken;
    return taken;
  };
  while (send()) continue;
  EXPECT_EQ(sent, shm::kUsableCells);
  while (receiver.poll() != 0) continue;
  EXPECT_TRUE(send());
  while (receiver.poll() != 0) continue;
  EXPECT_EQ(sinks[1].messages, sent);
  EXPECT_EQ(sender.counters().shm_spilled, 0u);
}

// A node of 64 ranks has 4,096 ordered pairs.
TEST(ShmNode, FewerSpillCellsWhereAddressSpaceIsLimited) {
  const auto cells = [](uint64_t address_space) {
    shm::Layout layout{64, 65536};
    layout.fit_into(address_space);
    if (layout.spill_cells != 0) {
      EXPECT_LE(layout.total(), address_space / 2);
    }
    return layout.spill_cells;
  };
  EXPECT_EQ(cells(~uint64_t{0}), shm::kSpillCells);
  EXPECT_EQ(cells(uint64_t{6} << 30), shm::kSpillCells);
  EXPECT_EQ(cells(uint64_t{3} << 30), shm::kSpillCells / 4);
  EXPECT_EQ(cells(uint64_t{1} << 30), 0u);
  EXPECT_EQ(cells(uint64_t{100} << 20), 0u);
}

// Who decides whose CPU copies asks whether the other one is in its library.
TEST(ShmPath, AttentiveIsWhoPollsCopiesOrStays) {
  auto nodes = ShmNode::create_local({0, 1}, 16384);
  const shm::RankBlock& other = nodes[0]->block(1);
  auto& copying = const_cast<std::atomic<uint32_t>&>(other.copying);
  auto& asleep = const_cast<std::atomic<uint32_t>&>(other.asleep);
  CheckingSink sinks[2] = {CheckingSink(2), CheckingSink(2)};
  ShmPath mine(std::move(nodes[0]), sinks[0], Tunables{}), its(std::move(nodes[1]), sinks[1], Tunables{});
  EXPECT_FALSE(mine.copy_arbiter()->peer_is_polling(mine.lane(1), false)) << "it has not polled";
  EXPECT_TRUE(mine.copy_arbiter()->peer_is_polling(mine.lane(1), true)) << "it stays until it has its message";
  copying = 1;
  EXPECT_TRUE(mine.copy_arbiter()->peer_is_polling(mine.lane(1), false)) << "it is copying and will look around";
  asleep = shm::kAsleep;
  EXPECT_FALSE(mine.copy_arbiter()->peer_is_polling(mine.lane(1), false));
  EXPECT_FALSE(mine.copy_arbiter()->peer_is_polling(mine.lane(1), true)) << "asleep: who is awake copies";
  copying = asleep = 0;
  std::atomic<bool> done{false};
  std::thread polls([&] {
    while (!done) its.copy_arbiter()->publish_heartbeat();
  });
  int seen = 0;
  for (int i = 0; i < 1'000'000 && seen == 0; ++i) seen += mine.copy_arbiter()->peer_is_polling(mine.lane(1), false);
  done = true;
  polls.join();
  EXPECT_EQ(seen, 1) << "it polls";
}

// Where ranks share cores, a message is not streamed unless the ring has room for it: nobody copies at the same time.
TEST(ShmPath, RanksThatShareCoresDoNotStreamLongMessages) {
  for (const int oversubscribed : {0, 1}) {
    Tunables tunables;
    tunables.oversubscribed = oversubscribed;
    auto nodes = ShmNode::create_local({0, 1}, 65536);
    CheckingSink sink(2);
    ShmPath path(std::move(nodes[0]), sink, tunables);
    // Nothing is measured yet, so a stream is tried first.
    EXPECT_TRUE(path.copy_arbiter()->stream_is_faster(path.lane(1), 32768, Traffic::one_way));
    EXPECT_EQ(path.copy_arbiter()->stream_is_faster(path.lane(1), 32769, Traffic::one_way), oversubscribed == 0);
  }
}

TEST(ShmPath, KilledPeerIsReportedAfterWhatItSent) {
  for (int when = 0; when < 4; ++when) {
    run_processes(3, 16384,
                  [&](int rank, auto node, Common& common) {
                    Tunables tunables;
                    if (when % 2) tunables.spin_us = tunables.yield_rounds = 2;  // noticed asleep, or spinning
                    TestRank me(uint32_t(rank), 3, std::move(node), true, tunables);
                    if (rank == 2) {
                      for (int i = 0; i < 5; ++i) start_send(me, 0, 100, false, false);
                      auto large = start_send(me, 0, 1 << 20, false, true);  // its beginning fits, its end never comes
                      if (when >= 2) usleep(20000);
                      kill(getpid(), SIGKILL);
                    }
                    std::unique_ptr<Outgoing> doomed;
                    if (rank == 1) doomed = start_send(me, 2, 1 << 20, false, true);
                    me.engine->wait_until([&] { return !me.sink.lost.empty(); });  // else the test's own time ends
                    EXPECT_EQ(me.sink.lost, std::vector<PeerId>{2});
                    if (rank == 0) {
                      EXPECT_EQ(me.sink.from[2].next, 5u);
                      EXPECT_EQ(me.sink.landed_with_error, 1u);
                    } else {
                      EXPECT_TRUE(doomed->finished && doomed->failed);
                      auto late = start_send(me, 2, 10, false, true);
                      me.engine->wait_until([&] { return late->finished; });
                      EXPECT_TRUE(late->failed);
                    }
                    // The survivors still talk.
                    start_send(me, PeerId(1 - rank), 50, false, false);
                    const uint64_t want = rank == 0 ? 6 : 1;
                    me.engine->wait_until([&] { return me.sink.messages == want; });
                    common.words[rank] = 1;
                    while (common.words[1 - rank] == 0) usleep(100);
                    return true;
                  },
                  {2});
  }
}

TEST(ShmPath, GetReadsTheOtherProcess) {
  run_processes(2, 65536, [](int rank, auto node, Common& common) {
    TestRank me(uint32_t(rank), 2, std::move(node), true);
    constexpr size_t kBytes = 700001;
    std::vector<std::byte> data(kBytes);
    if (rank == 1) {
      for (size_t i = 0; i < kBytes; ++i) data[i] = pattern(1, 0, i);
      EXPECT_NE(me.path->remote_memory()->expose(data.data(), kBytes, {.read = true, .write = true}).words[0], 0u);
      common.words[0] = reinterpret_cast<uint64_t>(data.data());
    }
    common_fence(common, 2);
    bool good = true;
    if (rank == 0 && me.path->remote_memory()->can_get(me.path->lane(1))) {
      for (bool strided : {false, true}) {
        CheckingSink::TypeOwner type(kBytes);
        std::vector<std::byte> memory(kBytes);
        TransferOperation operation;
        operation.lane = &me.path->lane(1);
        operation.local = strided ? type.over(memory, kBytes) : Cursor::bytes(memory.data(), kBytes);
        operation.remote_address = common.words[0];
        operation.key.words[0] = 1;
        operation.bytes = kBytes;
        static int calls, errors;
        calls = errors = 0;
        operation.done = [](TransferOperation&, Error error) {
          ++calls;
          if (error) ++errors;
        };
        me.path->remote_memory()->get(operation);
        EXPECT_EQ(calls, 1);
        EXPECT_EQ(errors, 0);
        for (size_t i = 0; i < kBytes && good; ++i) good = memory[strided ? i / 7 * 10 + i % 7 : i] == pattern(1, 0, i);
        EXPECT_TRUE(good);
        operation.local = Cursor::bytes(memory.data(), 4096);
        operation.remote_address = 64;  // nothing is mapped there
        operation.bytes = 4096;
        me.path->remote_memory()->get(operation);
        EXPECT_EQ(calls, 2);
        EXPECT_EQ(errors, 1);
      }
    }
    common_fence(common, 2);
    return good;
  });
}

// Looked for in what this process holds: other programs may make names in /dev/shm meanwhile.
TEST(ShmNode, NothingHasAName) {
  auto named = [] {
    int count = 0;
    std::ifstream maps("/proc/self/maps");
    for (std::string line; std::getline(maps, line);) count += line.find("/dev/shm/") != std::string::npos;
    for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
      std::error_code closed;  // the directory's own descriptor
      count += std::filesystem::read_symlink(entry, closed).string().starts_with("/dev/shm/");
    }
    return count;
  };
  run_processes(3, 65536, [&](int, auto node, Common& common) {
    EXPECT_EQ(node->members(), (std::vector<PeerId>{0, 1, 2}));
    const bool good = named() == 0;
    common_fence(common, 3);
    return good;
  });
}

/// Joins ranks 0..2; `outsider` (rank 1) does something first. Returns what each process answers.
void join_with(const std::function<void(ShmSetup&)>& outsider, bool outsider_joins) {
  Common* common = make_common();
  const auto key = test_key(5);
  std::vector<pid_t> children;
  for (int rank = 0; rank < 3; ++rank) {
    const pid_t pid = fork();
    if (pid == 0) {
      ShmSetup setup{rank, {0, 1, 2}, key, 65536, true};
      if (rank == 1) outsider(setup);
      Error error;
      auto node = ShmNode::create(
          setup,
          [&] {
            common_fence(*common, 3);
            return Error();
          },
          error);
      bool good;
      if (rank == 1 && !outsider_joins) {
        good = bool(error) && !node;
      } else {
        good = node && node->members() == (outsider_joins ? std::vector<PeerId>{0, 1, 2} : std::vector<PeerId>{0, 2});
      }
      common_fence(*common, 3);
      _exit(good ? 0 : 1);
    }
    children.push_back(pid);
  }
  for (pid_t child : children) {
    int status = 0;
    waitpid(child, &status, 0);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  }
  munmap(common, sizeof *common);
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // they need terabytes of addresses
// With all spill cells 16 ranks would share 242 MiB; here a rank may have 150 more than the test has.
TEST(ShmNode, ManyRanksWithFewAddresses) {
  constexpr int kRanks = 16;
  size_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  rlimit usual{};
  ASSERT_EQ(getrlimit(RLIMIT_AS, &usual), 0);
  const rlimit few{pages * shm::kPage + (size_t{150} << 20), usual.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_AS, &few), 0);
  rlimit now{};
  ASSERT_EQ(getrlimit(RLIMIT_AS, &now), 0);
  if (now.rlim_cur != few.rlim_cur) GTEST_SKIP() << "this system takes such a limit and forgets it (qemu-user does)";
  run_processes(kRanks, 65536, [](int, std::unique_ptr<ShmNode> node, Common&) {
    return node->members().size() == size_t(kRanks) && node->spill_cells() < shm::kSpillCells;
  });
  ASSERT_EQ(setrlimit(RLIMIT_AS, &usual), 0);
}
#endif

// The error of a member may be the only one that the user sees.
TEST(ShmNode, MembersAreToldWhyThereIsNoSegment) {
  Common* common = make_common();
  const auto key = test_key(5);
  std::vector<pid_t> children;
  for (int rank = 0; rank < 3; ++rank) {
    const pid_t pid = fork();
    if (pid == 0) {
      const rlimit nothing{0, 0};  // the library raises the soft limit for its segment
      if (rank == 0 && setrlimit(RLIMIT_FSIZE, &nothing) != 0) _exit(2);
      signal(SIGXFSZ, SIG_IGN);
      Error error;
      auto node = ShmNode::create(
          ShmSetup{rank, {0, 1, 2}, key, 65536, true},
          [&] {
            common_fence(*common, 3);
            return Error();
          },
          error);
      _exit(!node && error.text().find("File too large") != std::string::npos ? 0 : 1);
    }
    children.push_back(pid);
  }
  for (pid_t child : children) {
    int status = 0;
    waitpid(child, &status, 0);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  }
  munmap(common, sizeof *common);
}

TEST(ShmNode, AnotherKeyStaysOutside) {
  join_with([](ShmSetup& setup) { setup.job_key[3] ^= 1; }, false);
}
TEST(ShmNode, AnotherNetworkNamespaceStaysOutside) {
  const pid_t pid = fork();
  if (pid == 0) _exit(unshare(CLONE_NEWNET) == 0 ? 0 : 1);
  int status = 0;
  waitpid(pid, &status, 0);
  if (status != 0) GTEST_SKIP() << "network namespaces cannot be made here";
  join_with([](ShmSetup&) { EXPECT_EQ(unshare(CLONE_NEWNET), 0); }, false);
}
TEST(ShmNode, StrangersAreNotBelieved) {
  // Somebody of the same user connects to every socket of the job and talks nonsense, all the time.
  const pid_t stranger = fork();
  if (stranger == 0) {
    std::vector<int> held;
    for (;;) {
      std::ifstream sockets("/proc/net/unix");
      for (std::string line; std::getline(sockets, line);) {
        const size_t at = line.find("@tern-");
        if (at == std::string::npos) continue;
        const std::string name = line.substr(at + 1);
        sockaddr_un address{};
        address.sun_family = AF_UNIX;
        std::memcpy(address.sun_path + 1, name.data(), std::min(name.size(), sizeof address.sun_path - 1));
        const int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0);
        if (connect(fd, reinterpret_cast<sockaddr*>(&address),
                    socklen_t(offsetof(sockaddr_un, sun_path) + 1 + name.size())) == 0) {
          const char nonsense[40] = "let me in";
          (void)!send(fd, nonsense, held.size() % 41, MSG_NOSIGNAL);
        }
        held.push_back(fd);
        if (held.size() > 200) {
          close(held.front());
          held.erase(held.begin());
        }
      }
      usleep(100);
    }
  }
  for (int i = 0; i < 10; ++i) join_with([](ShmSetup&) {}, true);
  kill(stranger, SIGKILL);
  waitpid(stranger, nullptr, 0);
}

struct FlagWatch final : ShmCondition {
  std::atomic<uint64_t>* flag = nullptr;
  uint64_t want = 0;
  bool ready() override { return flag->load(std::memory_order_acquire) >= want; }
};

TEST(NodeMemory, FlagsWakeSleepers) {
  run_processes(4, 16384, [](int rank, auto node, Common& common) {
    Tunables tunables;
    tunables.yield_rounds = 1;
    TestRank me(uint32_t(rank), 4, std::move(node), true, tunables);
    NodeMemory memory(me.path->node());
    if (rank == 0) {
      uint64_t other = 0, offset = 0, again = 0;
      EXPECT_TRUE(memory.allocate(100, other) && memory.allocate(4 * 64, offset));
      memory.release(other);
      EXPECT_TRUE(memory.allocate(4096, again));
      EXPECT_EQ(again, other);
      EXPECT_FALSE(memory.allocate(shm::kArenaBytes, again));
      common.words[0] = offset;
    }
    common_fence(common, 4);
    auto flag = [&](int r) { return reinterpret_cast<std::atomic<uint64_t>*>(memory.at(common.words[0]) + 64 * r); };
    FlagWatch watch;
    watch.flag = flag((rank + 3) % 4);
    memory.add_watch(watch);
    Rng rng(uint64_t(rank) + 5);
    // A token goes round through flags; everybody else is asleep.
    for (uint64_t round = 1; round <= 400; ++round) {
      if (rank != 0) {
        watch.want = round;
        me.engine->wait_until([&] { return watch.ready(); });
      }
      if (rng.below(20) == 0) usleep(useconds_t(rng.below(200)));
      flag(rank)->store(round, std::memory_order_release);
      memory.wake_if_asleep(memory.slot(PeerId((rank + 1) % 4)));
      if (rank == 0) {
        watch.want = round;
        me.engine->wait_until([&] { return watch.ready(); });
      }
    }
    memory.remove_watch(watch);
    EXPECT_GT(me.engine->counters().sleeps, 0u);
    common_fence(common, 4);
    return true;
  });
}

}  // namespace
}  // namespace tern::test
