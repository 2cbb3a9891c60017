// Locks by tickets in the memory of a node (rma/node_locks.h): a free lock taken at once beside others that take
// tickets, several readers together, a reader that joins them.
#include "rma/node_locks.h"

#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "tests/explore/pieces.h"
#include "tests/sim/plain_segments.h"

namespace tern::explore {
namespace {

using rma::LockMode;
using rma::NodeLocks;

/// What a member does: once the lock of member 0, asked for or only if it is free.
struct Want {
  LockMode mode = LockMode::exclusive;
  bool at_once = false;
};

struct Node {
  explicit Node(std::vector<Want> their) : wants(std::move(their)), told(wants.size(), false) {
    std::vector<int> ranks;
    std::vector<PeerId> peers;
    for (size_t i = 0; i < wants.size(); ++i) ranks.push_back(int(i)), peers.push_back(PeerId(int(i)));
    part.plan(std::move(ranks), std::move(peers), std::vector<int64_t>(wants.size(), 64), false, 64, 0, false);
    EXPECT_FALSE(part.allocate(segments, nullptr));
    for (size_t i = 0; i < wants.size(); ++i) {
      locks.push_back(std::make_unique<NodeLocks>(
          part, int(i), [](int) { note_change(); }, [this, i](int, Error) { told[i] = true; }));
    }
  }
  /// The memory that the lock protects: plain, so that two at a time are a data race.
  uint64_t& value() { return *reinterpret_cast<uint64_t*>(part.data(0)); }

  void run(size_t me) {
    NodeLocks& mine = *locks[me];
    const Want want = wants[me];
    if (want.at_once && mine.take_free(0)) told[me] = true;
    if (!told[me]) mine.ask(0, want.mode);
    wait_for([&] {
      mine.poll();
      return bool(told[me]);
    });
    if (want.mode == LockMode::exclusive) ++value();
    else require(value() <= wants.size(), "what writers have left");
    mine.release(0);
    wait_for([&] {
      mine.poll();
      return mine.quiet();
    });
  }

  rma::PlainSegments segments;
  rma::SharedPart part;
  std::vector<Want> wants;
  std::vector<char> told;
  std::vector<std::unique_ptr<NodeLocks>> locks;
};

Outcome all(const char* what, const Bounds& bounds, std::vector<Want> wants) {
  uint64_t writers = 0;
  for (const Want& want : wants) writers += want.mode == LockMode::exclusive;
  const Program program = [=](Execution& execution) {
    auto node = std::make_shared<Node>(wants);
    execution.share(&node->part.control(0), 4096 + 256);
    for (size_t i = 0; i < wants.size(); ++i) execution.thread([node, i] { node->run(i); });
    execution.finally([node, writers] { require(node->value() == writers, "no writer was lost"); });
  };
  return must_hold(what, bounds, program);
}

constexpr Want kAtOnce{LockMode::exclusive, true}, kWriter{}, kReader{LockMode::shared, false},
    kJoins{LockMode::joining, false};

TEST(NodeLocks, TwoTakeItAtOnce) {
  all("node locks, 2 writers at once", {.preemptions = preemptions(3), .old_values = 2}, {kAtOnce, kAtOnce});
}

TEST(NodeLocks, AtOnceBesideAWriterAndAReader) {
  all("node locks, at once, a writer, a reader", {.preemptions = preemptions(2), .old_values = 1},
      {kAtOnce, kWriter, kReader});
}

TEST(NodeLocks, AtOnceBesideReadersThatJoin) {
  all("node locks, at once, 2 readers of which one joins", {.preemptions = preemptions(2), .old_values = 1},
      {kAtOnce, kReader, kJoins});
}

}  // namespace
}  // namespace tern::explore
