// Two to four processes over real verbs: everybody talks to everybody by RC over a shared receive queue, by UD, by
// writes, reads and atomics; a peer is killed; the cable is pulled out; a rank sleeps until something comes.
#include <poll.h>
#include <sys/resource.h>

#include <cstdlib>

#include "tests/rdma/ranks.h"

namespace tern::rdma {
namespace {

constexpr size_t kSlot = 32 * 1024;
constexpr uint32_t kMessages = 12;

/// One rank connected with all others; its receives come from one shared queue.
class Connected {
 public:
  void open(Rank& rank, const QueuePairOptions* like = nullptr) {
    ASSERT_NO_FATAL_FAILURE(rank.side.open({true, true, true, true}, 1024));
    TERN_OK(rank.side.hca.make_srq({128, 1, false, nullptr}, srq));
    for (int peer = 0; peer < rank.size; ++peer) {
      QueuePairOptions options = like ? *like : rank.side.options();
      options.sends = options.receives = rank.side.completions.get();
      options.srq = srq.get();
      TERN_OK(rank.side.hca.make_queue_pair(options, pairs[peer]));
      rank.board.pairs[rank.number][peer] = pairs[peer]->address();
    }
    rank.board.address[rank.number] = rank.side.address(0);
    rank.board.key[rank.number] = rank.side.region->remote_key();
    rank.meet();
    for (int peer = 0; peer < rank.size; ++peer) TERN_OK(pairs[peer]->connect(rank.board.pairs[peer][rank.number]));
    rank.meet();
  }
  WorkRequest at(Rank& rank, int peer, Verb verb, uint64_t id, size_t offset) {
    WorkRequest work = request(verb, id);
    work.remote_address = rank.board.address[peer] + offset;
    work.remote_key = rank.board.key[peer];
    return work;
  }

  std::unique_ptr<SharedReceiveQueue> srq;
  std::unique_ptr<QueuePair> pairs[kMaxRanks];
};

size_t message_bytes(uint32_t i) { return 1 + (i * 2654435761u) % 9000; }

// Messages of many sizes to everybody, also to oneself; each receiver checks order and bytes.
void all_to_all_sends(Rank& rank) {
  Connected my;
  ASSERT_NO_FATAL_FAILURE(my.open(rank));
  Side& side = rank.side;
  const size_t total = size_t(rank.size) * kMessages;
  for (size_t i = 0; i < total; ++i) side.post_receive(*my.srq, i, 512 * 1024 + i * 10'000, 10'000);
  rank.meet();
  for (uint32_t i = 0; i < kMessages; ++i) {
    for (int peer = 0; peer < rank.size; ++peer) {
      WorkRequest work = request(Verb::send_immediate, 5000 + i);
      work.immediate = uint32_t(rank.number) << 16 | i;
      const size_t offset = (size_t(peer) * kMessages + i) * 9'100;
      side.fill(offset, message_bytes(i), unsigned(rank.number) * 50 + i);
      side.post(*my.pairs[peer], work, offset, message_bytes(i));
    }
  }
  uint32_t next[kMaxRanks] = {};
  size_t sent = 0, received = 0;
  for (const Completion& entry : side.await(2 * total)) {
    ASSERT_EQ(entry.status, Status::success) << status_name(entry.status);
    if (entry.kind == CompletionKind::send) {
      ++sent;
      continue;
    }
    const uint32_t from = entry.immediate >> 16, i = entry.immediate & 0xffff;
    ASSERT_LT(from, uint32_t(rank.size));
    EXPECT_EQ(i, next[from]++) << "the order of rank " << from;
    EXPECT_EQ(entry.queue_pair, my.pairs[from]->number());
    EXPECT_EQ(entry.bytes, message_bytes(i));
    EXPECT_TRUE(side.holds(512 * 1024 + entry.id * 10'000, entry.bytes, from * 50 + i));
    ++received;
  }
  EXPECT_EQ(sent, total);
  EXPECT_EQ(received, total);
  rank.meet();  // nobody leaves while others still send to it
}

// Each rank writes into its slot of every other's memory; after the meeting each reads all slots of its right
// neighbour.
void all_to_all_writes_and_reads(Rank& rank) {
  Connected my;
  ASSERT_NO_FATAL_FAILURE(my.open(rank));
  Side& side = rank.side;
  const auto salt = [](int from, int to) { return unsigned(from * 16 + to); };
  for (int peer = 0; peer < rank.size; ++peer) {
    const size_t own = (8 + size_t(peer)) * kSlot;
    side.fill(own, kSlot, salt(rank.number, peer));
    side.post(*my.pairs[peer], my.at(rank, peer, Verb::write, 1, size_t(rank.number) * kSlot), own, kSlot);
  }
  for (const Completion& entry : side.await(size_t(rank.size))) EXPECT_EQ(entry.status, Status::success);
  rank.meet();
  for (int from = 0; from < rank.size; ++from) {
    EXPECT_TRUE(side.holds(size_t(from) * kSlot, kSlot, salt(from, rank.number))) << "from rank " << from;
  }
  const int right = (rank.number + 1) % rank.size;
  for (int from = 0; from < rank.size; ++from) {
    side.post(*my.pairs[right], my.at(rank, right, Verb::read, 2, size_t(from) * kSlot), (16 + size_t(from)) * kSlot,
              kSlot);
  }
  for (const Completion& entry : side.await(size_t(rank.size))) EXPECT_EQ(entry.status, Status::success);
  for (int from = 0; from < rank.size; ++from) {
    EXPECT_TRUE(side.holds((16 + size_t(from)) * kSlot, kSlot, salt(from, right)))
        << "slot " << from << " of rank " << right;
  }
  rank.meet();
}

// A counter by fetch-and-add, and a lock by compare-and-swap around a plain read and write, all in rank 0's memory.
void counter_and_lock(Rank& rank) {
  Connected my;
  ASSERT_NO_FATAL_FAILURE(my.open(rank));
  Side& side = rank.side;
  QueuePair& home = *my.pairs[0];
  constexpr size_t kCounter = 0, kLock = 64, kGuarded = 128, kOwn = 4096;
  constexpr uint64_t kRounds = 15;
  const auto operate = [&](WorkRequest work) {
    side.post(home, work, kOwn, 8);
    EXPECT_EQ(side.await_one().status, Status::success);
    return side.word(kOwn);
  };
  uint64_t last = 0;
  for (uint64_t i = 0; i < kRounds; ++i) {
    WorkRequest add = my.at(rank, 0, Verb::fetch_add, 1, kCounter);
    add.operand = 1;
    const uint64_t old = operate(add);
    EXPECT_TRUE(i == 0 || old > last);
    last = old;
  }
  for (uint64_t i = 0; i < kRounds; ++i) {
    WorkRequest lock = my.at(rank, 0, Verb::compare_swap, 2, kLock);
    lock.operand = uint64_t(rank.number) + 1;
    while (operate(lock) != 0) sched_yield();
    const uint64_t value = operate(my.at(rank, 0, Verb::read, 3, kGuarded));
    side.set_word(kOwn, value + 1);
    operate(my.at(rank, 0, Verb::write, 4, kGuarded));
    WorkRequest unlock = my.at(rank, 0, Verb::compare_swap, 5, kLock);
    unlock.compare = uint64_t(rank.number) + 1;
    EXPECT_EQ(operate(unlock), uint64_t(rank.number) + 1) << "the lock was ours";
  }
  rank.meet();
  if (rank.number == 0) {
    EXPECT_EQ(side.word(kCounter), uint64_t(rank.size) * kRounds);
    EXPECT_EQ(side.word(kGuarded), uint64_t(rank.size) * kRounds);
    EXPECT_EQ(side.word(kLock), 0u);
  }
  rank.meet();
}

void datagrams_to_everybody(Rank& rank) {
  Side& side = rank.side;
  ASSERT_NO_FATAL_FAILURE(side.open());
  QueuePairOptions options = side.options(QueuePairKind::ud);
  options.key = 0x1111;
  std::unique_ptr<QueuePair> pair;
  TERN_OK(side.hca.make_queue_pair(options, pair));
  for (uint64_t i = 0; i < uint64_t(rank.size); ++i) side.post_receive(*pair, i, 4096 + i * 2048, 2048);
  rank.board.datagram[rank.number] = pair->address();
  rank.meet();
  std::vector<std::unique_ptr<AddressHandle>> handles(size_t(rank.size));
  for (int peer = 0; peer < rank.size; ++peer) {
    TERN_OK(side.hca.make_address_handle(rank.board.datagram[peer].port, handles[size_t(peer)]));
    WorkRequest work = request(Verb::send_immediate, 100);
    work.immediate = uint32_t(rank.number);
    work.address_handle = handles[size_t(peer)].get();
    work.remote_number = rank.board.datagram[peer].number;
    work.remote_key_of_queue = rank.board.datagram[peer].key;
    side.fill(size_t(peer) * 1024, 1000, unsigned(rank.number));
    side.post(*pair, work, size_t(peer) * 1024, 1000);
  }
  unsigned heard = 0;
  for (const Completion& entry : side.await(2 * size_t(rank.size))) {
    EXPECT_EQ(entry.status, Status::success) << status_name(entry.status);
    if (entry.kind != CompletionKind::receive) continue;
    heard |= 1u << entry.immediate;
    EXPECT_EQ(entry.source_number, rank.board.datagram[entry.immediate].number);
    EXPECT_TRUE(side.holds(4096 + entry.id * 2048 + kUdHeaderBytes, 1000, entry.immediate));
  }
  EXPECT_EQ(heard, (1u << rank.size) - 1);
  rank.meet();
}

class Ranks : public ::testing::TestWithParam<int> {};
TEST_P(Ranks, AllToAllSends) { run_ranks(GetParam(), all_to_all_sends); }
TEST_P(Ranks, AllToAllWritesAndReads) { run_ranks(GetParam(), all_to_all_writes_and_reads); }
TEST_P(Ranks, CounterAndLock) { run_ranks(GetParam(), counter_and_lock); }
TEST_P(Ranks, Datagrams) { run_ranks(GetParam(), datagrams_to_everybody); }
INSTANTIATE_TEST_SUITE_P(Of, Ranks, ::testing::Values(2, 3, 4));

// Posts writes to `peer` until one fails, then expects the rest flushed. How long it took.
uint64_t write_until_failure(Rank& rank, Connected& my, int peer, bool own_port_down = false) {
  const uint64_t begin = rank.bed.now_ns();
  QueuePair& pair = *my.pairs[peer];
  for (;;) {
    rank.side.post(pair, my.at(rank, peer, Verb::write, 7, 0), 4096, 8);
    const Completion entry = rank.side.await_one();
    if (entry.status == Status::success && rank.bed.now_ns() - begin < kPatience_ns) continue;
    // Soft-RoCE's own sending fails where its interface is down, and it has no better name for that; with Linux 6.12
    // the request is flushed with those behind it.
    const bool not_sent = entry.status == Status::local_queue_pair || entry.status == Status::flushed;
    EXPECT_TRUE(entry.status == Status::retry_exceeded || (own_port_down && not_sent)) << status_name(entry.status);
    EXPECT_EQ(entry.queue_pair, pair.number());
    break;
  }
  EXPECT_EQ(pair.state(), QueuePair::State::error);
  rank.side.post(pair, my.at(rank, peer, Verb::write, 8, 0), 4096, 8);
  EXPECT_EQ(rank.side.await_one().status, Status::flushed);
  return rank.bed.now_ns() - begin;
}

QueuePairOptions quick_to_notice() {
  QueuePairOptions options;
  options.send_depth = 64;
  options.timeout_ns = 16'000'000;
  options.retries = 4;
  return options;
}

// The last rank is killed in the middle of things. The others get errors for it, in bounded time, and go on.
TEST(Faults, KilledPeer) {
  const auto body = [](Rank& rank) {
    Connected my;
    const QueuePairOptions options = quick_to_notice();
    ASSERT_NO_FATAL_FAILURE(my.open(rank, &options));
    const int last = rank.size - 1;
    if (rank.number == last) {
      for (;;) {
        rank.side.post(*my.pairs[0], my.at(rank, 0, Verb::write, 1, 0), 4096, 64);
        rank.side.await_one();
        if (rank.board.flag.load() == last) raise(SIGKILL);
      }
    }
    rank.board.flag.fetch_add(1);
    EXPECT_LT(write_until_failure(rank, my, last), 20'000'000'000u);
    rank.meet(last);  // the third meeting: the dead one does not come
    const int other = 1 - rank.number;
    rank.side.post(*my.pairs[other], my.at(rank, other, Verb::read, 9, 0), 8192, 4096);
    EXPECT_EQ(rank.side.await_one().status, Status::success) << "survivors still reach each other";
    rank.meet(last);
  };
  run_ranks(3, body, 2);
}

// The runner's machine has `cable` to pull it out and put it back.
TEST(Faults, PulledCable) {
  const auto body = [](Rank& rank) {
    Connected my;
    const QueuePairOptions options = quick_to_notice();
    ASSERT_NO_FATAL_FAILURE(my.open(rank, &options));
    rank.meet();
    EXPECT_TRUE(rank.number != 0 || system("cable down") == 0);
    rank.meet();
    EXPECT_LT(write_until_failure(rank, my, 1 - rank.number, true), 20'000'000'000u);
    // The kernel's news may take longer than the first write's failure.
    bool told = false;
    for (const uint64_t begin = rank.bed.now_ns(); !told && rank.bed.now_ns() - begin < kPatience_ns; usleep(1000)) {
      for (AsyncEvent event; rank.side.hca.take_event(event);) told |= event.kind == AsyncEventKind::port_down;
    }
    EXPECT_TRUE(told) << "the adapter says that its port is down";
    rank.meet();
    EXPECT_TRUE(rank.number != 0 || system("cable up") == 0);
    rank.meet();
    TERN_OK(my.pairs[1 - rank.number]->reset());
    rank.board.pairs[rank.number][1 - rank.number] = my.pairs[1 - rank.number]->address();
    rank.meet();
    TERN_OK(my.pairs[1 - rank.number]->connect(rank.board.pairs[1 - rank.number][rank.number]));
    rank.meet();
    rank.side.post(*my.pairs[1 - rank.number], my.at(rank, 1 - rank.number, Verb::read, 9, 0), 8192, 4096);
    EXPECT_EQ(rank.side.await_one().status, Status::success) << "the connection works again";
    rank.meet();
  };
  run_ranks(2, body);
}

// Rank 0 sleeps on the descriptor, costs nothing meanwhile, and is woken by rank 1's message.
TEST(Sleep, UntilSomethingComes) {
  const auto body = [](Rank& rank) {
    Side& side = rank.side;
    ASSERT_NO_FATAL_FAILURE(side.open());
    std::unique_ptr<EventChannel> channel;
    TERN_OK(side.hca.make_channel(channel));
    side.completions.reset();
    TERN_OK(side.hca.make_completion_queue({64, channel.get()}, side.completions));
    std::unique_ptr<QueuePair> pair;
    TERN_OK(side.hca.make_queue_pair(side.options(), pair));
    rank.board.pairs[rank.number][1 - rank.number] = pair->address();
    rank.meet();
    TERN_OK(pair->connect(rank.board.pairs[1 - rank.number][rank.number]));
    side.post_receive(*pair, 1, 0, 64);
    rank.meet();
    if (rank.number == 1) {
      usleep(400'000);
      side.post(*pair, request(Verb::send, 2), 0, 8);
      EXPECT_EQ(side.await_one().status, Status::success);
    } else {
      const auto processor_ms = [] {
        rusage usage;
        getrusage(RUSAGE_SELF, &usage);
        return (usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1000 +
               (usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1000;
      };
      Completion entry;
      side.completions->arm(false);
      ASSERT_EQ(side.completions->poll(&entry, 1), 0u);
      const uint64_t begin = rank.bed.now_ns();
      const auto used = processor_ms();
      pollfd wait{channel->descriptor(), POLLIN, 0};
      EXPECT_EQ(poll(&wait, 1, 20'000), 1);
      EXPECT_GT(rank.bed.now_ns() - begin, 200'000'000u) << "it did sleep";
      EXPECT_LT(processor_ms() - used, 50) << "and did not spin";
      channel->drain();
      EXPECT_EQ(side.await_one().id, 1u);
    }
    rank.meet();
    pair.reset();
    side.completions.reset();
  };
  run_ranks(2, body);
}

}  // namespace
}  // namespace tern::rdma
