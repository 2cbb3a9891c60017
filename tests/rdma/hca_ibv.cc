// The conformance cases on real verbs. Meant for the machine (tests/rdma/machine), which has two adapters; on any other
// host it takes the adapters that are there.
#include <sched.h>
#include <unistd.h>

#include <cstdio>

#include "base/clock.h"
#include "fabric/rdma/verbs/ibv.h"
#include "tests/rdma/hca_conformance_side.h"

extern char** environ;

namespace tern::rdma {
namespace {

class RealBed final : public ConformanceBed {
 public:
  Error open() {
    Tunables tunables;
    if (Error error = tunables.read_environment(environ)) return error;
    std::string why_none;
    std::vector<std::string> names;
    for (const IbvPort& port : find_ibv_ports(tunables, why_none))
      if (port.why_not.empty()) names.push_back(port.device + ":" + std::to_string(port.port));
    if (names.empty()) return Error(ErrorClass::other, "no usable adapter: " + why_none);
    // Three contexts: two on different adapters, where there are two, and one more on the first.
    for (size_t i = 0; i < 3; ++i) {
      if (Error error = open_ibv({names[i % names.size()], 0, 77 + i}, tunables, hcas_[i])) return error;
    }
    return {};
  }
  int adapters() const override { return 3; }
  Hca& adapter(int index) override { return *hcas_[index]; }
  void pass() override { sched_yield(); }
  uint64_t now_ns() override { return clock_.now_ns(); }

 private:
  RealClock clock_;
  std::unique_ptr<Hca> hcas_[3];
};

// Opened once: cases clean up after themselves.
class OnVerbs : public ::testing::TestWithParam<size_t> {
 public:
  static void SetUpTestSuite() {
    bed = new RealBed;
    const Error error = bed->open();
    ASSERT_FALSE(error) << error.text();
  }
  static void TearDownTestSuite() {
    delete bed;
    bed = nullptr;
  }
  static RealBed* bed;
};
RealBed* OnVerbs::bed = nullptr;

TEST_P(OnVerbs, Case) {
  ASSERT_NE(bed, nullptr);
  conformance_cases()[GetParam()].run(*bed);
  // Nobody's event is left for the next one.
  for (int i = 0; i < bed->adapters(); ++i)
    for (AsyncEvent event; bed->adapter(i).take_event(event);) {
    }
}

INSTANTIATE_TEST_SUITE_P(Conformance, OnVerbs, ::testing::Range(size_t{0}, conformance_cases().size()),
                         [](const auto& which) { return conformance_name(which.param); });

}  // namespace
}  // namespace tern::rdma
