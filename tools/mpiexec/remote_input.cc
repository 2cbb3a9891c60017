#include "remote_input.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

namespace tern::mpiexec {
namespace {
// What a rank has not taken: more would only take input away from others that read the same, as a shell's loop does.
constexpr size_t kMaxOnTheWay = 1 << 16;
}  // namespace

RemoteInput::RemoteInput() : terminal_(isatty(STDIN_FILENO)) {
  struct stat status {};
  watchable_ = fstat(STDIN_FILENO, &status) == 0 && (S_ISFIFO(status.st_mode) || S_ISSOCK(status.st_mode) || terminal_);
}

bool RemoteInput::wanted() const {
  if (ended_ || on_the_way_ >= kMaxOnTheWay) return false;
  return !terminal_ || tcgetpgrp(STDIN_FILENO) == getpgrp();
}

bool RemoteInput::read(std::string& bytes) {
  char buffer[1 << 14];
  const ssize_t n = ::read(STDIN_FILENO, buffer, std::min(sizeof buffer, kMaxOnTheWay - on_the_way_));
  if (n < 0 && (errno == EAGAIN || errno == EINTR)) return false;
  bytes.assign(buffer, size_t(std::max<ssize_t>(n, 0)));
  ended_ = n <= 0;
  on_the_way_ += bytes.size();
  return true;
}

void RemoteInput::taken(size_t bytes) { on_the_way_ -= std::min(on_the_way_, bytes); }

}  // namespace tern::mpiexec
