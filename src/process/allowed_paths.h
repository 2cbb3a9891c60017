// The paths that a rank may use, as TERN_PATH names them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace tern {

struct Allowed {
  bool shm = true, tcp = true, rdma = false, udp = false, ofi = false;
  bool fast_ofi = true;                        ///< ofi before tcp where both ranks have a fast provider
  std::vector<std::string> network = {"tcp"};  ///< those of a network, best first: as TERN_PATH names them
};

/// Reads TERN_PATH; `self` is always included. Error: a name that is none.
Error read_allowed(std::string_view list, Allowed& allowed);

}  // namespace tern
