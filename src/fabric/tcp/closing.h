// The orderly end of connections. Thread rule: under the rank's lock.
#pragma once

#include <cstddef>
#include <vector>

#include "base/clock.h"
#include "fabric/ip/stream_port.h"
#include "fabric/tcp/links.h"

namespace tern::tcp {

/// Delivers what was sent on these streams (all with a connection), and says goodbye. Blocks, but for no longer than a
/// peer that does not read is waited for. `scratch`: TcpOutbound::kScratchBytes.
void close_in_order(StreamPort& port, Clock& clock, std::byte* scratch, const std::vector<Stream*>& streams);

}  // namespace tern::tcp
