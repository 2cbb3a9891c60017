// Provider `ibv`, DC and XRC included, over a driver that moves bytes in the world (verbs_driver.h): the cases that
// every provider must pass, and streams of messages while their channels change.
#include "tests/sim/verbs_driver.h"

#include <gtest/gtest.h>

#include <iterator>

#include "base/rng.h"
#include "tests/rdma/hca_conformance.h"
#include "tests/sim/rdma_bench.h"
#include "tests/sim/seeds.h"

namespace tern::sim {
namespace {

class DriverBed final : public rdma::ConformanceBed {
 public:
  explicit DriverBed(Machine::Rank& rank) : strand_(rank.strand) {
    for (auto& hca : hcas_) hca = std::make_unique<VerbsHca>(rank.make_hca());
  }
  int adapters() const override { return 3; }
  rdma::Hca& adapter(int index) override { return *hcas_[index]; }
  void pass() override {
    strand_.charge_ns(1000);
    strand_.catch_up();
  }
  uint64_t now_ns() override { return strand_.now_ns(); }

 private:
  Strand& strand_;
  std::unique_ptr<rdma::Hca> hcas_[3];
};

class VerbsDriver : public ::testing::TestWithParam<size_t> {};

TEST_P(VerbsDriver, Case) {
  if (rdma::conformance_name(GetParam()) == "events_wake_a_sleeper")
    GTEST_SKIP() << "the driver's channels are not readable; Soft-RoCE's are";
  WorldOptions options;
  options.ranks = 1;
  options.stack_bytes = 1 << 20;
  Machine machine(std::move(options));
  const Report report = machine.run([](Machine::Rank& rank) {
    DriverBed bed(rank);
    EXPECT_TRUE(bed.adapter(0).capabilities().dc && bed.adapter(0).capabilities().xrc);
    EXPECT_EQ(bed.adapter(0).capabilities().provider, "ibv");
    rdma::conformance_cases()[GetParam()].run(bed);
  });
  EXPECT_TRUE(report.ok()) << report.failure;
}

INSTANTIATE_TEST_SUITE_P(Conformance, VerbsDriver, ::testing::Range(size_t{0}, rdma::conformance_cases().size()),
                         [](const auto& which) { return rdma::conformance_name(which.param); });

constexpr ChannelKind kKinds[] = {ChannelKind::rc, ChannelKind::dc, ChannelKind::rc_rdma, ChannelKind::dc_rdma,
                                  ChannelKind::ud};

// Ranks on nodes of their own send to each other, and let the others' messages come by another channel now and then:
// by libibverbs and mlx5's direct verbs all the way.
TEST(VerbsDriverChannels, TheyChangeWithoutLosingOrReorderingAMessage) {
  uint64_t switches = 0, direct = 0;
  for_seeds(20, [&](uint64_t seed) {
    Rng rng(seed * 979);
    WorldOptions options = rdma_options_of(seed);
    options.ranks = uint32_t(2 + rng.below(4));
    constexpr const char* kBases[] = {"dc", "rotate", "ud", "xrc", "dc-rdma", "rc"};
    options.tunables.rdma_channels = kBases[seed % std::size(kBases)];
    options.tunables.rdma_statistics_ms = 50'000;
    options.tunables.rdma_dc_initiators = int64_t(1 + rng.below(4));
    options.tunables.rdma_ring_entries = int64_t(2 + rng.below(15));
    options.tunables.rdma_window = int64_t(2 + rng.below(30));
    options.adapter_faults.datagram_loss_in_1024 = std::min(options.adapter_faults.datagram_loss_in_1024, 100u);
    options.adapter_faults.storm_in_1024 = uint32_t(rng.below(2) * rng.below(30));
    options.adapter_faults.storm_ns = 100'000;
    constexpr int kMessages = 40;
    Report report = Machine(options).run([&](Machine::Rank& rank) {
      auto hca = std::make_unique<VerbsHca>(rank.make_hca());
      const VerbsHca& driver = *hca;
      RdmaBench bench(rank, std::move(hca));
      Rng own(seed * 139 + rank.index());
      std::vector<PeerId> others;
      for (PeerId peer = 0; peer < options.ranks; ++peer) {
        if (peer != rank.index()) others.push_back(peer);
      }
      for (int sent = 0; sent < kMessages; ++sent) {
        for (PeerId to : others) {
          bench.send(to, std::vector<std::byte>(own.chance(1, 6) ? own.below(20'000) : own.below(300)));
          if (own.chance(1, 4)) {
            Lane& lane = bench.path->lane(others[own.below(others.size())]);
            bench.path->switches().request(static_cast<RdmaPeer&>(lane), kKinds[own.below(std::size(kKinds))]);
          }
          if (own.chance(1, 3)) bench.strand.charge_ns(own.below(30'000));
          if (own.chance(1, 2)) bench.engine.poll_all();
        }
      }
      for (PeerId peer : others) bench.wait_messages(peer, kMessages);
      bench.finish();
      EXPECT_TRUE(bench.sink.lost.empty());
      switches += bench.path->switches().switches();
      direct += driver.direct_requests();
    });
    ASSERT_TRUE(report.ok()) << report.failure;
  });
  if (all_seeds()) {
    EXPECT_GT(switches, 200u);
    EXPECT_GT(direct, 1000u) << "requests by direct verbs";
  }
}

}  // namespace
}  // namespace tern::sim
