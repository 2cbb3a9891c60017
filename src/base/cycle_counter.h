// The processor's cycle counter as a rough clock. Its rate is measured by two readings beside those of an exact clock,
// kMeasured_ns apart. A counter that stops or changes its rate with the processor's is not used.
//
// Thread rule: a value of its owner; `read` is free.
#pragma once

#include <cstdint>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace tern {

class CycleCounter {
 public:
  /// Long enough that the two readings' own time (0.1 us) is nothing beside it.
  static constexpr uint64_t kMeasured_ns = 1'000'000;
  /// Longest time between the readings before and after the exact clock's, in cycles: a longer one was interrupted.
  static constexpr uint64_t kMaxGap = 2'000;

  static uint64_t read() {
#if defined(__x86_64__)
    return __builtin_ia32_rdtsc();
#else
    return 0;
#endif
  }

  bool known() const { return ns_per_cycle_ != 0; }
  /// The exact clock's time, estimated. Known.
  uint64_t now_ns() const { return first_ns_ + uint64_t((Wide(read() - first_) * ns_per_cycle_) >> kFraction); }

  /// The counter was `before`, the exact clock `now_ns`, then the counter `after`.
  void note(uint64_t before, uint64_t now_ns, uint64_t after) {
    if (unsteady_ || after - before > kMaxGap) return;
    if (first_ns_ == 0) {
      unsteady_ = !steady();
      first_ = before;
      first_ns_ = now_ns;
    } else if (now_ns - first_ns_ >= kMeasured_ns && before != first_) {
      ns_per_cycle_ = uint64_t((Wide(now_ns - first_ns_) << kFraction) / (before - first_));
    }
  }

 private:
  __extension__ typedef unsigned __int128 Wide;  // __extension__: the type is not ISO C++, suppress the warning
  static constexpr int kFraction = 32;           ///< bits of ns_per_cycle_ behind the point

  // Whether the counter runs at one rate in every state of the processor ("invariant TSC").
  static bool steady() {
#if defined(__x86_64__)
    unsigned a, b, c, d;
    return __get_cpuid(0x80000007, &a, &b, &c, &d) != 0 && (d & (1u << 8)) != 0;
#else
    return false;
#endif
  }

  uint64_t first_ = 0, first_ns_ = 0;
  bool unsteady_ = false;
  uint64_t ns_per_cycle_ = 0;  ///< with kFraction bits behind the point; 0: not known yet
};

}  // namespace tern
