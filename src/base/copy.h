// Copies of a few bytes, without the call that memcpy of an unknown size is.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace tern {

/// At most 32 bytes, without a call: two overlapping moves of the largest power of two that fits.
[[gnu::always_inline]] inline void copy_upto_32(void* target, const void* from, size_t bytes) {
  auto* to = static_cast<std::byte*>(target);
  const auto* source = static_cast<const std::byte*>(from);
  auto move = [&](auto word) {
    std::memcpy(&word, source, sizeof word);
    auto last = word;
    std::memcpy(&last, source + bytes - sizeof word, sizeof word);
    std::memcpy(to, &word, sizeof word);
    std::memcpy(to + bytes - sizeof word, &last, sizeof word);
  };
  struct Half {
    uint64_t words[2];
  };
  if (bytes >= 16) move(Half{});
  else if (bytes >= 8) move(uint64_t{});
  else if (bytes >= 4) move(uint32_t{});
  else if (bytes >= 2) move(uint16_t{});
  else if (bytes == 1) to[0] = source[0];
}

/// Any number of bytes, most often few.
[[gnu::always_inline]] inline void copy_small(void* to, const void* from, size_t bytes) {
  if (bytes <= 32) copy_upto_32(to, from, bytes);
  else std::memcpy(to, from, bytes);
}

}  // namespace tern
