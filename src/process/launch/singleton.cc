// A program started alone: a world of one rank, whose key-value space is a map. What it spawns is started by an mpiexec
// of its own.
#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <stdio.h>
#include <sys/auxv.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <ctime>
#include <map>
#include <vector>

#include "base/descriptor.h"
#include "base/limits.h"
#include "process/launch/clients.h"
#include "process/launch/cores.h"
#include "process/launch/spawn_command.h"

namespace tern {
namespace {

class Singleton final : public Launcher {
 public:
  Singleton() {
    timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    // A process id is reused after a while; together with the time of start it is unique on one machine.
    job_id_ = fmt::format("single-{}-{}.{}", getpid(), now.tv_sec, now.tv_nsec / 1000);
  }
  int rank() const override { return 0; }
  int size() const override { return 1; }
  int universe_size() const override { return 1; }
  int app_number() const override { return -1; }
  std::string_view job_id() const override { return job_id_; }
  std::vector<int> local_ranks() const override { return {0}; }
  int nodes() const override { return 1; }
  Error put(std::string_view key, std::string_view value) override {
    values_.insert_or_assign(std::string(key), std::string(value));
    return {};
  }
  Error fence() override { return {}; }
  Error get(int rank, std::string_view key, std::string& value) override {
    auto found = values_.find(key);
    if (rank != 0 || found == values_.end()) {
      return Error(ErrorClass::intern, fmt::format("rank {} has put nothing under '{}'", rank, key));
    }
    value = found->second;
    return {};
  }
  Error enter_barrier() override { return {}; }
  bool barrier_is_over(Error&) override { return true; }
  void abort(int code, std::string_view message) override {
    say_last_words(message);
    flush_standard_streams();
    _exit(exit_status(code));
  }
  Error finalize() override { return {}; }
  Error begin_spawn(const SpawnRequest& request) override;
  bool spawn_is_over(Error& error) override;
  int spawn_descriptor() const override { return answer_.get(); }

 private:
  std::string job_id_;
  Descriptor answer_;  ///< of the mpiexec that is starting a job
  std::string said_;
  std::map<std::string, std::string, std::less<>> values_;
};

// Not a child of this process, whose program may wait for its own children: its parent ends at once. It inherits
// standard output and error.
pid_t start_detached(const char* file, char* const* arguments, char* const* environment, int answer) {
  const pid_t between = fork();
  if (between != 0) {
    if (between > 0) waitpid(between, nullptr, 0);
    return between;
  }
  if (fork() != 0) _exit(0);
  const int null = open("/dev/null", O_RDONLY);
  dup2(null, 0);
  fcntl(answer, F_SETFD, 0);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  execve(file, arguments, environment);
  _exit(127);
}

std::vector<char*> pointers(const std::vector<std::string>& texts) {
  std::vector<char*> list;
  for (const std::string& text : texts) list.push_back(const_cast<char*>(text.c_str()));
  list.push_back(nullptr);
  return list;
}

Error Singleton::begin_spawn(const SpawnRequest& request) {
  if (getauxval(AT_SECURE) != 0)
    return Error(ErrorClass::spawn,
                 "a program with more rights than its user (set-user-ID, set-group-ID, file capabilities) cannot spawn "
                 "others, which would have these rights, too");
  const std::string mpiexec = own_prefix() + "/bin/mpiexec";
  if (access(mpiexec.c_str(), X_OK) != 0)
    return Error(ErrorClass::spawn, fmt::format("a program that was started alone spawns others by '{}', which is not "
                                                "there: {}. Start it with mpiexec -n 1",
                                                mpiexec, errno_text(errno)));
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
    return Error(ErrorClass::spawn, "no descriptor is left: " + errno_text(errno));
  answer_ = Descriptor(ends[0]);
  const Descriptor theirs(ends[1]);
  const std::vector<std::string> arguments = spawn_command(request, universe_of_spawned(request, 1, usable_cores()));
  std::vector<std::string> environment;
  for (char** entry = environ; *entry; ++entry) environment.emplace_back(*entry);
  environment.push_back(fmt::format("{}={}", kSpawnAnswerVariable, theirs.get()));
  environment.push_back(fmt::format("{}={}", kParentPortVariable, request.parent_port));
  said_.clear();
  if (start_detached(mpiexec.c_str(), pointers(arguments).data(), pointers(environment).data(), theirs.get()) < 0)
    return Error(ErrorClass::spawn, "no process is left: " + errno_text(errno));
  return {};
}

bool Singleton::spawn_is_over(Error& error) {
  char buffer[4096];
  while (said_.find('\n') == std::string::npos) {
    const ssize_t n = recv(answer_.get(), buffer, sizeof buffer, MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return false;
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) {
      error = Error(ErrorClass::spawn, "mpiexec of the new job has ended");
      answer_.reset();
      return true;
    }
    said_.append(buffer, size_t(n));
  }
  const std::string_view line = std::string_view(said_).substr(0, said_.find('\n'));
  if (line != kSpawnStarted)
    error =
        Error(ErrorClass::spawn, std::string(line.starts_with(kSpawnFailed) ? line.substr(kSpawnFailed.size()) : line));
  answer_.reset();
  return true;
}

}  // namespace

std::unique_ptr<Launcher> make_singleton() { return std::make_unique<Singleton>(); }

int exit_status(int code) { return code != 0 && (code & 0xff) == 0 ? 1 : code & 0xff; }

// Slurm's srun returns the code of a rank that ends by itself rather than that of one that was killed before.
void await_kill(int code) {
  constexpr useconds_t kUntilKilled_us = 3'000'000;  // Slurm: within a second
  if (code == int(ErrorClass::proc_aborted)) usleep(kUntilKilled_us);
}

void flush_standard_streams() {
  for (FILE* stream : {stdout, stderr}) {
    if (ftrylockfile(stream) == 0) {
      fflush(stream);
      funlockfile(stream);
    }
  }
}

void say_last_words(std::string_view message) {
  if (message.empty()) return;
  std::string line(message);
  if (line.back() != '\n') line += '\n';
  // Errors of stderr are ignored; they must not change how this process ends.
  signal(SIGPIPE, SIG_IGN);
  if (write(STDERR_FILENO, line.data(), line.size()) < 0) return;
}

std::string clean_name(std::string_view text) {
  std::string name(text);
  for (char& c : name) {
    bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '_';
    if (!plain) c = '-';
  }
  return name;
}

long environment_number(const char* name, long otherwise) {
  const char* text = getenv(name);
  if (!text || !*text) return otherwise;
  char* end = nullptr;
  const long value = strtol(text, &end, 10);
  return *end ? otherwise : value;
}

bool is_socket(int descriptor) {
  struct stat status;
  return descriptor >= 0 && fstat(descriptor, &status) == 0 && S_ISSOCK(status.st_mode);
}

}  // namespace tern
