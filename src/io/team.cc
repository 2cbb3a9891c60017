#include "io/team.h"

#include <algorithm>
#include <map>
#include <thread>

namespace tern::io {

namespace {

// More ranks of a node than this do not write faster together.
constexpr int kMaxPerNode = 4;

int default_per_node(const FileFacts& facts) {
  if (facts.remote) return 1;  // one client of the server for each host
  return int(std::clamp(std::thread::hardware_concurrency(), 1u, unsigned(kMaxPerNode)));
}

}  // namespace

void Team::choose(std::span<const int64_t> node_of, const Hints& hints, const FileFacts& facts) {
  std::map<int64_t, std::vector<int>> by_node;
  for (size_t rank = 0; rank < node_of.size(); ++rank) by_node[node_of[rank]].push_back(int(rank));
  nodes = int(by_node.size());
  aggregators.clear();
  const int64_t per_node = hints.aggregators_per_node > 0 ? hints.aggregators_per_node : default_per_node(facts);
  int64_t most = hints.aggregators > 0 ? hints.aggregators : INT64_MAX;
  if (hints.aggregators == 0 && hints.stripes > 0) most = std::max<int64_t>(hints.stripes, nodes);
  for (size_t round = 0; int64_t(aggregators.size()) < most; ++round) {
    const size_t before = aggregators.size();
    for (const auto& [node, ranks] : by_node) {
      if (round >= ranks.size() || int64_t(aggregators.size()) == most) continue;
      if (hints.aggregators == 0 && int64_t(round) >= per_node) continue;
      aggregators.push_back(ranks[round]);
    }
    if (aggregators.size() == before) break;
  }
}

}  // namespace tern::io
