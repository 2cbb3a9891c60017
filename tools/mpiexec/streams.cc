#include "streams.h"

#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

namespace tern::mpiexec {
namespace {
// Longer lines are shown in pieces of this size.
constexpr size_t kLongestLine = 1 << 16;
}  // namespace

// The descriptor is shared with others (the shell, the ranks), so it is not made non-blocking: a pipe or a terminal is
// opened a second time. Where that is refused (the terminal of another user), it is asked before each write; then
// somebody else may fill it in between, and the write blocks.
Sink::Sink(int descriptor) : descriptor_(descriptor) {
  struct stat status;
  if (fstat(descriptor, &status) != 0) return;
  if (S_ISSOCK(status.st_mode)) way_ = Way::socket;
  if (!S_ISFIFO(status.st_mode) && !isatty(descriptor)) return;
  const std::string path = "/proc/self/fd/" + std::to_string(descriptor);
  own_ = ::open(path.c_str(), O_WRONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY);
  if (own_ < 0) way_ = Way::polled;
}

Sink::~Sink() {
  if (own_ >= 0) close(own_);
}

ssize_t Sink::write_some(const char* data, size_t bytes) const {
  if (way_ == Way::socket) return send(descriptor_, data, bytes, MSG_DONTWAIT | MSG_NOSIGNAL);
  if (way_ == Way::polled) {
    pollfd wait{descriptor_, POLLOUT, 0};
    if (poll(&wait, 1, 0) != 1) {
      errno = EAGAIN;
      return -1;
    }
  }
  return write(descriptor(), data, bytes);
}

int Sink::flush() {
  size_t done = 0;
  int failure = 0;
  while (done < waiting_.size()) {
    // Pieces of this size are not mixed with what others write into the same pipe.
    const ssize_t n = write_some(waiting_.data() + done, std::min<size_t>(PIPE_BUF, waiting_.size() - done));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == EAGAIN) break;
    if (n < 0) {
      failure = errno;
      done = waiting_.size();
      break;
    }
    done += size_t(n);
  }
  waiting_.erase(0, done);
  return failure;
}

namespace {

bool write_all(int descriptor, std::string_view text) {
  while (!text.empty()) {
    const ssize_t n = write(descriptor, text.data(), text.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return false;
    text.remove_prefix(size_t(n));
  }
  return true;
}

}  // namespace

void say(std::string_view message) { write_all(STDERR_FILENO, "mpiexec: " + std::string(message) + "\n"); }

bool print_error(std::string_view text) { return write_all(STDERR_FILENO, text); }

bool print(std::string_view text) {
  if (write_all(STDOUT_FILENO, text)) return true;
  say(std::string("standard output: ") + strerror(errno));
  return false;
}

OutputPipe::OutputPipe(OutputPipe&& other) noexcept
    : label_(std::move(other.label_)),
      sink_(other.sink_),
      file_(std::exchange(other.file_, -1)),
      descriptor_(std::exchange(other.descriptor_, -1)),
      line_(std::move(other.line_)) {}

OutputPipe::~OutputPipe() {
  if (descriptor_ >= 0) close(descriptor_);
  if (file_ >= 0) close(file_);
}

int OutputPipe::open() {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return -1;
  descriptor_ = ends[0];
  fcntl(descriptor_, F_SETFL, O_NONBLOCK);  // this end's own description: the rank's end stays blocking
  return ends[1];
}

int OutputPipe::store(std::string_view text) {
  if (file_ < 0 || write_all(file_, text)) return 0;
  const int why = errno;
  close(file_);
  file_ = -1;
  return why;
}

void OutputPipe::add_lines() {
  size_t start = 0;
  for (size_t end; (end = line_.find('\n', start)) != std::string::npos; start = end + 1) {
    sink_->add(label_ + line_.substr(start, end + 1 - start));
  }
  line_.erase(0, start);
  if (line_.size() > kLongestLine) {
    sink_->add(label_ + line_ + "\n");
    line_.clear();
  }
}

int OutputPipe::pump() {
  char buffer[16384];
  const ssize_t n = read(descriptor_, buffer, sizeof buffer);
  if (n < 0 && (errno == EAGAIN || errno == EINTR)) return 0;
  if (n > 0) return take({buffer, size_t(n)});
  end();
  close(descriptor_);
  descriptor_ = -1;
  return 0;
}

int OutputPipe::take(std::string_view text) {
  if (sink_ && label_.empty()) {
    sink_->add(text);
  } else if (sink_) {
    line_ += text;
    add_lines();
  }
  return store(text);
}

void OutputPipe::end() {
  if (!line_.empty()) sink_->add(label_ + line_ + "\n");
  line_.clear();
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
