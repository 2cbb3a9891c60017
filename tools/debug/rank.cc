#include "rank.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <glob.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

namespace tern::debug {
namespace {

int fail(const std::string& what) {
  fmt::print(stderr, "mpiexec -gdb: {}: {}\n", what, strerror(errno));
  return 127;  // as shells say that a program was not found
}

std::string quoted(const std::string& word) {
  std::string text = "'";
  for (const char c : word) text += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return text + "'";
}

/// Where it is said to be, and where it really is. `self`: PREFIX/libexec/tern/debug.
std::vector<std::string> library_scripts(const std::filesystem::path& self) {
  const std::filesystem::path prefix = self.parent_path().parent_path().parent_path();
  std::vector<std::string> found;
  glob_t scripts{};
  glob((prefix / TERN_LIBDIR / "libmpi_abi.so.*-gdb.py").c_str(), 0, nullptr, &scripts);
  for (size_t i = 0; i < scripts.gl_pathc; ++i) {
    std::error_code unknown;
    found.emplace_back(scripts.gl_pathv[i]);
    found.push_back(std::filesystem::canonical(scripts.gl_pathv[i], unknown).string());
  }
  globfree(&scripts);
  return found;
}

}  // namespace

int become_gdb(const char* socket_name, char** words) {
  const int socket = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_un name{};
  name.sun_family = AF_UNIX;
  const size_t length = std::min(std::strlen(socket_name), sizeof name.sun_path - 1);
  std::memcpy(name.sun_path + 1, socket_name, length);  // the first byte is 0: abstract
  if (connect(socket, reinterpret_cast<sockaddr*>(&name), socklen_t(offsetof(sockaddr_un, sun_path) + 1 + length)) != 0)
    return fail("the terminal's side is gone");
  ucred peer{};
  socklen_t size = sizeof peer;
  if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0 || peer.uid != geteuid()) {
    errno = EPERM;
    return fail("the terminal's side");
  }
  const char* rank = getenv("PMI_RANK");
  const std::string hello = fmt::format("{} {}\n", rank ? rank : "-1", getpid());
  if (write(socket, hello.data(), hello.size()) != ssize_t(hello.size())) return fail("the terminal's side");

  // The program gets the descriptors of the rank; gdb itself speaks on the socket.
  int kept[3];
  constexpr int kAboveStandard = 10;  // shells redirect single digits
  for (int i = 0; i < 3; ++i) kept[i] = fcntl(i, F_DUPFD, kAboveStandard);
  dup2(socket, STDIN_FILENO);
  dup2(socket, STDOUT_FILENO);
  char self[4096] = "";
  if (readlink("/proc/self/exe", self, sizeof self - 1) <= 0) return fail("/proc/self/exe");
  const std::string wrapper =
      fmt::format("set exec-wrapper {} program {} {} {}", quoted(self), kept[0], kept[1], kept[2]);
  std::vector<std::string> all{"gdb", "-q", "--interpreter=mi2"};
  for (const std::string& first : {std::string("set confirm off"), std::string("set pagination off"),
                                   std::string("set startup-with-shell on"), wrapper})
    all.insert(all.end(), {"-iex", first});
  // The library's script (tools/gdb), which gdb loads only from places that it is told to trust.
  for (const std::string& script : library_scripts(self)) {
    all.insert(all.end(), {"-iex", "add-auto-load-safe-path " + script});
  }
  all.emplace_back("--args");
  for (char** word = words; *word; ++word) all.emplace_back(*word);
  std::vector<char*> command;
  for (std::string& word : all) command.push_back(word.data());
  command.push_back(nullptr);
  execvp("gdb", command.data());
  return fail("gdb");
}

int become_program(char** words) {
  for (int i = 0; i < 3; ++i) {
    if (!words[i]) return 127;
    const int kept = std::atoi(words[i]);
    dup2(kept, i);
    close(kept);
  }
  if (!words[3]) return 127;
  execvp(words[3], words + 3);
  return fail(words[3]);
}

}  // namespace tern::debug
