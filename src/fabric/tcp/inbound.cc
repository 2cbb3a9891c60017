#include "fabric/tcp/inbound.h"

#include <sys/uio.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/assert.h"
#include "base/crc32c.h"
#include "fabric/tcp/pieces.h"

namespace tern {

using tcp::kMaxPieces;
using tcp::kWorthAPieceBytes;

namespace {

// Fetches some hundred small messages at once; costs a long message one copy of at most so many bytes (16
// KiB: 1 us).
constexpr size_t kBufferBytes = 16 * 1024;
// Two blocks: one is whole while the next arrives.
constexpr size_t kRawBytes = 2 * (sizeof(wire::BlockHead) + wire::kMaxBlockBytes + TcpCipher::kTagBytes);
// A payload this short is awaited in the buffer rather than announced: on_header may make the sink
// allocate; copying it takes 0.1 us.
constexpr size_t kAwaitBytes = 2048;
// Bytes that one connection delivers before the next one's turn: 0.6 ms, so that the turns' own system calls are
// nothing.
constexpr size_t kTurnBytes = 4 << 20;
// Read at a time from the socket of a lost connection, whose receive buffer may be some MiB.
constexpr size_t kDrainBytes = 256 * 1024;

}  // namespace

TcpInbound::TcpInbound(Shared& shared, size_t stream)
    : shared_(shared), index_(stream), buffer_(new std::byte[kBufferBytes]) {
  if (shared.sealed) raw_.resize(kRawBytes);
}

// What a receive that returned nothing means.
TcpInbound::State TcpInbound::after(ssize_t n) {
  if (n == 0) return State::ended;
  if (n == -EAGAIN) return State::idle;
  error_ = int(-n);
  return State::broken;
}

ssize_t TcpInbound::take(int handle, std::byte* to, size_t bytes) {
  if (ready_bytes_ != 0) [[unlikely]] {
    size_t n = std::min(bytes, ready_bytes_);
    std::memcpy(to, ready_, n);
    ready_ += n;
    TERN_DEBUG_ASSERT(n <= ready_bytes_);
    ready_bytes_ -= n;
    return ssize_t(n);
  }
  ssize_t n = shared_.port.receive(handle, to, bytes);
  if (n > 0) received_ += uint64_t(n);
  return n;
}

// The same, but drops the bytes.
ssize_t TcpInbound::take_away(int handle, size_t bytes) {
  if (ready_bytes_ != 0) {
    size_t n = std::min(bytes, ready_bytes_);
    ready_ += n;
    TERN_DEBUG_ASSERT(n <= ready_bytes_);
    ready_bytes_ -= n;
    return ssize_t(n);
  }
  ssize_t n = shared_.port.discard(handle, bytes);
  if (n > 0) received_ += uint64_t(n);
  return n;
}

TcpInbound::State TcpInbound::receive(int handle, int& handled) {
  size_t turn = 0;
  if (waiting_) {
    if (!can_go_on()) return State::waits;
    waiting_ = false;
    State state = landing_now_ ? State::more : deliver_buffered(handled);
    if (state != State::more) return state;
  }
  while (turn < kTurnBytes) {
    if (shared_.sealed && ready_bytes_ == 0) {
      State state = read_block(handle);
      if (state != State::more) return state;
    }
    const bool from_memory = ready_bytes_ != 0;
    if (landing_now_) {
      uint64_t before = left_;
      State state = read_landing(handle, handled);
      turn += before - left_;
      if (state == State::idle && from_memory) continue;
      if (state != State::more) return state;
      if (landing_now_ || !(index_ == 0 && shared_.assembly.open)) continue;
      waiting_ = true;
      return State::waits;
    }
    size_t room = kBufferBytes - end_;
    TERN_DEBUG_ASSERT(begin_ <= end_ && end_ <= kBufferBytes);
    ssize_t n = take(handle, buffer_.get() + end_, room);
    if (n <= 0) return after(n);
    end_ += size_t(n);
    TERN_DEBUG_ASSERT(end_ <= kBufferBytes);
    turn += size_t(n);
    State state = deliver_buffered(handled);
    if (state != State::more) return state;
    // A short read has emptied the socket: another one would only cost a system call.
    if (size_t(n) < room && !from_memory) return State::idle;
  }
  return State::more;
}

TcpInbound::State TcpInbound::deliver_buffered(int& handled) {
  for (;;) {
    const std::byte* at = buffer_.get() + begin_;
    TERN_DEBUG_ASSERT(begin_ <= end_ && !landing_now_);
    size_t available = end_ - begin_;
    wire::FrameHead head;
    wire::FrameResult result = wire::parse_frame(at, available, head);
    if (result == wire::FrameResult::wrong || (departed_ && available != 0)) return State::wrong;
    uint64_t length = result == wire::FrameResult::head ? head.length() : 0;
    const bool part = result == wire::FrameResult::head && head.type == wire::FrameType::part;
    if (result == wire::FrameResult::more || (!part && length <= kAwaitBytes && available < sizeof head + length)) {
      if (begin_ != 0) std::memmove(buffer_.get(), at, available);
      begin_ = 0;
      end_ = available;
      return State::more;
    }
    available -= sizeof head;
    at += sizeof head;
    switch (head.type) {
      case wire::FrameType::goodbye:
        departed_ = true;
        begin_ += sizeof head;
        continue;
      case wire::FrameType::settled: begin_ += sizeof head; continue;
      case wire::FrameType::stripe: {
        begin_ += sizeof head + length;
        State state = on_stripe(at);
        if (state != State::more) return state;
        continue;
      }
      case wire::FrameType::part:
        head_ = head;
        if (!announced()) {
          if (index_ == 0) return State::wrong;
          waiting_ = true;
          return State::waits;
        }
        if (!begin_part(head)) return State::wrong;
        break;
      case wire::FrameType::message:
        if (index_ != 0 || shared_.assembly.open) return State::wrong;
        if (length <= available) {
          begin_ += sizeof head + length;
          ++handled;
          shared_.sink.on_message(shared_.peer, head.header, at, length);
          continue;
        }
        head_ = head;
        landing_ = shared_.sink.on_header(shared_.peer, head.header, length);
        break;
    }
    size_t now = size_t(std::min<uint64_t>(available, length));
    landing_.target.unpack(at, now);  // bytes beyond the target's room are dropped
    left_ = length - now;
    begin_ += sizeof head + now;
    landing_now_ = true;
    TERN_DEBUG_ASSERT(left_ <= length);
    if (left_ != 0) {
      begin_ = end_ = 0;
      return State::more;
    }
    land(handled);
    if (index_ == 0 && shared_.assembly.open) {
      waiting_ = true;
      return State::waits;
    }
  }
}

// --- Striped messages.

TcpInbound::State TcpInbound::on_stripe(const std::byte* payload) {
  TcpAssembly& assembly = shared_.assembly;
  if (index_ != 0 || assembly.open || !wire::parse_stripe(payload, assembly.table, assembly.total)) return State::wrong;
  assembly.missing = assembly.total;
  TERN_DEBUG_ASSERT(index_ == 0);
  assembly.landing = shared_.sink.on_header(shared_.peer, assembly.table.header, size_t(assembly.total));
  assembly.landing_begin = assembly.landing.target.position();
  assembly.open = true;
  if (assembly.table.bytes[0] != 0) return State::more;
  waiting_ = true;
  return State::waits;
}

// Whether the part whose head is here belongs to the open message.
bool TcpInbound::announced() const {
  const TcpAssembly& assembly = shared_.assembly;
  return assembly.open && head_.header.token == assembly.table.number;
}

bool TcpInbound::begin_part(const wire::FrameHead& head) {
  TcpAssembly& assembly = shared_.assembly;
  uint64_t& mine = assembly.table.bytes[index_];
  if (mine == 0 || head.length() != mine) return false;
  uint64_t offset = 0;
  for (size_t stream = 0; stream < index_; ++stream) offset += assembly.table.bytes[stream] & ~(uint64_t{1} << 63);
  landing_ = Landing{};
  landing_.target = assembly.landing.target;
  landing_.target.seek(assembly.landing_begin + size_t(offset));
  landing_.target.truncate(size_t(head.length()));
  mine |= uint64_t{1} << 63;  // begun: a second part of the same stream would be an error
  TERN_DEBUG_ASSERT(announced());
  return true;
}

// The payload arriving at landing_ is complete.
void TcpInbound::land(int& handled) {
  TERN_DEBUG_ASSERT(left_ == 0 && landing_now_);
  landing_now_ = false;
  if (head_.type == wire::FrameType::message) {
    ++handled;
    shared_.sink.on_landed(shared_.peer, head_.header, landing_, size_t(head_.length()), {});
    return;
  }
  TcpAssembly& assembly = shared_.assembly;
  TERN_DEBUG_ASSERT(assembly.open && assembly.missing >= head_.length());
  assembly.missing -= head_.length();
  if (assembly.missing != 0) return;
  assembly.open = false;
  ++handled;
  shared_.sink.on_landed(shared_.peer, assembly.table.header, assembly.landing, size_t(assembly.total), {});
}

// --- The socket.

// One read towards the landing. State::more: the payload is complete, or the read was not short.
TcpInbound::State TcpInbound::read_landing(int handle, int& handled) {
  Cursor& target = landing_.target;
  size_t wanted = size_t(std::min<uint64_t>(left_, target.remaining()));
  ssize_t n;
  if (wanted == 0) {
    wanted = size_t(std::min<uint64_t>(left_, 1 << 20));
    n = take_away(handle, wanted);
  } else if (target.is_contiguous()) {
    n = take(handle, target.contiguous_data(), wanted);
    if (n > 0) target.skip(size_t(n));
  } else {
    Cursor ahead = target;
    iovec pieces[kMaxPieces];
    size_t bytes = 0;
    size_t count = ahead.segments(pieces, wanted, bytes);
    if (ready_bytes_ == 0 && count != 0 && bytes / count >= kWorthAPieceBytes) {
      wanted = bytes;
      n = shared_.port.receive_pieces(handle, pieces, int(count));
      if (n > 0) received_ += uint64_t(n);
      if (n > 0) target.skip(size_t(n));
    } else {
      wanted = std::min(wanted, shared_.scratch_bytes);
      n = take(handle, shared_.scratch, wanted);
      if (n > 0) target.unpack(shared_.scratch, size_t(n));
    }
  }
  if (n <= 0) return after(n);
  TERN_DEBUG_ASSERT(size_t(n) <= left_);
  left_ -= size_t(n);
  if (left_ == 0) {
    land(handled);
    return State::more;
  }
  return size_t(n) < wanted ? State::idle : State::more;
}

// Reads until a whole valid block is here; its bytes are then `ready_`.
TcpInbound::State TcpInbound::read_block(int handle) {
  for (;;) {
    const size_t have = raw_end_ - raw_begin_;
    wire::BlockHead head;
    if (have >= sizeof head) {
      std::byte* at = raw_.data() + raw_begin_;
      if (!wire::parse_block(at, head)) return State::unsound;
      const size_t tag = cipher_.on() ? TcpCipher::kTagBytes : 0;
      if (have >= sizeof head + head.length + tag) {
        if (cipher_.on()) {
          if (!cipher_.open(head, at + sizeof head)) return State::unsound;
        } else {
          uint32_t crc = crc32c(&received_, sizeof received_);
          crc = crc32c(at + sizeof head.crc, sizeof head - sizeof head.crc + head.length, crc);
          if (crc != head.crc) return State::unsound;
        }
        acknowledged_ = std::max(acknowledged_, head.acknowledged);
        received_ += head.length;
        raw_begin_ += sizeof head + head.length + tag;
        if (head.length == 0) continue;
        ready_ = at + sizeof head;
        TERN_DEBUG_ASSERT(ready_bytes_ == 0);
        ready_bytes_ = head.length;
        return State::more;
      }
    }
    if (raw_begin_ != 0) {
      std::memmove(raw_.data(), raw_.data() + raw_begin_, have);
      raw_begin_ = 0;
      raw_end_ = have;
    }
    ssize_t n = shared_.port.receive(handle, raw_.data() + raw_end_, raw_.size() - raw_end_);
    if (n <= 0) return after(n);
    raw_end_ += size_t(n);
    TERN_DEBUG_ASSERT(raw_end_ <= raw_.size());
  }
}

// --- Begin and end of connections.

// Bytes that were read from the socket move to memory of their own.
void TcpInbound::keep_ready() {
  std::vector<std::byte> kept(ready_, ready_ + ready_bytes_);
  drained_.swap(kept);
}

void TcpInbound::drain(int handle) {
  keep_ready();
  // An incomplete block is sent again.
  while (!shared_.sealed) {
    const size_t at = drained_.size();
    drained_.resize(at + kDrainBytes);
    ssize_t n = shared_.port.receive(handle, drained_.data() + at, drained_.size() - at);
    drained_.resize(at + size_t(std::max<ssize_t>(n, 0)));
    if (n <= 0) break;
    received_ += uint64_t(n);
  }
  drained_.shrink_to_fit();  // the stream may never be used again, but is kept
  ready_ = drained_.data();
  ready_bytes_ = drained_.size();
  raw_begin_ = raw_end_ = 0;
}

void TcpInbound::begin() {
  if (!buffer_) buffer_.reset(new std::byte[kBufferBytes]);
  began_ = received_;
  TERN_DEBUG_ASSERT(buffer_);
  error_ = 0;
}

// The record of a lost peer stays, but without the memory for its data: a job may meet a thousand others.
void TcpInbound::abandon(const Error& error) {
  begin_ = end_ = 0;
  buffer_.reset();
  ready_bytes_ = 0;
  drained_ = {};
  waiting_ = false;
  const bool message = landing_now_ && head_.type == wire::FrameType::message;
  landing_now_ = false;
  if (message) {
    shared_.sink.on_landed(shared_.peer, head_.header, landing_, size_t(head_.length()),
                           Error(error.error_class(), std::string(error.text())));
  }
  TcpAssembly& assembly = shared_.assembly;
  if (index_ != 0 || !assembly.open) return;
  assembly.open = false;
  shared_.sink.on_landed(shared_.peer, assembly.table.header, assembly.landing, size_t(assembly.total),
                         Error(error.error_class(), std::string(error.text())));
}

}  // namespace tern
