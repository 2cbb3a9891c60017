// How long messages are divided among networks (fabric/tcp/stripe_shares.h), alone and in a model of a sender that keeps some messages
// on the way.
#include "fabric/tcp/stripe_shares.h"

#include <gtest/gtest.h>

#include <deque>
#include <numeric>
#include <vector>

#include "base/rng.h"

namespace tern {
namespace {

constexpr size_t kKiB = 1024, kMiB = 1024 * 1024;

std::vector<size_t> shares_of(std::vector<StripeLane> lanes, size_t total, bool probe = false) {
  std::vector<size_t> shares(lanes.size(), 12345);
  share_out(lanes, total, probe, shares.data());
  EXPECT_EQ(std::accumulate(shares.begin(), shares.end(), size_t{0}), total);
  return shares;
}

TEST(StripeShares, idle_networks_get_shares_by_their_rates) {
  EXPECT_EQ(shares_of({{1, 0}, {1, 0}}, kMiB), (std::vector<size_t>{kMiB / 2, kMiB / 2}));
  EXPECT_EQ(shares_of({{1, 0}, {3, 0}}, kMiB), (std::vector<size_t>{kMiB / 4, 3 * kMiB / 4}));
  EXPECT_EQ(shares_of({{0, 0}, {0, 0}}, kMiB), (std::vector<size_t>{kMiB / 2, kMiB / 2})) << "nothing is known";
  EXPECT_EQ(shares_of({{0.125, 0}, {0, 0}}, kMiB), (std::vector<size_t>{kMiB / 2, kMiB / 2})) << "of one nothing is known";
}

TEST(StripeShares, who_still_has_much_to_carry_gets_less) {
  EXPECT_EQ(shares_of({{1, 512 * kKiB}, {1, 0}}, kMiB), (std::vector<size_t>{256 * kKiB, 768 * kKiB}));
  EXPECT_EQ(shares_of({{1, 4 * kMiB}, {1, 0}}, kMiB), (std::vector<size_t>{0, kMiB}));
  EXPECT_EQ(shares_of({{1, 4 * kMiB}, {1, 0}, {2, 0}}, 3 * kMiB), (std::vector<size_t>{0, kMiB, 2 * kMiB}));
  EXPECT_EQ(shares_of({{1, 0}, {1, 200 * kKiB}}, 256 * kKiB), (std::vector<size_t>{256 * kKiB, 0})) << "not worth a part";
}

TEST(StripeShares, a_slow_network_is_only_tried_now_and_then) {
  EXPECT_EQ(shares_of({{1, 0}, {0.05, 0}}, kMiB), (std::vector<size_t>{kMiB, 0}));
  EXPECT_EQ(shares_of({{1, 0}, {0.05, 0}}, kMiB, true), (std::vector<size_t>{kMiB - kLeastPart, kLeastPart}));
  EXPECT_EQ(shares_of({{0.05, 0}, {1, 0}}, kMiB), (std::vector<size_t>{0, kMiB}));
  EXPECT_EQ(shares_of({{0.05, 0}, {1, 0}}, kMiB, true), (std::vector<size_t>{kLeastPart, kMiB - kLeastPart}));
  EXPECT_EQ(shares_of({{1, 0}, {0.15, 0}}, 256 * kKiB, true), (std::vector<size_t>{192 * kKiB, kLeastPart})) << "too short a part else";
}

TEST(ServiceRate, waiting_behind_others_does_not_count) {
  ServiceRate rate;
  EXPECT_EQ(rate.now(), 0);
  for (uint64_t i = 1; i <= 8; ++i) rate.on_carried(kMiB, 0, i * kMiB);
  EXPECT_NEAR(rate.now(), 1, 1e-9);
  rate.on_carried(kMiB, 100 * kMiB, 101 * kMiB);
  EXPECT_NEAR(rate.now(), 1, 1e-9) << "nor does standing still";
}

/// Networks that carry what they are given in turn, each with a speed that changes by a fifth from millisecond to millisecond.
struct Model {
  struct Part {
    size_t message, bytes;
    double left;
    uint64_t begin_ns;
  };
  struct Network {
    double speed;
    ServiceRate rate;
    std::deque<Part> parts;
  };
  static constexpr uint64_t kStep_ns = 5000, kPhase_ns = 1'000'000;

  std::vector<Network> networks;
  std::vector<size_t> open;  ///< parts that are left, by message
  uint64_t now_ns = 0;
  size_t on_the_way = 0;
  Rng rng;

  Model(std::vector<double> speeds, uint64_t seed) : rng(seed) {
    for (double speed : speeds) networks.push_back({speed, {}, {}});
  }

  /// Bytes per nanosecond of messages that a sender has completed which keeps `window` of them on the way.
  double throughput(size_t bytes, size_t window, uint64_t warm_ns, uint64_t lasts_ns) {
    const uint64_t warm_until_ns = now_ns + warm_ns, end_ns = warm_until_ns + lasts_ns;
    size_t carried = 0;
    std::vector<double> speeds(networks.size());
    for (; now_ns < end_ns; now_ns += kStep_ns) {
      if (now_ns % kPhase_ns == 0) {
        for (size_t i = 0; i < networks.size(); ++i) speeds[i] = networks[i].speed * (0.8 + 0.4 * double(rng.below(1000)) / 1000);
      }
      for (; on_the_way < window; ++on_the_way) send(bytes);
      for (size_t i = 0; i < networks.size(); ++i) {
        double can = speeds[i] * double(kStep_ns);
        std::deque<Part>& parts = networks[i].parts;
        while (!parts.empty() && can > 0) {
          const double now = std::min(can, parts.front().left);
          parts.front().left -= now;
          can -= now;
          if (parts.front().left > 0) break;
          networks[i].rate.on_carried(parts.front().bytes, parts.front().begin_ns, now_ns + kStep_ns);
          if (--open[parts.front().message] == 0) {
            --on_the_way;
            if (now_ns >= warm_until_ns) carried += bytes;
          }
          parts.pop_front();
        }
      }
    }
    return double(carried) / double(lasts_ns);
  }

 private:
  void send(size_t bytes) {
    std::vector<StripeLane> lanes;
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
      networks[i].parts.push_back({open.size() - 1, shares[i], double(shares[i]), now_ns});
    }
  }
};

// Divided by rates alone, each measured from the handing over of a part to its end, they carry 0.74 to 0.97 of that.
TEST(StripeShares, a_stream_of_messages_keeps_all_networks_busy) {
  for (const std::vector<double>& speeds : {std::vector<double>{0.125, 0.125}, {0.125, 0.25}, {0.625, 0.125}, {0.125, 0.25, 0.125}}) {
    for (size_t bytes : {256 * kKiB, kMiB, 4 * kMiB}) {
      for (size_t window : {4u, 8u, 32u}) {
        for (uint64_t seed = 1; seed <= 3; ++seed) {
          const double most = std::accumulate(speeds.begin(), speeds.end(), 0.0);
          const double got = Model(speeds, seed).throughput(bytes, window, 500'000'000, 1'000'000'000) / most;
          EXPECT_GT(got, 0.98) << speeds[0] << ":" << speeds[1] << ", " << bytes << " bytes, window " << window << ", seed " << seed;
        }
      }
    }
  }
}

TEST(StripeShares, a_network_that_becomes_fast_again_is_used_again) {
  Model model({0.125, 0.005}, 1);
  EXPECT_GT(model.throughput(kMiB, 8, 500'000'000, 1'000'000'000), 0.12) << "the slow one holds nobody up";
  model.networks[1].speed = 0.125;
  EXPECT_GT(model.throughput(kMiB, 8, 1'500'000'000, 1'000'000'000), 0.245);
}

}  // namespace
}  // namespace tern
