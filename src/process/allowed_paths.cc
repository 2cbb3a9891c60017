#include "process/allowed_paths.h"

#include <algorithm>

namespace tern {

Error read_allowed(std::string_view list, Allowed& allowed) {
  if (list.empty()) return {};
  allowed = {false, false, false, false, false, false, {}};
  while (!list.empty()) {
    size_t comma = std::min(list.find(','), list.size());
    std::string_view name = list.substr(0, comma);
    list.remove_prefix(std::min(comma + 1, list.size()));
    if (name == "shm") {
      allowed.shm = true;
    } else if (name == "tcp") {
      allowed.tcp = true;
    } else if (name == "udp") {
      allowed.udp = true;
    } else if (name == "rdma") {
      allowed.rdma = true;
    } else if (name == "ofi") {
      allowed.ofi = true;
    } else if (name != "self" && !name.empty()) {
      return Error(ErrorClass::arg,
                   "TERN_PATH names '" + std::string(name) + "'; the paths are self, shm, rdma, ofi, udp, tcp");
    }
    const bool network = name == "tcp" || name == "udp" || name == "rdma" || name == "ofi";
    if (network && std::find(allowed.network.begin(), allowed.network.end(), name) == allowed.network.end())
      allowed.network.emplace_back(name);
  }
  return {};
}

}  // namespace tern
