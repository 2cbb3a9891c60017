#include "placing.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

namespace tern::mpiexec {

std::vector<Shares> distribute(const Plan& plan, const std::string& own_name) {
  int common_ranks = 0;
  for (const App& app : plan.apps) {
    if (app.hosts.empty()) common_ranks += app.ranks;
  }
  Shares common = share_ranks(plan.hosts, common_ranks, plan.ranks_per_host);
  if (common.empty() && common_ranks > 0) common = {{own_name, common_ranks}};
  std::vector<Shares> all;
  for (const App& app : plan.apps) {
    all.push_back(app.hosts.empty() ? take_front(common, app.ranks)
                                    : share_ranks(app.hosts, app.ranks, plan.ranks_per_host));
  }
  return all;
}

int RankHosts::ranks_on(uint32_t host) const { return int(std::count(of_rank.begin(), of_rank.end(), host)); }

RankHosts place_ranks(const Plan& plan, const std::function<bool(const std::string&)>& is_here) {
  RankHosts hosts{{""}, {}};
  std::map<std::string, uint32_t> known{{"", 0}};
  for (const Shares& shares : distribute(plan, "")) {
    for (const Host& share : shares) {
      auto [at, fresh] = known.try_emplace(share.name, uint32_t(hosts.names.size()));
      if (fresh && is_here(share.name)) at->second = 0;
      else if (fresh) hosts.names.push_back(share.name);
      hosts.of_rank.insert(hosts.of_rank.end(), size_t(share.slots), at->second);
    }
  }
  return hosts;
}

std::string process_mapping(const std::vector<uint32_t>& host_of_rank) {
  struct Block {
    uint32_t first, nodes, ranks;
  };
  std::vector<Block> blocks;
  std::map<uint32_t, uint32_t> numbers;
  for (size_t rank = 0; rank < host_of_rank.size();) {
    const size_t begin = rank;
    while (rank < host_of_rank.size() && host_of_rank[rank] == host_of_rank[begin]) ++rank;
    const uint32_t node = numbers.try_emplace(host_of_rank[begin], uint32_t(numbers.size())).first->second;
    const auto ranks = uint32_t(rank - begin);
    if (!blocks.empty() && blocks.back().ranks == ranks && blocks.back().first + blocks.back().nodes == node) {
      ++blocks.back().nodes;
    } else {
      blocks.push_back({node, 1, ranks});
    }
  }
  std::string text = "(vector";
  for (const Block& block : blocks) text += fmt::format(",({},{},{})", block.first, block.nodes, block.ranks);
  return text + ")";
}

}  // namespace tern::mpiexec
