#include "descendants.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>

#include "clock.h"

namespace tern::mpiexec {
namespace {

// How often a process that does not end at once is looked for again; a kill takes effect in less than a millisecond.
constexpr int kPause_ms = 2;

pid_t number_of(std::string_view text) {
  pid_t number = 0;
  auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), number);
  return failure == std::errc() && end == text.data() + text.size() ? number : 0;
}

/// What follows the name in /proc/PID/stat: "STATE PARENT ..."; empty: there is no such process.
std::string_view stat_of(const char* name, std::span<char> text) {
  char path[64];
  const size_t length = strnlen(name, 16);
  memcpy(path, "/proc/", 6);
  memcpy(path + 6, name, length);
  memcpy(path + 6 + length, "/stat", 6);
  const int file = open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return {};
  const ssize_t n = read(file, text.data(), text.size());
  close(file);
  if (n <= 0) return {};
  std::string_view rest(text.data(), size_t(n));
  const size_t name_end = rest.rfind(')');
  if (name_end == std::string_view::npos || name_end + 4 > rest.size()) return {};
  return rest.substr(name_end + 2);
}

/// The next word.
std::string_view word_of(std::string_view& text) {
  const std::string_view word = text.substr(0, text.find(' '));
  text.remove_prefix(std::min(word.size() + 1, text.size()));
  return word;
}

/// The parent of a process that has not ended; 0: it has.
pid_t parent_of(const char* name) {
  char text[512];
  std::string_view rest = stat_of(name, text);
  const std::string_view state = word_of(rest);
  if (state == "Z" || state == "X") return 0;
  return number_of(word_of(rest));
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

}  // namespace

bool is_ending(pid_t pid) {
  constexpr int kFlags = 6;         // words before the flags: state, parent, group, session, terminal, its group
  constexpr unsigned kExiting = 4;  // PF_EXITING of the kernel's sched.h
  char text[512];
  std::string_view rest = stat_of(std::to_string(pid).c_str(), text);
  for (int i = 0; i < kFlags; ++i) word_of(rest);
  const std::string_view word = word_of(rest);
  unsigned flags = 0;
  std::from_chars(word.data(), word.data() + word.size(), flags);
  return (flags & kExiting) != 0;
}

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
