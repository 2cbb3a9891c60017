// Levels: which members of a communicator share a node. Collectives over several nodes move most of their bytes inside
// the nodes, and let few, or all, members of a node speak to other nodes (levels.cc and the files lanes_*.cc).
//
// Nodes are numbered in the order of their first members; members of a node in the order of their ranks. Placement may
// be any: uneven nodes, round robin, a node with one member. Memory: one number a node where each node's members are
// neighbours in rank (the usual placement), else two a member.
//
//   ranks      0 1 2 3 4 5 6        nodes 0: 0 1 2 3   1: 4 5 6        "in blocks"
//   ranks      0 1 2 3 4 5 6        nodes 0: 0 2 4 6   1: 1 3 5
//
// Thread rule: constant once made.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "base/assert.h"

namespace tern {

class Levels {
 public:
  /// `names`: a number for each member's node, in order of ranks, equal for members of one node and for no others.
  explicit Levels(std::span<const uint64_t> names);

  int nodes() const { return int(starts_.size()) - 1; }
  int members(int node) const { return starts_[size_t(node) + 1] - starts_[size_t(node)]; }
  /// The rank of a node's member.
  int rank(int node, int index) const {
    TERN_ASSERT(index >= 0 && index < members(node));
    const int at = starts_[size_t(node)] + index;
    return in_blocks() ? at : ranks_[size_t(at)];
  }
  int node_of(int rank) const {
    if (!in_blocks()) return places_[size_t(rank)].node;
    return int(std::upper_bound(starts_.begin(), starts_.end(), rank) - starts_.begin()) - 1;
  }
  /// Where the rank stands among the members of its node.
  int index_of(int rank) const {
    return in_blocks() ? rank - starts_[size_t(node_of(rank))] : places_[size_t(rank)].index;
  }
  /// Whether each node's members are neighbours in rank.
  bool in_blocks() const { return ranks_.empty(); }
  /// Members of the smallest and of the largest node.
  int fewest() const { return fewest_; }
  int most() const { return most_; }

 private:
  struct Place {
    int node, index;
  };
  std::vector<int> starts_;    ///< of each node in the order of nodes; then the number of all members
  std::vector<int> ranks_;     ///< in the order of nodes; empty: in blocks
  std::vector<Place> places_;  ///< by rank; empty: in blocks
  int fewest_ = 0, most_ = 0;
};

}  // namespace tern
