// Conformance of Hca: datagrams, shared receive queues, XRC and DC, and the events that wake a sleeper.
#include <poll.h>

#include "tests/rdma/hca_conformance_side.h"

namespace tern::rdma {
namespace {

void datagrams(ConformanceBed& bed) {
  if (!bed.adapter(0).capabilities().ud) GTEST_SKIP() << "no UD";
  Side a(bed, 0), b(bed, 1);
  ASSERT_NO_FATAL_FAILURE(a.open());
  ASSERT_NO_FATAL_FAILURE(b.open());
  QueuePairOptions options = a.options(QueuePairKind::ud);
  options.key = 0x1234567;
  std::unique_ptr<QueuePair> qa, qb;
  TERN_OK(a.hca.make_queue_pair(options, qa));
  options = b.options(QueuePairKind::ud);
  options.key = 0x7654321;
  TERN_OK(b.hca.make_queue_pair(options, qb));
  EXPECT_EQ(qa->state(), QueuePair::State::ready);
  std::unique_ptr<AddressHandle> address_handle;
  TERN_OK(a.hca.make_address_handle(qb->address().port, address_handle));
  auto datagram = [&](uint64_t id, Verb verb) {
    WorkRequest work = request(verb, id);
    work.address_handle = address_handle.get();
    work.remote_number = qb->address().number;
    work.remote_key_of_queue = qb->address().key;
    return work;
  };
  for (size_t bytes : {size_t{1}, size_t{100}, size_t(a.hca.capabilities().mtu_bytes)}) {
    a.fill(0, bytes, 7);
    b.post_receive(*qb, 10, 0, kUdHeaderBytes + bytes);
    WorkRequest work = datagram(11, Verb::send_immediate);
    work.immediate = uint32_t(bytes);
    a.post(*qa, work, 0, bytes);
    const Completion received = b.await_one();
    EXPECT_EQ(received.status, Status::success) << status_name(received.status);
    EXPECT_EQ(received.bytes, kUdHeaderBytes + bytes);
    EXPECT_EQ(received.source_number, qa->number());
    EXPECT_EQ(received.immediate, bytes);
    EXPECT_TRUE(b.holds(kUdHeaderBytes, bytes, 7)) << bytes;
    EXPECT_EQ(a.await_one().id, 11u);
  }
  // Without a receive, or with a wrong key, a datagram is lost, and nobody is in error.
  a.post(*qa, datagram(12, Verb::send), 0, 8);
  EXPECT_EQ(a.await_one().status, Status::success);
  WorkRequest wrong = datagram(13, Verb::send);
  wrong.remote_key_of_queue = 1;
  b.expect_silence();
  b.post_receive(*qb, 14, 0, 256);
  a.post(*qa, wrong, 0, 8);
  EXPECT_EQ(a.await_one().status, Status::success);
  b.expect_silence();
  a.post(*qa, datagram(15, Verb::send), 0, 8);
  EXPECT_EQ(b.await_one().id, 14u);
  EXPECT_EQ(qb->state(), QueuePair::State::ready);
}

void shared_receive_queue(ConformanceBed& bed) {
  if (!bed.adapter(1).capabilities().shared_receive) GTEST_SKIP() << "no shared receive queues";
  Pair one(bed), two(bed);
  for (Side* side : {&one.a, &one.b, &two.a}) ASSERT_NO_FATAL_FAILURE(side->open());
  std::unique_ptr<SharedReceiveQueue> srq;
  TERN_OK(one.b.hca.make_srq({16, 1, false, nullptr}, srq));
  EXPECT_EQ(srq->number(), 0u);
  QueuePairOptions options = one.b.options();
  options.srq = srq.get();
  ASSERT_NO_FATAL_FAILURE(one.join(one.a.options(), options));
  ASSERT_NO_FATAL_FAILURE(two.join(two.a.options(), options));  // completes in one.b's queue, too
  for (uint64_t i = 0; i < 4; ++i) one.b.post_receive(*srq, 50 + i, i * 64, 64);
  for (uint64_t i = 0; i < 4; ++i) {
    Pair& pair = i % 2 ? two : one;
    pair.a.set_word(0, 900 + i);
    pair.a.post(*pair.qa, request(Verb::send, i), 0, 8);
    const Completion received = one.b.await_one();
    EXPECT_EQ(received.status, Status::success) << status_name(received.status);
    EXPECT_EQ(received.id, 50 + i) << "receives are used in the order of posting, whoever sends";
    EXPECT_EQ(received.queue_pair, pair.qb->number());
    EXPECT_EQ(one.b.word(i * 64), 900 + i);
    EXPECT_EQ(pair.a.await_one().status, Status::success);
  }
  one.qb.reset();
  two.qb.reset();
}

bool await_event(Side& side, AsyncEvent& event) {
  const uint64_t deadline = side.bed.now_ns() + kPatience_ns;
  while (!side.hca.take_event(event)) {
    if (side.bed.now_ns() > deadline) return false;
    side.bed.pass();
  }
  return true;
}

void limit_of_a_shared_receive_queue(ConformanceBed& bed) {
  if (!bed.adapter(1).capabilities().shared_receive) GTEST_SKIP() << "no shared receive queues";
  Pair pair(bed);
  for (Side* side : {&pair.a, &pair.b}) ASSERT_NO_FATAL_FAILURE(side->open());
  std::unique_ptr<SharedReceiveQueue> srq;
  TERN_OK(pair.b.hca.make_srq({16, 1, false, nullptr}, srq));
  QueuePairOptions options = pair.b.options();
  options.srq = srq.get();
  ASSERT_NO_FATAL_FAILURE(pair.join(pair.a.options(), options));
  for (uint64_t i = 0; i < 6; ++i) pair.b.post_receive(*srq, i, i * 64, 64);
  srq->arm_limit(4);
  AsyncEvent event;
  for (uint64_t i = 0; i < 2; ++i) pair.a.post(*pair.qa, request(Verb::send, i), 0, 8);
  pair.b.await(2);
  EXPECT_FALSE(pair.b.hca.take_event(event)) << "four are left, not fewer";
  pair.a.post(*pair.qa, request(Verb::send, 2), 0, 8);
  pair.b.await(1);
  ASSERT_TRUE(await_event(pair.b, event));
  EXPECT_EQ(event.kind, AsyncEventKind::srq_limit);
  EXPECT_EQ(event.srq, srq.get());
  pair.a.post(*pair.qa, request(Verb::send, 3), 0, 8);
  pair.b.await(1);
  EXPECT_FALSE(pair.b.hca.take_event(event)) << "one event for each time of asking";
  pair.qb.reset();
}

bool readable(const EventChannel& channel) {
  pollfd entry{channel.descriptor(), POLLIN, 0};
  return poll(&entry, 1, 0) == 1;
}

// How a rank sleeps: arm, look once more, sleep on the descriptor, drain.
void events_wake_a_sleeper(ConformanceBed& bed) {
  Pair pair(bed);
  ASSERT_NO_FATAL_FAILURE(pair.a.open());
  ASSERT_NO_FATAL_FAILURE(pair.b.open());
  std::unique_ptr<EventChannel> channel;
  TERN_OK(pair.b.hca.make_channel(channel));
  pair.b.completions.reset();
  TERN_OK(pair.b.hca.make_completion_queue({64, channel.get()}, pair.b.completions));
  ASSERT_NO_FATAL_FAILURE(pair.join(pair.a.options(), pair.b.options()));
  // A simulated channel wakes its rank some other way.
  const auto expect_readable = [&](bool expected, const char* when) {
    if (channel->descriptor() < 0) return;
    EXPECT_EQ(readable(*channel), expected) << when;
  };
  for (uint64_t i = 0; i < 6; ++i) pair.b.post_receive(*pair.qb, i, 0, 64);
  auto send = [&](bool solicited) {
    WorkRequest work = request(Verb::send, 7);
    work.solicited = solicited;
    pair.a.post(*pair.qa, work, 0, 8);
    EXPECT_EQ(pair.a.await_one().status, Status::success);
    EXPECT_EQ(pair.b.await_one().status, Status::success);
  };
  send(false);
  expect_readable(false, "not armed, no event");
  pair.b.completions->arm(false);
  expect_readable(false, "armed, nothing has come");
  send(false);
  expect_readable(true, "an armed queue has an entry");
  channel->drain();
  expect_readable(false, "drained");
  send(false);
  expect_readable(false, "what fired is not armed any more");
  pair.b.completions->arm(true);
  send(false);
  expect_readable(false, "armed for solicited messages only");
  send(true);
  expect_readable(true, "an armed queue has an entry");
  channel->drain();
  expect_readable(false, "drained");
  pair.qa.reset();
  pair.qb.reset();
  pair.b.completions.reset();
}

void extended_connections(ConformanceBed& bed) {
  if (!bed.adapter(0).capabilities().xrc || !bed.adapter(1).capabilities().xrc) GTEST_SKIP() << "no XRC";
  Pair pair(bed);
  ASSERT_NO_FATAL_FAILURE(pair.a.open());
  ASSERT_NO_FATAL_FAILURE(pair.b.open());
  std::unique_ptr<SharedReceiveQueue> first, second;
  TERN_OK(pair.b.hca.make_srq({8, 1, true, pair.b.completions.get()}, first));
  TERN_OK(pair.b.hca.make_srq({8, 1, true, pair.b.completions.get()}, second));
  EXPECT_NE(first->number(), second->number());
  QueuePairOptions target;
  target.kind = QueuePairKind::xrc_target;
  ASSERT_NO_FATAL_FAILURE(pair.join(pair.a.options(QueuePairKind::xrc_initiator), target));
  pair.b.post_receive(*first, 1, 0, 64);
  pair.b.post_receive(*second, 2, 64, 64);
  for (SharedReceiveQueue* srq : {second.get(), first.get()}) {
    WorkRequest work = request(Verb::send, 3);
    work.remote_srq = srq->number();
    pair.a.post(*pair.qa, work, 0, 8);
    EXPECT_EQ(pair.b.await_one().id, srq == first.get() ? 1u : 2u) << "the message names its queue";
    EXPECT_EQ(pair.a.await_one().status, Status::success);
  }
  pair.qb.reset();
}

void dynamic_connections(ConformanceBed& bed) {
  for (int i = 0; i < bed.adapters(); ++i)
    if (!bed.adapter(i).capabilities().dc) GTEST_SKIP() << "no DC";
  Side a(bed, 0);
  ASSERT_NO_FATAL_FAILURE(a.open());
  std::unique_ptr<QueuePair> initiator;
  TERN_OK(a.hca.make_queue_pair(a.options(QueuePairKind::dc_initiator), initiator));
  EXPECT_EQ(initiator->state(), QueuePair::State::ready);
  // One initiator talks to every adapter in turn.
  for (int i = 1; i < bed.adapters(); ++i) {
    Side b(bed, i);
    ASSERT_NO_FATAL_FAILURE(b.open());
    std::unique_ptr<SharedReceiveQueue> srq;
    TERN_OK(b.hca.make_srq({8, 1, false, nullptr}, srq));
    QueuePairOptions options = b.options(QueuePairKind::dc_target);
    options.srq = srq.get();
    options.key = 0xabcdef;
    std::unique_ptr<QueuePair> target;
    TERN_OK(b.hca.make_queue_pair(options, target));
    std::unique_ptr<AddressHandle> address_handle;
    TERN_OK(a.hca.make_address_handle(target->address().port, address_handle));
    b.post_receive(*srq, 5, 0, 64);
    for (Verb verb : {Verb::write, Verb::send}) {
      WorkRequest work = verb == Verb::write ? remote(verb, 1, b, 4096) : request(verb, 2);
      work.address_handle = address_handle.get();
      work.remote_number = target->address().number;
      work.remote_key_of_queue = target->address().key;
      a.fill(0, 64, unsigned(i));
      a.post(*initiator, work, 0, 64);
      EXPECT_EQ(a.await_one().status, Status::success);
    }
    EXPECT_EQ(b.await_one().id, 5u);
    EXPECT_TRUE(b.holds(4096, 64, unsigned(i)));
    EXPECT_TRUE(b.holds(0, 64, unsigned(i)));
    target.reset();
  }
}

// What an adapter lacks is an error that says so, never an object that does not work.
void what_is_missing_is_refused(ConformanceBed& bed) {
  Side a(bed, 0);
  ASSERT_NO_FATAL_FAILURE(a.open());
  const Capabilities& can = a.hca.capabilities();
  std::unique_ptr<SharedReceiveQueue> srq;
  if (can.shared_receive) TERN_OK(a.hca.make_srq({4, 1, false, nullptr}, srq));
  for (QueuePairKind kind : {QueuePairKind::xrc_initiator, QueuePairKind::xrc_target, QueuePairKind::dc_initiator,
                             QueuePairKind::dc_target}) {
    const bool xrc = kind == QueuePairKind::xrc_initiator || kind == QueuePairKind::xrc_target;
    QueuePairOptions options = a.options(kind);
    options.srq = kind == QueuePairKind::dc_target ? srq.get() : nullptr;
    std::unique_ptr<QueuePair> pair;
    const Error error = a.hca.make_queue_pair(options, pair);
    if (xrc ? can.xrc : can.dc) {
      EXPECT_FALSE(error) << error.text();
      continue;
    }
    ASSERT_TRUE(error);
    EXPECT_EQ(error.error_class(), int(ErrorClass::unsupported_operation)) << error.text();
    EXPECT_NE(error.text().find(can.device), std::string_view::npos) << error.text();
    EXPECT_EQ(pair, nullptr);
  }
  if (!can.xrc) {
    std::unique_ptr<SharedReceiveQueue> addressed;
    EXPECT_TRUE(a.hca.make_srq({4, 1, true, a.completions.get()}, addressed));
  }
}

}  // namespace

const std::vector<ConformanceCase> kAddressedCases = {
    {"datagrams", datagrams},
    {"shared receive queue", shared_receive_queue},
    {"limit of a shared receive queue", limit_of_a_shared_receive_queue},
    {"events wake a sleeper", events_wake_a_sleeper},
    {"XRC: extended connections", extended_connections},
    {"DC: dynamic connections", dynamic_connections},
    {"what is missing is refused", what_is_missing_is_refused},
};

}  // namespace tern::rdma
