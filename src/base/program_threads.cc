#include "base/program_threads.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <string>
#include <string_view>

#include "base/descriptor.h"

namespace tern {
namespace {

// "tern-events", "tern-io", "tern-memory"; "iou-wrk-123", "iou-sqp-123".
bool is_foreign(std::string_view name) {
  return name.starts_with("tern-events") || name.starts_with("tern-io") || name.starts_with("tern-memory") ||
         name.starts_with("iou-");
}

bool is_foreign_thread(const char* id) {
  const std::string path = std::string("/proc/self/task/") + id + "/comm";
  const Descriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  char name[32];
  const ssize_t length = file ? read(file.get(), name, sizeof name) : -1;
  return length <= 0 || is_foreign({name, size_t(length)});  // one that has just ended does not count either
}

}  // namespace

size_t program_threads() {
  struct stat about;
  // A folder's links are two and one for each folder in it.
  if (stat("/proc/self/task", &about) != 0 || about.st_nlink <= 3) return 1;
  DIR* tasks = opendir("/proc/self/task");
  if (!tasks) return 1;
  size_t threads = 0;
  while (const dirent* task = readdir(tasks)) {
    if (task->d_name[0] != '.' && !is_foreign_thread(task->d_name)) ++threads;
  }
  closedir(tasks);
  return std::max<size_t>(threads, 1);
}

}  // namespace tern
