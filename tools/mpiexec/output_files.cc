#include "output_files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <set>
#include <string>

#include "base/owned_file.h"

namespace tern::mpiexec {
namespace {

const std::string& pattern_of(const OutputFiles& files, int stream) {
  return stream == 1 ? files.out_pattern : files.err_pattern;
}

std::string expanded(const std::string& pattern, int rank, const std::string& on_host) {
  std::string name;
  for (size_t i = 0; i < pattern.size(); ++i) {
    switch (pattern[i] == '%' && i + 1 < pattern.size() ? pattern[++i] : 0) {
      case 'r': name += std::to_string(rank); break;
      case '%': name += '%'; break;
      case 'h': {
        char host[256] = "";
        if (on_host.empty()) gethostname(host, sizeof host - 1);
        name += on_host.empty() ? host : on_host.c_str();
        break;
      }
      case 0: name += pattern[i]; break;
      default: name += {'%', pattern[i]};
    }
  }
  return name;
}

// As Open MPI names them: rank numbers are padded to the digits of the number of ranks.
std::string in_folder(const std::string& folder, int rank, int ranks, int stream) {
  std::string number = std::to_string(rank);
  number.insert(0, std::to_string(ranks).size() - number.size(), '0');
  return folder + "/1/rank." + number + (stream == 1 ? "/stdout" : "/stderr");
}

bool make_folders(const std::string& path) {
  for (size_t slash = path.find('/', 1); slash != std::string::npos; slash = path.find('/', slash + 1)) {
    if (mkdir(path.substr(0, slash).c_str(), 0700) != 0 && errno != EEXIST) return false;
  }
  return true;
}

}  // namespace

bool has_output_file(const OutputFiles& files, int stream) {
  return !pattern_of(files, stream).empty() || !files.folder.empty();
}

int open_output_file(const OutputFiles& files, int rank, int ranks, int stream, const std::string& host,
                     std::string& path, std::string& why) {
  const std::string& pattern = pattern_of(files, stream);
  path = pattern.empty() ? in_folder(files.folder, rank, ranks, stream) : expanded(pattern, rank, host);
  if (!make_folders(path)) {
    why = strerror(errno);
    return -1;
  }
  // The first to open it empties it; the others share it.
  static std::set<std::string> opened;
  const int fresh = opened.insert(path).second ? O_TRUNC : 0;
  return open_own_file(path, O_APPEND | fresh, why).release();
}

}  // namespace tern::mpiexec
