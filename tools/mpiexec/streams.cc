#include "streams.h"

#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

namespace tern::mpiexec {
namespace {
// Longer lines are shown in pieces of this size.
constexpr size_t kLongestLine = 1 << 16;
}  // namespace

// The descriptor is shared with others (the shell), so it is not made non-blocking; a pipe that poll calls
// writable takes PIPE_BUF bytes without blocking.
bool Sink::flush() {
  size_t done = 0;
  bool good = true;
  while (done < waiting_.size()) {
    pollfd wait{descriptor_, POLLOUT, 0};
    if (poll(&wait, 1, 0) != 1) break;
    ssize_t n = write(descriptor_, waiting_.data() + done, std::min<size_t>(PIPE_BUF, waiting_.size() - done));
    if (n < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (n < 0) {
      good = false;
      done = waiting_.size();
      break;
    }
    done += size_t(n);
  }
  waiting_.erase(0, done);
  return good;
}

int LabelledPipe::open() {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return -1;
  descriptor_ = ends[0];
  fcntl(descriptor_, F_SETFL, O_NONBLOCK);  // this end's own description: the rank's end stays blocking
  return ends[1];
}

bool LabelledPipe::pump() {
  char buffer[16384];
  ssize_t n = read(descriptor_, buffer, sizeof buffer);
  if (n < 0 && (errno == EAGAIN || errno == EINTR)) return true;
  if (n <= 0) {
    if (!line_.empty()) sink_->add(label_ + line_ + "\n");
    line_.clear();
    close(descriptor_);
    descriptor_ = -1;
    return false;
  }
  line_.append(buffer, size_t(n));
  size_t start = 0;
  for (size_t end; (end = line_.find('\n', start)) != std::string::npos; start = end + 1) {
    sink_->add(label_ + line_.substr(start, end + 1 - start));
  }
  line_.erase(0, start);
  if (line_.size() > kLongestLine) {
    sink_->add(label_ + line_ + "\n");
    line_.clear();
  }
  return true;
}

TerminalInput::~TerminalInput() { close_pipe(); }

int TerminalInput::open() {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return -1;
  pipe_ = ends[1];
  fcntl(pipe_, F_SETFL, O_NONBLOCK);
  return ends[0];
}

bool TerminalInput::in_foreground() const { return tcgetpgrp(STDIN_FILENO) == getpgrp(); }

void TerminalInput::read_terminal() {
  char buffer[4096];
  ssize_t n = read(STDIN_FILENO, buffer, sizeof buffer);
  if (n < 0 && (errno == EINTR || errno == EAGAIN)) return;
  if (n <= 0) {
    ended_ = true;
    close_pipe();
    return;
  }
  unsent_.append(buffer, size_t(n));
  flush();
}

void TerminalInput::flush() {
  while (pipe_ >= 0 && !unsent_.empty()) {
    ssize_t n = write(pipe_, unsent_.data(), unsent_.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == EAGAIN) return;
    if (n < 0) return close_pipe();  // rank 0 does not read any more
    unsent_.erase(0, size_t(n));
  }
}

void TerminalInput::close_pipe() {
  if (pipe_ >= 0) close(pipe_);
  pipe_ = -1;
  unsent_.clear();
}

}  // namespace tern::mpiexec
