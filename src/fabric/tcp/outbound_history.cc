// The history of a stream: what is kept until the peer has it, and where a new connection continues (outbound.h).
#include <algorithm>
#include <cstring>

#include "base/assert.h"
#include "fabric/tcp/outbound.h"

namespace tern {
namespace {

// The log of small frames: usually acknowledged long before it is full, then it starts again at its beginning. Some 200
// of the smallest frames.
constexpr size_t kFirstLogBytes = 16 * 1024;
// If no more than this is unacknowledged of operations, it is copied, so that they complete (6.4 us).
constexpr size_t kTailBytes = 64 * 1024 + sizeof(wire::FrameHead);
// With more unacknowledged, a peer that reads is awaited, until so many looks in a row (of 0.2 us or more each) have
// found no progress.
constexpr int kMaxEmptyLooks = 16;

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
  TERN_DEBUG_ASSERT(log_capacity_ >= used + bytes);
  return log_.get() + log_end_;
}

// The bytes written at `reserve` become part of the stream.
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
  TERN_DEBUG_ASSERT(log_end_ + bytes <= log_capacity_);
  log_end_ += bytes;
  end_ += bytes;
  TERN_DEBUG_ASSERT(acked_ <= end_);
}

// Bytes before `received` need no longer be kept.
void TcpOutbound::forget(uint64_t received) {
  if (received <= acked_) return;
  acked_ = received;
  TERN_DEBUG_ASSERT(acked_ <= std::max(sent_, most_sent_));
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
      TERN_DEBUG_ASSERT(references_ != 0);
      --references_;
      shared_.finished.push_back(segment.operation);
    }
    if (segment.own) {
      TERN_DEBUG_ASSERT(owned_bytes_ >= segment.bytes);
      owned_bytes_ -= segment.bytes;
      if (segment.bytes <= kTailBytes) spare_ = std::move(segment.own);
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
  if (shared_.sealed || !trusted_ || stream_ < 0 || acked_ == sent_) return;
  const int unacknowledged = shared_.port.unacknowledged(stream_);
  if (unacknowledged < 0) return;
  // (Valid also when the connection has broken: the kernel drops its queue, but not its counts.)
  uint64_t since = sent_ - began_;
  TERN_DEBUG_ASSERT(sent_ >= began_);
  if (uint64_t(unacknowledged) < since) forget(sent_ - uint64_t(unacknowledged));
}

bool TcpOutbound::unsure() {
  ask_kernel();
  return acked_ != end_;
}

uint64_t TcpOutbound::awaited() {
  ask_kernel();
  return end_ - acked_ - std::min<uint64_t>(end_ - acked_, kTailBytes);
}

uint64_t TcpOutbound::backlog() {
  ask_kernel();
  return end_ - acked_ + queued_bytes_;
}

// Whether the operation should complete although the receiver does not read.
bool TcpOutbound::is_eager(const SendOperation& operation) const {
  return uint8_t(operation.header.kind) != 0 && operation.total_bytes <= shared_.eager_bytes;
}

void TcpOutbound::settle() {
  if (references_ == 0) return;
  const auto first = std::find_if(segments_.begin(), segments_.end(), [](auto& s) { return s.operation; });
  if (first->end() > sent_ && !is_eager(*first->operation)) return;
  const uint64_t most = end_ - first->begin;
  TERN_DEBUG_ASSERT(first != segments_.end());
  if (most <= kTailBytes) (void)reserve(size_t(most));  // makes room for a copy; may ask the kernel
  if (most > kCopyUnasked) {
    ask_kernel();
    if (acked_ != looked_at_) empty_looks_ = 0;
    looked_at_ = acked_;
    // (What is before it and not acknowledged is a copy already.)
    if (most > kTailBytes && end_ - acked_ > kTailBytes && ++empty_looks_ <= kMaxEmptyLooks) return;
  }
  for (size_t at = 0; at < segments_.size() && references_ != 0; ++at) {
    if (segments_[at].operation && !free_by_copy(at)) return;
  }
}

// Copies the operation there, and those that follow it while there is room. False: it is too long.
bool TcpOutbound::free_by_copy(size_t at) {
  const uint64_t from = std::max(acked_, segments_[at].begin);
  size_t rest = size_t(segments_[at].end() - from), run = 1;
  if (rest > kTailBytes && !is_eager(*segments_[at].operation)) return false;
  for (; at + run < segments_.size() && segments_[at + run].operation; ++run) {
    const size_t longer = size_t(segments_[at + run].end() - from);
    if (longer > kTailBytes) break;
    rest = longer;
  }
  // The log is in stream order: only the last bytes can go there.
  std::unique_ptr<std::byte[]> own;
  const bool to_log = at + run == segments_.size() && log_capacity_ - log_end_ >= rest;
  if (!to_log) {
    if (owned_bytes_ + rest > kMaxLogBytes) return false;
    own = rest <= kTailBytes ? std::move(spare_) : nullptr;
    if (!own) own.reset(new std::byte[std::max(rest, kTailBytes)]);
  }
  std::byte* to = to_log ? log_.get() + log_end_ : own.get();
  for (size_t i = at; i < at + run; ++i) {
    to = copy_out(segments_[i], std::max(from, segments_[i].begin), to);
    shared_.finished.push_back(segments_[i].operation);
  }
  TERN_DEBUG_ASSERT(references_ >= run && run != 0);
  references_ -= run;
  const auto copied = segments_.begin() + ptrdiff_t(at);
  segments_.erase(copied + 1, copied + ptrdiff_t(run));
  Segment& copy = segments_[at];
  copy.operation = nullptr;
  copy.begin = from;  // > its old begin only at the front: the bytes before are acknowledged
  copy.bytes = rest;
  if (to_log) {
    copy.at = log_end_;
    log_end_ += rest;
    TERN_DEBUG_ASSERT(log_end_ <= log_capacity_);
  } else {
    copy.own = std::move(own);
    owned_bytes_ += rest;
    TERN_DEBUG_ASSERT(owned_bytes_ <= kMaxLogBytes);
  }
  return true;
}

// What is in the segment from `from` on. Returns the end of the copy.
std::byte* TcpOutbound::copy_out(Segment& segment, uint64_t from, std::byte* to) {
  size_t offset = size_t(from - segment.begin);
  TERN_DEBUG_ASSERT(from >= segment.begin && from <= segment.end() && segment.operation);
  if (offset < kHeadBytes) {
    std::memcpy(to, reinterpret_cast<const std::byte*>(&segment.head) + offset, kHeadBytes - offset);
    to += kHeadBytes - offset;
    offset = kHeadBytes;
  }
  Cursor& payload = segment.operation->payload;
  payload.seek(segment.payload_begin + offset - kHeadBytes);
  return to + payload.pack(to, size_t(segment.bytes) - offset);
}

// --- Begin and end of connections.

bool TcpOutbound::acknowledge(uint64_t received) {
  if (received > sent_) return false;
  forget(received);
  return true;
}

bool TcpOutbound::resume(int handle, uint64_t received, bool trusted) {
  const uint64_t oldest = segments_.empty() ? end_ : segments_.front().begin;
  if (received < oldest || received > std::max(sent_, most_sent_)) return false;
  most_sent_ = std::max(sent_, most_sent_);
  forget(received);
  sent_ = began_ = block_end_ = received;
  block_head_sent_ = sizeof block_head_;
  stream_ = handle;
  error_ = 0;
  trusted_ = trusted;
  TERN_DEBUG_ASSERT(sent_ <= std::max(end_, most_sent_));
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
  stream_ = -1;
  held_ = false;
}

void TcpOutbound::surrender(SendList& out) {
  for (Segment& segment : segments_) {
    if (segment.operation) out.push_back(segment.operation);
  }
  segments_.clear();
  references_ = 0;
  owned_bytes_ = 0;
  held_ = false;
  while (SendOperation* operation = queue_.pop_front()) out.push_back(operation);
  queued_bytes_ = 0;
  acked_ = sent_ = end_;
  TERN_DEBUG_ASSERT(segments_.empty() && queue_.empty());
  cipher_sent_ = cipher_bytes_ = 0;
  told_ack_ = owed_ack_;  // there is no connection to state it on
  log_begin_ = log_end_ = log_capacity_ = 0;
  log_.reset();
  spare_.reset();
}

}  // namespace tern
