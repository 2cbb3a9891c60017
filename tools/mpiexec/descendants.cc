#include "descendants.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <ctime>
#include <string_view>
#include <unordered_map>

namespace tern::mpiexec {
namespace {

// How often a process that does not end at once is looked for again; a kill takes effect in less than a millisecond.
constexpr int kPause_ms = 2;

pid_t number_of(std::string_view text) {
  pid_t number = 0;
  auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), number);
  return failure == std::errc() && end == text.data() + text.size() ? number : 0;
}

/// The parent of a process that has not ended; 0: it has. /proc/PID/stat is "PID (NAME) STATE PARENT ...".
pid_t parent_of(const char* name) {
  char path[64], text[512];
  const size_t length = strnlen(name, 16);
  memcpy(path, "/proc/", 6);
  memcpy(path + 6, name, length);
  memcpy(path + 6 + length, "/stat", 6);
  const int file = open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return 0;
  const ssize_t n = read(file, text, sizeof text);
  close(file);
  if (n <= 0) return 0;
  std::string_view rest(text, size_t(n));
  const size_t name_end = rest.rfind(')');
  if (name_end == std::string_view::npos || name_end + 4 > rest.size()) return 0;
  const char state = rest[name_end + 2];
  if (state == 'Z' || state == 'X') return 0;
  rest.remove_prefix(name_end + 4);
  return number_of(rest.substr(0, rest.find(' ')));
}

std::unordered_multimap<pid_t, pid_t> children_by_parent() {
  std::unordered_multimap<pid_t, pid_t> children;
  DIR* processes = opendir("/proc");
  if (!processes) return children;
  while (const dirent* entry = readdir(processes)) {
    const pid_t pid = number_of(entry->d_name);
    if (pid == 0) continue;
    if (const pid_t parent = parent_of(entry->d_name)) children.emplace(parent, pid);
  }
  closedir(processes);
  return children;
}

uint64_t now_ms() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return uint64_t(now.tv_sec) * 1000 + uint64_t(now.tv_nsec) / 1'000'000;
}

}  // namespace

std::vector<pid_t> descendants() {
  const auto children = children_by_parent();
  std::vector<pid_t> found{getpid()};
  for (size_t at = 0; at < found.size(); ++at) {
    auto [child, end] = children.equal_range(found[at]);
    for (; child != end; ++child) found.push_back(child->second);
  }
  found.erase(found.begin());
  return found;
}

void signal_descendants(int signal) {
  for (pid_t pid : descendants()) kill(pid, signal);
}

// A killed parent's children become ours, and a process may start others during the search: so repeat it until the
// kernel says that there is no child.
std::vector<pid_t> end_descendants(int timeout_ms, const std::function<void(pid_t, int)>& on_end) {
  const uint64_t deadline_ms = now_ms() + uint64_t(timeout_ms);
  while (true) {
    int status = 0;
    pid_t pid;
    while ((pid = waitpid(-1, &status, WNOHANG)) > 0) on_end(pid, status);
    if (pid < 0 && errno == ECHILD) return {};
    if (now_ms() > deadline_ms) return descendants();
    signal_descendants(SIGKILL);
    usleep(kPause_ms * 1000);
  }
}

}  // namespace tern::mpiexec
