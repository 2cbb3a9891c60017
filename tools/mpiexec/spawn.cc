#include "spawn.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <sstream>

namespace tern::mpiexec {
namespace {

std::vector<char*> pointers(const std::vector<std::string>& texts) {
  std::vector<char*> list;
  list.reserve(texts.size() + 1);
  for (auto& text : texts) list.push_back(const_cast<char*>(text.c_str()));
  list.push_back(nullptr);
  return list;
}

/// Made before fork: the child must not allocate.
struct Prepared {
  const ChildSpec* spec;
  pid_t group;
  int* failure;
  char* const* arguments;
  char* const* environment;
  char* const* shell_arguments;  ///< for a script without "#!"
};

[[noreturn]] void become_rank(const Prepared& prepared) {
  const ChildSpec& spec = *prepared.spec;
  setpgid(0, prepared.group);
  struct sigaction by_default = {};
  by_default.sa_handler = SIG_DFL;
  for (int signal : {SIGPIPE, SIGXFSZ, SIGINT, SIGTERM, SIGQUIT, SIGUSR1, SIGTSTP, SIGCHLD, SIGTTOU}) {
    sigaction(signal, &by_default, nullptr);
  }
  bool good = true;
  for (int i = 0; i < 3 && good; ++i) good = dup2(spec.standard[i], i) >= 0;
  if (good && spec.keep >= 0) {
    good = dup2(spec.keep, spec.keep_as) >= 0 && fcntl(spec.keep_as, F_SETFD, 0) == 0;
  }
  if (good && !spec.directory.empty()) good = chdir(spec.directory.c_str()) == 0;
  if (spec.cores) sched_setaffinity(0, sizeof *spec.cores, &*spec.cores);  // only a wish: failing is no error
  setrlimit(RLIMIT_NOFILE, &spec.descriptors);
  if (good) {
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, nullptr);
    execve(spec.file.c_str(), prepared.arguments, prepared.environment);
    if (errno == ENOEXEC) execve("/bin/sh", prepared.shell_arguments, prepared.environment);
  }
  *prepared.failure = errno;
  _exit(127);
}

}  // namespace

// Not vfork (nor posix_spawn, which uses it): there the parent waits until each child has passed exec,
// which with 16 ranks on 2 busy cores took 50 ms instead of 20; mpiexec is small, and copying its page tables
// costs 0.1 ms.
pid_t start_child(const ChildSpec& spec, pid_t group, int* failure) {
  std::vector<char*> arguments = pointers(spec.arguments), environment = pointers(spec.environment);
  std::vector<char*> shell_arguments = arguments;
  shell_arguments[0] = const_cast<char*>(spec.file.c_str());
  shell_arguments.insert(shell_arguments.begin(), const_cast<char*>("sh"));
  const Prepared prepared{&spec, group, failure, arguments.data(), environment.data(), shell_arguments.data()};
  pid_t child = fork();
  if (child == 0) become_rank(prepared);
  return child;
}

namespace {

// 0 runnable, 126 found but not runnable, 127 not found.
int judge(const std::string& file) {
  struct stat status;
  if (stat(file.c_str(), &status) != 0) return 127;
  return S_ISREG(status.st_mode) && access(file.c_str(), X_OK) == 0 ? 0 : 126;
}

}  // namespace

int find_program(const std::string& program, const std::string& directory, const std::string& search_path,
                 std::string& file) {
  char* here = getcwd(nullptr, 0);
  const std::string base = here ? here : "";
  free(here);
  // Absolute, since the child changes its directory before it executes the file.
  auto absolute = [&](const std::string& path) { return path.starts_with('/') ? path : base + "/" + path; };
  int verdict = 128;
  auto consider = [&](const std::string& candidate) {
    int found = judge(candidate);
    if (found < verdict) {
      verdict = found;
      file = candidate;
    }
    return verdict == 0;
  };
  if (program.find('/') != std::string::npos) {
    if (program[0] != '/' && !directory.empty() && consider(absolute(directory + "/" + program))) return 0;
    consider(absolute(program));
    return verdict;
  }
  const char* path = getenv("PATH");
  std::istringstream folders(!search_path.empty() ? search_path : path ? path : "/usr/local/bin:/usr/bin:/bin");
  for (std::string folder; std::getline(folders, folder, ':');) {
    if (consider(absolute((folder.empty() ? "." : folder) + "/" + program))) return 0;
  }
  return std::min(verdict, 127);
}

}  // namespace tern::mpiexec
