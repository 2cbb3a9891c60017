#include "helper_program.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <vector>

#include "streams.h"

namespace tern::mpiexec {

std::string helper_program(const char* name) {
  std::error_code unknown;
  const auto self = std::filesystem::read_symlink("/proc/self/exe", unknown);
  return (self.parent_path().parent_path() / TERN_LIBEXECDIR / "tern" / name).string();
}

std::string found_program(const App& app) {
  const std::string& name = app.command[0];
  if (name.find('/') != std::string::npos) return name;
  const char* path = getenv("PATH");
  const std::string folders = !app.search_path.empty() ? app.search_path : path ? path : "/usr/bin:/bin";
  for (size_t at = 0; at <= folders.size();) {
    const size_t colon = std::min(folders.find(':', at), folders.size());
    const std::string file = (colon > at ? folders.substr(at, colon - at) : ".") + "/" + name;
    if (access(file.c_str(), X_OK) == 0) return file;
    at = colon + 1;
  }
  return name;
}

int become_top(char** argv) {
  std::string program = helper_program("top");
  std::vector<char*> words{program.data()};
  for (char** word = argv + 2; *word; ++word) words.push_back(*word);
  words.push_back(nullptr);
  execv(program.c_str(), words.data());
  constexpr int kNotFound = 127;  // as shells say it
  say(fmt::format("{}: {}", program, strerror(errno)));
  return kNotFound;
}

}  // namespace tern::mpiexec
