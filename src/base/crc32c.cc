// The instruction takes 8 bytes, has a latency of 3 cycles and can start every cycle. So long data is cut into three
// lanes whose checksums are computed side by side and then combined. Appending n zero bytes to data is a linear map of
// its checksum; kShift holds that map for a lane's length, as one table for each byte of the checksum.
//
//   lane A (n bytes)   lane B (n bytes)   lane C (n bytes)      crc = shift(shift(a) ^ b) ^ c
#include "base/crc32c.h"

#include <array>
#include <cstring>

#if defined(__x86_64__)
#include <cpuid.h>
#include <nmmintrin.h>
#elif defined(__aarch64__)
#include <arm_acle.h>
#include <sys/auxv.h>
#endif

namespace tern {
namespace {

constexpr uint32_t kPolynomial = 0x82f63b78;  // RFC 3720, reflected
/// Bytes of one lane. Three lanes fit into the first-level cache (32 KiB or more); shorter lanes would be combined
/// more often.
constexpr size_t kLane = 1024;

using Tables = std::array<std::array<uint32_t, 256>, 8>;

// Slicing by 8: table k holds the checksum of a byte followed by k zero bytes.
constexpr Tables make_tables() {
  Tables tables{};
  for (uint32_t i = 0; i < 256; ++i) {
    uint32_t crc = i;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ (crc & 1 ? kPolynomial : 0);
    tables[0][i] = crc;
  }
  for (size_t k = 1; k < 8; ++k) {
    for (size_t i = 0; i < 256; ++i) tables[k][i] = (tables[k - 1][i] >> 8) ^ tables[0][tables[k - 1][i] & 0xff];
  }
  return tables;
}
constexpr Tables kTables = make_tables();

using Shift = std::array<std::array<uint32_t, 256>, 4>;

// The map is linear: its values for the 32 single bits determine it.
constexpr Shift make_shift(size_t zeros) {
  std::array<uint32_t, 32> of_bit{};
  for (size_t bit = 0; bit < 32; ++bit) {
    uint32_t crc = uint32_t{1} << bit;
    for (size_t i = 0; i < zeros; ++i) crc = (crc >> 8) ^ kTables[0][crc & 0xff];
    of_bit[bit] = crc;
  }
  Shift shift{};
  for (size_t k = 0; k < 4; ++k) {
    for (size_t i = 0; i < 256; ++i) {
      for (size_t bit = 0; bit < 8; ++bit) {
        if (i >> bit & 1) shift[k][i] ^= of_bit[8 * k + bit];
      }
    }
  }
  return shift;
}
constexpr Shift kShift = make_shift(kLane);

[[maybe_unused]] uint32_t shift(uint32_t crc) {
  return kShift[0][crc & 0xff] ^ kShift[1][crc >> 8 & 0xff] ^ kShift[2][crc >> 16 & 0xff] ^ kShift[3][crc >> 24];
}

uint64_t word_at(const unsigned char* at) {
  uint64_t word;
  std::memcpy(&word, at, sizeof word);
  return word;
}

#if defined(__x86_64__)
#define TERN_CRC_TARGET [[gnu::target("sse4.2")]]
TERN_CRC_TARGET inline uint64_t step8(uint64_t crc, uint64_t word) { return _mm_crc32_u64(crc, word); }
TERN_CRC_TARGET inline uint64_t step1(uint64_t crc, uint8_t byte) { return _mm_crc32_u8(uint32_t(crc), byte); }
// Not __builtin_cpu_supports: for it each start of a program asks CPUID some twenty times, 2 us each on a virtual
// machine.
const bool sse42_there = [] {
  unsigned a, b, c, d;
  __cpuid(1, a, b, c, d);
  return (c & bit_SSE4_2) != 0;
}();
bool instruction_there() { return sse42_there; }
#elif defined(__aarch64__)
#define TERN_CRC_TARGET [[gnu::target("+crc")]]
TERN_CRC_TARGET inline uint64_t step8(uint64_t crc, uint64_t word) { return __crc32cd(uint32_t(crc), word); }
TERN_CRC_TARGET inline uint64_t step1(uint64_t crc, uint8_t byte) { return __crc32cb(uint32_t(crc), byte); }
bool instruction_there() { return getauxval(AT_HWCAP) & (1 << 7); }  // HWCAP_CRC32
#endif

#ifdef TERN_CRC_TARGET
TERN_CRC_TARGET uint32_t by_instruction(const unsigned char* at, size_t bytes, uint32_t before) {
  uint64_t a = ~before;
  while (bytes >= 3 * kLane) {
    uint64_t b = 0, c = 0;
    for (size_t i = 0; i < kLane; i += 8) {
      a = step8(a, word_at(at + i));
      b = step8(b, word_at(at + kLane + i));
      c = step8(c, word_at(at + 2 * kLane + i));
    }
    a = shift(shift(uint32_t(a)) ^ uint32_t(b)) ^ uint32_t(c);
    at += 3 * kLane;
    bytes -= 3 * kLane;
  }
  for (; bytes >= 8; bytes -= 8, at += 8) a = step8(a, word_at(at));
  for (; bytes != 0; --bytes, ++at) a = step1(a, *at);
  return ~uint32_t(a);
}
#endif

}  // namespace

uint32_t crc32c_by_table(const void* data, size_t bytes, uint32_t before) {
  auto* at = static_cast<const unsigned char*>(data);
  uint32_t crc = ~before;
  for (; bytes >= 8; bytes -= 8, at += 8) {
    uint64_t word = word_at(at) ^ crc;
    crc = 0;
    for (size_t k = 0; k < 8; ++k) crc ^= kTables[7 - k][word >> 8 * k & 0xff];
  }
  for (; bytes != 0; --bytes, ++at) crc = (crc >> 8) ^ kTables[0][(crc ^ *at) & 0xff];
  return ~crc;
}

bool crc32c_in_hardware() {
#ifdef TERN_CRC_TARGET
  return instruction_there();
#else
  return false;
#endif
}

uint32_t crc32c(const void* data, size_t bytes, uint32_t before) {
#ifdef TERN_CRC_TARGET
  if (crc32c_in_hardware()) return by_instruction(static_cast<const unsigned char*>(data), bytes, before);
#endif
  return crc32c_by_table(data, bytes, before);
}

}  // namespace tern
