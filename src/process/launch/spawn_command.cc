#include "process/launch/spawn_command.h"

namespace tern {

std::vector<std::string> spawn_command(const SpawnRequest& request) {
  std::vector<std::string> words{"mpiexec"};
  for (const SpawnProgram& program : request.programs) {
    if (words.size() > 1) words.emplace_back(":");
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
