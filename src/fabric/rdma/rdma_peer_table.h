// RdmaPeerTable: the peers of the RDMA path, and this rank itself, to whose memory it has a lane, too. Owns them; one
// stays where it is. Thread rule: the rank's lock.
#pragma once

#include <memory>
#include <vector>

#include "base/assert.h"
#include "base/peer_table.h"
#include "fabric/rdma/rdma_peer.h"

namespace tern {

class RdmaPeerTable {
 public:
  /// All ranks that there are; outlives this.
  explicit RdmaPeerTable(const PeerTable& numbers) : numbers_(numbers) {}
  bool reaches(PeerId id) const { return id != numbers_.me() && id < numbers_.size(); }
  /// The lane to this rank's own memory: no messages go that way.
  bool is_me(const RdmaPeer& peer) const { return peer.id == numbers_.me(); }
  RdmaPeer& me() { return at(numbers_.me()); }
  /// Made on the first call.
  RdmaPeer& at(PeerId id) {
    TERN_DEBUG_ASSERT(id < numbers_.size());
    if (peers_.size() <= id) peers_.resize(numbers_.size());
    if (!peers_[id]) peers_[id] = std::make_unique<RdmaPeer>(id);
    return *peers_[id];
  }
  /// Null: never asked for.
  RdmaPeer* known(uint32_t id) const { return id < peers_.size() ? peers_[id].get() : nullptr; }
  /// Calls `visit` with each that was ever asked for.
  template <typename Visit>
  void each(Visit&& visit) const {
    for (const auto& peer : peers_) {
      if (peer) visit(*peer);
    }
  }

 private:
  const PeerTable& numbers_;
  std::vector<std::unique_ptr<RdmaPeer>> peers_;  ///< by PeerId; null: never heard of
};

}  // namespace tern
