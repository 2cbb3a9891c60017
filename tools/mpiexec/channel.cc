#include "channel.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "clock.h"

namespace tern::mpiexec {
namespace {
constexpr size_t kPiece = 1 << 16;  // as much as a pipe holds
constexpr int kPiecesAtATime = 4;   // other sources have their turn, too
}  // namespace

Channel::Channel(int in, int out) : in_(in), out_(out), unsent_(kChannelMagic), heard_ms_(now_ms()) {
  for (int descriptor : {in, out}) fcntl(descriptor, F_SETFL, fcntl(descriptor, F_GETFL) | O_NONBLOCK);
}

void Channel::close() {
  if (in_ >= 0) ::close(in_);
  if (out_ >= 0 && out_ != in_) ::close(out_);
  in_ = out_ = -1;
  unsent_.clear();
  sent_ = 0;
}

void Channel::send(const Frame& frame) {
  if (out_ >= 0) unsent_ += to_bytes(frame);
}

bool Channel::flush() {
  while (out_ >= 0 && sent_ < unsent_.size()) {
    const ssize_t n = write(out_, unsent_.data() + sent_, std::min(kPiece, unsent_.size() - sent_));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == EAGAIN) break;
    if (n < 0) return false;
    sent_ += size_t(n);
  }
  // Erased in large parts: a long queue is not moved for each piece that leaves.
  if (sent_ == unsent_.size() || sent_ > (1 << 20)) {
    unsent_.erase(0, sent_);
    sent_ = 0;
  }
  return out_ >= 0;
}

bool Channel::receive() {
  static char buffer[kPiece];
  for (int piece = 0; piece < kPiecesAtATime; ++piece) {
    if (in_ < 0) return false;
    const ssize_t n = read(in_, buffer, sizeof buffer);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == EAGAIN) return true;
    if (n <= 0) return false;
    heard_ms_ = now_ms();
    reader_.append(buffer, size_t(n));
    if (size_t(n) < sizeof buffer) return true;
  }
  return true;
}

void Channel::forgive_silence() { heard_ms_ = now_ms(); }

}  // namespace tern::mpiexec
