// Machines as data: a file (machines/*.toml, described there) becomes a NetworkModel and an AdapterModel. Strict: a
// parameter that is not known, has no source, or is of the wrong kind is an error that names it.
// Thread rule: pure functions.
#pragma once

#include <map>
#include <string>

#include "base/error.h"
#include "sim/adapter_model.h"
#include "sim/network.h"

namespace tern::sim {

struct MachineModel {
  std::string name, about;
  uint32_t cores_per_node = 1;
  NetworkModel network;
  bool has_adapter = false;
  AdapterModel adapter;
  std::map<std::string, uint64_t> claims;      ///< published figures, by name
  std::map<std::string, std::string> sources;  ///< of every parameter, "network.latency_ns" and so on
  std::map<std::string, std::string> fitted;   ///< parameters that were fitted: to which figure
};

Error load_machine(const std::string& path, MachineModel& machine);
/// From text; `where` is for messages.
Error parse_machine(const std::string& text, const std::string& where, MachineModel& machine);

}  // namespace tern::sim
