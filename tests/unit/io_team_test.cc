// Which ranks of a file read and write for the others (io/team.h).
#include <gtest/gtest.h>

#include "io/team.h"

namespace tern::io {
namespace {

using Ranks = std::vector<int>;

// Ranks 0, 1 and 4 on one host, 2 and 3 on another.
constexpr int64_t kNodes[] = {7, 7, 9, 9, 7};

Team chosen(const Hints& hints, bool remote = false) {
  FileFacts facts;
  facts.remote = remote;
  Team team;
  team.choose(kNodes, hints, facts);
  EXPECT_EQ(team.nodes, 2);
  return team;
}

TEST(IoTeam, AFileOnAServerHasOneAggregatorForEachHost) {
  EXPECT_EQ(chosen({}, true).aggregators, (Ranks{0, 2}));
  // As many as the file has stripes do not help a host's single client.
  Hints striped;
  striped.stripes = 4;
  EXPECT_EQ(chosen(striped, true).aggregators, (Ranks{0, 2}));
}

TEST(IoTeam, HintsSayHowManyEachHostHas) {
  Hints hints;
  hints.aggregators_per_node = 2;
  EXPECT_EQ(chosen(hints).aggregators, (Ranks{0, 2, 1, 3}));
  hints.aggregators_per_node = 100;
  EXPECT_EQ(chosen(hints).aggregators, (Ranks{0, 2, 1, 3, 4}));
}

TEST(IoTeam, HintsSayHowManyThereAreInAll) {
  Hints hints;
  hints.aggregators = 3;
  EXPECT_EQ(chosen(hints, true).aggregators, (Ranks{0, 2, 1}));
  hints.aggregators = 100;
  EXPECT_EQ(chosen(hints, true).aggregators, (Ranks{0, 2, 1, 3, 4}));
}

TEST(IoTeam, FewStripesNeedFewAggregatorsButOneForEachHost) {
  Hints hints;
  hints.aggregators_per_node = 3;
  hints.stripes = 3;
  EXPECT_EQ(chosen(hints).aggregators, (Ranks{0, 2, 1}));
  hints.stripes = 1;
  EXPECT_EQ(chosen(hints).aggregators, (Ranks{0, 2}));
}

TEST(IoTeam, AChoiceReplacesTheOneBefore) {
  Team team;
  team.choose(kNodes, {}, {});
  const Ranks first = team.aggregators;
  team.choose(kNodes, {}, {});
  EXPECT_EQ(team.aggregators, first);
}

}  // namespace
}  // namespace tern::io
