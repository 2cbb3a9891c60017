// The software binary16 against the compiler's, where both are there; its fixed points everywhere.
#include "datatype/real_types.h"

#include <cmath>
#include <cstring>

#include <gtest/gtest.h>

#include "base/rng.h"

namespace tern {
namespace {

using op_loops::Half;

Half half_of(uint16_t bits) {
  Half half;
  std::memcpy(static_cast<void*>(&half), &bits, 2);
  return half;
}

uint16_t bits_of(Half half) {
  uint16_t bits;
  std::memcpy(&bits, &half, 2);
  return bits;
}

TEST(Half, KnownValues) {
  EXPECT_EQ(float(half_of(0x3c00)), 1.0f);
  EXPECT_EQ(float(half_of(0xc000)), -2.0f);
  EXPECT_EQ(float(half_of(0x0001)), 0x1p-24f);
  EXPECT_EQ(float(half_of(0x7bff)), 65504.0f);
  EXPECT_TRUE(std::isinf(float(half_of(0x7c00))));
  EXPECT_TRUE(std::isnan(float(half_of(0x7e00))));
  EXPECT_EQ(bits_of(Half(65519.0f)), 0x7bff);
  EXPECT_EQ(bits_of(Half(65520.0f)), 0x7c00);
  EXPECT_EQ(bits_of(Half(-0.0f)), 0x8000);
  EXPECT_EQ(bits_of(Half(2049.0f)), 0x6800) << "halfway: to the even neighbour, 2048";
  EXPECT_EQ(bits_of(Half(2051.0f)), 0x6802) << "halfway: to the even neighbour, 2052";
  EXPECT_EQ(bits_of(Half(0x1p-25f)), 0) << "half of the smallest number: to even, zero";
}

TEST(Half, EveryValueSurvivesBothConversions) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const float value = float(half_of(uint16_t(bits)));
    if (std::isnan(value)) {
      EXPECT_TRUE(std::isnan(float(Half(value))));
    } else {
      ASSERT_EQ(bits_of(Half(value)), bits);
    }
  }
}

#if defined(__x86_64__) || defined(__clang__) || __GNUC__ >= 13
TEST(Half, RoundsAsTheCompiler) {
  Rng rng(7);
  for (int i = 0; i < 1'000'000; ++i) {
    const auto bits = uint32_t(rng.next());
    float value;
    std::memcpy(&value, &bits, 4);
    if (std::isnan(value)) continue;
    // Most random floats are far outside binary16's range: half of them are brought into it.
    int exponent;
    if (i % 2 != 0) value = std::ldexp(std::frexp(value, &exponent), int(rng.below(44)) - 26);
    const auto expected = op_loops::Float16(value);
    uint16_t expected_bits;
    std::memcpy(&expected_bits, &expected, 2);
    ASSERT_EQ(bits_of(Half(value)), expected_bits) << value;
  }
}
#endif

}  // namespace
}  // namespace tern
