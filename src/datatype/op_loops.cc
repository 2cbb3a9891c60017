#include "datatype/op_loops.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

// With -O2 GCC 12 vectorises only loops of known length; these are exactly the loops worth it.
#ifndef __clang__
#pragma GCC optimize("O3")
#endif

namespace tern::op_loops {
namespace {

// Integers are added and multiplied without sign, in at least 32 bits: wrapping, never undefined.
template <typename T>
struct Wrapping {
  using Type = std::conditional_t<sizeof(T) == 16, Uint128, std::conditional_t<sizeof(T) == 8, uint64_t, uint32_t>>;
};

template <typename T>
T add(T a, T b) {
  if constexpr (is_floating<T>) {
    return T(a + b);
  } else {
    using W = typename Wrapping<T>::Type;
    return T(W(a) + W(b));
  }
}

template <typename T>
T multiply(T a, T b) {
  if constexpr (is_floating<T>) {
    return T(a * b);
  } else {
    using W = typename Wrapping<T>::Type;
    return T(W(a) * W(b));
  }
}

template <typename T>
struct Complex {
  T re, im;
};

struct Sum {
  template <typename T>
  static T apply(T a, T b) {
    return add(a, b);
  }
  template <typename T>
  static Complex<T> apply(Complex<T> a, Complex<T> b) {
    return {add(a.re, b.re), add(a.im, b.im)};
  }
};
struct Prod {
  template <typename T>
  static T apply(T a, T b) {
    return multiply(a, b);
  }
  template <typename T>
  static Complex<T> apply(Complex<T> a, Complex<T> b) {
    return {T(a.re * b.re - a.im * b.im), T(a.re * b.im + a.im * b.re)};
  }
};
struct Min {
  template <typename T>
  static T apply(T a, T b) {
    return a < b ? a : b;
  }
};
struct Max {
  template <typename T>
  static T apply(T a, T b) {
    return a > b ? a : b;
  }
};
struct Band {
  template <typename T>
  static T apply(T a, T b) {
    return T(a & b);
  }
};
struct Bor {
  template <typename T>
  static T apply(T a, T b) {
    return T(a | b);
  }
};
struct Bxor {
  template <typename T>
  static T apply(T a, T b) {
    return T(a ^ b);
  }
};
struct Land {
  template <typename T>
  static T apply(T a, T b) {
    return T((a != 0) & (b != 0));
  }
};
struct Lor {
  template <typename T>
  static T apply(T a, T b) {
    return T((a != 0) | (b != 0));
  }
};
struct Lxor {
  template <typename T>
  static T apply(T a, T b) {
    return T((a != 0) ^ (b != 0));
  }
};

template <typename Operator, typename T>
void loop(const void* in, void* inout, Count n) {
  const T* __restrict a = static_cast<const T*>(in);
  T* __restrict b = static_cast<T*>(inout);
  for (Count i = 0; i < n; ++i) b[i] = Operator::apply(a[i], b[i]);
}

#if defined(__x86_64__)
// The same in 32 bytes at a time, twice as many as the baseline processor has. No multiplication and addition become
// one instruction, so results stay the same.
template <typename Operator, typename T>
[[gnu::target("avx2")]] void wide_loop(const void* in, void* inout, Count n) {
  const T* __restrict a = static_cast<const T*>(in);
  T* __restrict b = static_cast<T*>(inout);
  for (Count i = 0; i < n; ++i) b[i] = Operator::apply(a[i], b[i]);
}

// Not __builtin_cpu_supports (base/crc32c.cc), and not before the first operator is applied.
bool wide_there() {
  static const bool avx2_there = [] {
    unsigned a = 0, b = 0, c = 0, d = 0;
    __cpuid(1, a, b, c, d);
    constexpr unsigned kAsked = bit_OSXSAVE | bit_AVX;
    if ((c & kAsked) != kAsked) return false;
    unsigned enabled = 0, more = 0;
    __asm__("xgetbv" : "=a"(enabled), "=d"(more) : "c"(0));
    constexpr unsigned kRegistersSaved = 6;  // by the kernel: those of SSE and of AVX
    if ((enabled & kRegistersSaved) != kRegistersSaved) return false;
    return __get_cpuid_count(7, 0, &a, &b, &c, &d) != 0 && (b & bit_AVX2) != 0;
  }();
  return avx2_there;
}
#endif

template <typename Operator, typename T>
Loop best_loop() {
#if defined(__x86_64__)
  if constexpr (std::is_arithmetic_v<T> && sizeof(T) <= 8) {
    if (wide_there()) return wide_loop<Operator, T>;
  }
#endif
  return loop<Operator, T>;
}

template <typename T>
Loop number_loop_for(OpId id) {
  switch (id) {
    case OpId::sum: return best_loop<Sum, T>();
    case OpId::prod: return best_loop<Prod, T>();
    case OpId::min: return best_loop<Min, T>();
    case OpId::max: return best_loop<Max, T>();
    default: return nullptr;
  }
}

template <typename T>
Loop complex_loop_for(OpId id) {
  switch (id) {
    case OpId::sum: return loop<Sum, Complex<T>>;
    case OpId::prod: return loop<Prod, Complex<T>>;
    default: return nullptr;
  }
}

template <typename T>
Loop integer_loop_for(OpId id) {
  switch (id) {
    case OpId::band: return best_loop<Band, T>();
    case OpId::bor: return best_loop<Bor, T>();
    case OpId::bxor: return best_loop<Bxor, T>();
    case OpId::land: return best_loop<Land, T>();
    case OpId::lor: return best_loop<Lor, T>();
    case OpId::lxor: return best_loop<Lxor, T>();
    default: return nullptr;
  }
}

}  // namespace

Loop number_loop(OpId id, Rep rep) {
  auto pick = [id]<typename T>() { return number_loop_for<T>(id); };
  Loop found = with_integer(rep, pick);
  return found ? found : with_floating(rep, pick);
}

Loop complex_loop(OpId id, Rep rep) {
  return with_floating(rep, [id]<typename T>() { return complex_loop_for<T>(id); });
}

Loop integer_loop(OpId id, Rep rep) {
  return with_integer(rep, [id]<typename T>() { return integer_loop_for<T>(id); });
}

}  // namespace tern::op_loops
