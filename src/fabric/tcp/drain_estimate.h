// When a connection will have carried what is left, from its speed so far. With it a thread that sleeps until then does
// not look every few milliseconds (a look takes some 40 us from a program that computes: the timer, the event thread,
// the next timer).
//
// Units: bytes, nanoseconds. Thread rule: a value of its stream.
#pragma once

#include <algorithm>
#include <cstdint>

namespace tern {

class DrainEstimate {
 public:
  /// While the speed is not known: 50 looks of 40 us in this time are 2 % of it.
  static constexpr uint64_t kUnknown_ns = 2'000'000;

  /// `acknowledged` bytes so far, `left` more until a waiting operation is complete: how long to sleep.
  uint64_t next_look_ns(uint64_t now_ns, uint64_t acknowledged, uint64_t left) {
    const uint64_t passed = now_ns - looked_ns_;
    if (looked_ns_ == 0 || passed >= kMin_ns) {
      const bool known = looked_ns_ != 0 && acknowledged >= acknowledged_;
      bytes_per_ns_ = known ? double(acknowledged - acknowledged_) / double(passed) : 0;
      looked_ns_ = now_ns;
      acknowledged_ = acknowledged;
    }
    if (bytes_per_ns_ == 0) return kUnknown_ns;
    return uint64_t(std::clamp(double(left) / bytes_per_ns_, double(kMin_ns), double(kMax_ns)));
  }
  /// No operation waits any more.
  void forget() { looked_ns_ = 0; }

 private:
  /// A sleep shorter than ten looks is not worth it; after a longer one than this a wrong estimate would be noticed
  /// late.
  static constexpr uint64_t kMin_ns = 500'000, kMax_ns = 10'000'000;
  uint64_t looked_ns_ = 0;  ///< the last look of this wait; 0: none
  uint64_t acknowledged_ = 0;
  double bytes_per_ns_ = 0;  ///< 0: not known, or nothing moved
};

}  // namespace tern
