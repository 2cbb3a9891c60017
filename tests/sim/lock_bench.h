// Ranks of a machine with window locks over the atomics of their simulated adapters, below the C API: what the test of
// WordLocks and the experiments of Jiang et al. 2004 share. Rank 0 is the target, and computes.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "fabric/rdma/rdma_path.h"
#include "progress/engine.h"
#include "rma/locks/word_locks.h"
#include "sim/machine.h"
#include "tests/peer_sink.h"

namespace tern::sim {

/// What all ranks know; written before a fence, read after it.
struct LockBoard {
  explicit LockBoard(uint32_t ranks) : words(ranks), keys(ranks), doing(ranks) {
    for (auto& of_rank : words) of_rank.resize(rma::LockWord::count(ranks) + 1);
  }
  std::vector<std::vector<uint64_t>> words;  ///< by rank; the last one is guarded by rank 0's lock
  std::vector<RemoteKey> keys;
  int done = 0;
  std::vector<std::string> doing;  ///< by rank; for the report of a hang
  std::string report() const {
    std::string text;
    for (size_t rank = 0; rank < doing.size(); ++rank) text += "\n  rank " + std::to_string(rank) + ": " + doing[rank];
    return text;
  }
};

class LockSink final : public test::PeerSink {
 public:
  void on_message(PeerId, const wire::Header&, const std::byte*, size_t) override {}
  Landing on_header(PeerId, const wire::Header&, size_t) override { return {}; }
  void on_landed(PeerId, const wire::Header&, Landing&, size_t, Error) override {}
  void on_peer_lost(PeerId peer, Error) override {
    if (locks) locks->on_lost(peer);
  }
  rma::WordLocks* locks = nullptr;
};

class LockRank {
 public:
  LockRank(Machine::Rank& rank, LockBoard& all, rma::WordDesign design)
      : strand(rank.strand),
        clock(rank.make_clock()),
        port(rank.make_wait_port()),
        launcher(rank.make_launcher()),
        peers({0, rank.index()}, uint32_t(launcher->size())),
        engine(*clock, driving, *port),
        board(all),
        me(rank.index()) {
    RdmaOptions options;
    options.peers = &peers;
    options.keep = Keep::trusted;
    Error error;
    auto made = RdmaPath::create(
        options, rank.machine.options().tunables, rank.make_hca(), *clock, sink,
        [this](PeerId peer, std::string& card) { return launcher->get(int(peer), "rdma-card", card); }, error);
    EXPECT_FALSE(error) << error.text();
    EXPECT_FALSE(launcher->put("rdma-card", made->card()));
    path = rank.with_faults(std::move(made), *clock);
    engine.add(*path);
    std::vector<uint64_t>& mine = board.words[me];
    board.keys[me] = path->remote_memory()->expose(mine.data(), mine.size() * sizeof mine[0],
                                                   {.read = true, .write = true, .atomic = true});
    EXPECT_FALSE(board.keys[me].empty());
    EXPECT_FALSE(launcher->fence());
    std::vector<rma::WordsOfRank> ranks;
    for (uint32_t peer = 0; peer < board.words.size(); ++peer) {
      ranks.push_back({peer == me ? nullptr : &path->lane(peer), reinterpret_cast<uintptr_t>(board.words[peer].data()),
                       board.keys[peer]});
    }
    locks = std::make_unique<rma::WordLocks>(design, me, ranks, mine.data(), *path->remote_memory(), *clock, rank.seed,
                                             [this](uint32_t, Error its) {
                                               ++told;
                                               failed = bool(its);
                                             });
    sink.locks = locks.get();
    engine.add(*locks);
  }
  /// True: the lock of rank 0 is held; false: it cannot be had any more.
  bool take(bool exclusive) {
    const int before = told;
    board.doing[me] = exclusive ? "wants to write" : "wants to read";
    locks->acquire(0, exclusive ? rma::LockMode::exclusive : rma::LockMode::shared);
    engine.wait_until([&] { return told != before; });
    EXPECT_EQ(told, before + 1);
    return !failed;
  }
  /// Gets (or puts) the guarded word.
  bool move(uint64_t& value, bool is_put) {
    struct Transfer : TransferOperation {
      int calls = 0;
      bool failed = false;
    } transfer;
    board.doing[me] = "moves";
    transfer.lane = &path->lane(0);
    transfer.local = Cursor::bytes(&value, sizeof value);
    transfer.bytes = sizeof value;
    transfer.remote_address = reinterpret_cast<uintptr_t>(&board.words[0].back());
    transfer.key = board.keys[0];
    transfer.done = [](TransferOperation& self, Error error) {
      ++static_cast<Transfer&>(self).calls;
      static_cast<Transfer&>(self).failed = bool(error);
    };
    is_put ? path->remote_memory()->put(transfer) : path->remote_memory()->get(transfer);
    engine.wait_until([&] { return transfer.calls != 0; });
    return !transfer.failed;
  }
  void compute(uint64_t ns) { strand.charge_ns(ns); }
  /// The others' connections want an answer, so every rank looks now and then until all `origins` are done.
  void finish(int origins, bool origin) {
    board.doing[me] = "becomes quiet";
    engine.wait_until([&] { return locks->quiet() && !path->has_unsent(); });
    board.doing[me] = "waits for the others";
    if (origin) ++board.done;
    while (board.done < origins) {
      compute(2'000);
      engine.poll();
    }
    EXPECT_FALSE(launcher->fence());
    sink.locks = nullptr;
    path->remote_memory()->conceal(board.keys[me]);
  }

  Strand& strand;
  LockSink sink;
  std::unique_ptr<Clock> clock;
  Driving driving;
  std::unique_ptr<WaitPort> port;
  std::unique_ptr<Launcher> launcher;
  PeerTable peers;
  ProgressEngine engine;
  std::unique_ptr<Path> path;
  LockBoard& board;
  const uint32_t me;
  std::unique_ptr<rma::WordLocks> locks;
  int told = 0;
  bool failed = false;
};

}  // namespace tern::sim
