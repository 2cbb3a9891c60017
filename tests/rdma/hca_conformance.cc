// Conformance of Hca: connected queue pairs moving data.
#include "tests/rdma/hca_conformance.h"

#include <algorithm>
#include <cctype>

#include "tests/rdma/hca_conformance_side.h"

namespace tern::rdma {
namespace {

void capabilities_are_usable(ConformanceBed& bed) {
  for (int i = 0; i < bed.adapters(); ++i) {
    const Capabilities& can = bed.adapter(i).capabilities();
    EXPECT_FALSE(can.provider.empty());
    EXPECT_FALSE(can.device.empty());
    EXPECT_TRUE(can.rc);
    EXPECT_GE(can.mtu_bytes, 256u);
    EXPECT_GE(can.max_message_bytes, 1u << 20);
    EXPECT_GE(can.max_pieces, 2u);
    EXPECT_GE(can.max_queue_depth, 64u);
    EXPECT_GE(can.max_completions, 256u);
    EXPECT_GE(can.max_queue_pairs, 16u);
    EXPECT_GT(can.latency_ns, 0u);
    EXPECT_GT(can.bytes_per_us, 0u);
  }
}

void send_and_receive(ConformanceBed& bed) {
  Pair pair(bed);
  ASSERT_NO_FATAL_FAILURE(pair.open());
  const size_t mtu = pair.a.hca.capabilities().mtu_bytes;
  unsigned salt = 1;
  for (size_t bytes : {size_t{0}, size_t{1}, size_t{8}, mtu - 1, mtu, mtu + 1, 3 * mtu + 5, size_t{100'000}}) {
    pair.a.fill(0, bytes, salt);
    pair.b.post_receive(*pair.qb, 100 + salt, 4096, 200'000);
    pair.a.post(*pair.qa, request(Verb::send, 200 + salt), 0, bytes);
    const Completion received = pair.b.await_one(), sent = pair.a.await_one();
    EXPECT_EQ(received.status, Status::success) << status_name(received.status);
    EXPECT_EQ(received.kind, CompletionKind::receive);
    EXPECT_EQ(received.id, 100 + salt);
    EXPECT_EQ(received.bytes, bytes);
    EXPECT_EQ(received.queue_pair, pair.qb->number());
    EXPECT_FALSE(received.has_immediate);
    EXPECT_EQ(sent.status, Status::success) << status_name(sent.status);
    EXPECT_EQ(sent.kind, CompletionKind::send);
    EXPECT_EQ(sent.id, 200 + salt);
    EXPECT_EQ(sent.queue_pair, pair.qa->number());
    EXPECT_TRUE(pair.b.holds(4096, bytes, salt)) << bytes << " bytes";
    ++salt;
  }
  pair.b.post_receive(*pair.qb, 1, 0, 64);
  WorkRequest work = request(Verb::send_immediate, 2);
  work.immediate = 0xfeedc0de;
  pair.a.post(*pair.qa, work, 0, 16);
  const Completion received = pair.b.await_one();
  EXPECT_TRUE(received.has_immediate);
  EXPECT_EQ(received.immediate, 0xfeedc0deu);
  EXPECT_EQ(received.bytes, 16u);
}

void messages_keep_their_order(ConformanceBed& bed) {
  Pair pair(bed);
  ASSERT_NO_FATAL_FAILURE(pair.open());
  constexpr size_t kMessages = 40;
  std::vector<Piece> pieces;
  std::vector<ReceiveRequest> receives;
  std::vector<WorkRequest> sends;
  pieces.reserve(4 * kMessages);
  for (size_t i = 0; i < kMessages; ++i) {
    pieces.push_back(pair.b.piece(i * 64, 64));
    receives.push_back({1000 + i, &pieces.back(), 1});
  }
  for (size_t i = 0; i < kMessages; ++i) {
    pair.a.set_word(i * 16, i * 3);
    pair.a.set_word(i * 16 + 8, i * 5);
    // Gathered from two places, the second first.
    pieces.push_back(pair.a.piece(i * 16 + 8, 8));
    pieces.push_back(pair.a.piece(i * 16, 8));
    WorkRequest work = request(Verb::send, 2000 + i);
    work.pieces = &pieces[pieces.size() - 2];
    work.piece_count = 2;
    sends.push_back(work);
  }
  ASSERT_EQ(pair.qb->post_receives(receives), kMessages);
  ASSERT_EQ(pair.qa->post(sends), kMessages);
  const auto received = pair.b.await(kMessages), sent = pair.a.await(kMessages);
  for (size_t i = 0; i < kMessages; ++i) {
    EXPECT_EQ(received[i].id, 1000 + i);
    EXPECT_EQ(received[i].bytes, 16u);
    EXPECT_EQ(sent[i].id, 2000 + i);
    EXPECT_EQ(pair.b.word(i * 64), i * 5);
    EXPECT_EQ(pair.b.word(i * 64 + 8), i * 3);
  }
}

void unsignaled_requests_are_silent(ConformanceBed& bed) {
  Pair pair(bed);
  ASSERT_NO_FATAL_FAILURE(pair.open());
  for (uint64_t i = 0; i < 5; ++i) {
    WorkRequest work = remote(Verb::write, i, pair.b, i * 8);
    work.signaled = i == 4;
    pair.a.set_word(i * 8, 77 + i);
    pair.a.post(*pair.qa, work, i * 8, 8);
  }
  EXPECT_EQ(pair.a.await_one().id, 4u);
  for (uint64_t i = 0; i < 5; ++i) EXPECT_EQ(pair.b.word(i * 8), 77 + i);
  pair.a.expect_silence();
}

void writes_and_reads(ConformanceBed& bed) {
  Pair pair(bed);
  ASSERT_NO_FATAL_FAILURE(pair.open());
  const size_t mtu = pair.a.hca.capabilities().mtu_bytes;
  unsigned salt = 40;
  for (size_t bytes : {size_t{1}, size_t{8}, mtu, mtu + 1, size_t{150'001}}) {
    pair.a.fill(0, bytes, ++salt);
    pair.a.post(*pair.qa, remote(Verb::write, 1, pair.b, 300'003), 0, bytes);
    const Completion written = pair.a.await_one();
    EXPECT_EQ(written.status, Status::success) << status_name(written.status);
    EXPECT_EQ(written.kind, CompletionKind::write);
    EXPECT_TRUE(pair.b.holds(300'003, bytes, salt)) << "write of " << bytes;

    pair.b.fill(500'000, bytes, ++salt);
    pair.a.post(*pair.qa, remote(Verb::read, 2, pair.b, 500'000), 700'001, bytes);
    const Completion read = pair.a.await_one();
    EXPECT_EQ(read.status, Status::success) << status_name(read.status);
    EXPECT_EQ(read.kind, CompletionKind::read);
    EXPECT_EQ(read.id, 2u);
    EXPECT_TRUE(pair.a.holds(700'001, bytes, salt)) << "read of " << bytes;
  }
  Completion none;
  EXPECT_EQ(pair.b.completions->poll(&none, 1), 0u) << "the target of one-sided work hears nothing";
}

void write_with_immediate(ConformanceBed& bed) {
  Pair pair(bed);
  ASSERT_NO_FATAL_FAILURE(pair.open());
  pair.b.fill(0, 64, 9);
  pair.b.post_receive(*pair.qb, 5, 0, 64);
  pair.a.fill(0, 10'000, 3);
  WorkRequest work = remote(Verb::write_immediate, 6, pair.b, 20'000);
  work.immediate = 0x01020304;
  pair.a.post(*pair.qa, work, 0, 10'000);
  const Completion arrived = pair.b.await_one();
  EXPECT_EQ(arrived.status, Status::success);
  EXPECT_EQ(arrived.kind, CompletionKind::receive_write);
  EXPECT_EQ(arrived.id, 5u);
  EXPECT_TRUE(arrived.has_immediate);
  EXPECT_EQ(arrived.immediate, 0x01020304u);
  EXPECT_EQ(arrived.bytes, 10'000u);
  EXPECT_TRUE(pair.b.holds(20'000, 10'000, 3));
  EXPECT_TRUE(pair.b.holds(0, 64, 9)) << "the receive's own memory is not used";
  EXPECT_EQ(pair.a.await_one().kind, CompletionKind::write);
}

// A receive that completes sees every write that was posted before its message.
void a_message_follows_the_writes_before_it(ConformanceBed& bed) {
  Pair pair(bed);
  ASSERT_NO_FATAL_FAILURE(pair.open());
  for (unsigned round = 0; round < 10; ++round) {
    pair.b.post_receive(*pair.qb, round, 0, 64);
    pair.a.fill(100'000, 60'000, round);
    WorkRequest write = remote(Verb::write, 100, pair.b, 200'000);
    write.signaled = false;
    pair.a.post(*pair.qa, write, 100'000, 60'000);
    pair.a.post(*pair.qa, request(Verb::send, 101), 0, 8);
    EXPECT_EQ(pair.b.await_one().id, round);
    EXPECT_TRUE(pair.b.holds(200'000, 60'000, round)) << "round " << round;
    EXPECT_EQ(pair.a.await_one().id, 101u);
  }
}

void atomics(ConformanceBed& bed) {
  if (!bed.adapter(0).capabilities().atomics) GTEST_SKIP() << "no atomics";
  Pair pair(bed);
  ASSERT_NO_FATAL_FAILURE(pair.open());
  pair.b.set_word(64, 10);
  WorkRequest work = remote(Verb::compare_swap, 1, pair.b, 64);
  work.compare = 10;
  work.operand = 0x1122334455667788;
  pair.a.post(*pair.qa, work, 0, 8);
  const Completion swapped = pair.a.await_one();
  EXPECT_EQ(swapped.status, Status::success) << status_name(swapped.status);
  EXPECT_EQ(swapped.kind, CompletionKind::atomic);
  EXPECT_EQ(pair.a.word(0), 10u) << "the old value comes back";
  EXPECT_EQ(pair.b.word(64), 0x1122334455667788u);
  work.operand = 99;  // and the comparison fails now
  pair.a.post(*pair.qa, work, 8, 8);
  pair.a.await_one();
  EXPECT_EQ(pair.a.word(8), 0x1122334455667788u);
  EXPECT_EQ(pair.b.word(64), 0x1122334455667788u);

  pair.b.set_word(64, uint64_t{0} - 3);
  work = remote(Verb::fetch_add, 2, pair.b, 64);
  work.operand = 5;
  pair.a.post(*pair.qa, work, 16, 8);
  EXPECT_EQ(pair.a.await_one().kind, CompletionKind::atomic);
  EXPECT_EQ(pair.a.word(16), uint64_t{0} - 3);
  EXPECT_EQ(pair.b.word(64), 2u) << "addition wraps around";

  if (!bed.adapter(0).capabilities().atomic_swap) return;
  work = remote(Verb::swap, 3, pair.b, 64);
  work.operand = 1234;
  pair.a.post(*pair.qa, work, 24, 8);
  EXPECT_EQ(pair.a.await_one().status, Status::success);
  EXPECT_EQ(pair.a.word(24), 2u);
  EXPECT_EQ(pair.b.word(64), 1234u);
}

// Two initiators count at once: every old value appears once.
void atomics_exclude_each_other(ConformanceBed& bed) {
  if (!bed.adapter(0).capabilities().atomics) GTEST_SKIP() << "no atomics";
  Pair one(bed), two(bed, bed.adapters() > 2 ? 2 : 0, 1);
  ASSERT_NO_FATAL_FAILURE(one.open());
  ASSERT_NO_FATAL_FAILURE(two.open());
  constexpr size_t kEach = 50;
  one.b.set_word(0, 0);
  for (size_t i = 0; i < kEach; ++i) {
    for (Pair* pair : {&one, &two}) {
      WorkRequest work = remote(Verb::fetch_add, i, one.b, 0);
      work.operand = 1;
      pair->a.post(*pair->qa, work, i * 8, 8);
    }
  }
  one.a.await(kEach);
  two.a.await(kEach);
  std::vector<uint64_t> seen;
  for (size_t i = 0; i < kEach; ++i) {
    seen.push_back(one.a.word(i * 8));
    seen.push_back(two.a.word(i * 8));
  }
  std::sort(seen.begin(), seen.end());
  for (size_t i = 0; i < seen.size(); ++i) EXPECT_EQ(seen[i], i);
  EXPECT_EQ(one.b.word(0), 2 * kEach);
}

// More reads and atomics than the adapter keeps on their way at once wait for each other; a fence waits for them all.
void many_reads_and_a_fence(ConformanceBed& bed) {
  Pair pair(bed);
  ASSERT_NO_FATAL_FAILURE(pair.open());
  constexpr size_t kReads = 48;
  pair.b.fill(0, kReads * 512, 5);
  for (size_t i = 0; i < kReads; ++i) {
    WorkRequest work = remote(Verb::read, i, pair.b, i * 512);
    work.signaled = false;
    pair.a.post(*pair.qa, work, i * 512, 512);
  }
  // What was read is written elsewhere: right only behind the reads.
  WorkRequest work = remote(Verb::write, 99, pair.b, 500'000);
  work.fenced = true;
  pair.a.post(*pair.qa, work, 0, kReads * 512);
  EXPECT_EQ(pair.a.await_one().id, 99u);
  EXPECT_TRUE(pair.b.holds(500'000, kReads * 512, 5));
}

void inlined_bytes_are_copied_at_post(ConformanceBed& bed) {
  Pair pair(bed);
  ASSERT_NO_FATAL_FAILURE(pair.open());
  const uint32_t most = pair.a.options().inline_bytes;
  if (most == 0) GTEST_SKIP() << "no inlining";
  std::vector<std::byte> outside(most, std::byte{42});  // registered nowhere
  const Piece piece{uint64_t(uintptr_t(outside.data())), most, 0};
  WorkRequest work = remote(Verb::write, 1, pair.b, 0);
  work.inlined = true;
  work.pieces = &piece;
  work.piece_count = 1;
  ASSERT_EQ(pair.qa->post({&work, 1}), 1u);
  std::fill(outside.begin(), outside.end(), std::byte{13});
  EXPECT_EQ(pair.a.await_one().status, Status::success);
  pair.b.hca.observe();
  for (uint32_t i = 0; i < most; ++i) ASSERT_EQ(*pair.b.at(i), std::byte{42});
}

void a_loop_to_oneself(ConformanceBed& bed) {
  Pair pair(bed, 0, 0);
  ASSERT_NO_FATAL_FAILURE(pair.open());
  pair.a.fill(0, 5000, 8);
  pair.b.post_receive(*pair.qb, 1, 0, 5000);
  pair.a.post(*pair.qa, request(Verb::send, 2), 0, 5000);
  EXPECT_EQ(pair.b.await_one().bytes, 5000u);
  EXPECT_TRUE(pair.b.holds(0, 5000, 8));
  EXPECT_EQ(pair.a.await_one().status, Status::success);
}

}  // namespace

const std::vector<ConformanceCase> kDataCases = {
    {"capabilities are usable", capabilities_are_usable},
    {"send and receive", send_and_receive},
    {"messages keep their order", messages_keep_their_order},
    {"unsignaled requests are silent", unsignaled_requests_are_silent},
    {"writes and reads", writes_and_reads},
    {"write with immediate", write_with_immediate},
    {"a message follows the writes before it", a_message_follows_the_writes_before_it},
    {"atomics", atomics},
    {"atomics exclude each other", atomics_exclude_each_other},
    {"many reads and a fence", many_reads_and_a_fence},
    {"inlined bytes are copied at post", inlined_bytes_are_copied_at_post},
    {"a loop to oneself", a_loop_to_oneself},
};

std::span<const ConformanceCase> conformance_cases() {
  static const std::vector<ConformanceCase> all = [] {
    std::vector<ConformanceCase> joined = kDataCases;
    joined.insert(joined.end(), kAddressedCases.begin(), kAddressedCases.end());
    joined.insert(joined.end(), kErrorCases.begin(), kErrorCases.end());
    return joined;
  }();
  return all;
}

std::string conformance_name(size_t index) {
  std::string name = conformance_cases()[index].name;
  for (char& c : name)
    if (!isalnum(static_cast<unsigned char>(c))) c = '_';
  return name;
}

}  // namespace tern::rdma
