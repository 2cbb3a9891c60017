// CopyRates: the faster way is taken, the other one is measured again now and then, one that never works is left.
#include <array>
#include <memory>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "fabric/shm/copy_rates.h"

namespace tern::shm::test {
namespace {

using Kind = CopyRates::Kind;
constexpr size_t kBytes = 100'000;

/// Sends `messages` messages whose ways take so many nanoseconds; how many went as a stream.
int streams(CopyRates& rates, int messages, uint64_t stream_ns, uint64_t attach_ns, bool attach_works = true) {
  int streamed = 0;
  for (int i = 0; i < messages; ++i) {
    if (rates.prefers_stream(kBytes, Traffic::one_way) || !attach_works) {
      rates.took(Kind::stream, kBytes, kBytes, stream_ns);
      ++streamed;
    } else {
      rates.took(Kind::attach, kBytes, kBytes, attach_ns);
    }
  }
  return streamed;
}

TEST(CopyRates, EachWayIsTriedThenTheFasterOneTaken) {
  CopyRates rates;
  EXPECT_EQ(streams(rates, 50, 1000, 5000), 42);
  CopyRates other;
  EXPECT_EQ(streams(other, 50, 5000, 1000), 8);
}

// Two streams take both ranks twice as long as one.
TEST(CopyRates, AnExchangeIsStreamedOnlyIfThatIsTwiceAsFast) {
  CopyRates rates;
  streams(rates, 50, 1000, 1500);
  EXPECT_TRUE(rates.prefers_stream(kBytes, Traffic::one_way));
  EXPECT_FALSE(rates.prefers_stream(kBytes, Traffic::exchange));
  CopyRates faster;
  streams(faster, 50, 1000, 2500);
  EXPECT_TRUE(faster.prefers_stream(kBytes, Traffic::exchange));
}

TEST(CopyRates, OneSlowMessageChangesNothing) {
  CopyRates rates;
  streams(rates, 20, 1000, 1200);
  rates.took(Kind::stream, kBytes, kBytes, 50'000'000);
  EXPECT_TRUE(rates.prefers_stream(kBytes, Traffic::one_way));
}

TEST(CopyRates, AMachineThatChangesIsNoticed) {
  CopyRates rates;
  streams(rates, 200, 1000, 1500);
  EXPECT_LT(streams(rates, 2000, 3000, 1500), 200);  // the way in use has become slower
  EXPECT_LT(streams(rates, 3000, 3000, 1500), 100);  // and the other one is asked again rarely
  EXPECT_GT(streams(rates, 6000, 700, 1500), 3500);  // but often enough to notice that it has become the faster one
}

TEST(CopyRates, AWayThatNeverWorksIsLeft) {
  CopyRates rates;
  streams(rates, 10, 1000, 0, false);
  int wanted = 0;
  for (int i = 0; i < 10'000; ++i) {
    wanted += !rates.prefers_stream(kBytes, Traffic::one_way);
    rates.took(Kind::stream, kBytes, kBytes, 1000);
  }
  EXPECT_LE(wanted, 120);  // 16 at first, and after 64, 128, ... 4,096 messages
}

// The other way's first messages find the caches as the way in use has left them.
TEST(CopyRates, AWayIsMeasuredForSeveralMessagesInARow) {
  CopyRates rates;
  streams(rates, 20, 1000, 1500);
  int in_a_row = 0, longest = 0;
  for (int i = 0; i < 1000; ++i) {
    const bool streamed = rates.prefers_stream(kBytes, Traffic::one_way);
    in_a_row = streamed ? 0 : in_a_row + 1;
    longest = std::max(longest, in_a_row);
    rates.took(streamed ? Kind::stream : Kind::attach, kBytes, kBytes, streamed ? 1000 : 1500);
  }
  EXPECT_EQ(longest, 8);
}

/// Microseconds of a copy whose first messages after another way find other data in the caches.
uint64_t warming_us(int earlier, std::vector<uint64_t> first, uint64_t later) {
  return size_t(earlier) < first.size() ? first[size_t(earlier)] : later;
}

/// Messages of which each way warms its caches, 1 MiB on a machine with 2 MiB for each core; how many were streamed.
int streams_of_warming(CopyRates& rates, int messages, uint64_t disturbance_us = 0) {
  int streamed = 0, in_a_row = 0;
  bool before = false;
  for (int i = 0; i < messages; ++i) {
    const bool streams = rates.prefers_stream(kBytes, Traffic::one_way);
    in_a_row = streams == before ? in_a_row + 1 : 0;
    before = streams;
    streamed += streams;
    const uint64_t us =
        streams ? warming_us(in_a_row, {110, 90, 85}, 78) : warming_us(in_a_row, {150, 140, 100, 90, 70}, 58);
    rates.took(streams ? Kind::stream : Kind::attach, kBytes, kBytes, 1000 * (us + disturbance_us));
  }
  return streamed;
}

TEST(CopyRates, AWayThatNeedsWarmCachesIsFoundToBeFaster) {
  CopyRates rates;
  EXPECT_LT(streams_of_warming(rates, 1000), 60);
}

TEST(CopyRates, ABadMomentIsSoonForgotten) {
  CopyRates rates;
  streams_of_warming(rates, 3000);
  streams_of_warming(rates, 20, 80);  // only the way in use was seen to be slow
  EXPECT_LT(streams_of_warming(rates, 1000), 150);
}

TEST(CopyRates, LengthsAreJudgedApart) {
  CopyRates rates;
  for (int i = 0; i < 10; ++i) {
    rates.took(Kind::stream, 20'000, 20'000, 1000);
    rates.took(Kind::attach, 20'000, 20'000, 2000);
    rates.took(Kind::stream, 300'000, 300'000, 20'000);
    rates.took(Kind::attach, 300'000, 150'000, 5'000);  // a piece of it
  }
  EXPECT_TRUE(rates.prefers_stream(20'000, Traffic::one_way));
  EXPECT_TRUE(rates.prefers_stream(30'000, Traffic::one_way));
  EXPECT_FALSE(rates.prefers_stream(300'000, Traffic::one_way));
}

int streams_of_pair(PairRates& pair, int messages) {
  int streamed = 0;
  for (int i = 0; i < messages; ++i) {
    const bool stream = pair.prefers_stream(kBytes, Traffic::one_way);
    streamed += stream;
    pair.took(stream ? Kind::stream : Kind::attach, kBytes, kBytes, stream ? 5000 : 1000);
  }
  return streamed;
}

// One rank of the pair sends by attach, and measures it; the other one's messages come as streams, which it measures.
TEST(PairRates, BothRanksHaveOneAnswer) {
  auto memory = std::make_unique<std::array<std::byte, sizeof(PairRates) + alignof(PairRates)>>();
  memory->fill(std::byte{0});
  void* place = memory->data();
  size_t room = memory->size();
  auto* pair = static_cast<PairRates*>(std::align(alignof(PairRates), sizeof(PairRates), place, room));
  int attached = 0;
  for (int i = 0; i < 100; ++i) {
    const bool streamed = pair->prefers_stream(kBytes, Traffic::one_way);
    attached += !streamed;
    pair->took(streamed ? Kind::stream : Kind::attach, kBytes, kBytes, streamed ? 5000 : 1000);
  }
  EXPECT_EQ(attached, 92) << "eight messages of each way, then the faster one";
  EXPECT_FALSE(pair->prefers_stream(kBytes, Traffic::one_way));
  EXPECT_TRUE(pair->prefers_stream(4 * kBytes, Traffic::one_way)) << "other lengths are judged apart";
}

// Two processes note times at once: what is lost is a sample. All of one rank's may be lost, if the other one is
// stopped while it notes one; so the last messages are more than the longest interval between two attempts.
TEST(PairRates, TwoRanksMayNoteTimesAtOnce) {
  alignas(PairRates) std::byte memory[sizeof(PairRates)] = {};
  auto* pair = reinterpret_cast<PairRates*>(memory);
  const auto rank = [&](Kind kind, uint64_t ns) {
    for (int i = 0; i < 100'000; ++i) pair->took(kind, kBytes, kBytes, ns);
  };
  std::thread other(rank, Kind::attach, 1000);
  rank(Kind::stream, 5000);
  other.join();
  streams_of_pair(*pair, 5000);
  EXPECT_LT(streams_of_pair(*pair, 1000), 100);
}

// As above, when every time of attach was lost.
TEST(PairRates, AWayThatWasNeverMeasuredIsTriedAgain) {
  alignas(PairRates) std::byte memory[sizeof(PairRates)] = {};
  auto* pair = reinterpret_cast<PairRates*>(memory);
  for (int i = 0; i < 100'000; ++i) pair->took(Kind::stream, kBytes, kBytes, 5000);
  EXPECT_EQ(streams_of_pair(*pair, 100), 100) << "attach was offered, and is again only after 4,096 messages";
  streams_of_pair(*pair, 5000);
  EXPECT_LT(streams_of_pair(*pair, 1000), 100);
}

}  // namespace
}  // namespace tern::shm::test
