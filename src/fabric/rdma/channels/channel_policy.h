// ChannelPolicy: which channels the rdma path uses, as TERN_RDMA_CHANNELS says: one kind for all peers from the
// beginning (on demand), or selected by what was received (auto). `rotate`, for tests of everything above: all streams
// change to the next kind at the end of each unit.
// Thread rule: the rank's lock.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>

#include "base/error.h"
#include "base/tunables.h"
#include "fabric/rdma/channels/channel.h"
#include "fabric/rdma/channels/channel_selector.h"
#include "fabric/rdma/verbs/hca.h"

namespace tern {

class ChannelPolicy {
 public:
  using Mapping = std::unordered_map<PeerId, ChannelKind>;

  ChannelPolicy(const Tunables& tunables, const rdma::Capabilities& able, uint32_t ranks);
  /// Error: there is no such channel, or the adapter does not have it.
  Error check() const;

  /// Whether messages may go by datagrams, at first or later.
  bool datagrams() const { return base_ == ChannelKind::ud || rotates_; }
  /// What every stream begins with.
  ChannelKind base() const { return base_; }
  /// The channel it changes to after its first message; the base: no change.
  ChannelKind on_demand() const { return on_demand_; }
  /// Whether a stream that the mapping does not name stays on the channel it has (auto-rc: a connected one that it was
  /// given while the adapter had room).
  bool stays(ChannelKind kind) const { return on_demand_ == ChannelKind::rc && kind == on_demand_; }
  /// Whether channels are selected again from time to time.
  bool adapts() const { return selector_ || rotates_; }

  /// Starts the time.
  void begin(uint64_t now_ns) { due_ns_ = now_ns + unit_ns_; }
  /// When the unit ends; ~0: counts are not used.
  uint64_t due_ns() const { return due_ns_; }
  /// `received`: all messages that have come from that peer so far (modulo 2^32). `paired`: ours go to it over a
  /// connected queue pair. Called once per peer and unit.
  void count(PeerId peer, uint32_t received, bool paired);
  /// Most peers with a connected channel from now on.
  void limit_connected(uint32_t peers) {
    if (selector_) selector_->limit_connected(peers);
  }
  /// The channels of all streams from now on (the base for peers not named); null: no change.
  const Mapping* end_of_unit(uint64_t now_ns);
  /// Whether that differs from the mapping of the last unit.
  bool changed() const { return changed_; }

 private:
  void rotate();

  const std::string mode_, device_;
  const bool dc_, xrc_, rotates_;
  const uint64_t unit_ns_;
  ChannelKind base_ = ChannelKind::rc, on_demand_ = ChannelKind::rc;
  std::unique_ptr<ChannelSelector> selector_;  ///< null: nothing is selected
  std::unordered_map<PeerId, uint32_t> seen_;  ///< what `count` was told last
  uint32_t turn_ = 0;                          ///< of `rotate`
  bool changed_ = false;
  bool anything_ = false;  ///< messages came in this unit
  Mapping mapping_;
  uint64_t due_ns_ = ~uint64_t{0};
};

}  // namespace tern
