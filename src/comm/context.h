// Context ids. One rank of the new communicator's group (its lowest) makes the id and the creating collective
// carries it to the others: no search for an id that is free everywhere (MPICH's bit masks), since 64 bits
// hold the maker and a counter that never comes back: maker's world rank (30 bits) | counter (32 bits) |
// plane (2 bits).
#pragma once

#include <cstdint>

#include "base/types.h"

namespace tern {

inline constexpr uint64_t kWorldContext = uint64_t{1} << 2;
inline constexpr uint64_t kSelfContext = uint64_t{2} << 2;

inline uint64_t make_context(PeerId maker, uint32_t counter) {
  return (uint64_t(maker) << 34) | (uint64_t(counter) << 2);
}

}  // namespace tern
