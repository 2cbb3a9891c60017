// The heads of blocks (wire/frame.h): a wrong length is found before the receiver waits for so many bytes.
#include "wire/frame.h"

#include <gtest/gtest.h>

#include <cstring>

namespace tern {
namespace {

TEST(TcpFrame, ADamagedHeadOfABlockIsFound) {
  for (const size_t length : {size_t{0}, size_t{1}, size_t{64}, size_t{1000}, wire::kMaxBlockBytes}) {
    const wire::BlockHead head = wire::build_block(length, length * 1'000'003);
    std::byte sound[sizeof head];
    std::memcpy(sound, &head, sizeof head);
    wire::BlockHead parsed;
    ASSERT_TRUE(wire::parse_block(sound, parsed));
    EXPECT_EQ(parsed.length, length);
    EXPECT_EQ(parsed.acknowledged, length * 1'000'003);
    // All errors of one bit and of two, behind the CRC (which the parser knows nothing of).
    constexpr size_t kFirst = sizeof head.crc * 8, kBits = sizeof head * 8;
    for (size_t first = kFirst; first < kBits; ++first) {
      for (size_t second = first; second < kBits; ++second) {
        std::byte damaged[sizeof head];
        std::memcpy(damaged, sound, sizeof head);
        damaged[first / 8] ^= std::byte(1 << first % 8);
        if (second != first) damaged[second / 8] ^= std::byte(1 << second % 8);
        EXPECT_FALSE(wire::parse_block(damaged, parsed)) << "bits " << first << " and " << second;
      }
    }
  }
}

}  // namespace
}  // namespace tern
