// CRC-32C (Castagnoli, reflected polynomial 0x82f63b78; RFC 3720, appendix B.4): the checksum that finds what TCP's own
// 16-bit sum lets through. Computed with the processor's instruction where it has one (x86-64 SSE 4.2, ARMv8 CRC),
// by tables otherwise; the results are the same. Thread rule: pure functions.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tern {

/// The checksum of `bytes` bytes that follow data with the checksum `before` (0: no data before them).
uint32_t crc32c(const void* data, size_t bytes, uint32_t before = 0);

/// As crc32c, without the processor's instruction: for processors that lack it, and for the test.
uint32_t crc32c_by_table(const void* data, size_t bytes, uint32_t before = 0);

/// Whether crc32c uses the processor's instruction.
bool crc32c_in_hardware();

}  // namespace tern
