#include "own_library.h"

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <string_view>

#include "linked_mpi.h"
#include "rank_setup.h"

namespace tern::mpiexec {
namespace {

namespace fs = std::filesystem;

constexpr const char* kLibrary = "libmpi_abi.so.1";
constexpr std::string_view kVariable = "LD_LIBRARY_PATH";

/// What of `folders` the linker would take: the first file of that name; empty: there is none.
fs::path found_in(std::string_view folders, std::string_view separators) {
  while (!folders.empty()) {
    const size_t end = std::min(folders.find_first_of(separators), folders.size());
    const fs::path file = fs::path(end == 0 ? "." : folders.substr(0, end)) / kLibrary;
    if (access(file.c_str(), R_OK) == 0) return file;
    folders.remove_prefix(std::min(end + 1, folders.size()));
  }
  return {};
}

/// $ORIGIN is the program's own folder.
std::string with_origin(std::string folders, const std::string& program) {
  std::error_code unknown;
  const std::string origin = fs::canonical(program, unknown).parent_path().string();
  for (const std::string_view word : {"${ORIGIN}", "$ORIGIN"}) {
    for (size_t at = 0; (at = folders.find(word, at)) != std::string::npos; at += origin.size())
      folders.replace(at, word.size(), origin);
  }
  return folders;
}

}  // namespace

void choose_own_library(std::vector<std::string>& environment, const std::string& program) {
  std::error_code unknown;
  const fs::path self = fs::read_symlink("/proc/self/exe", unknown);
  const fs::path folder = self.parent_path().parent_path() / TERN_LIBDIR;
  const fs::path own = folder / kLibrary;
  const Linkage linkage = linkage_of(program);
  if (!linkage.mpi.starts_with(kLibrary) || access(own.c_str(), R_OK) != 0) return;
  if (fs::equivalent(found_in(with_origin(linkage.run_path, program), ":"), own, unknown)) return;
  std::string folders;
  for (const std::string& entry : environment) {
    if (name_of_variable(entry) == kVariable) folders = entry.substr(kVariable.size() + 1);
  }
  if (!found_in(folders, ":;").empty()) return;
  set_variable(environment, std::string(kVariable) + "=" + folders + (folders.empty() ? "" : ":") + folder.string());
}

}  // namespace tern::mpiexec
