// The conformance cases that real verbs pass (tests/rdma/hca_conformance.h), on the simulated adapter, which has all
// that Soft-RoCE lacks: XRC, DC, swap, and the InfiniBand Architecture's names for every error. One rank drives three
// views of its node's adapter; between nodes the adapter is tested by adapter_test.cc.
#include <gtest/gtest.h>

#include <memory>

#include "sim/adapter.h"
#include "sim/machine.h"
#include "tests/rdma/hca_conformance.h"

namespace tern::sim {
namespace {

class SimBed final : public rdma::ConformanceBed {
 public:
  explicit SimBed(Machine::Rank& rank) : strand_(rank.strand) {
    for (auto& hca : hcas_) hca = rank.make_hca();
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

class Simulated : public ::testing::TestWithParam<size_t> {};

TEST_P(Simulated, Case) {
  WorldOptions options;
  options.ranks = 1;
  options.stack_bytes = 1 << 20;
  Machine machine(std::move(options));
  const Report report = machine.run([](Machine::Rank& rank) {
    SimBed bed(rank);
    rdma::conformance_cases()[GetParam()].run(bed);
  });
  EXPECT_TRUE(report.ok()) << report.failure;
}

INSTANTIATE_TEST_SUITE_P(Conformance, Simulated, ::testing::Range(size_t{0}, rdma::conformance_cases().size()),
                         [](const auto& which) { return rdma::conformance_name(which.param); });

}  // namespace
}  // namespace tern::sim
