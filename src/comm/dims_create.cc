// MPI_Dims_create (MPI 5.0, 8.5.2): factors a number of processes into dimensions "as close to each other as
// possible".
//
// Here that means: the difference between the largest and the smallest dimension is as small as can be (Träff
// and Lübbe, EuroMPI 2015); of several such, the one with the largest smallest dimension, then the largest
// second smallest, and so on. Dividing prime factors out greedily misses this (2^2*3^2 in 3 dimensions:
// greedy 6x3x2, best 4x3x3), so divisors are searched: the largest dimension from the k-th root upwards, the
// others from the smallest on, large ones first. Each solution found narrows the window that the dimensions
// of a better one must lie in, which keeps the search short.
#include <algorithm>
#include <string>

#include "base/assert.h"
#include "comm/topology.h"

namespace tern {

namespace {

std::vector<int> divisors(int n) {
  std::vector<int> small, large;
  for (int64_t d = 1; d * d <= n; ++d) {
    if (n % d != 0) continue;
    small.push_back(int(d));
    if (d * d != n) large.push_back(int(n / d));
  }
  small.insert(small.end(), large.rbegin(), large.rend());
  return small;
}

int largest_prime_factor(int n) {
  int largest = 1;
  for (int64_t p = 2; p * p <= n; ++p) {
    for (; n % p == 0; n /= int(p)) largest = int(p);
  }
  return n > 1 ? n : largest;
}

bool power_reaches(int64_t base, size_t exponent, int64_t n) {
  int64_t power = 1;
  while (exponent-- > 0 && power < n) power *= base;
  return power >= n;
}

class Factoriser {
 public:
  explicit Factoriser(int n) : divisors_(divisors(n)) {}

  /// The best `count` factors of `n`, not increasing.
  std::vector<int> best(int n, size_t count) const {
    if (count == 1) return {n};
    std::vector<int> factors(count), found;
    int64_t difference = n;  // of the best found
    for (int largest : divisors_) {
      if (!power_reaches(largest, count, n)) continue;
      // The smallest factor is at most the root, the largest at least: when that alone is too much, so is all
      // that follows.
      if (!found.empty() && !reachable(n, count, largest - difference)) break;
      // A larger first factor with the same difference has a larger last one, so it is better.
      int least = int(std::max<int64_t>(1, largest - difference));
      factors[0] = largest;
      if (!factor(n / largest, least, largest, std::span<int>(factors).subspan(1))) continue;
      found = factors;
      difference = largest - factors.back();
    }
    return found;
  }

 private:
  /// Whether `count` factors of at least `least` can have the product `n`, as far as size goes.
  static bool reachable(int64_t n, size_t count, int64_t least) {
    if (least <= 1) return true;
    int64_t power = 1;
    while (count-- > 0 && power <= n) power *= least;
    return power <= n;
  }

  /// Writes `n` as factors.size() factors of `least` to `most`, not increasing, the smallest as large as can
  /// be.
  bool factor(int n, int least, int most, std::span<int> factors) const {
    if (factors.size() == 1) {
      factors[0] = n;
      return least <= n && n <= most;
    }
    if (!power_reaches(most, factors.size(), n) || largest_prime_factor(n) > most) return false;
    auto candidate = std::upper_bound(divisors_.begin(), divisors_.end(), std::min(most, n));
    while (candidate != divisors_.begin() && *--candidate >= least) {
      if (n % *candidate != 0 || !reachable(n, factors.size(), *candidate)) continue;
      factors.back() = *candidate;
      if (factor(n / *candidate, *candidate, most, factors.first(factors.size() - 1))) return true;
    }
    return false;
  }

  std::vector<int> divisors_;
};

}  // namespace

Error dims_create(int nodes, std::span<int> dims) {
  if (nodes < 1) return Error(ErrorClass::dims, std::to_string(nodes) + " nodes cannot be arranged");
  int64_t given = 1;
  size_t open = 0;
  for (size_t i = 0; i < dims.size(); ++i) {
    if (dims[i] < 0)
      return Error(ErrorClass::dims, "dimension " + std::to_string(i) + " is " + std::to_string(dims[i]) +
                                         "; a dimension is positive, or 0 to be chosen");
    if (dims[i] == 0) ++open;
    else given = std::min<int64_t>(given * dims[i], int64_t{1} << 31);
  }
  if (nodes % given != 0 || (open == 0 && given != nodes && !dims.empty()))
    return Error(ErrorClass::dims, std::to_string(nodes) + " nodes do not fit dimensions whose product is " +
                                       (given > nodes ? "larger" : std::to_string(given)));
  if (open == 0) return {};
  int rest = int(nodes / given);
  std::vector<int> factors = Factoriser(rest).best(rest, open);
  TERN_ASSERT(factors.size() == open);
  size_t next = 0;
  for (int& dim : dims)
    if (dim == 0) dim = factors[next++];
  return {};
}

}  // namespace tern
