#include "process/node_ranks.h"

#include <algorithm>

namespace tern {

void NodeRanks::share_memory(ShmNode& node) {
  memory_ = std::make_unique<NodeMemory>(node);
  all_ = node.members();
  environment_.node_memory = memory_.get();
}

void NodeRanks::share_segments(std::unique_ptr<NodeSegments> segments, bool for_all) {
  segments_ = std::move(segments);
  environment_.node_segments = segments_.get();
  environment_.segments_for_all = for_all;
}

bool NodeRanks::share_memory_with(PeerId peer) const {
  return memory_ && std::binary_search(all_.begin(), all_.end(), peer);
}

RankName NodeRanks::memory_name() const {
  const auto shared = [this](PeerId peer) { return segments_->shares(peer); };
  const auto first = segments_ ? std::find_if(all_.begin(), all_.end(), shared) : all_.end();
  return peers_.name(first == all_.end() ? peers_.me() : *first);
}

}  // namespace tern
