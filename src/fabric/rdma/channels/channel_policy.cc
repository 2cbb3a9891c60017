#include "fabric/rdma/channels/channel_policy.h"

#include <algorithm>
#include <iterator>
#include <span>
#include <utility>

namespace tern {
namespace {

void override_costs(const Tunables& tunables, ChannelCosts& costs) {
  auto set = [](int64_t& cost, int64_t value, int64_t picoseconds) {
    if (value >= 0) cost = value * picoseconds;
  };
  set(costs.rc_ring_gain, tunables.rdma_ring_gain_ns, 1000);
  set(costs.dc_ring_gain, tunables.rdma_dc_ring_gain_ns, 1000);
  set(costs.connected_gain, tunables.rdma_connected_gain_ns, 1000);
  set(costs.empty_poll, tunables.rdma_empty_poll_ns, 1000);
  set(costs.credit, tunables.rdma_credit_ns, 1000);
  set(costs.rc_ring_setup, tunables.rdma_ring_setup_us, 1'000'000);
  set(costs.dc_ring_setup, tunables.rdma_ring_setup_us, 1'000'000);
  set(costs.threshold, tunables.rdma_change_gain_ns, 1000);
}

}  // namespace

ChannelPolicy::ChannelPolicy(const Tunables& tunables, const rdma::Capabilities& able, uint32_t ranks)
    : mode_(tunables.rdma_channels),
      device_(able.device),
      dc_(able.dc),
      xrc_(able.xrc),
      rotates_(mode_ == "rotate"),
      unit_ns_(uint64_t(tunables.rdma_statistics_ms) * 1'000'000) {
  const bool base_is_dc =
      mode_ == "dc" || mode_ == "dc-rdma" ||
      (able.dc && (mode_ == "auto" || mode_ == "auto-rc" || mode_ == "rotate" || mode_ == "rc-rdma"));
  const bool base_is_xrc = mode_ == "xrc" || mode_ == "auto-xrc";
  const bool selects = mode_ == "auto" || mode_ == "auto-rc" || mode_ == "auto-ud" || mode_ == "auto-xrc";
  base_ = base_is_dc                 ? ChannelKind::dc
          : base_is_xrc              ? ChannelKind::xrc
          : mode_ == "ud" || selects ? ChannelKind::ud
                                     : ChannelKind::rc;
  on_demand_ = base_;
  if (mode_ == "auto-rc") on_demand_ = ChannelKind::rc;
  if (mode_ == "rc-rdma") on_demand_ = ChannelKind::rc_rdma;
  if (mode_ == "dc-rdma") on_demand_ = ChannelKind::dc_rdma;
  if (!selects) return;
  ChannelCosts costs;
  MapLimits limits;
  limits.ring_entries = uint32_t(tunables.rdma_ring_entries);
  limits.max_rings = uint32_t(tunables.rdma_rings);
  limits.max_connected = uint32_t(tunables.rdma_rc_active);
  limits.dc = base_is_dc;
  if (!base_is_dc) costs = base_is_xrc ? kCostsAgainstXrc : kCostsAgainstDatagrams;
  override_costs(tunables, costs);
  if (!base_is_dc) costs.dc_ring_gain = costs.dc_ring_setup = 0;
  selector_ =
      std::make_unique<ChannelSelector>(costs, limits, statistics_rows(size_t(tunables.rdma_statistics), ranks));
}

Error ChannelPolicy::check() const {
  if (std::find(std::begin(kChannelNames), std::end(kChannelNames), mode_) == std::end(kChannelNames) && !selector_ &&
      !rotates_) {
    return Error(
        ErrorClass::arg,
        "TERN_RDMA_CHANNELS is '" + mode_ +
            "'; it can be rc, rc-rdma, dc, dc-rdma, ud, xrc, auto, auto-rc, auto-ud, auto-xrc, or (for tests) rotate");
  }
  if (base_ == ChannelKind::dc && !dc_) {
    return Error(ErrorClass::unsupported_operation, "TERN_RDMA_CHANNELS is " + mode_ + ", but the adapter " + device_ +
                                                        " has no DC: use rc, rc-rdma, ud or auto");
  }
  if (base_ == ChannelKind::xrc && !xrc_) {
    return Error(ErrorClass::unsupported_operation, "TERN_RDMA_CHANNELS is " + mode_ + ", but the adapter " + device_ +
                                                        " has no XRC: use rc, rc-rdma, ud or auto");
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
  static constexpr ChannelKind kWithDc[] = {ChannelKind::dc, ChannelKind::rc_rdma, ChannelKind::ud,
                                            ChannelKind::dc_rdma, ChannelKind::rc};
  static constexpr ChannelKind kWithoutDc[] = {ChannelKind::rc, ChannelKind::rc_rdma, ChannelKind::ud};
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
    for (const auto& [peer, channel] : selector_->map()) mapping_[peer] = channel;
  }
  // Asked for again each time: a rank that slept meanwhile has given its rings up.
  return std::exchange(anything_, false) ? &mapping_ : nullptr;
}

}  // namespace tern
