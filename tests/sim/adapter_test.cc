// The simulated adapter against the contract of Hca: every verb, order, errors and flushes, retries, shared receive
// queues, XRC and DC addressing.
#include "sim/adapter.h"

#include <gtest/gtest.h>

#include "tests/sim/adapter_bench.h"

namespace tern::sim {
namespace {

using rdma::CompletionKind;
using rdma::QueuePairKind;
using rdma::Status;
using rdma::Verb;

Report run(WorldOptions options, const Machine::Body& body) {
  Machine machine(std::move(options));
  Report report = machine.run(body);
  EXPECT_TRUE(report.ok()) << report.failure;
  return report;
}
Report run(const Machine::Body& body) { return run(WorldOptions(), body); }

TEST(Adapter, SendFillsTheReceivesPiecesInOrderAndBringsTheImmediate) {
  run([](Machine::Rank& rank) {
    AdapterBench bench(rank);
    auto pair = join(bench, 1 - int(rank.index()), bench.options());
    if (rank.index() == 1) {
      rdma::Piece pieces[2] = {bench.piece(100, 10), bench.piece(500, 100)};
      rdma::ReceiveRequest receive{77, pieces, 2};
      EXPECT_EQ(pair->post_receives({&receive, 1}), 1u);
      bench.fence();
      rdma::Completion got = bench.wait();
      EXPECT_EQ(got.status, Status::success);
      EXPECT_EQ(got.kind, CompletionKind::receive);
      EXPECT_EQ(got.id, 77u);
      EXPECT_EQ(got.bytes, 40u);
      EXPECT_TRUE(got.has_immediate);
      EXPECT_EQ(got.immediate, 4711u);
      EXPECT_EQ(got.queue_pair, pair->number());
      memmove(bench.memory.data() + 110, bench.memory.data() + 500, 30);
      EXPECT_TRUE(bench.filled(100, 40, 3));
      return;
    }
    bench.fence();
    bench.fill(0, 40, 3);
    rdma::Piece pieces[2] = {bench.piece(0, 25), bench.piece(25, 15)};
    Work send = work(Verb::send_immediate, pieces[0], 5);
    send.pieces = pieces;
    send.piece_count = 2;
    send.immediate = 4711;
    rdma::Completion over = bench.run(*pair, send);
    EXPECT_EQ(over.status, Status::success);
    EXPECT_EQ(over.kind, CompletionKind::send);
    EXPECT_EQ(over.id, 5u);
  });
}

TEST(Adapter, WriteReadAndAtomicsOnThePeersMemory) {
  WorldOptions options;
  options.adapter.atomic_swap = true;
  options.adapter.segment_bytes = 1000;
  run(options, [](Machine::Rank& rank) {
    AdapterBench bench(rank);
    auto pair = join(bench, 1 - int(rank.index()), bench.options());
    auto targets = bench.exchange(bench.target());
    bench.word(8000) = 5;
    bench.fill(20'000, 9000, 40);
    bench.fence();
    if (rank.index() == 0) {
      bench.fill(0, 7000, 1);
      EXPECT_EQ(bench.run(*pair, work(Verb::write, bench.piece(0, 7000), targets[1], 100)).status, Status::success);
      rdma::Completion read = bench.run(*pair, work(Verb::read, bench.piece(40'000, 9000), targets[1], 20'000));
      EXPECT_EQ(read.kind, CompletionKind::read);
      EXPECT_TRUE(bench.filled(40'000, 9000, 40));

      Work atomic = work(Verb::fetch_add, bench.piece(50'000, 8), targets[1], 8000);
      atomic.operand = 3;
      EXPECT_EQ(bench.run(*pair, atomic).kind, CompletionKind::atomic);
      EXPECT_EQ(bench.word(50'000), 5u);
      atomic.verb = Verb::compare_swap;
      atomic.compare = 9;  // it is 8: nothing happens
      atomic.operand = 100;
      bench.run(*pair, atomic);
      EXPECT_EQ(bench.word(50'000), 8u);
      atomic.compare = 8;
      bench.run(*pair, atomic);
      EXPECT_EQ(bench.word(50'000), 8u);
      atomic.verb = Verb::swap;
      atomic.operand = 200;
      bench.run(*pair, atomic);
      EXPECT_EQ(bench.word(50'000), 100u);
    }
    bench.fence();
    bench.hca->observe();
    if (rank.index() == 1) {
      EXPECT_TRUE(bench.filled(100, 7000, 1));
      EXPECT_EQ(bench.word(8000), 200u);
    }
  });
}

TEST(Adapter, InlinedBytesAreTakenAtThePost) {
  run([](Machine::Rank& rank) {
    AdapterBench bench(rank);
    auto pair = join(bench, 1 - int(rank.index()), bench.options());
    auto targets = bench.exchange(bench.target());
    if (rank.index() == 0) {
      char words[] = "inlined";
      rdma::Piece piece{reinterpret_cast<uint64_t>(words), 8, 0};  // not registered
      Work write = work(Verb::write, piece, targets[1], 0);
      write.inlined = true;
      bench.post(*pair, write);
      memset(words, 'x', 7);
      EXPECT_EQ(bench.wait().status, Status::success);
    }
    bench.fence();
    bench.hca->observe();
    if (rank.index() == 1) {
      EXPECT_STREQ(reinterpret_cast<char*>(bench.memory.data()), "inlined");
    }
  });
}

TEST(Adapter, WriteWithImmediateCompletesAReceiveAfterItsBytes) {
  run([](Machine::Rank& rank) {
    AdapterBench bench(rank);
    auto pair = join(bench, 1 - int(rank.index()), bench.options());
    auto targets = bench.exchange(bench.target());
    if (rank.index() == 1) {
      bench.post_receive(*pair, 9, bench.piece(0, 0));
      bench.fence();
      rdma::Completion got = bench.wait();
      EXPECT_EQ(got.kind, CompletionKind::receive_write);
      EXPECT_EQ(got.immediate, 12u);
      EXPECT_EQ(got.bytes, 50'000u);
      EXPECT_TRUE(bench.filled(0, 50'000, 8));
      return;
    }
    bench.fence();
    bench.fill(0, 50'000, 8);
    Work write = work(Verb::write_immediate, bench.piece(0, 50'000), targets[1], 0);
    write.immediate = 12;
    EXPECT_EQ(bench.run(*pair, write).kind, CompletionKind::write);
  });
}

TEST(Adapter, MessagesOfAQueuePairArriveInOrderAndUnsignaledOnesSaveEntries) {
  run([](Machine::Rank& rank) {
    AdapterBench bench(rank);
    auto pair = join(bench, 1 - int(rank.index()), bench.options());
    constexpr int kMessages = 100;
    if (rank.index() == 1) {
      for (int i = 0; i < kMessages; ++i) bench.post_receive(*pair, uint64_t(i), bench.piece(size_t(i) * 8, 8));
      bench.fence();
      for (int i = 0; i < kMessages; ++i) {
        EXPECT_EQ(bench.wait().id, uint64_t(i));
        EXPECT_EQ(bench.word(size_t(i) * 8), uint64_t(i) * 3);
      }
      return;
    }
    bench.fence();
    for (int i = 0; i < kMessages; ++i) {
      bench.word(size_t(i) * 8) = uint64_t(i) * 3;
      Work send = work(Verb::send, bench.piece(size_t(i) * 8, 8), uint64_t(i));
      send.signaled = i % 10 == 9;
      bench.post(*pair, send);
    }
    for (int i = 9; i < kMessages; i += 10) EXPECT_EQ(bench.wait().id, uint64_t(i));
    rdma::Completion none;
    EXPECT_EQ(bench.queue->poll(&none, 1), 0u);
  });
}

TEST(Adapter, AFullSendQueueTakesNoMoreUntilEntriesArePolled) {
  run([](Machine::Rank& rank) {
    AdapterBench bench(rank);
    auto options = bench.options();
    options.send_depth = 4;
    auto pair = join(bench, 1 - int(rank.index()), options);
    auto targets = bench.exchange(bench.target());
    if (rank.index() == 0) {
      std::vector<rdma::WorkRequest> writes(6, work(Verb::write, bench.piece(0, 8), targets[1], 0));
      rdma::Piece piece = bench.piece(0, 8);
      for (auto& write : writes) write.pieces = &piece;
      EXPECT_EQ(pair->post(writes), 4u);
      bench.strand.charge_ns(1'000'000);
      EXPECT_EQ(pair->post({writes.data(), 1}), 0u) << "done, but not polled";
      bench.wait();
      EXPECT_EQ(pair->post(writes), 1u);
    }
    bench.fence();
  });
}

TEST(Adapter, ReceiverNotReadyIsRetriedAfterTheReceiversWait) {
  run([](Machine::Rank& rank) {
    AdapterBench bench(rank);
    auto options = bench.options();
    options.rnr_wait_ns = 50'000;
    auto pair = join(bench, 1 - int(rank.index()), options);
    uint64_t begin = bench.strand.now_ns();
    if (rank.index() == 1) {
      bench.strand.charge_ns(120'000);
      bench.post_receive(*pair, 1, bench.piece(0, 8));
      EXPECT_EQ(bench.wait().status, Status::success);
      uint64_t took = bench.strand.now_ns() - begin;
      EXPECT_GE(took, 150'000u);  // tried at about 1, 52, 103, 154 us
      EXPECT_LE(took, 175'000u);
    } else {
      EXPECT_EQ(bench.run(*pair, work(Verb::send, bench.piece(0, 8))).status, Status::success);
      EXPECT_EQ(rank.machine.adapters().node(1).rnr_nacks, 3u);
    }
    bench.fence();
  });
}

TEST(Adapter, RetriesRunOutAndFlushWhatIsBehind) {
  run([](Machine::Rank& rank) {
    AdapterBench bench(rank);
    auto options = bench.options();
    options.rnr_wait_ns = 10'000;
    options.rnr_retries = 2;
    auto pair = join(bench, 1 - int(rank.index()), options);
    if (rank.index() == 0) {
      bench.post_receive(*pair, 50, bench.piece(0, 8));
      for (uint64_t i = 1; i <= 3; ++i) {
        Work send = work(Verb::send, bench.piece(0, 8), i);
        send.signaled = i != 2;  // errors give an entry anyhow
        bench.post(*pair, send);
      }
      rdma::Completion first = bench.wait();
      EXPECT_EQ(first.status, Status::rnr_retry_exceeded);
      EXPECT_EQ(first.id, 1u);
      for (uint64_t id : {uint64_t{2}, uint64_t{3}, uint64_t{50}}) {
        rdma::Completion flushed = bench.wait();
        EXPECT_EQ(flushed.status, Status::flushed);
        EXPECT_EQ(flushed.id, id);
      }
      EXPECT_EQ(pair->state(), rdma::QueuePair::State::error);
      EXPECT_EQ(bench.run(*pair, work(Verb::send, bench.piece(0, 8), 4)).status, Status::flushed);
    }
    bench.fence();
  });
}

TEST(Adapter, ForbiddenMemoryIsRemoteAccessAndUntouched) {
  run([](Machine::Rank& rank) {
    rdma::Access access;
    access.remote_read = true;
    AdapterBench bench(rank, 4096, access);
    for (int attempt = 0; attempt < 3; ++attempt) {
      auto pair = join(bench, 1 - int(rank.index()), bench.options());
      auto targets = bench.exchange(bench.target());
      if (rank.index() == 0) {
        bench.word(0) = 99;
        Work wrong = work(attempt == 0 ? Verb::write : Verb::read, bench.piece(0, 8), targets[1], 0);
        if (attempt == 1) wrong.remote_address += 4092;  // over the end
        if (attempt == 2) wrong.remote_key += 1000;
        rdma::Completion failed = bench.run(*pair, wrong);
        EXPECT_EQ(failed.status, Status::remote_access) << attempt;
      }
      bench.fence();
      bench.hca->observe();
      if (rank.index() == 1) {
        EXPECT_EQ(bench.word(0), 0u);
        EXPECT_EQ(pair->state(), rdma::QueuePair::State::error);
      }
    }
  });
}

TEST(Adapter, LocalMistakesAreLocalErrors) {
  run([](Machine::Rank& rank) {
    AdapterBench bench(rank, 4096);
    int peer = 1 - int(rank.index());
    auto pair = join(bench, peer, bench.options());
    if (rank.index() == 0) {
      rdma::Piece wrong = bench.piece(4000, 200);
      EXPECT_EQ(bench.run(*pair, work(Verb::send, wrong)).status, Status::local_protection);
    }
    bench.fence();
    pair = join(bench, peer, bench.options());
    if (rank.index() == 1) bench.post_receive(*pair, 3, bench.piece(0, 16));
    bench.fence();
    if (rank.index() == 0) {
      EXPECT_EQ(bench.run(*pair, work(Verb::send, bench.piece(0, 17))).status, Status::remote_invalid_request);
    } else {
      rdma::Completion tooLong = bench.wait();
      EXPECT_EQ(tooLong.status, Status::local_length);
      EXPECT_EQ(tooLong.id, 3u);
    }
    bench.fence();
  });
}

TEST(Adapter, ALostPeerIsRetryExceededWithinTimeoutTimesRetries) {
  WorldOptions options;
  options.faults.losses.push_back({1, 500'000, 1'000'000'000});
  run(options, [](Machine::Rank& rank) {
    AdapterBench bench(rank);
    auto chosen = bench.options();
    chosen.timeout_ns = 1'000'000;
    chosen.retries = 3;
    auto pair = join(bench, 1 - int(rank.index()), chosen);
    auto targets = bench.exchange(bench.target());
    if (rank.index() == 1) {
      bench.strand.block(kNever_ns, "until killed");
      return;
    }
    bench.strand.charge_ns(600'000);
    uint64_t begin = bench.strand.now_ns();
    EXPECT_EQ(bench.run(*pair, work(Verb::write, bench.piece(0, 8), targets[1], 0)).status, Status::retry_exceeded);
    EXPECT_GE(bench.strand.now_ns() - begin, 4'000'000u);
    EXPECT_LE(bench.strand.now_ns() - begin, 4'100'000u);
  });
}

TEST(Adapter, WorkBeforeThePeerConnectsIsRetried) {
  run([](Machine::Rank& rank) {
    AdapterBench bench(rank);
    auto options = bench.options();
    options.timeout_ns = 200'000;
    auto pair = bench.make(options);
    auto all = bench.exchange(pair->address());
    auto targets = bench.exchange(bench.target());
    if (rank.index() == 1) bench.strand.charge_ns(500'000);
    EXPECT_FALSE(pair->connect(all[1 - rank.index()]));
    if (rank.index() == 0) {
      bench.fill(0, 64, 6);
      EXPECT_EQ(bench.run(*pair, work(Verb::write, bench.piece(0, 64), targets[1], 0)).status, Status::success);
    }
    bench.fence();
    bench.hca->observe();
    EXPECT_TRUE(bench.filled(0, 64, 6));
  });
}

TEST(Adapter, FailedQueuePairsCanBeResetAndConnectedAnew) {
  run([](Machine::Rank& rank) {
    AdapterBench bench(rank);
    auto pair = join(bench, 1 - int(rank.index()), bench.options());
    auto targets = bench.exchange(bench.target());
    bench.post_receive(*pair, 6, bench.piece(0, 8));
    pair->fail();
    rdma::Completion flushed = bench.wait();
    EXPECT_EQ(flushed.status, Status::flushed);
    EXPECT_EQ(flushed.id, 6u);
    EXPECT_FALSE(pair->reset());
    EXPECT_EQ(pair->state(), rdma::QueuePair::State::idle);
    auto all = bench.exchange(pair->address());
    EXPECT_FALSE(pair->connect(all[1 - rank.index()]));
    bench.fence();
    EXPECT_EQ(bench.run(*pair, work(Verb::write, bench.piece(0, 8), targets[1 - rank.index()], 64)).status,
              Status::success);
    bench.fence();
  });
}

TEST(Adapter, ASharedReceiveQueueServesAllAndSaysWhenItRunsLow) {
  WorldOptions options;
  options.ranks = 4;
  run(options, [](Machine::Rank& rank) {
    AdapterBench bench(rank);
    std::unique_ptr<rdma::SharedReceiveQueue> srq;
    EXPECT_FALSE(bench.hca->make_srq({16, 1, false, nullptr}, srq));
    auto chosen = bench.options();
    chosen.srq = srq.get();
    std::vector<std::unique_ptr<rdma::QueuePair>> pairs;
    std::vector<rdma::QueuePairAddress> mine(4);
    for (int peer = 0; peer < 4; ++peer) {
      pairs.push_back(bench.make(chosen));
      mine[size_t(peer)] = pairs.back()->address();
    }
    struct All {
      rdma::QueuePairAddress of[4];
    } put;
    std::copy(mine.begin(), mine.end(), put.of);
    auto all = bench.exchange(put);
    for (size_t peer = 0; peer < 4; ++peer) EXPECT_FALSE(pairs[peer]->connect(all[peer].of[rank.index()]));
    if (rank.index() == 0) {
      rdma::Piece piece = bench.piece(0, 64);
      for (uint64_t i = 0; i < 10; ++i) {
        rdma::ReceiveRequest receive{i, &piece, 1};
        EXPECT_EQ(srq->post({&receive, 1}), 1u);
      }
      srq->arm_limit(5);
      rdma::AsyncEvent event;
      EXPECT_FALSE(bench.hca->take_event(event));
      bench.fence();
      std::vector<int> seen(5);
      for (int i = 0; i < 6; ++i) {
        rdma::Completion got = bench.wait();
        EXPECT_EQ(got.status, Status::success);
        for (size_t peer = 1; peer < 4; ++peer) seen[peer] += got.queue_pair == pairs[peer]->number();
      }
      EXPECT_EQ(seen, (std::vector<int>{0, 2, 2, 2, 0}));
      ASSERT_TRUE(bench.hca->take_event(event));
      EXPECT_EQ(event.kind, rdma::AsyncEventKind::srq_limit);
      EXPECT_EQ(event.srq, srq.get());
    } else {
      bench.fence();
      for (int i = 0; i < 2; ++i) bench.run(*pairs[0], work(Verb::send, bench.piece(0, 8)));
    }
    bench.fence();
    pairs.clear();
  });
}

TEST(Adapter, XrcSendersNameTheReceivers) {
  run([](Machine::Rank& rank) {
    AdapterBench bench(rank);
    std::unique_ptr<rdma::SharedReceiveQueue> tuples[3];
    struct Numbers {
      uint32_t of[3];
    } mine;
    for (int i = 0; i < 3; ++i) {
      EXPECT_FALSE(bench.hca->make_srq({8, 1, true, bench.queue.get()}, tuples[i]));
      mine.of[i] = tuples[i]->number();
    }
    auto numbers = bench.exchange(mine);
    auto target = bench.make(bench.options(QueuePairKind::xrc_target));
    auto initiator = bench.make(bench.options(QueuePairKind::xrc_initiator));
    auto targets = bench.exchange(target->address());
    auto initiators = bench.exchange(initiator->address());
    uint32_t peer = 1 - rank.index();
    EXPECT_FALSE(target->connect(initiators[peer]));
    EXPECT_FALSE(initiator->connect(targets[peer]));
    for (size_t i = 0; i < 3; ++i) {
      rdma::Piece piece = bench.piece(i * 64, 64);
      rdma::ReceiveRequest receive{i, &piece, 1};
      EXPECT_EQ(tuples[i]->post({&receive, 1}), 1u);
    }
    bench.fence();
    if (rank.index() == 0) {
      for (size_t i : {2u, 0u, 1u}) {
        bench.word(1000) = 70 + i;
        Work send = work(Verb::send, bench.piece(1000, 8));
        send.remote_srq = numbers[1].of[i];
        EXPECT_EQ(bench.run(*initiator, send).status, Status::success);
      }
      Work wrong = work(Verb::send, bench.piece(1000, 8));
      wrong.remote_srq = 99'999;
      EXPECT_EQ(bench.run(*initiator, wrong).status, Status::remote_invalid_request);
    } else {
      for (size_t i : {2u, 0u, 1u}) {
        rdma::Completion got = bench.wait();
        EXPECT_EQ(got.id, i);
        EXPECT_EQ(got.queue_pair, target->number());
        EXPECT_EQ(bench.word(i * 64), 70 + i);
      }
    }
    bench.fence();
  });
}

TEST(Adapter, DatagramsArriveBehindTheirHeaderOrNotAtAll) {
  run([](Machine::Rank& rank) {
    AdapterBench bench(rank);
    auto options = bench.options(QueuePairKind::ud);
    options.key = 0x1234;
    auto pair = bench.make(options);
    auto all = bench.exchange(pair->address());
    if (rank.index() == 1) bench.post_receive(*pair, 2, bench.piece(0, 1000));
    bench.fence();
    if (rank.index() == 0) {
      std::unique_ptr<rdma::AddressHandle> address_handle;
      EXPECT_FALSE(bench.hca->make_address_handle(all[1].port, address_handle));
      bench.fill(0, 100, 9);
      Work send = work(Verb::send, bench.piece(0, 100));
      send.address_handle = address_handle.get();
      send.remote_number = all[1].number;
      send.remote_key_of_queue = 0x9999;  // the wrong key: vanishes
      EXPECT_EQ(bench.run(*pair, send).status, Status::success);
      send.remote_key_of_queue = all[1].key;
      EXPECT_EQ(bench.run(*pair, send).status, Status::success);
      EXPECT_EQ(bench.run(*pair, send).status, Status::success);  // no receive: vanishes
      Work large = send;
      large.held = bench.piece(0, 5000);
      EXPECT_EQ(bench.run(*pair, large).status, Status::local_length);
    } else {
      rdma::Completion got = bench.wait();
      EXPECT_EQ(got.bytes, 140u);
      EXPECT_EQ(got.source_number, all[0].number);
      EXPECT_TRUE(bench.filled(40, 100, 9));
    }
    bench.fence();
    rdma::Completion none;
    EXPECT_EQ(bench.queue->poll(&none, 1), 0u);
  });
}

TEST(Adapter, DcInitiatorsTurnFromTargetToTarget) {
  WorldOptions options;
  options.ranks = 4;
  options.adapter.dc_responders = 1;  // contention: refusals and retries
  uint64_t connects = 0, refusals = 0;
  run(options, [&](Machine::Rank& rank) {
    AdapterBench bench(rank);
    std::unique_ptr<rdma::SharedReceiveQueue> srq;
    EXPECT_FALSE(bench.hca->make_srq({64, 1, false, nullptr}, srq));
    auto chosen = bench.options(QueuePairKind::dc_target);
    chosen.srq = srq.get();
    chosen.key = 1000 + rank.index();
    auto target = bench.make(chosen);
    auto initiator = bench.make(bench.options(QueuePairKind::dc_initiator));
    auto all = bench.exchange(target->address());
    for (uint64_t i = 0; i < 40; ++i) {
      rdma::Piece piece = bench.piece(i * 8, 8);
      rdma::ReceiveRequest receive{100 + i, &piece, 1};
      EXPECT_EQ(srq->post({&receive, 1}), 1u);
    }
    bench.fence();
    std::vector<std::unique_ptr<rdma::AddressHandle>> handles(4);
    for (size_t peer = 0; peer < 4; ++peer) EXPECT_FALSE(bench.hca->make_address_handle(all[peer].port, handles[peer]));
    // Ten to each other rank, in turns; a rank's own come in order.
    for (uint64_t i = 0; i < 30; ++i) {
      size_t peer = i % 3 + (i % 3 >= rank.index());  // all meet at the lower ranks
      bench.word(2000 + i * 8) = rank.index() * 100 + i / 3;
      Work send = work(Verb::send, bench.piece(2000 + i * 8, 8), i);
      send.address_handle = handles[peer].get();
      send.remote_number = all[peer].number;
      send.remote_key_of_queue = all[peer].key;
      bench.post(*initiator, send);
    }
    int sent = 0;
    std::vector<uint64_t> next(4);
    for (int i = 0; i < 60; ++i) {
      rdma::Completion over = bench.wait();
      EXPECT_EQ(over.status, Status::success) << status_name(over.status);
      if (over.id < 100) {
        EXPECT_EQ(over.id, uint64_t(sent++));
        continue;
      }
      uint64_t word = bench.word((over.id - 100) * 8);
      EXPECT_EQ(word % 100, next[word / 100]++);
    }
    EXPECT_EQ(sent, 30);
    bench.fence();
    connects = rank.machine.adapters().node(0).dc_connects;
    refusals = rank.machine.adapters().node(0).dc_nacks;
  });
  EXPECT_GE(connects, 30u);
  EXPECT_GT(refusals, 0u);
}

TEST(Adapter, WhatItHasNotIsRefusedByName) {
  WorldOptions options;
  options.adapter.dc = options.adapter.xrc = false;
  options.adapter.max_queue_pairs = 1;
  run(options, [](Machine::Rank& rank) {
    AdapterBench bench(rank);
    std::unique_ptr<rdma::QueuePair> pair, second;
    Error error = bench.hca->make_queue_pair(bench.options(QueuePairKind::dc_initiator), pair);
    EXPECT_EQ(error.error_class(), int(ErrorClass::unsupported_operation));
    EXPECT_NE(error.text().find("DC"), std::string_view::npos);
    EXPECT_TRUE(bool(bench.hca->make_queue_pair(bench.options(QueuePairKind::xrc_target), pair)));
    EXPECT_FALSE(bench.hca->make_queue_pair(bench.options(), pair));
    EXPECT_TRUE(bool(bench.hca->make_queue_pair(bench.options(), second)));
    auto all = bench.exchange(pair->address());
    EXPECT_FALSE(pair->connect(all[1 - rank.index()]));
    bench.fence();
    if (rank.index() == 0) {
      Work swap = work(Verb::swap, bench.piece(0, 8), {0, 0}, 0);
      EXPECT_EQ(bench.run(*pair, swap).status, Status::local_queue_pair);
    }
    bench.fence();
  });
}

}  // namespace
}  // namespace tern::sim
