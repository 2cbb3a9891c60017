// How urgently pending work needs somebody to poll while this rank is outside the library.
#pragma once

#include <cstdint>

namespace tern {

/// In the order of urgency.
enum class Need : uint8_t {
  nothing,
  later,   ///< only the kernel has work left, unless a connection fails: an occasional poll is enough
  now,     ///< a message may arrive that this rank must act on, or one still has to be sent
  always,  ///< the same, and who sends it expects that somebody polls already (TERN_RMA_LOCK=polling-thread)
};

}  // namespace tern
