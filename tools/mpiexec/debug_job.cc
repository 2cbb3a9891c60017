#include "debug_job.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstring>

#include "helper_program.h"
#include "streams.h"

namespace tern::mpiexec {
namespace {

/// A socket with a name that the kernel picks, outside of the file system: nothing is left behind. Both sides ask the
/// kernel whose the other is.
int listen_somewhere(std::string& name) {
  const int socket = ::socket(AF_UNIX, SOCK_STREAM, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  socklen_t length = sizeof address.sun_family;
  if (socket < 0 || bind(socket, reinterpret_cast<sockaddr*>(&address), length) != 0) return -1;
  length = sizeof address;
  if (getsockname(socket, reinterpret_cast<sockaddr*>(&address), &length) != 0 || listen(socket, SOMAXCONN) != 0)
    return -1;
  name.assign(address.sun_path + 1, length - offsetof(sockaddr_un, sun_path) - 1);
  return socket;
}

[[noreturn]] void become_front(int listener, int ranks, pid_t job) {
  const std::string program = helper_program("debug");
  execl(program.c_str(), program.c_str(), "front", std::to_string(listener).c_str(), std::to_string(ranks).c_str(),
        std::to_string(job).c_str(), nullptr);
  say(fmt::format("{}: {}", program, strerror(errno)));
  kill(job, SIGTERM);
  _exit(127);  // as shells say that a program was not found
}

}  // namespace

bool begin_debugging(Plan& plan) {
  App gdb;
  gdb.command = {"gdb"};
  if (found_program(gdb) == "gdb") {
    say("-gdb: there is no gdb in PATH");
    return false;
  }
  std::string name;
  const int listener = listen_somewhere(name);
  const pid_t job = listener < 0 ? -1 : fork();
  if (job < 0) {
    say(fmt::format("-gdb: {}", strerror(errno)));
    return false;
  }
  if (job > 0) become_front(listener, plan.ranks(), job);
  close(listener);
  // Ctrl-C is the terminal's side's, which passes it on to programs; the job ends with it.
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  const int nothing = open("/dev/null", O_RDONLY | O_CLOEXEC);
  if (nothing >= 0) dup2(nothing, STDIN_FILENO);
  for (App& app : plan.apps) {
    app.command[0] = found_program(app);
    app.command.insert(app.command.begin(), {helper_program("debug"), "rank", name});
  }
  return true;
}

}  // namespace tern::mpiexec
