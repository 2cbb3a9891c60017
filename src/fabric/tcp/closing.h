// The orderly end of connections. Thread rule: under the rank's lock.
#pragma once

#include <cstddef>
#include <vector>

#include "base/clock.h"
#include "fabric/ip/stream_port.h"
#include "fabric/tcp/links.h"

namespace tern::tcp {

/// Delivers what was sent on these streams (all have a connection), and says goodbye. Blocks, for a limited time if a
/// peer does not read. `scratch`: TcpOutbound::kScratchBytes.
void close_in_order(StreamPort& port, Clock& clock, std::byte* scratch, const std::vector<Stream*>& streams);

}  // namespace tern::tcp
