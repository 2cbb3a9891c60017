// How simulated tests run over seeds. By default the fixed seeds 1..n, so that the run cannot flake (a tenth of them
// under ASan and TSan):
//   TERN_SIM_SEEDS=5000   more of them
//   TERN_SIM_SEED=17      only this one (what a failure prints); with TERN_SIM_SEEDS the first of so many
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>

namespace tern::sim {

// Under these sanitizers a run takes ten times as long, and what they look for shows in nearly every run.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr uint64_t kSeedDivisor = 10;
#else
inline constexpr uint64_t kSeedDivisor = 1;
#endif

/// All of a test's seeds run: what only some of them meet has surely been met.
inline bool all_seeds() { return kSeedDivisor == 1 && !std::getenv("TERN_SIM_SEED"); }

/// Calls test(seed) for each; stops at the first seed that fails.
template <typename Test>
void for_seeds(uint64_t how_many, Test&& test) {
  uint64_t first = 1;
  how_many = (how_many + kSeedDivisor - 1) / kSeedDivisor;
  if (const char* begin = std::getenv("TERN_SIM_SEED")) {
    first = std::strtoull(begin, nullptr, 10);
    how_many = 1;
  }
  if (const char* count = std::getenv("TERN_SIM_SEEDS")) how_many = std::strtoull(count, nullptr, 10);
  ASSERT_GT(how_many, 0u);
  for (uint64_t seed = first; seed < first + how_many; ++seed) {
    SCOPED_TRACE("TERN_SIM_SEED=" + std::to_string(seed));
    test(seed);
    if (testing::Test::HasFailure()) return;
  }
}

}  // namespace tern::sim
