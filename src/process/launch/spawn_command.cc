#include "process/launch/spawn_command.h"

#include <algorithm>
#include <utility>

namespace tern {

int universe_of_spawned(const SpawnRequest& request, int parents, int expected) {
  if (expected < 0) return expected;
  int processes = parents;
  for (const SpawnProgram& program : request.programs) processes += program.ranks;
  return std::min(std::max(expected, processes), kMaxJobRanks);
}

std::vector<std::string> spawn_command(const SpawnRequest& request, int universe) {
  std::vector<std::string> words{"mpiexec", "-usize", universe < 0 ? "INFINITE" : std::to_string(universe)};
  bool first = true;
  for (const SpawnProgram& program : request.programs) {
    if (!std::exchange(first, false)) words.emplace_back(":");
    words.insert(words.end(), {"-n", std::to_string(program.ranks)});
    auto option = [&words](const char* name, const std::string& value) {
      if (!value.empty()) words.insert(words.end(), {name, value});
    };
    option("-wdir", program.directory);
    option("-path", program.search_path);
    option("-host", program.host);
    if (program.host.empty()) words.emplace_back("-here");
    for (const std::string& entry : program.environment) option("-env", entry);
    words.push_back(program.command);
    words.insert(words.end(), program.arguments.begin(), program.arguments.end());
  }
  return words;
}

}  // namespace tern
