// Processors of hosts that may be one machine (tools/mpiexec/host_cores.h).
#include "tools/mpiexec/host_cores.h"

#include <gtest/gtest.h>

namespace tern::mpiexec {
namespace {

using Numbers = std::vector<int>;

TEST(HostCores, MachinesKeepTheirOwn) {
  const CoreShares shares = share_cores({{8, 8, "a"}, {4, 16, "b"}}, {8, 8});
  EXPECT_EQ(shares.of_host, (Numbers{8, 4}));
  EXPECT_EQ(shares.all, 12);
}

TEST(HostCores, HostsThatAreOneMachineShareItsCores) {
  const CoreShares shares = share_cores({{4, 4, "a"}, {4, 4, "a"}, {8, 8, "b"}}, {3, 1, 2});
  EXPECT_EQ(shares.of_host, (Numbers{3, 1, 8}));
  EXPECT_EQ(shares.all, 12);
}

// Each has more ranks than cores exactly where all have.
TEST(HostCores, TooManyRanksOnAMachineAreTooManyOnEachHost) {
  for (int cores = 1; cores <= 8; ++cores) {
    for (int first = 1; first <= 8; ++first) {
      for (int second = 1; second <= 8; ++second) {
        const CoreShares shares = share_cores({{cores, cores, "a"}, {cores, cores, "a"}}, {first, second});
        const bool too_many = first + second > cores;
        EXPECT_EQ(first > shares.of_host[0], too_many) << cores << ' ' << first << ' ' << second;
        EXPECT_EQ(second > shares.of_host[1], too_many) << cores << ' ' << first << ' ' << second;
      }
    }
  }
}

TEST(HostCores, ContainersWithCoresOfTheirOwnKeepThem) {
  const CoreShares shares = share_cores({{2, 8, "a"}, {4, 8, "a"}}, {4, 1});
  EXPECT_EQ(shares.of_host, (Numbers{2, 4}));
  EXPECT_EQ(shares.all, 6);
}

TEST(HostCores, AHostWithoutRanksTakesNone) {
  const CoreShares shares = share_cores({{2, 2, "a"}, {2, 2, "a"}, {2, 2, ""}, {2, 2, ""}}, {0, 2, 2, 2});
  EXPECT_EQ(shares.of_host, (Numbers{2, 2, 2, 2}));
  EXPECT_EQ(shares.all, 6);
}

TEST(HostCores, KnowsItsOwn) {
  const HostCores own = own_cores();
  EXPECT_GE(own.usable, 1);
  EXPECT_GE(own.machine, own.usable);
  EXPECT_EQ(own.kernel.size(), 36u);
}

}  // namespace
}  // namespace tern::mpiexec
