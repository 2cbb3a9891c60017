// Which host each rank runs on (tools/mpiexec/placing.h).
#include "tools/mpiexec/placing.h"

#include <gtest/gtest.h>

#include "process/launch/pmi_text.h"

namespace tern::mpiexec {
namespace {

Plan plan_of(int ranks, std::vector<Host> hosts, int per_host = 0) {
  Plan plan;
  plan.apps.push_back({});
  plan.apps[0].ranks = ranks;
  plan.apps[0].hosts = std::move(hosts);
  plan.ranks_per_host = per_host;
  return plan;
}

bool is_here(const std::string& name) { return name == "here"; }

using Numbers = std::vector<uint32_t>;

TEST(Placing, RanksFillTheSlotsOfEachHost) {
  const RankHosts places = place_ranks(plan_of(5, {{"a", 2}, {"here", 1}, {"b", 2}}), is_here);
  EXPECT_EQ(places.names, (std::vector<std::string>{"", "a", "b"}));
  EXPECT_EQ(places.of_rank, (Numbers{1, 1, 0, 2, 2}));
  EXPECT_EQ(places.ranks_on(0), 1);
}

TEST(Placing, SeveralProgramsMeetTheSameHosts) {
  Plan plan = plan_of(1, {{"a", 0}});
  plan.apps.push_back({});
  plan.apps[1].ranks = 3;
  plan.hosts = {{"a", 1}, {"b", 2}};
  EXPECT_EQ(place_ranks(plan, is_here).of_rank, (Numbers{1, 1, 2, 2}));
}

TEST(Placing, WithoutHostsAllRanksAreHere) {
  const RankHosts places = place_ranks(plan_of(3, {}), is_here);
  EXPECT_EQ(places.names.size(), 1U);
  EXPECT_EQ(places.of_rank, (Numbers{0, 0, 0}));
}

TEST(Placing, MappingAsRanksReadIt) {
  EXPECT_EQ(process_mapping({0, 0, 0}), "(vector,(0,1,3))");
  EXPECT_EQ(process_mapping({1, 1, 2, 2, 3, 3}), "(vector,(0,3,2))");
  const Numbers hosts{4, 0, 0, 4, 1, 1, 1};
  const std::string mapping = process_mapping(hosts);
  for (int rank = 0; rank < 7; ++rank) {
    std::vector<int> neighbours;
    for (int other = 0; other < 7; ++other) {
      if (hosts[size_t(other)] == hosts[size_t(rank)]) neighbours.push_back(other);
    }
    EXPECT_EQ(parse_process_mapping(mapping, rank, 7), neighbours) << mapping;
  }
}

}  // namespace
}  // namespace tern::mpiexec
