// What a pair of ranks keeps for announced receives (receiver_initiated.cc), from the first one on.
// Thread rule: under the rank's lock.
#pragma once

#include <cstdint>
#include <vector>

#include "p2p/sent_log.h"

namespace tern {

struct Announcements {
  explicit Announcements(uint32_t sent) : log(sent) {}
  // As sender.
  SentLog log;
  uint32_t epoch_out = 0;  ///< of Endpoint::sent
  // As receiver.
  uint32_t epoch_in = 0;  ///< of Endpoint::arrived
  uint32_t next_serial = 1;
  uint32_t announced = 0;          ///< receives announced and not complete
  std::vector<uint16_t> releases;  ///< library buffers of the peer's that were read, not told yet
};

}  // namespace tern
