// MPI_Dims_create (MPI 5.0, 8.5.2): factors a number of processes into dimensions "as close to each other as
// possible".
//
// Here that means: the largest dimension as small as can be, then the second largest, and so on. Dividing
// prime factors out greedily misses this (2^2*3^2 in 3 dimensions: greedy 6x3x2, best 4x3x3), so divisors are
// searched in ascending order from the k-th root upwards; the first factorisation found is the best one. Two
// cuts keep the search short: no dimension can be below the remaining number's largest prime factor's
// dimension, nor below its k-th root.
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

  /// Writes `n` as factors.size() factors of at most `cap`, not increasing.
  bool factor(int n, int cap, std::span<int> factors) const {
    if (factors.size() == 1) {
      factors[0] = n;
      return n <= cap;
    }
    int prime = largest_prime_factor(n);
    auto candidate = std::lower_bound(divisors_.begin(), divisors_.end(), prime);
    for (; candidate != divisors_.end() && *candidate <= std::min(cap, n); ++candidate) {
      if (n % *candidate != 0 || !power_reaches(*candidate, factors.size(), n)) continue;
      factors[0] = *candidate;
      if (factor(n / *candidate, *candidate, factors.subspan(1))) return true;
    }
    return false;
  }

 private:
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
  std::vector<int> factors(open);
  bool found = Factoriser(rest).factor(rest, rest, factors);
  TERN_ASSERT(found);
  size_t next = 0;
  for (int& dim : dims)
    if (dim == 0) dim = factors[next++];
  return {};
}

}  // namespace tern
