#include "fabric/tcp/inbound.h"

#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <cerrno>

#include "base/assert.h"

namespace tern {
namespace {

// Fetches some hundred small messages at once; of a long message it costs one copy of at most so much (16
// KiB: 1 us).
constexpr size_t kBufferBytes = 16 * 1024;
// A payload this short is awaited in the buffer rather than announced: on_header may cost the sink an
// allocation.
constexpr size_t kAwaitBytes = 2048;
// One peer's turn: other connections wait meanwhile, but a turn costs system calls too.
constexpr size_t kTurnBytes = 4 << 20;
constexpr size_t kMaxPieces = 64;
constexpr size_t kWorthAPiece = 512;

ssize_t receive_bytes(int fd, void* data, size_t bytes, int flags = 0) {
  ssize_t n;
  do {
    n = recv(fd, data, bytes, MSG_DONTWAIT | flags);
  } while (n < 0 && errno == EINTR);
  return n;
}

}  // namespace

TcpInbound::TcpInbound() : buffer_(new std::byte[kBufferBytes]) {}

// What a receive that brought nothing means.
TcpInbound::State TcpInbound::after(ssize_t n) {
  if (n == 0) return State::ended;
  if (errno == EAGAIN || errno == EWOULDBLOCK) return State::idle;
  error_ = errno;
  return State::broken;
}

TcpInbound::State TcpInbound::receive(int fd, PeerId peer, Sink& sink, std::byte* scratch,
                                      size_t scratch_bytes, int& handled) {
  size_t turn = 0;
  while (turn < kTurnBytes) {
    if (landing_now_) {
      uint64_t before = left_;
      State state = read_landing(fd, peer, sink, scratch, scratch_bytes, handled);
      turn += before - left_;
      if (state != State::more) return state;
      continue;
    }
    size_t room = kBufferBytes - end_;
    ssize_t n = receive_bytes(fd, buffer_.get() + end_, room);
    if (n <= 0) return after(n);
    end_ += size_t(n);
    turn += size_t(n);
    State state = deliver_buffered(peer, sink, handled);
    if (state != State::more) return state;
    // A short read has emptied the socket: asking again would only cost a system call.
    if (size_t(n) < room) return State::idle;
  }
  return State::more;
}

TcpInbound::State TcpInbound::deliver_buffered(PeerId peer, Sink& sink, int& handled) {
  for (;;) {
    const std::byte* at = buffer_.get() + begin_;
    size_t available = end_ - begin_;
    wire::FrameHead head;
    wire::FrameResult result = wire::parse_frame(at, available, head);
    if (result == wire::FrameResult::wrong || (departed_ && available != 0)) return State::wrong;
    uint64_t length = result == wire::FrameResult::head ? head.length() : 0;
    if (result == wire::FrameResult::more || (length <= kAwaitBytes && available < sizeof head + length)) {
      if (begin_ != 0) std::memmove(buffer_.get(), at, available);
      begin_ = 0;
      end_ = available;
      return State::more;
    }
    if (head.type == wire::FrameType::goodbye) {
      departed_ = true;
      begin_ += sizeof head;
      continue;
    }
    available -= sizeof head;
    at += sizeof head;
    if (length <= available) {
      begin_ += sizeof head + length;
      ++handled;
      sink.on_message(peer, head.header, at, length);
      continue;
    }
    head_ = head;
    landing_ = sink.on_header(peer, head.header, length);
    landing_.target.unpack(at, available);  // what the target has no room for is thrown away
    left_ = length - available;
    landing_now_ = true;
    begin_ = end_ = 0;
    return State::more;
  }
}

// One read towards the landing. State::more: the payload is complete, or the read was not short.
TcpInbound::State TcpInbound::read_landing(int fd, PeerId peer, Sink& sink, std::byte* scratch,
                                           size_t scratch_bytes, int& handled) {
  Cursor& target = landing_.target;
  size_t wanted = size_t(std::min<uint64_t>(left_, target.remaining()));
  ssize_t n;
  if (wanted == 0) {
    wanted = size_t(std::min<uint64_t>(left_, 1 << 20));
    n = receive_bytes(fd, nullptr, wanted, MSG_TRUNC);  // TCP drops these bytes without copying them
  } else if (target.is_contiguous()) {
    n = receive_bytes(fd, target.contiguous_data(), wanted);
    if (n > 0) target.skip(size_t(n));
  } else {
    Cursor ahead = target;
    iovec pieces[kMaxPieces];
    size_t bytes = 0;
    size_t count = ahead.segments(pieces, wanted, bytes);
    if (count != 0 && bytes / count >= kWorthAPiece) {
      wanted = bytes;
      do {
        n = readv(fd, pieces, int(count));
      } while (n < 0 && errno == EINTR);
      if (n > 0) target.skip(size_t(n));
    } else {
      wanted = std::min(wanted, scratch_bytes);
      n = receive_bytes(fd, scratch, wanted);
      if (n > 0) target.unpack(scratch, size_t(n));
    }
  }
  if (n <= 0) return after(n);
  left_ -= size_t(n);
  if (left_ == 0) {
    landing_now_ = false;
    ++handled;
    sink.on_landed(peer, head_.header, landing_, head_.length(), {});
    return State::more;
  }
  return size_t(n) < wanted ? State::idle : State::more;
}

void TcpInbound::abandon(PeerId peer, Sink& sink, Error error) {
  begin_ = end_ = 0;
  if (!landing_now_) return;
  landing_now_ = false;
  sink.on_landed(peer, head_.header, landing_, head_.length(), std::move(error));
}

}  // namespace tern
