#include "fabric/rdma/channels/channel_adaptation.h"

namespace tern {

void adapt_channels(ChannelPolicy& policy, const RdmaPeerTable& table, ChannelSwitches& switches, bool has_dc,
                    uint64_t now_ns) {
  const auto each_ready = [&](auto&& visit) {
    table.each([&](RdmaPeer& peer) {
      if (peer.state == RdmaPeer::State::ready && !table.is_me(peer)) visit(peer);
    });
  };
  each_ready([&](RdmaPeer& peer) {
    switches.end_of_unit(peer);
    policy.count(peer.id, peer.stream.received, switches.sends_connected(peer));
  });
  policy.limit_connected(switches.update_share());
  const ChannelPolicy::Mapping* mapping = policy.end_of_unit(now_ns);
  if (!mapping) return;
  each_ready([&](RdmaPeer& peer) {
    auto found = mapping->find(peer.id);
    if (policy.changed()) switches.forgive(peer);
    const ChannelKind now = peer.switching.kind;
    const ChannelKind wanted = found != mapping->end() ? found->second : policy.stays(now) ? now : policy.base();
    // A ring without a connected queue pair, where there is none left.
    if (!switches.request(peer, wanted) && wanted == ChannelKind::rc_rdma && has_dc && peer.switching.kind != wanted &&
        !peer.switching.changing)
      switches.request(peer, ChannelKind::dc_rdma);
  });
}

}  // namespace tern
