// Bodies of fixed length that follow a header. The parser trusts nothing: a body of another length is none.
// Thread rule: pure functions.
#pragma once

#include <cstddef>
#include <cstring>
#include <type_traits>

namespace tern::wire {

/// Short enough to come whole (kAlwaysWholeBytes of fabric/path.h).
inline constexpr size_t kMaxBodyBytes = 64;

/// False: not such a body.
template <typename Body>
bool parse_body(const std::byte* payload, size_t bytes, Body& body) {
  static_assert(std::is_trivially_copyable_v<Body> && sizeof(Body) <= kMaxBodyBytes);
  if (bytes != sizeof body) return false;
  std::memcpy(&body, payload, sizeof body);
  return true;
}

}  // namespace tern::wire
