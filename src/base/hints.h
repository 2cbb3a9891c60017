// Hints to the processor.
#pragma once

namespace tern {

/// This is a spin loop: the other thread of the core runs faster meanwhile, and leaving the loop costs no pipeline
/// flush.
inline void cpu_pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

/// Short pause between two polls when an answer is expected at once. A pause instruction takes 25 to 45 ns on recent
/// processors, half of a small message's time; reading the time stamp counter takes 10 (8 B between two ranks: 77 ns
/// with pause, 73 with this).
inline void short_pause() {
#if defined(__x86_64__)
  __builtin_ia32_rdtsc();
#else
  cpu_pause();
#endif
}

/// Requests the cache line of `address` for writing, so that ownership arrives while other work goes on.
inline void prefetch_to_write(const void* address) {
#if defined(__x86_64__)
  asm volatile("prefetchw %0" : : "m"(*static_cast<const char*>(address)));
#else
  __builtin_prefetch(address, 1, 3);
#endif
}

}  // namespace tern
