// The choice of collective algorithms: the table is complete and sound, the tunable overrides it as it says.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <set>
#include <string>
#include <vector>

#include "coll/describe.h"

namespace tern {
namespace {

constexpr int kFromTable = int(Operation::exscan) + 1;  // neighbourhood operations have one way only

Situation situation(Operation operation, size_t bytes, int ranks, bool commutative = true) {
  return {operation, bytes, ranks, commutative, false};
}

TEST(CollSelectTest, EverySituationHasAnAlgorithmThatApplies) {
  Selection selection;
  for (int operation = 0; operation < kFromTable; ++operation) {
    for (int ranks = 1; ranks <= 130; ++ranks) {
      for (size_t bytes : {size_t{0}, size_t{1}, size_t{2048}, size_t{100'000}, size_t{1} << 24, SIZE_MAX}) {
        for (bool commutative : {true, false}) {
          for (bool node : {true, false}) {
            for (int nodes : {1, 2}) {
              Situation s{Operation(operation), bytes, ranks, commutative, node, nodes};
              EXPECT_TRUE(applies(selection.choose(s), s))
                  << name_of(Operation(operation)) << " " << ranks << " " << bytes;
            }
          }
        }
      }
    }
  }
}

// A row that is never the default is there to be forced; then it is the only one of its name.
TEST(CollSelectTest, NoRowIsHiddenByThoseAboveIt) {
  const Selection selection;
  std::set<const Algorithm*> chosen;
  std::vector<size_t> sizes{0};
  std::vector<int> members{1};
  for (const Algorithm& row : algorithms()) {
    for (size_t bytes : {row.from_bytes, row.to_bytes - 1}) sizes.push_back(bytes);
    for (int ranks : {row.from_ranks, row.to_ranks, int(std::bit_ceil(unsigned(row.from_ranks)))})
      members.push_back(ranks);
  }
  std::erase_if(members, [](int ranks) { return ranks > 200; });
  members.push_back(200);
  for (int operation = 0; operation < kFromTable; ++operation) {
    for (const size_t bytes : sizes) {
      for (const int ranks : members) {
        for (const int nodes : {1, 2, ranks}) {
          for (const int kinds : {0, 1, 2, 3, 4, 5, 6, 7}) {
            Situation s{Operation(operation), bytes, ranks, bool(kinds & 1), bool(kinds & 2), nodes};
            s.shares_cores = bool(kinds & 4);
            chosen.insert(&selection.choose(s));
          }
        }
      }
    }
  }
  for (const Algorithm& row : algorithms()) {
    if (chosen.contains(&row)) continue;
    const auto twins = std::count_if(algorithms().begin(), algorithms().end(), [&](const Algorithm& other) {
      return other.operation == row.operation && std::string_view(other.name) == row.name;
    });
    EXPECT_EQ(twins, 1) << name_of(row.operation) << " " << row.name << " from " << row.from_bytes << " bytes, "
                        << row.from_ranks << " ranks";
  }
}

TEST(CollSelectTest, ReductionsInOrderNeverUseAlgorithmsThatMixOperands) {
  Selection selection;
  ASSERT_FALSE(selection.parse("allreduce=ring,reduce=chain,reduce_scatter=halving"));
  for (Operation operation : {Operation::allreduce, Operation::reduce, Operation::reduce_scatter}) {
    const Algorithm& chosen = selection.choose(situation(operation, 1 << 20, 8, false));
    EXPECT_FALSE(chosen.needs & Algorithm::kCommutative) << chosen.name;
  }
}

TEST(CollSelectTest, TheTunableForcesFromBytesAndRanksOn) {
  Selection selection;
  ASSERT_FALSE(selection.parse("bcast=chain:64K@4,bcast=binomial:1M,allreduce=ring"));
  auto name = [&](Operation operation, size_t bytes, int ranks) {
    return std::string(selection.choose(situation(operation, bytes, ranks)).name);
  };
  EXPECT_EQ(name(Operation::bcast, 65536, 4), "chain");
  EXPECT_EQ(name(Operation::bcast, 65535, 4), "binomial");
  EXPECT_EQ(name(Operation::bcast, 100'000, 3), "binomial");
  EXPECT_EQ(name(Operation::bcast, 1 << 20, 16), "binomial");
  EXPECT_EQ(name(Operation::allreduce, 8, 2), "ring");
}

TEST(CollSelectTest, TheTunableForcesFromNodesOn) {
  Selection selection;
  ASSERT_FALSE(selection.parse("allreduce=ring:1M@8,allreduce=leaders:8K@96x4,allreduce=rabenseifner@2x8"));
  auto name = [&](size_t bytes, int ranks, int nodes) {
    return std::string(selection.choose({Operation::allreduce, bytes, ranks, true, false, nodes}).name);
  };
  EXPECT_EQ(name(2 << 20, 96, 1), "ring");
  EXPECT_EQ(name(2 << 20, 96, 4), "leaders");
  EXPECT_EQ(name(8191, 96, 4), "leaders");  // the table's own choice
  EXPECT_EQ(name(2 << 20, 95, 4), "ring");
  EXPECT_EQ(name(2 << 20, 96, 8), "rabenseifner");
  for (const char* text : {"allreduce=ring@8x", "allreduce=ring@x2", "allreduce=ring@8x0", "allreduce=ring@8x2x2"})
    EXPECT_TRUE(Selection().parse(text)) << text;
}

TEST(CollSelectTest, ShapesOfCommunicators) {
  CommunicatorShape shape;
  ASSERT_TRUE(parse_shape("4x24", shape));
  EXPECT_EQ(shape.nodes, 4);
  EXPECT_EQ(shape.ranks(), 96);
  ASSERT_TRUE(parse_shape("8", shape));
  EXPECT_EQ(shape.nodes, 1);
  EXPECT_EQ(shape.ranks(), 8);
  EXPECT_EQ(shape.cores, 0);
  ASSERT_TRUE(parse_shape("1x8/2", shape));
  EXPECT_EQ(shape.ranks(), 8);
  EXPECT_EQ(shape.cores, 2);
  for (const char* text :
       {"8/", "8/0", "/2", "8/x", "", "x", "4x", "x4", "0", "4x0", "4x24x2", "-1", "65536x65536", "a"})
    EXPECT_FALSE(parse_shape(text, shape)) << text;
}

TEST(CollSelectTest, WhereRanksShareCoresOtherRowsAreTheDefault) {
  auto name = [](Operation operation, size_t bytes, bool shares_cores, bool commutative = true) {
    Situation s{operation, bytes, 8, commutative};
    s.shares_cores = shares_cores;
    return std::string(Selection().choose(s).name);
  };
  EXPECT_EQ(name(Operation::reduce, 64 << 10, false), "rabenseifner");
  EXPECT_EQ(name(Operation::reduce, 64 << 10, true), "chain");
  EXPECT_EQ(name(Operation::reduce, 64 << 10, true, false), "binomial");
  EXPECT_EQ(name(Operation::bcast, 1 << 20, false), "spread");
  EXPECT_EQ(name(Operation::bcast, 1 << 20, true), "linear");
  EXPECT_EQ(name(Operation::scan, 1 << 20, false), "tree");
  EXPECT_EQ(name(Operation::scan, 1 << 20, true), "linear");
  Selection forced;
  ASSERT_FALSE(forced.parse("reduce=rabenseifner,scan=linear"));
  EXPECT_STREQ(forced.choose({Operation::scan, 64, 8}).name, "linear");  // a default elsewhere only; it works anywhere
}

// As in a program with threads inside each node: one rank on each.
TEST(CollSelectTest, RanksAloneOnTheirNodesSendAtOnceRatherThanInTurn) {
  auto name = [](Operation operation, size_t bytes, int ranks) {
    return std::string(Selection().choose({operation, bytes, ranks, true, false, ranks}).name);
  };
  EXPECT_EQ(name(Operation::barrier, 0, 32), "dissemination");
  EXPECT_EQ(name(Operation::bcast, 1024, 32), "binomial");
  EXPECT_EQ(name(Operation::bcast, 1 << 20, 32), "spread");
  EXPECT_EQ(name(Operation::allgather, 1024, 24), "spread");
  EXPECT_EQ(name(Operation::allgather, 64 << 10, 48), "spread");
  EXPECT_EQ(name(Operation::allgather, 64 << 10, 300), "ring");
  EXPECT_EQ(name(Operation::alltoall, 8, 16), "spread");
  EXPECT_EQ(name(Operation::alltoall, 8, 128), "bruck");
  EXPECT_EQ(name(Operation::allreduce, 1 << 20, 16), "rabenseifner");
  EXPECT_EQ(name(Operation::allreduce, 1 << 20, 12), "ring");
  EXPECT_EQ(name(Operation::allreduce, 8, 8), "spread");
  EXPECT_EQ(name(Operation::reduce_scatter, 1 << 20, 12), "spread");
  EXPECT_EQ(name(Operation::reduce_scatter, 8 << 20, 16), "pairwise");
  EXPECT_EQ(name(Operation::reduce_scatter, 1024, 64), "halving");
  EXPECT_EQ(name(Operation::bcast, 8, 8), "linear");
  EXPECT_EQ(name(Operation::scatter, 8, 8), "linear");
  EXPECT_EQ(name(Operation::gather, 8, 24), "binomial");
  EXPECT_EQ(name(Operation::scatter, 8, 64), "binomial");
  // What was tuned for nodes of one rank each is used there.
  Selection tuned;
  ASSERT_FALSE(tuned.parse("allreduce=ring:8@8x8"));
  EXPECT_STREQ(tuned.choose({Operation::allreduce, 8, 8, true, false, 8}).name, "ring");
  EXPECT_STREQ(tuned.choose({Operation::allreduce, 8, 8, true, false, 1}).name, "spread");
}

TEST(CollSelectTest, TheChoiceIsDescribedWithItsReasons) {
  Selection selection;
  const std::string nodes = describe_choice(selection, {4, 24});
  EXPECT_NE(nodes.find("barrier               any               leaders             one message each way for a node\n"),
            std::string::npos)
      << nodes;
  EXPECT_NE(nodes.find("bcast                 from 16K          lanes "), std::string::npos) << nodes;
  EXPECT_EQ(nodes.find(" node  "), std::string::npos) << nodes;
  const std::string one = describe_choice(selection, {1, 8});
  EXPECT_NE(one.find("allreduce             1 to 8K           node "), std::string::npos) << one;
  EXPECT_NE(one.find("others "), std::string::npos);
  EXPECT_EQ(one.find("leaders"), std::string::npos) << one;
  ASSERT_FALSE(selection.parse("allreduce=ring:1M"));
  EXPECT_NE(
      describe_choice(selection, {4, 24}).find("allreduce             from 1M           ring                TERN_COLL"),
      std::string::npos);
}

TEST(CollSelectTest, WhatDoesNotApplyFallsBackToTheTable) {
  Selection selection;
  ASSERT_FALSE(selection.parse("allgather=recursive_doubling,barrier=node"));
  EXPECT_STREQ(selection.choose(situation(Operation::allgather, 1 << 20, 8)).name, "recursive_doubling");
  EXPECT_STRNE(selection.choose(situation(Operation::allgather, 1 << 20, 7)).name, "recursive_doubling");
  EXPECT_STRNE(selection.choose(situation(Operation::barrier, 0, 4)).name, "node");
}

TEST(CollSelectTest, MistakesAreAnsweredWithTheList) {
  for (const char* text :
       {"allreduce=rung", "allreduc=ring", "allreduce", "allreduce=ring:many", "bcast=chain:1K@x", "="}) {
    Error error = Selection().parse(text);
    ASSERT_TRUE(bool(error)) << text;
    EXPECT_NE(error.text().find(std::string("'") + text + "'"), std::string_view::npos) << error.text();
    EXPECT_NE(error.text().find("allreduce=node|lanes|leaders|recursive_doubling|spread|reduce_bcast|"),
              std::string_view::npos)
        << error.text();
  }
  EXPECT_FALSE(Selection().parse(""));
}

}  // namespace
}  // namespace tern
