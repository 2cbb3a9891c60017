// The seeded generator. All randomness below capi/ comes from one of these (SplitMix64, Steele et al. 2014: one
// addition and three mixing steps per draw; every seed is good).
#pragma once

#include <cstdint>

namespace tern {

class Rng {
 public:
  explicit Rng(uint64_t seed) : state_(seed) {}
  uint64_t next() {
    uint64_t z = (state_ += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }
  /// Uniform in [0, bound); bound > 0.
  uint64_t below(uint64_t bound) { return uint64_t((Wide{next()} * bound) >> 64); }
  /// True with probability `parts` in `of`.
  bool chance(uint64_t parts, uint64_t of) { return below(of) < parts; }

 private:
  __extension__ typedef unsigned __int128 Wide;  // __extension__: the type is not ISO C++, suppress the warning
  uint64_t state_;
};

}  // namespace tern
