// NodeRanks: which ranks share this one's node, and the memory that they share. Thread rule: under the rank's lock.
#pragma once

#include <memory>
#include <vector>

#include "base/peer_table.h"
#include "comm/rank_environment.h"
#include "fabric/node_segments.h"
#include "fabric/shm/node_memory.h"

namespace tern {

class NodeRanks {
 public:
  /// `local`: those that the launcher names, ascending. The others outlive this.
  NodeRanks(const std::vector<int>& local, const PeerTable& peers, RankEnvironment& environment)
      : peers_(peers), environment_(environment), all_(local.begin(), local.end()) {}
  /// The segment of this node, for collectives; before its path is added. `node` lives as long as that path.
  void share_memory(ShmNode& node);
  /// Windows' memory that ranks of a node share; before Process::start. `for_all`: RankEnvironment::segments_for_all.
  void share_segments(std::unique_ptr<NodeSegments> segments, bool for_all = true);

  /// Peers on the same node as this rank, ascending, this rank included (world ranks): those that share memory with it,
  /// or where no memory is shared, those that the launcher names.
  const std::vector<PeerId>& all() const { return all_; }
  /// Whether it shares the node's segment.
  bool share_memory_with(PeerId peer) const;
  /// A number on which all of them agree, and which no rank of another node has.
  RankName name() const { return peers_.name(all_.front()); }
  /// The first rank that can share memory with this one; all of those give the same. This rank itself if none can.
  RankName memory_name() const;

 private:
  const PeerTable& peers_;
  RankEnvironment& environment_;
  std::unique_ptr<NodeMemory> memory_;      ///< null: none
  std::unique_ptr<NodeSegments> segments_;  ///< null: none
  std::vector<PeerId> all_;
};

}  // namespace tern
