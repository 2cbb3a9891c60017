#include "fabric/rdma/channels/channel_policy.h"

#include <algorithm>
#include <iterator>
#include <span>
#include <utility>

namespace tern {

ChannelPolicy::ChannelPolicy(const Tunables& tunables, const rdma::Capabilities& able, uint32_t ranks)
    : mode_(tunables.rdma_channels),
      device_(able.device),
      dc_(able.dc),
      rotates_(mode_ == "rotate"),
      unit_ns_(uint64_t(tunables.rdma_statistics_ms) * 1'000'000) {
  const bool base_is_dc =
      mode_ == "dc" || mode_ == "dc-rdma" || (able.dc && (mode_ == "auto" || mode_ == "rotate" || mode_ == "rc-rdma"));
  base_ = on_demand_ = base_is_dc ? ChannelKind::dc : ChannelKind::rc;
  if (mode_ == "rc-rdma") on_demand_ = ChannelKind::rc_rdma;
  if (mode_ == "dc-rdma") on_demand_ = ChannelKind::dc_rdma;
  if (mode_ != "auto") return;
  ChannelCosts costs;
  MapLimits limits;
  limits.ring_entries = uint32_t(tunables.rdma_ring_entries);
  limits.max_rings = uint32_t(tunables.rdma_rings);
  limits.max_connected = uint32_t(tunables.rdma_rc_active);
  limits.dc = base_is_dc;
  // If the base is connected already, a ring saves what polling memory saves against the completion queue.
  if (!base_is_dc) costs.rc_ring_gain = costs.dc_ring_gain;
  selector_ =
      std::make_unique<ChannelSelector>(costs, limits, statistics_rows(size_t(tunables.rdma_statistics), ranks));
}

Error ChannelPolicy::check() const {
  if (std::find(std::begin(kChannelNames), std::end(kChannelNames), mode_) == std::end(kChannelNames) &&
      mode_ != "auto" && !rotates_) {
    return Error(ErrorClass::arg, "TERN_RDMA_CHANNELS is '" + mode_ +
                                      "'; it can be rc, rc-rdma, dc, dc-rdma, auto, or (for tests) rotate");
  }
  if (base_ == ChannelKind::dc && !dc_) {
    return Error(ErrorClass::unsupported_operation, "TERN_RDMA_CHANNELS is " + mode_ + ", but the adapter " + device_ +
                                                        " has no DC: use rc, rc-rdma or auto");
  }
  return {};
}

void ChannelPolicy::count(PeerId peer, uint32_t received, bool paired) {
  uint32_t& seen = seen_[peer];
  const uint32_t messages = received - seen;
  seen = received;
  anything_ |= messages != 0;
  if (selector_) selector_->add(peer, messages, paired);
}

void ChannelPolicy::rotate() {
  static constexpr ChannelKind kWithDc[] = {ChannelKind::dc, ChannelKind::rc_rdma, ChannelKind::dc_rdma};
  static constexpr ChannelKind kWithoutDc[] = {ChannelKind::rc, ChannelKind::rc_rdma};
  const std::span<const ChannelKind> kinds =
      base_ == ChannelKind::dc ? std::span<const ChannelKind>(kWithDc) : std::span<const ChannelKind>(kWithoutDc);
  ++turn_;
  for (const auto& [peer, received] : seen_) mapping_[peer] = kinds[turn_ % kinds.size()];
}

const ChannelPolicy::Mapping* ChannelPolicy::end_of_unit(uint64_t now_ns) {
  due_ns_ = now_ns + unit_ns_;
  if (rotates_) {
    rotate();
    changed_ = true;
    return &mapping_;
  }
  if ((changed_ = selector_->end_of_unit())) {
    mapping_.clear();
    for (const auto& [peer, connected] : selector_->map())
      mapping_[peer] = connected ? ChannelKind::rc_rdma : ChannelKind::dc_rdma;
  }
  // Asked for again each time: a rank that slept meanwhile has given its rings up.
  return std::exchange(anything_, false) ? &mapping_ : nullptr;
}

}  // namespace tern
