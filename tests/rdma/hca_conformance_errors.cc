// Conformance of Hca: what must go wrong properly: access, lengths, full queues, absent receivers, dead peers.
#include "tests/rdma/hca_conformance_side.h"

namespace tern::rdma {
namespace {

bool is_soft_roce(const Side& side) {
  return side.hca.capabilities().provider == "ibv" && !side.hca.capabilities().autonomous;
}

// Soft-RoCE calls two errors by other names than the InfiniBand Architecture (10.10.3): there the driver's name counts,
// too.
void expect_status(Side& side, Status found, Status expected, Status soft_roce) {
  EXPECT_TRUE(found == expected || (is_soft_roce(side) && found == soft_roce)) << status_name(found);
}

// Work after an error comes back flushed, at once or as soon as it is posted.
void expect_flushed_from_now_on(Side& side, QueuePair& pair) {
  EXPECT_EQ(pair.state(), QueuePair::State::error);
  side.post(pair, request(Verb::send, 77), 0, 8);
  const Completion entry = side.await_one();
  EXPECT_EQ(entry.status, Status::flushed) << status_name(entry.status);
  EXPECT_EQ(entry.id, 77u);
}

void access_is_checked(ConformanceBed& bed) {
  struct Trial {
    const char* what;
    Verb verb;
    Access access;
    size_t offset, bytes;
    bool wrong_key;
  };
  const Access none{true, false, false, false}, all{true, true, true, true};
  for (const Trial& trial : {Trial{"write without permission", Verb::write, none, 0, 8, false},
                             Trial{"read without permission", Verb::read, none, 0, 8, false},
                             Trial{"write beyond the end", Verb::write, all, kSideBytes - 4, 8, false},
                             Trial{"read beyond the end", Verb::read, all, kSideBytes - 4, 8, false},
                             Trial{"a key of nobody", Verb::write, all, 0, 8, true}}) {
    SCOPED_TRACE(trial.what);
    Pair pair(bed);
    ASSERT_NO_FATAL_FAILURE(pair.open(trial.access));
    WorkRequest work = remote(trial.verb, 9, pair.b, trial.offset);
    if (trial.wrong_key) work.remote_key ^= 0x5a5a5a00;
    pair.b.fill(kSideBytes - 8, 8, 1);
    pair.a.post(*pair.qa, work, 4096, trial.bytes);
    const Completion entry = pair.a.await_one();
    EXPECT_EQ(entry.status, Status::remote_access) << status_name(entry.status);
    EXPECT_EQ(entry.id, 9u);
    EXPECT_TRUE(pair.b.holds(kSideBytes - 8, 8, 1)) << "nothing was written";
    expect_flushed_from_now_on(pair.a, *pair.qa);
  }
}

void an_ended_registration_gives_no_access(ConformanceBed& bed) {
  Pair pair(bed);
  ASSERT_NO_FATAL_FAILURE(pair.open());
  WorkRequest work = remote(Verb::write, 1, pair.b, 0);
  pair.b.fill(0, 8, 3);
  pair.b.region.reset();
  pair.a.fill(0, 8, 4);
  pair.a.post(*pair.qa, work, 0, 8);
  EXPECT_EQ(pair.a.await_one().status, Status::remote_access);
  EXPECT_TRUE(pair.b.holds(0, 8, 3));
}

void own_memory_is_checked(ConformanceBed& bed) {
  Pair pair(bed);
  ASSERT_NO_FATAL_FAILURE(pair.open());
  Piece piece = pair.a.piece(0, 64);
  piece.local_key ^= 0x3c3c3c00;
  WorkRequest work = remote(Verb::write, 4, pair.b, 0);
  work.pieces = &piece;
  work.piece_count = 1;
  ASSERT_EQ(pair.qa->post({&work, 1}), 1u);
  const Completion entry = pair.a.await_one();
  // With Linux 6.12 Soft-RoCE flushes the request that it could not send with those behind it.
  if (!is_soft_roce(pair.a) || entry.status != Status::flushed)
    expect_status(pair.a, entry.status, Status::local_protection, Status::local_queue_pair);
  EXPECT_EQ(entry.id, 4u);
  expect_flushed_from_now_on(pair.a, *pair.qa);
}

void a_message_longer_than_its_receive(ConformanceBed& bed) {
  Pair pair(bed);
  ASSERT_NO_FATAL_FAILURE(pair.open());
  pair.b.fill(0, 256, 6);
  pair.b.post_receive(*pair.qb, 1, 0, 100);
  pair.a.post(*pair.qa, request(Verb::send, 2), 4096, 101);
  const Completion received = pair.b.await_one(), sent = pair.a.await_one();
  expect_status(pair.b, received.status, Status::local_length, Status::local_queue_pair);
  EXPECT_EQ(received.id, 1u);
  expect_status(pair.a, sent.status, Status::remote_invalid_request, Status::remote_operation);
  pair.b.hca.observe();
  for (size_t i = 100; i < 256; ++i) ASSERT_EQ(*pair.b.at(i), std::byte((i * 31 + i / 251 + 6) & 0xff)) << "byte " << i;
}

void receiver_not_ready(ConformanceBed& bed) {
  Pair patient(bed), hasty(bed);
  for (Side* side : {&patient.a, &patient.b, &hasty.a, &hasty.b}) ASSERT_NO_FATAL_FAILURE(side->open());
  ASSERT_NO_FATAL_FAILURE(patient.join(patient.a.options(), patient.b.options()));
  patient.a.set_word(0, 4711);
  patient.a.post(*patient.qa, request(Verb::send, 1), 0, 8);
  patient.a.expect_silence();
  patient.b.post_receive(*patient.qb, 2, 0, 8);
  EXPECT_EQ(patient.b.await_one().id, 2u);
  EXPECT_EQ(patient.b.word(0), 4711u);
  EXPECT_EQ(patient.a.await_one().status, Status::success);

  QueuePairOptions options = hasty.a.options();
  options.rnr_retries = 1;
  ASSERT_NO_FATAL_FAILURE(hasty.join(options, hasty.b.options()));
  hasty.a.post(*hasty.qa, request(Verb::send, 3), 0, 8);
  const Completion entry = hasty.a.await_one();
  EXPECT_EQ(entry.status, Status::rnr_retry_exceeded) << status_name(entry.status);
  expect_flushed_from_now_on(hasty.a, *hasty.qa);
}

// Full queues take what they can and say how much; as completions are polled there is room again.
void full_queues(ConformanceBed& bed) {
  Pair pair(bed);
  ASSERT_NO_FATAL_FAILURE(pair.a.open({true, true, true, true}, 1024));
  ASSERT_NO_FATAL_FAILURE(pair.b.open({true, true, true, true}, 1024));
  QueuePairOptions options = pair.a.options(), of_b = pair.b.options();
  options.send_depth = 8;
  of_b.receive_depth = 8;
  ASSERT_NO_FATAL_FAILURE(pair.join(options, of_b));

  const Piece target = pair.b.piece(0, 64);
  std::vector<ReceiveRequest> receives(600, ReceiveRequest{1, &target, 1});
  const size_t receives_taken = pair.qb->post_receives(receives);
  EXPECT_GE(receives_taken, 8u);
  EXPECT_LT(receives_taken, receives.size());
  EXPECT_EQ(pair.qb->post_receives({receives.data(), 1}), 0u);

  const Piece source = pair.a.piece(0, 8);
  WorkRequest work = remote(Verb::write, 5, pair.b, 128);
  work.pieces = &source;
  work.piece_count = 1;
  const std::vector<WorkRequest> all(600, work);
  size_t posted = pair.qa->post(all), completed = 0;
  EXPECT_GE(posted, 8u);
  EXPECT_LT(posted, all.size());
  while (posted < all.size()) {
    completed += pair.a.await(1).size();
    posted += pair.qa->post({all.data() + posted, all.size() - posted});
  }
  for (const Completion& entry : pair.a.await(all.size() - completed)) EXPECT_EQ(entry.status, Status::success);
  pair.a.expect_silence();

  if (!pair.b.hca.capabilities().shared_receive) return;
  std::unique_ptr<SharedReceiveQueue> srq;
  TERN_OK(pair.b.hca.make_srq({8, 1, false, nullptr}, srq));
  const size_t taken = srq->post(receives);
  EXPECT_GE(taken, 8u);
  EXPECT_LT(taken, receives.size());
  EXPECT_EQ(srq->post({receives.data(), 1}), 0u);
}

void failing_flushes_and_reset_begins_anew(ConformanceBed& bed) {
  Pair pair(bed);
  ASSERT_NO_FATAL_FAILURE(pair.open());
  for (uint64_t i = 0; i < 5; ++i) pair.b.post_receive(*pair.qb, 10 + i, 0, 64);
  pair.qb->fail();
  for (uint64_t i = 0; i < 5; ++i) {
    const Completion entry = pair.b.await_one();
    EXPECT_EQ(entry.status, Status::flushed) << status_name(entry.status);
    EXPECT_EQ(entry.id, 10 + i) << "in the order of posting";
  }
  pair.qa->fail();
  expect_flushed_from_now_on(pair.a, *pair.qa);
  TERN_OK(pair.qa->reset());
  TERN_OK(pair.qb->reset());
  EXPECT_EQ(pair.qa->state(), QueuePair::State::idle);
  TERN_OK(pair.qa->connect(pair.qb->address()));
  TERN_OK(pair.qb->connect(pair.qa->address()));
  EXPECT_EQ(pair.qa->state(), QueuePair::State::ready);
  pair.b.post_receive(*pair.qb, 30, 0, 64);
  pair.a.post(*pair.qa, request(Verb::send, 31), 0, 8);
  EXPECT_EQ(pair.b.await_one().id, 30u);
  EXPECT_EQ(pair.a.await_one().status, Status::success);
}

// A peer that is gone is noticed by the sender's retries, in bounded time; what waits behind is flushed.
void a_peer_that_is_gone(ConformanceBed& bed) {
  Pair pair(bed);
  ASSERT_NO_FATAL_FAILURE(pair.a.open());
  ASSERT_NO_FATAL_FAILURE(pair.b.open());
  QueuePairOptions options = pair.a.options();
  options.timeout_ns = 4'000'000;
  options.retries = 3;
  ASSERT_NO_FATAL_FAILURE(pair.join(options, pair.b.options()));
  pair.qb.reset();
  for (uint64_t i = 0; i < 3; ++i) pair.a.post(*pair.qa, remote(Verb::write, i, pair.b, 0), 0, 8);
  const auto entries = pair.a.await(3);
  for (uint64_t i = 0; i < 3; ++i) {
    EXPECT_EQ(entries[i].id, i);
    EXPECT_EQ(entries[i].status, i == 0 ? Status::retry_exceeded : Status::flushed) << status_name(entries[i].status);
  }
  expect_flushed_from_now_on(pair.a, *pair.qa);
}

}  // namespace

const std::vector<ConformanceCase> kErrorCases = {
    {"access is checked", access_is_checked},
    {"an ended registration gives no access", an_ended_registration_gives_no_access},
    {"own memory is checked", own_memory_is_checked},
    {"a message longer than its receive", a_message_longer_than_its_receive},
    {"receiver not ready", receiver_not_ready},
    {"full queues", full_queues},
    {"failing flushes, reset begins anew", failing_flushes_and_reset_begins_anew},
    {"a peer that is gone", a_peer_that_is_gone},
};

}  // namespace tern::rdma
