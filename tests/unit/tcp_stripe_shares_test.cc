// How long messages are divided among networks (fabric/tcp/stripe_shares.h), alone and in a model of a sender that
// keeps some messages on the way.
#include "fabric/tcp/stripe_shares.h"

#include <gtest/gtest.h>

#include <deque>
#include <numeric>
#include <vector>

#include "base/rng.h"

namespace tern {
namespace {

constexpr size_t kKiB = 1024, kMiB = 1024 * 1024;

std::vector<size_t> shares_of(std::vector<StreamLoad> lanes, size_t total, bool probe = false) {
  std::vector<size_t> shares(lanes.size(), 12345);
  share_out(lanes, total, probe, shares.data());
  EXPECT_EQ(std::accumulate(shares.begin(), shares.end(), size_t{0}), total);
  return shares;
}

TEST(StripeShares, IdleNetworksGetSharesByTheirRates) {
  EXPECT_EQ(shares_of({{1, 0}, {1, 0}}, kMiB), (std::vector<size_t>{kMiB / 2, kMiB / 2}));
  EXPECT_EQ(shares_of({{1, 0}, {3, 0}}, kMiB), (std::vector<size_t>{kMiB / 4, 3 * kMiB / 4}));
  EXPECT_EQ(shares_of({{0, 0}, {0, 0}}, kMiB), (std::vector<size_t>{kMiB / 2, kMiB / 2})) << "nothing is known";
  EXPECT_EQ(shares_of({{0.125, 0}, {0, 0}}, kMiB), (std::vector<size_t>{kMiB / 2, kMiB / 2}))
      << "of one nothing is known";
}

TEST(StripeShares, WhoStillHasMuchToCarryGetsLess) {
  EXPECT_EQ(shares_of({{1, 512 * kKiB}, {1, 0}}, kMiB), (std::vector<size_t>{256 * kKiB, 768 * kKiB}));
  EXPECT_EQ(shares_of({{1, 4 * kMiB}, {1, 0}}, kMiB), (std::vector<size_t>{0, kMiB}));
  EXPECT_EQ(shares_of({{1, 4 * kMiB}, {1, 0}, {2, 0}}, 3 * kMiB), (std::vector<size_t>{0, kMiB, 2 * kMiB}));
  EXPECT_EQ(shares_of({{1, 0}, {1, 200 * kKiB}}, 256 * kKiB), (std::vector<size_t>{256 * kKiB, 0}))
      << "not worth a part";
}

TEST(StripeShares, ASlowNetworkIsOnlyTriedNowAndThen) {
  EXPECT_EQ(shares_of({{1, 0}, {0.05, 0}}, kMiB), (std::vector<size_t>{kMiB, 0}));
  EXPECT_EQ(shares_of({{1, 0}, {0.05, 0}}, kMiB, true), (std::vector<size_t>{kMiB - kProbePart, kProbePart}));
  EXPECT_EQ(shares_of({{0.05, 0}, {1, 0}}, kMiB), (std::vector<size_t>{0, kMiB}));
  EXPECT_EQ(shares_of({{0.05, 0}, {1, 0}}, kMiB, true), (std::vector<size_t>{kProbePart, kMiB - kProbePart}));
  EXPECT_EQ(shares_of({{1, 0}, {0.15, 0}}, 256 * kKiB, true), (std::vector<size_t>{128 * kKiB, kProbePart}))
      << "too short a part else";
}

TEST(ServiceRate, WaitingBehindOthersDoesNotCount) {
  ServiceRate rate;
  EXPECT_EQ(rate.now(), 0);
  for (uint64_t i = 1; i <= 8; ++i) rate.on_done({0, 0}, {i * kMiB, i * kMiB});
  EXPECT_NEAR(rate.now(), 1, 1e-9);
  rate.on_done({8 * kMiB, 100 * kMiB}, {9 * kMiB, 101 * kMiB});
  EXPECT_NEAR(rate.now(), 1, 1e-9) << "nor does standing still";
}

TEST(ServiceRate, WhatWasOnlyCopiedHasNotBeenCarried) {
  ServiceRate rate;
  rate.on_done({0, 0}, {0, 10});
  EXPECT_EQ(rate.now(), 0) << "done at once: nothing is known";
  rate.on_done({0, 0}, {kMiB, 2 * kMiB});
  rate.on_done({kMiB, 3 * kMiB}, {kMiB + 1000, 3 * kMiB + 10});
  EXPECT_NEAR(rate.now(), 0.5, 1e-9);
}

/// Networks that carry what they are given in turn, each with a speed that changes by a fifth from millisecond to
/// millisecond, and at `kBurstSpeed` while there is something in its bucket, which fills with its speed. As over TCP a
/// part is done when its last `kTailBytes` are still on the way.
struct Model {
  struct Part {
    size_t message;
    double left;
    ServiceRate::Mark begin;
    bool done = false;
  };
  struct Network {
    double speed, bucket;  ///< bytes that the bucket holds
    double filled, carried;
    ServiceRate rate;
    std::deque<Part> parts;
  };
  static constexpr uint64_t kStep_ns = 5000, kPhase_ns = 1'000'000;
  static constexpr double kBurstSpeed = 1.25, kTailBytes = 64 * 1024;

  std::vector<Network> networks;
  std::vector<double> speeds;  ///< now
  std::vector<size_t> open;    ///< parts that are not done, by message
  uint64_t now_ns = 0;
  size_t on_the_way = 0, done = 0;
  Rng rng;

  Model(std::vector<double> means, uint64_t seed, double bucket = 0) : speeds(means.size()), rng(seed) {
    for (double speed : means) networks.push_back({speed, bucket, 0, 0, {}, {}});
  }

  /// Bytes per nanosecond of messages that a sender has completed which keeps `window` of them on the way.
  double throughput(size_t bytes, size_t window, uint64_t warm_ns, uint64_t lasts_ns) {
    const uint64_t warm_until_ns = now_ns + warm_ns, end_ns = warm_until_ns + lasts_ns;
    size_t before = 0;
    while (now_ns < end_ns) {
      for (; on_the_way < window; ++on_the_way) send(bytes);
      step();
      if (now_ns <= warm_until_ns) before = done;
    }
    return double(done - before) * double(bytes) / double(lasts_ns);
  }

  /// The same of one whose messages go to and fro: the networks stand still as long as they have worked.
  double ping_pong(size_t bytes, uint64_t lasts_ns) {
    const uint64_t begin_ns = now_ns;
    const size_t before = done;
    while (now_ns < begin_ns + lasts_ns) {
      const uint64_t from_ns = now_ns;
      send(bytes);
      for (bool left = true; left;) {
        step();
        left = false;
        for (const Network& network : networks) left = left || !network.parts.empty();
      }
      for (const uint64_t until_ns = 2 * now_ns - from_ns; now_ns < until_ns;) step();
    }
    return 2 * double(done - before) * double(bytes) / double(now_ns - begin_ns);
  }

 private:
  void step() {
    if (now_ns % kPhase_ns == 0) {
      for (size_t i = 0; i < networks.size(); ++i)
        speeds[i] = networks[i].speed * (0.8 + 0.4 * double(rng.below(1000)) / 1000);
    }
    now_ns += kStep_ns;
    for (size_t i = 0; i < networks.size(); ++i) work(networks[i], speeds[i] * double(kStep_ns));
  }

  void work(Network& network, double can) {
    network.filled = std::min(network.bucket, network.filled + can);
    can = std::max(can, std::min(network.filled, kBurstSpeed * double(kStep_ns)));
    for (Part& part : network.parts) {
      const double now = std::min(can, part.left);
      part.left -= now;
      can -= now;
      network.filled = std::max(0.0, network.filled - now);
      network.carried += now;
      if (part.left > kTailBytes) break;
      if (!part.done) {
        part.done = true;
        network.rate.on_done(part.begin, {uint64_t(network.carried), now_ns});
        if (--open[part.message] == 0) {
          ++done;
          on_the_way -= on_the_way != 0;
        }
      }
    }
    while (!network.parts.empty() && network.parts.front().left == 0) network.parts.pop_front();
  }

  void send(size_t bytes) {
    std::vector<StreamLoad> lanes;
    for (Network& network : networks) {
      double backlog = 0;
      for (const Part& part : network.parts) backlog += part.left;
      lanes.push_back({network.rate.now(), uint64_t(backlog)});
    }
    std::vector<size_t> shares(lanes.size());
    share_out(lanes, bytes, open.size() % 64 == 63, shares.data());
    open.push_back(0);
    for (size_t i = 0; i < shares.size(); ++i) {
      if (shares[i] == 0) continue;
      ++open.back();
      networks[i].parts.push_back({open.size() - 1, double(shares[i]), {uint64_t(networks[i].carried), now_ns}});
    }
  }
};

// Divided by rates alone, each measured from the handing over of a part to its end, they carry 0.74 to 0.97 of that.
TEST(StripeShares, AStreamOfMessagesKeepsAllNetworksBusy) {
  for (const std::vector<double>& speeds :
       {std::vector<double>{0.125, 0.125}, {0.125, 0.25}, {0.625, 0.125}, {0.125, 0.25, 0.125}}) {
    for (size_t bytes : {256 * kKiB, kMiB, 4 * kMiB}) {
      for (size_t window : {4u, 8u, 32u}) {
        for (uint64_t seed = 1; seed <= 3; ++seed) {
          const double most = std::accumulate(speeds.begin(), speeds.end(), 0.0);
          const double got = Model(speeds, seed).throughput(bytes, window, 500'000'000, 1'000'000'000) / most;
          EXPECT_GT(got, 0.98) << speeds[0] << ":" << speeds[1] << ", " << bytes << " bytes, window " << window
                               << ", seed " << seed;
        }
      }
    }
  }
}

// With a memory of few parts that forgets faster where networks stand still in between, one network got whole messages.
TEST(StripeShares, APingPongUsesBothNetworksThoughTheyCarryBurstsFaster) {
  for (double bucket : {0.0, 64.0 * kKiB, 256.0 * kKiB}) {
    for (size_t bytes : {256 * kKiB, kMiB}) {
      for (uint64_t seed = 1; seed <= 5; ++seed) {
        const double one = Model({0.125}, seed, bucket).ping_pong(bytes, 2'000'000'000);
        const double two = Model({0.125, 0.125}, seed, bucket).ping_pong(bytes, 2'000'000'000);
        EXPECT_GT(two, 1.8 * one) << bytes << " bytes, bucket " << bucket << ", seed " << seed;
      }
    }
  }
}

TEST(StripeShares, ANetworkThatBecomesFastAgainIsUsedAgain) {
  Model model({0.125, 0.005}, 1);
  EXPECT_GT(model.throughput(kMiB, 8, 500'000'000, 1'000'000'000), 0.12) << "the slow one holds nobody up";
  model.networks[1].speed = 0.125;
  EXPECT_GT(model.throughput(kMiB, 8, 1'500'000'000, 1'000'000'000), 0.245);
}

}  // namespace
}  // namespace tern
