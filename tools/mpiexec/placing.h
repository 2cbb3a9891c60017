// Which host each rank runs on.
// Thread rule: pure functions.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "plan.h"

namespace tern::mpiexec {

/// The hosts of each program, in the order of its ranks. Programs that name none share the plan's hosts; where there
/// are none either, `own_name`.
std::vector<Shares> distribute(const Plan& plan, const std::string& own_name);

struct RankHosts {
  std::vector<std::string> names{};  ///< the first is this machine, as ""; the others in the order of their ranks
  std::vector<uint32_t> of_rank{};   ///< an index in names, for each rank

  int ranks_on(uint32_t host) const;
};

/// `is_here`: whether a name means this machine.
RankHosts place_ranks(const Plan& plan, const std::function<bool(const std::string&)>& is_here);

/// PMI_process_mapping: "(vector,(first node,nodes,ranks on each),...)". Nodes are numbered as ranks meet them.
std::string process_mapping(const std::vector<uint32_t>& host_of_rank);

}  // namespace tern::mpiexec
