// The history of a stream: what is kept until the peer has it, and what a new connection goes on from (outbound.h).
#include <linux/sockios.h>
#include <sys/ioctl.h>

#include <algorithm>
#include <cstring>

#include "base/assert.h"
#include "fabric/tcp/outbound.h"

namespace tern {
namespace {

// The history of small frames: mostly acknowledged long before it is full, then it begins anew.
constexpr size_t kFirstLogBytes = 16 * 1024;
// The unacknowledged end of a long operation is copied if it is no more than this, so that its sender is free.
constexpr size_t kTailBytes = 64 * 1024, kMaxOwned = 4;

}  // namespace

std::byte* TcpOutbound::reserve_slow(size_t bytes, bool force) {
  ask_kernel();
  if (log_capacity_ - log_end_ >= bytes) return log_.get() + log_end_;
  size_t used = log_end_ - log_begin_;
  // Moved to the front only when half of the log is free, so that a byte is moved once on average.
  bool move = log_begin_ >= log_capacity_ / 2 && log_capacity_ - used >= bytes && log_capacity_ != 0;
  if (!move) {
    size_t wanted = std::max(2 * log_capacity_, kFirstLogBytes);
    while (wanted < used + bytes) wanted *= 2;
    if (wanted > kMaxLogBytes && !force) return nullptr;
    std::unique_ptr<std::byte[]> larger(new std::byte[wanted]);
    if (used != 0) std::memcpy(larger.get(), log_.get() + log_begin_, used);
    log_ = std::move(larger);
    log_capacity_ = wanted;
  } else if (used != 0) {
    std::memmove(log_.get(), log_.get() + log_begin_, used);
  }
  for (Segment& segment : segments_) {
    if (!segment.operation && !segment.own) segment.at -= log_begin_;
  }
  log_begin_ = 0;
  log_end_ = used;
  return log_.get() + log_end_;
}

// What was written at `reserve` becomes part of the stream.
void TcpOutbound::commit(size_t bytes) {
  Segment* last = segments_.empty() ? nullptr : &segments_.back();
  if (last && !last->operation && !last->own && last->at + last->bytes == log_end_) {
    last->bytes += bytes;
  } else {
    Segment& segment = segments_.emplace_back();
    segment.begin = end_;
    segment.bytes = bytes;
    segment.at = log_end_;
  }
  log_end_ += bytes;
  end_ += bytes;
}

// Everything before `received` needs no more to be kept.
void TcpOutbound::forget(uint64_t received) {
  if (received <= acked_) return;
  acked_ = received;
  while (!segments_.empty()) {
    Segment& segment = segments_.front();
    if (segment.end() > acked_) {
      if (!segment.operation && !segment.own && segment.begin < acked_) {
        segment.at += acked_ - segment.begin;
        segment.bytes = segment.end() - acked_;
        segment.begin = acked_;
      }
      break;
    }
    if (segment.operation) {
      --references_;
      shared_.finished.push_back(segment.operation);
    }
    if (segment.own) {
      --owned_;
      spare_ = std::move(segment.own);
    }
    segments_.pop_front();
  }
  for (const Segment& segment : segments_) {
    if (segment.operation || segment.own) continue;
    log_begin_ = segment.at;
    return;
  }
  log_begin_ = log_end_ = 0;
}

void TcpOutbound::ask_kernel() {
  if (shared_.sealed || !trusted_ || fd_ < 0 || acked_ == sent_) return;
  int unacknowledged = 0;
  if (ioctl(fd_, SIOCOUTQ, &unacknowledged) != 0 || unacknowledged < 0) return;
  // (Still true when the connection has broken: the kernel throws its queue away, but not what it knew.)
  uint64_t since = sent_ - began_;
  if (uint64_t(unacknowledged) < since) forget(sent_ - uint64_t(unacknowledged));
}


bool TcpOutbound::unsure() {
  ask_kernel();
  return acked_ != end_;
}

uint64_t TcpOutbound::backlog() {
  ask_kernel();
  return end_ - acked_ + queued_bytes_;
}

// Frees the senders of operations that have left.
void TcpOutbound::settle() {
  const auto first = std::find_if(segments_.begin(), segments_.end(), [](auto& s) { return s.operation; });
  if (first->end() > sent_) return;
  ask_kernel();
  for (Segment& segment : segments_) {
    if (segment.end() > sent_ || references_ == 0) return;
    if (!segment.operation) continue;
    uint64_t from = std::max(acked_, segment.begin);
    size_t rest = size_t(segment.end() - from);
    if (rest > kTailBytes || owned_ == kMaxOwned) return;
    std::unique_ptr<std::byte[]> copy = std::move(spare_);
    if (!copy) copy.reset(new std::byte[kTailBytes]);
    copy_out(segment, from, copy.get());
    SendOperation* operation = segment.operation;
    segment.operation = nullptr;
    segment.own = std::move(copy);
    segment.begin = from;  // > its old begin only at the front: what is before is acknowledged
    segment.bytes = rest;
    ++owned_;
    --references_;
    shared_.finished.push_back(operation);
  }
}

void TcpOutbound::copy_out(Segment& segment, uint64_t from, std::byte* to) {
  size_t offset = size_t(from - segment.begin);
  if (offset < kHeadBytes) {
    std::memcpy(to, reinterpret_cast<const std::byte*>(&segment.head) + offset, kHeadBytes - offset);
    to += kHeadBytes - offset;
    offset = kHeadBytes;
  }
  Cursor& payload = segment.operation->payload;
  payload.seek(segment.payload_begin + offset - kHeadBytes);
  payload.pack(to, size_t(segment.bytes) - offset);
}

// --- Connections come and go.

bool TcpOutbound::acknowledge(uint64_t received) {
  if (received > sent_) return false;
  forget(received);
  return true;
}

bool TcpOutbound::resume(int fd, uint64_t received, bool trusted) {
  const uint64_t oldest = segments_.empty() ? end_ : segments_.front().begin;
  if (received < oldest || received > std::max(sent_, most_sent_)) return false;
  most_sent_ = std::max(sent_, most_sent_);
  forget(received);
  sent_ = began_ = block_end_ = received;
  block_head_sent_ = sizeof block_head_;
  fd_ = fd;
  error_ = 0;
  trusted_ = trusted;
  told_ack_ = 0;
  cipher_sent_ = cipher_bytes_ = 0;
  return true;
}

void TcpOutbound::encrypt(const TcpKey& key) {
  constexpr size_t kBytes = sizeof(wire::BlockHead) + wire::kMaxBlockBytes + TcpCipher::kTagBytes;
  if (!cipher_block_) cipher_block_.reset(new std::byte[kBytes]);
  cipher_.begin(key);
}

void TcpOutbound::detach() {
  ask_kernel();
  fd_ = -1;
}

void TcpOutbound::surrender(SendList& out) {
  for (Segment& segment : segments_) {
    if (segment.operation) out.push_back(segment.operation);
  }
  segments_.clear();
  references_ = 0;
  owned_ = 0;
  while (SendOperation* operation = queue_.pop_front()) out.push_back(operation);
  queued_bytes_ = 0;
  acked_ = sent_ = end_;
  cipher_sent_ = cipher_bytes_ = 0;
  told_ack_ = owed_ack_;  // nobody is left to be told
  log_begin_ = log_end_ = 0;
}

}  // namespace tern
