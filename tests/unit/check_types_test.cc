// Summaries of type signatures: equal exactly when the sequences of basic types are, however the datatype was built.
#include <vector>

#include <gtest/gtest.h>

#include "base/rng.h"
#include "check/compare.h"
#include "check/type_summary.h"
#include "coll/operands.h"
#include "datatype/construct.h"
#include "datatype/predefined.h"

namespace tern::check {
namespace {

using namespace type_id;

/// The sequence itself, by the signature's own visitor.
std::vector<int> elements(Count count, const Datatype& type) {
  std::vector<int> all;
  for (Count i = 0; i < count && type.signature(); ++i) {
    signature::for_each_run(*type.signature(), [&](const Kind& kind, int64_t n) {
      for (int64_t k = 0; k < n; ++k) {
        if (kind.type_class == TypeClass::pair) all.insert(all.end(), {kind.value_id, kind.index_id});
        else all.push_back(kind.id);
      }
      return true;
    });
  }
  return all;
}

class Types {
 public:
  Datatype& basic(int id) { return types_.get(id); }
  Datatype& random(Rng& rng, int depth) {
    static constexpr int kIds[] = {kInt, kInt, kDouble, kFloat, kDoubleInt, k2Int};
    if (depth == 0) return basic(kIds[rng.below(std::size(kIds))]);
    Ref<Datatype> made;
    if (rng.chance(1, 2)) {
      EXPECT_FALSE(construct::contiguous(Count(rng.below(4)), random(rng, depth - 1), made));
    } else {
      std::vector<Datatype*> parts;
      std::vector<Count> lengths, displs;
      for (uint64_t i = 0, n = rng.below(3) + 1; i < n; ++i) {
        parts.push_back(&random(rng, depth - 1));
        lengths.push_back(Count(rng.below(3)));
        displs.push_back(Count(i) * 4096);
      }
      EXPECT_FALSE(construct::structure(lengths, displs, parts, made));
    }
    kept_.push_back(made);
    return *kept_.back();
  }

 private:
  PredefinedTypes types_;
  std::vector<Ref<Datatype>> kept_;
};

TEST(TypeSummary, SaysWhatTheSequencesSay) {
  Rng rng(7);
  int equal = 0, prefixes = 0;
  for (int round = 0; round < 4000; ++round) {
    Types types;
    Datatype &a = types.random(rng, int(rng.below(3))), &b = types.random(rng, int(rng.below(3)));
    const Count na = Count(rng.below(4)), nb = Count(rng.below(6));
    const std::vector<int> left = elements(na, a), right = elements(nb, b);
    const wire::TypeSummary sent = summary_of(na, a), wanted = summary_of(nb, b);
    ASSERT_EQ(sent.elements, left.size());
    ASSERT_EQ(same(sent, wanted), left == right) << round;
    equal += left == right;
    if (sent.bytes > wanted.bytes) continue;
    const bool prefix = left.size() <= right.size() && std::equal(left.begin(), left.end(), right.begin());
    ASSERT_EQ(may_receive(sent, nb, b), prefix || left.empty() || right.empty()) << round;
    prefixes += prefix;
  }
  EXPECT_GT(equal, 50);
  EXPECT_GT(prefixes, 200);
}

TEST(TypeSummary, CostsLittleForLongRepetitions) {
  PredefinedTypes types;
  Ref<Datatype> row;
  ASSERT_FALSE(construct::contiguous(1'000'000'000, types.get(kInt), row));
  EXPECT_TRUE(same(summary_of(1'000'000'000, *row), summary_of(1'000'000'000'000'000'000, types.get(kInt))));
  EXPECT_TRUE(may_receive(summary_of(999'999'999, types.get(kInt)), 3, *row));
  EXPECT_FALSE(may_receive(summary_of(999'999'999, types.get(kFloat)), 3, *row));
}

TEST(TypeSummary, PackedMatchesAll) {
  PredefinedTypes types;
  EXPECT_TRUE(same(summary_of(8, types.get(kPacked)), summary_of(2, types.get(kInt))));
  EXPECT_TRUE(may_receive(summary_of(8, types.get(kPacked)), 2, types.get(kInt)));
  EXPECT_FALSE(may_receive(summary_of(8, types.get(kByte)), 2, types.get(kInt)));
  EXPECT_EQ(words(summary_of(8, types.get(kByte))), "8 x MPI_BYTE");
}

// --- The judge.

wire::CheckedCollective call_of(Operation operation, int rank, int ranks) {
  PredefinedTypes types;
  wire::CheckedCollective call;
  call.operation = uint8_t(operation);
  call.function = "MPI_X";
  call.rank = rank;
  call.ranks = ranks;
  call.place = "MPI_X at f (a.c:" + std::to_string(rank) + ")";
  return call;
}

TEST(Judge, EveryWrongPairOfAnAlltoallvIsFound) {
  constexpr int kRanks = 4;
  PredefinedTypes types;
  Rng rng(3);
  for (int round = 0; round < 200; ++round) {
    std::vector<wire::CheckedCollective> calls;
    Count counts[kRanks][kRanks];
    for (auto& row : counts) {
      for (Count& count : row) count = Count(rng.below(3));
    }
    for (int i = 0; i < kRanks; ++i) {
      calls.push_back(call_of(Operation::alltoallv, i, kRanks));
      for (int j = 0; j < kRanks; ++j) {
        calls[size_t(i)].sends.push_back(summary_of(counts[i][j], types.get(kInt)));
        calls[size_t(i)].receives.push_back(summary_of(counts[j][i], types.get(kInt)));
      }
    }
    ASSERT_FALSE(compare_calls(calls));
    const size_t who = rng.below(kRanks), with = rng.below(kRanks);
    calls[who].receives[with] = summary_of(counts[with][who] + 1, types.get(kInt));
    const Error error = compare_calls(calls);
    ASSERT_TRUE(error);
    EXPECT_EQ(error.error_class(), int(ErrorClass::count));
    EXPECT_NE(std::string(error.text()).find("rank " + std::to_string(with) + " in"), std::string::npos);
  }
}

TEST(Judge, RootsOperatorsAndTypes) {
  PredefinedTypes types;
  const auto both = [&](Operation operation, auto change) {
    std::vector<wire::CheckedCollective> calls;
    for (int i = 0; i < 2; ++i) {
      calls.push_back(call_of(operation, i, 2));
      calls.back().receives = {summary_of(3, types.get(kInt))};
    }
    change(calls[1]);
    const Error error = compare_calls(calls);
    return error ? error.error_class() : 0;
  };
  const auto nothing = [](auto&) {};
  EXPECT_EQ(both(Operation::bcast, nothing), 0);
  EXPECT_EQ(both(Operation::bcast, [](auto& call) { call.root = 1; }), int(ErrorClass::root));
  EXPECT_EQ(both(Operation::allreduce, [](auto& call) { call.op = 0x22; }), int(ErrorClass::op));
  EXPECT_EQ(both(Operation::bcast, [&](auto& call) { call.receives = {summary_of(3, types.get(kFloat))}; }),
            int(ErrorClass::type));
  EXPECT_EQ(both(Operation::scan, [&](auto& call) { call.receives = {summary_of(2, types.get(kInt))}; }),
            int(ErrorClass::count));
  EXPECT_EQ(both(Operation::barrier, [](auto& call) { call.function = "MPI_Ibarrier"; }), int(ErrorClass::other));
}

}  // namespace
}  // namespace tern::check
