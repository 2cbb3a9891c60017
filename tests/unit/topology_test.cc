// Topology arithmetic: dims_create against exhaustive search, cartesian ranks against counting, neighbours.
#include "comm/topology.h"

#include <algorithm>

#include <gtest/gtest.h>

namespace tern {
namespace {

/// Smaller difference between first and last, then larger last, second last, ...
bool better(const std::vector<int>& a, const std::vector<int>& b) {
  int by_difference = (a.front() - a.back()) - (b.front() - b.back());
  if (by_difference != 0) return by_difference < 0;
  return std::lexicographical_compare(b.rbegin(), b.rend(), a.rbegin(), a.rend());
}

/// All ways to write n as k factors in nonincreasing order; keeps the best.
void best_factors(int n, int k, int cap, std::vector<int>& now, std::vector<int>& best) {
  if (k == 0) {
    if (n == 1 && (best.empty() || better(now, best))) best = now;
    return;
  }
  for (int factor = 1; factor <= std::min(n, cap); ++factor) {
    if (n % factor != 0) continue;
    now.push_back(factor);
    best_factors(n / factor, k - 1, factor, now, best);
    now.pop_back();
  }
}

TEST(DimsCreate, IsTheMostBalancedForAllSmallSizes) {
  for (int n : {5040, 6240, 7488, 10800, 34425}) {
    std::vector<int> dims(3, 0), now, best;
    ASSERT_FALSE(dims_create(n, dims));
    best_factors(n, 3, n, now, best);
    ASSERT_EQ(dims, best) << n;
  }
  std::vector<int> ties(5, 0);
  ASSERT_FALSE(dims_create(98784, ties));
  EXPECT_EQ(ties, (std::vector<int>{14, 14, 9, 8, 7}));
  for (int n = 1; n <= 400; ++n) {
    for (int k = 1; k <= 4; ++k) {
      std::vector<int> dims(size_t(k), 0), now, best;
      ASSERT_FALSE(dims_create(n, dims));
      best_factors(n, k, n, now, best);
      ASSERT_EQ(dims, best) << n << " in " << k;
    }
  }
}

TEST(DimsCreate, KeepsWhatIsGiven) {
  std::vector<int> dims{0, 3, 0};
  ASSERT_FALSE(dims_create(6, dims));
  EXPECT_EQ(dims, (std::vector<int>{2, 3, 1}));
  dims = {0, 3, 0};
  EXPECT_EQ(ErrorClass(dims_create(7, dims).error_class()), ErrorClass::dims);
  dims = {0, 0};
  ASSERT_FALSE(dims_create(7, dims));
  EXPECT_EQ(dims, (std::vector<int>{7, 1}));
  dims = {2, 4};
  ASSERT_FALSE(dims_create(8, dims));
  EXPECT_TRUE(dims_create(16, dims));
  dims = {-1, 0};
  EXPECT_TRUE(dims_create(4, dims));
  dims = {0};
  EXPECT_TRUE(dims_create(0, dims));
}

TEST(DimsCreate, IsQuickForLargeNumbers) {
  // Many divisors, many dimensions, large primes, and both.
  for (int n : {2147483647, 1 << 30, 2095133040, 1396755360, 65536, 720720, 46341 * 46337, 2 * 1073741789,
                720720 * 2971, (1 << 20) * 2039, 110880 * 19009}) {
    for (size_t k : {1u, 2u, 3u, 5u, 10u, 31u}) {
      std::vector<int> dims(k, 0);
      ASSERT_FALSE(dims_create(n, dims));
      int64_t product = 1;
      for (int dim : dims) product *= dim;
      EXPECT_EQ(product, n);
      EXPECT_TRUE(std::is_sorted(dims.rbegin(), dims.rend()));
    }
  }
}

TEST(Cartesian, RanksCoordinatesAndShiftsAgree) {
  const std::vector<int> dims{3, 1, 4, 2};
  for (int mask = 0; mask < 16; ++mask) {
    std::vector<bool> periods;
    for (int d = 0; d < 4; ++d) periods.push_back(mask >> d & 1);
    int rank = 0;
    std::vector<int> c(4);
    for (c[0] = 0; c[0] < 3; ++c[0])
      for (c[1] = 0; c[1] < 1; ++c[1])
        for (c[2] = 0; c[2] < 4; ++c[2])
          for (c[3] = 0; c[3] < 2; ++c[3], ++rank) {
            Cartesian cartesian(dims, periods, rank);
            ASSERT_EQ(cartesian.coords(), c);
            int found = -1;
            ASSERT_FALSE(cartesian.rank_of(c.data(), found));
            ASSERT_EQ(found, rank);
            for (int d = 0; d < 4; ++d) {
              for (int displacement : {-9, -4, -1, 0, 1, 2, 3, 8}) {
                auto expected = [&](int step) {
                  std::vector<int> there = c;
                  there[size_t(d)] += step;
                  int at = kProcNull;
                  if (cartesian.rank_of(there.data(), at)) at = kProcNull;
                  return at;
                };
                int source = 0, destination = 0;
                cartesian.shift(rank, d, displacement, source, destination);
                ASSERT_EQ(source, expected(-displacement));
                ASSERT_EQ(destination, expected(displacement));
              }
            }
            std::vector<int> in, out;
            cartesian.neighbors(rank, in, out);
            ASSERT_EQ(in.size(), 8u);
            ASSERT_EQ(in, out);
            for (int d = 0; d < 4; ++d) {
              int below = 0, above = 0;
              cartesian.shift(rank, d, 1, below, above);
              ASSERT_EQ(in[size_t(2 * d)], below);
              ASSERT_EQ(in[size_t(2 * d + 1)], above);
            }
          }
    ASSERT_EQ(rank, 24);
  }
}

TEST(Cartesian, OutOfRangeIsAnErrorOnlyWhereNotPeriodic) {
  Cartesian cartesian({3, 4}, {true, false}, 0);
  int rank = -1;
  ASSERT_FALSE(cartesian.rank_of(std::vector<int>{-4, 3}.data(), rank));
  EXPECT_EQ(rank, 2 * 4 + 3);
  ASSERT_FALSE(cartesian.rank_of(std::vector<int>{300, 0}.data(), rank));
  EXPECT_EQ(rank, 0);
  EXPECT_TRUE(cartesian.rank_of(std::vector<int>{0, 4}.data(), rank));
  EXPECT_TRUE(cartesian.rank_of(std::vector<int>{0, -1}.data(), rank));
  int source = 0, destination = 0;
  cartesian.shift(0, 1, 2147483647, source, destination);
  EXPECT_EQ(destination, kProcNull);
  cartesian.shift(0, 0, -2147483647 - 1, source, destination);
  EXPECT_EQ(destination, 4);  // -2^31 mod 3 is 1
}

TEST(Cartesian, OfNoDimensionsIsAPoint) {
  Cartesian point({}, {}, 0);
  int rank = -1;
  ASSERT_FALSE(point.rank_of(nullptr, rank));
  EXPECT_EQ(rank, 0);
  std::vector<int> in{1}, out{1};
  point.neighbors(0, in, out);
  EXPECT_TRUE(in.empty() && out.empty());
}

TEST(Graph, NeighborsKeepOrderAndMultiplicity) {
  // The example of MPI 5.0, 8.5.5.
  Graph graph({3, 5, 6, 9}, {1, 1, 3, 0, 0, 3, 0, 2, 2});
  const std::vector<std::vector<int>> expected{{1, 1, 3}, {0, 0}, {3}, {0, 2, 2}};
  for (int rank = 0; rank < 4; ++rank) {
    std::vector<int> in, out;
    graph.clone()->neighbors(rank, in, out);
    EXPECT_EQ(in, expected[size_t(rank)]);
    EXPECT_EQ(out, in);
  }
}

TEST(DistributedGraph, CopiesKeepEverything) {
  DistributedGraph graph({{3, 1}, {7, 8}}, {{2}, {9}}, true);
  auto copy = graph.clone();
  ASSERT_EQ(copy->kind(), Topology::Kind::distributed_graph);
  auto& same = static_cast<DistributedGraph&>(*copy);
  EXPECT_EQ(same.in().weights, (std::vector<int>{7, 8}));
  EXPECT_TRUE(same.weighted());
  std::vector<int> in, out;
  copy->neighbors(0, in, out);
  EXPECT_EQ(in, (std::vector<int>{3, 1}));
  EXPECT_EQ(out, (std::vector<int>{2}));
}

}  // namespace
}  // namespace tern
