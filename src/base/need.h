// How urgently a rank that leaves the library needs somebody who goes on with what is pending.
#pragma once

#include <cstdint>

namespace tern {

/// In the order of urgency.
enum class Need : uint8_t {
  nothing,
  later,  ///< only what others (kernels) bring to an end, unless they fail: a look now and then will do
  now,    ///< something may come that this rank is to act on, or is still to leave
};

}  // namespace tern
