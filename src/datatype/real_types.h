// The reals of 2 and 16 bytes (MPI_REAL2, MPI_REAL16; IEEE 754 binary16 and binary128) as this machine and compiler
// have them. Internal to datatype/. Thread rule: plain values.
#pragma once

#include <bit>
#include <cstdint>
#include <limits>
#include <type_traits>

namespace tern::op_loops {

#if __LDBL_MANT_DIG__ == 113  // AArch64, RISC-V: long double is binary128
using Float128 = long double;
#else
__extension__ typedef __float128 Float128;
#endif
static_assert(sizeof(Float128) == 16);

/// binary16 where the compiler has no type for it: arithmetic is done in float and rounded to the nearest, ties to
/// even. float has more than twice binary16's digits, so one rounded operation is the same as in binary16 itself.
class Half {
 public:
  Half() = default;
  explicit Half(float value) : bits_(round(value)) {}
  operator float() const { return widen(bits_); }

 private:
  static constexpr uint32_t kSign = 0x8000, kInfinity = 0x7c00;  ///< IEEE 754, 3.4: the bits of binary16
  static constexpr int kDropped = 23 - 10;                       ///< bits of float's fraction that binary16 lacks
  static constexpr uint32_t kBias = 112u << 23;  ///< 127 - 15, the exponents' biases, in float's exponent field

  static uint16_t round(float value) {
    const uint32_t bits = std::bit_cast<uint32_t>(value), sign = bits >> 16 & kSign, size = bits & 0x7fffffff;
    if (size > 0x7f800000) return uint16_t(sign | kInfinity | 0x200);  // not a number
    if (size >= 0x477ff000) return uint16_t(sign | kInfinity);         // 65,520 and more round to infinity
    if (size >= 0x38800000) {                                          // 2^-14 and more: a normal number
      const uint32_t shifted = size - kBias, odd = shifted >> kDropped & 1;
      return uint16_t(sign | (shifted + (1u << (kDropped - 1)) - 1 + odd) >> kDropped);
    }
    // A subnormal number counts units of 2^-24: adding 0.5 leaves them in the lowest bits of the sum, rounded by the
    // processor.
    const float aligned = std::bit_cast<float>(size) + 0.5f;
    return uint16_t(sign | (std::bit_cast<uint32_t>(aligned) - std::bit_cast<uint32_t>(0.5f)));
  }

  static float widen(uint16_t half) {
    const uint32_t sign = uint32_t(half & kSign) << 16, size = half & 0x7fff;
    if (size >= kInfinity) return std::bit_cast<float>(sign | 0x7f800000 | (size & 0x3ff) << kDropped);
    if (size >= 0x400) return std::bit_cast<float>(sign | ((size << kDropped) + kBias));
    const float value = float(size) * 0x1p-24f;  // zero or subnormal
    return sign ? -value : value;
  }

  uint16_t bits_;
};
static_assert(sizeof(Half) == 2);

// In C++ GCC has _Float16 on x86-64 from version 12, elsewhere from 13; clang has it on x86-64 from version 15,
// elsewhere always.
#if defined(__clang__) ? __clang_major__ >= 15 || !defined(__x86_64__) : defined(__x86_64__) || __GNUC__ >= 13
__extension__ typedef _Float16 Float16;
#else
using Float16 = Half;
#endif

/// Whether T is one of the reals that operators are applied to.
template <typename T>
inline constexpr bool is_floating =
    std::is_floating_point_v<T> || std::is_same_v<T, Float128> || std::is_same_v<T, Float16>;

}  // namespace tern::op_loops
