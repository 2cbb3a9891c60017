// CRC-32C against published values and against its definition, bit by bit.
#include "base/crc32c.h"

#include <gtest/gtest.h>

#include <string>

#include "base/rng.h"

namespace tern {
namespace {

// Long division as the polynomial is defined, nothing clever.
uint32_t by_definition(const std::string& data) {
  uint32_t crc = ~uint32_t{0};
  for (unsigned char c : data) {
    crc ^= c;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ (crc & 1 ? 0x82f63b78 : 0);
  }
  return ~crc;
}

// RFC 3720, appendix B.4.
TEST(Crc32c, PublishedValues) {
  std::string ascending;
  for (int i = 0; i < 32; ++i) ascending += char(i);
  struct {
    std::string data;
    uint32_t crc;
  } rows[] = {{std::string(32, '\0'), 0x8a9136aa},
              {std::string(32, '\xff'), 0x62a8ab43},
              {ascending, 0x46dd794e},
              {"123456789", 0xe3069283},
              {"", 0}};
  for (auto& row : rows) {
    EXPECT_EQ(crc32c(row.data.data(), row.data.size()), row.crc);
    EXPECT_EQ(crc32c_by_table(row.data.data(), row.data.size()), row.crc);
  }
}

TEST(Crc32c, AllWaysAgreeAtEveryLengthAndAlignment) {
  Rng rng(1);
  std::string memory(20'000, 0);
  for (char& c : memory) c = char(rng.next());
  auto check = [&](size_t at, size_t bytes) {
    std::string data = memory.substr(at, bytes);
    uint32_t wanted = by_definition(data);
    ASSERT_EQ(crc32c(memory.data() + at, bytes), wanted) << at << " " << bytes;
    ASSERT_EQ(crc32c_by_table(memory.data() + at, bytes), wanted) << at << " " << bytes;
    size_t first = bytes == 0 ? 0 : size_t(rng.below(bytes));
    uint32_t in_two = crc32c(memory.data() + at + first, bytes - first, crc32c(memory.data() + at, first));
    ASSERT_EQ(in_two, wanted) << "cut at " << first;
  };
  for (size_t bytes = 0; bytes < 200; ++bytes) check(size_t(rng.below(16)), bytes);
  for (size_t bytes : {3071, 3072, 3073, 6144, 6151, 9216, 19'000}) check(size_t(rng.below(16)), size_t(bytes));
}

// What it is for: any flip of up to three bits in a fragment is found (Koopman 2002: distance 4 and more to 2^31 bits).
TEST(Crc32c, FlippedBitsAreFound) {
  Rng rng(2);
  std::string data(4096, 0);
  for (char& c : data) c = char(rng.next());
  const uint32_t good = crc32c(data.data(), data.size());
  for (int i = 0; i < 3000; ++i) {
    std::string bad = data;
    int flips = 1 + int(rng.below(3));
    for (int k = 0; k < flips; ++k) bad[size_t(rng.below(bad.size()))] ^= char(1 << rng.below(8));
    if (bad != data) {
      ASSERT_NE(crc32c(bad.data(), bad.size()), good);
    }
  }
}

}  // namespace
}  // namespace tern
