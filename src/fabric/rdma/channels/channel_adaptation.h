// The end of a unit of the channel statistics: what has come is counted, and streams change to the channels that the
// policy wants. Thread rule: the rank's lock.
#pragma once

#include "fabric/rdma/channels/channel_policy.h"
#include "fabric/rdma/rdma_peer_table.h"

namespace tern {

/// `has_dc`: a stream may come by a ring over DC.
void adapt_channels(ChannelPolicy& policy, const RdmaPeerTable& table, ChannelSwitches& switches, bool has_dc,
                    uint64_t now_ns);

}  // namespace tern
