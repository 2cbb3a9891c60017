// The ring protocol between two threads over one mapping, where ThreadSanitizer sees both sides.
#include <thread>

#include "tests/unit/shm_helpers.h"

namespace tern::test {

namespace {

void play(TestRank& me, int messages, uint64_t seed) {
  Rng rng(seed);
  const auto partner = PeerId(1 - me.rank);
  struct Operation : SendOperation {
    bool finished = false;
  };
  for (int i = 0; i < messages; ++i) {
    const size_t n = rng.below(4) == 0 ? rng.below(60000) : rng.below(2000);
    std::vector<std::byte> data(n + 1);
    for (size_t k = 0; k < n; ++k) data[k] = pattern(me.rank, uint32_t(i), k);
    wire::Header header{wire::Kind::eager};
    header.tag = i;
    if (n <= me.path->properties().eager_bytes && me.path->try_send(me.path->lane(partner), header, data.data(), n))
      continue;
    Operation operation;
    operation.lane = &me.path->lane(partner);
    operation.header = header;
    operation.payload = Cursor::bytes(data.data(), n);
    operation.done = [](SendOperation& o, Error) { static_cast<Operation&>(o).finished = true; };
    me.path->enqueue(operation);
    me.engine->wait_until([&] { return operation.finished; });
  }
  me.engine->wait_until([&] { return me.sink.messages == uint64_t(messages); });
}

TEST(ShmThreads, TwoRanksInOneProcess) {
  for (const bool sleepy : {false, true}) {
    auto nodes = ShmNode::create_local({0, 1}, 16384);
    Tunables tunables;
    if (sleepy) tunables.spin_us = tunables.yield_rounds = 1;
    TestRank zero(0, 2, std::move(nodes[0]), true, tunables), one(1, 2, std::move(nodes[1]), true, tunables);
    std::thread other([&] { play(one, 800, 2); });
    play(zero, 800, 1);
    other.join();
    EXPECT_EQ(zero.sink.messages, 800u);
    EXPECT_EQ(one.sink.messages, 800u);
  }
}

}  // namespace
}  // namespace tern::test
