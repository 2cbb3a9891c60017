// NodeCells between threads: every batch is carried out once and answered, whether the two poll or sleep; a member that
// is no longer waited for is left alone.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <thread>

#include "base/rng.h"
#include "rma/node_cells.h"
#include "tests/sim/plain_segments.h"

namespace tern::rma {
namespace {

constexpr int kMembers = 2;
constexpr auto kPatience = std::chrono::seconds(60);  // a lost wake-up

/// Not std::counting_semaphore: its try_acquire yields, and on one core a member would never get to sleep.
class Bell {
 public:
  void ring() {
    const std::lock_guard lock(mutex_);
    rung_ = true;
    changed_.notify_one();
  }
  void clear() {
    const std::lock_guard lock(mutex_);
    rung_ = false;
  }
  /// False: it was not rung in time.
  bool wait() {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, kPatience, [this] { return rung_; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool rung_ = false;
};

/// The memory, and what wakes each member.
struct Node {
  Node() {
    part.plan({0, 1}, {10, 11}, {0, 0}, false, 64, 0, true);
    EXPECT_FALSE(part.allocate(segments, nullptr));
  }
  PlainSegments segments;
  SharedPart part;
  Bell bells[kMembers];
  std::atomic<int> slept{0};
};

/// One rank: asks the other one `rounds` times for the sum of the numbers that it sends, and serves what it is asked.
class Member {
 public:
  Member(Node& node, int me, int rounds)
      : node_(node),
        me_(me),
        rounds_(rounds),
        rng_(uint64_t(me) + 1),
        cells_(
            node.part, me, [&node](int rank) { node.bells[rank].ring(); },
            [this](int, std::span<const std::byte> records, uint32_t confirm, std::span<std::byte> room) {
              return serve(records, confirm, room);
            },
            [this](int, std::span<const std::byte> answers) { take(answers); }) {}

  void run() {
    while (!over()) {
      if (!cells_.asks() && answered_ != rounds_) ask();
      if (cells_.poll() == 0 && rng_.chance(1, 4) && !over()) sleep();
    }
  }

 private:
  bool over() const { return answered_ == rounds_ && served_ == rounds_; }
  void ask() {
    const size_t bytes = (1 + rng_.below(NodeCell::kRoomBytes / sizeof(uint64_t))) * sizeof(uint64_t);
    std::byte* const room = cells_.room(1 - me_);
    sum_ = 0;
    for (size_t at = 0; at < bytes; at += sizeof(uint64_t)) {
      const uint64_t number = rng_.next();
      sum_ += number;
      std::memcpy(room + at, &number, sizeof number);
    }
    cells_.ask(1 - me_, bytes, uint32_t(answered_ + 1));
  }
  size_t serve(std::span<const std::byte> records, uint32_t confirm, std::span<std::byte> room) {
    EXPECT_EQ(int(confirm), ++served_);
    uint64_t sum = 0;
    for (size_t at = 0; at < records.size(); at += sizeof sum) {
      uint64_t number = 0;
      std::memcpy(&number, records.data() + at, sizeof number);
      sum += number;
    }
    EXPECT_EQ(room.size(), NodeCell::kRoomBytes);
    std::memcpy(room.data(), &sum, sizeof sum);
    return sizeof sum;
  }
  void take(std::span<const std::byte> answers) {
    uint64_t sum = 0;
    ASSERT_EQ(answers.size(), sizeof sum);
    std::memcpy(&sum, answers.data(), sizeof sum);
    EXPECT_EQ(sum, sum_);
    ++answered_;
  }
  void sleep() {
    node_.bells[me_].clear();
    if (!cells_.arm()) return;
    ++node_.slept;
    if (!node_.bells[me_].wait()) throw std::runtime_error("nobody wakes a member that sleeps");
    cells_.disarm();
  }

  Node& node_;
  const int me_, rounds_;
  Rng rng_;
  uint64_t sum_ = 0;
  int answered_ = 0, served_ = 0;
  NodeCells cells_;
};

TEST(RmaCells, EveryBatchIsAnsweredAlsoAsleep) {
  constexpr int kRounds = 300;
  Node node;
  std::thread other([&] { Member(node, 1, kRounds).run(); });
  Member(node, 0, kRounds).run();
  other.join();
  EXPECT_GT(node.slept.load(), 0);
}

TEST(RmaCells, AMemberThatIsForgottenIsNotWaitedFor) {
  Node node;
  int answers = 0;
  NodeCells cells(
      node.part, 0, [](int) {}, [](int, auto, uint32_t, auto) -> size_t { return 0; }, [&](int, auto) { ++answers; });
  cells.ask(1, 8, 1);
  EXPECT_TRUE(cells.asks());
  cells.forget(1);
  EXPECT_FALSE(cells.asks());
  ++node.part.cell(1, 0).turn;  // it answers nevertheless
  EXPECT_EQ(cells.poll(), 0);
  EXPECT_EQ(answers, 0);
}

}  // namespace
}  // namespace tern::rma
