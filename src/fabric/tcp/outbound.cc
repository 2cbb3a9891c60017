#include "fabric/tcp/outbound.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/assert.h"
#include "base/crc32c.h"

namespace tern {

using tcp::Batch;

namespace {

// Enough to keep the kernel busy during one call (0.1 to 0.2 ms); more only delays reading what has arrived meanwhile.
// Includes a head, since 32 remaining bytes would cost a call and a packet.
constexpr size_t kBatchBytes = (1 << 20) + sizeof(wire::FrameHead);
// Operations are begun (and can then not be withdrawn) only while less than this is waiting to be sent: what the kernel
// takes in one piece on a loopback.
constexpr size_t kPullBytes = 64 * 1024;

wire::FrameHead head_of(const SendOperation& operation) {
  const wire::Header& header = operation.header;
  wire::FrameType type = uint8_t(header.kind) == 0 ? wire::FrameType(header.flags) : wire::FrameType::message;
  return wire::build_frame(type, header, operation.total_bytes);
}

}  // namespace

// --- Sending.

bool TcpOutbound::try_send(const wire::Header& header, const void* payload, size_t bytes, Wait wait) {
  const size_t frame = kHeadBytes + bytes;
  const bool to_log = frame <= kCopyFirst || shared_.sealed;
  if (held_ && !(to_log && queue_.empty())) flush(wait != Wait::no);
  if (!(empty() || held_) || error_ != 0 || stream_ < 0) return false;
  if (!to_log) return send_large(header, payload, bytes, wait != Wait::no);
  std::byte* at = reserve(frame);
  if (!at) return false;
  wire::FrameHead head = wire::build_frame(wire::FrameType::message, header, bytes);
  std::memcpy(at, &head, sizeof head);
  if (bytes != 0) std::memcpy(at + sizeof head, payload, bytes);
  if (shared_.sealed) {
    TERN_DEBUG_ASSERT(empty() || held_);
    history_.commit(frame);
    flush_blocks();
    return true;
  }
  const size_t waiting = size_t(history_.end() - sent_);  // just before it in the log
  if (wait == Wait::here && waiting + frame <= kMaxHeldBytes) {
    history_.commit(frame);
    held_ = true;
    return true;
  }
  ssize_t n = shared_.port.send(stream_, at - waiting, waiting + frame, wait == Wait::in_kernel);
  if (n < 0) {
    if (n != -EAGAIN) error_ = int(-n);
    return false;
  }
  held_ = false;
  TERN_DEBUG_ASSERT(size_t(n) <= waiting + frame);
  history_.commit(frame);
  sent_ += size_t(n);
  TERN_DEBUG_ASSERT(sent_ <= history_.end());
  return true;
}

bool TcpOutbound::hold() {
  if (error_ != 0 || stream_ < 0 || shared_.sealed || queued_bytes_ + (history_.end() - sent_) > kMaxHeldBytes)
    return false;
  return held_ = true;
}

void TcpOutbound::push() {
  if (stream_ >= 0) shared_.port.push(stream_);
}

// Sends first, then copies what is not acknowledged: the message is under way during the copy.
bool TcpOutbound::send_large(const wire::Header& header, const void* payload, size_t bytes, bool more) {
  if (history_.log_bytes() >= kMaxLogBytes) {
    ask_kernel();
    if (history_.log_bytes() >= kMaxLogBytes) return false;
  }
  wire::FrameHead head = wire::build_frame(wire::FrameType::message, header, bytes);
  iovec pieces[2] = {{&head, sizeof head}, {const_cast<void*>(payload), bytes}};
  ssize_t n = shared_.port.send_pieces(stream_, pieces, 2, more);
  if (n < 0) {
    if (n != -EAGAIN) error_ = int(-n);
    return false;
  }
  const uint64_t begin = history_.end();
  sent_ += size_t(n);
  // May be ahead of the history's end, which is set below: forget() has then emptied the history.
  if (bytes > kCopyUnasked) ask_kernel();
  size_t from = acknowledged() > begin ? size_t(acknowledged() - begin) : 0;
  history_.skip(from);
  size_t rest = kHeadBytes + bytes - from;
  if (rest == 0) return true;
  std::byte* at = reserve(rest, true);
  if (from < kHeadBytes) {
    std::memcpy(at, reinterpret_cast<const std::byte*>(&head) + from, kHeadBytes - from);
    at += kHeadBytes - from;
    from = kHeadBytes;
  }
  std::memcpy(at, static_cast<const std::byte*>(payload) + (from - kHeadBytes), bytes - (from - kHeadBytes));
  history_.commit(rest);
  return true;
}

void TcpOutbound::say(wire::FrameType type) {
  wire::FrameHead head = wire::build_frame(type, {}, 0);
  std::memcpy(reserve(sizeof head, true), &head, sizeof head);
  history_.commit(sizeof head);
}

void TcpOutbound::enqueue(SendOperation& operation) {
  operation.total_bytes = operation.payload.remaining();
  operation.header_sent = false;
  TERN_DEBUG_ASSERT(!operation.linked());
  queue_.push_back(&operation);
  queued_bytes_ += kHeadBytes + operation.total_bytes;
}

bool TcpOutbound::withdraw(SendOperation& operation) {
  if (!operation.linked() || operation.header_sent) return false;
  SendList::remove(&operation);
  TERN_DEBUG_ASSERT(queued_bytes_ >= kHeadBytes + operation.total_bytes);
  queued_bytes_ -= kHeadBytes + operation.total_bytes;
  return true;
}

// Begins the next operation of the queue: from now on it is part of the stream.
bool TcpOutbound::pull() {
  SendOperation* operation = queue_.pop_front();
  if (!operation) return false;
  operation->header_sent = true;
  const size_t frame = kHeadBytes + operation->total_bytes;
  TERN_DEBUG_ASSERT(queued_bytes_ >= frame);
  queued_bytes_ -= frame;
  const wire::FrameHead head = head_of(*operation);
  // (The log is not moved here: the batch points into it.)
  if (frame <= kCopyFirst && history_.log_room() >= frame) {
    std::byte* at = history_.log_place();
    std::memcpy(at, &head, sizeof head);
    Cursor payload = operation->payload;
    payload.pack(at + sizeof head, operation->total_bytes);
    history_.commit(frame);
    shared_.finished.push_back(operation);
    return true;
  }
  history_.append(*operation, head);
  return true;
}

// The bytes from sent_ on, at most `limit` of them (but for the last piece's, without `limit` being reached before).
void TcpOutbound::gather(Batch& batch, size_t limit) {
  uint64_t position = sent_;
  while (history_.add(batch, position, limit, shared_.scratch.get()) && batch.bytes < kPullBytes && pull()) continue;
}

TcpOutbound::Flush TcpOutbound::flush(bool more) {
  held_ = false;
  if (error_ != 0) return Flush::broken;
  if (stream_ < 0) return Flush::blocked;
  if (!queue_.empty() && queue_.front()->total_bytes < kCopyFirst) (void)reserve(4 * kCopyFirst);
  Flush result = shared_.sealed ? flush_blocks() : flush_plain(more);
  return result == Flush::all && history_.has_operations() ? Flush::blocked : result;
}

TcpOutbound::Flush TcpOutbound::flush_plain(bool more) {
  // Bounded to 8 batches, so that a fast reader on the other side cannot keep this rank here.
  for (int round = 0; round < 8; ++round) {
    Batch batch;
    gather(batch, kBatchBytes);
    if (batch.piece_count == 0) return Flush::all;
    ssize_t n = shared_.port.send_pieces(stream_, batch.pieces, batch.piece_count, more);
    if (n < 0) {
      if (n == -EAGAIN) return Flush::blocked;
      error_ = int(-n);
      return Flush::broken;
    }
    sent_ += size_t(n);
    if (size_t(n) < batch.bytes) return Flush::blocked;
  }
  return empty() ? Flush::all : Flush::blocked;
}

// --- With checksums.

TcpOutbound::Flush TcpOutbound::flush_sealed() {
  for (int round = 0; round < 64; ++round) {
    Batch batch;
    batch.add(&block_head_, 0);  // place for the head
    const bool fresh = block_head_sent_ == sizeof block_head_ && sent_ == block_end_;
    if (fresh) {
      gather(batch, wire::kMaxBlockBytes);
      if (batch.bytes == 0 && owed() == 0) return Flush::all;
      block_end_ = sent_ + batch.bytes;
      block_head_ = wire::build_block(batch.bytes, owed_ack_);
      block_head_.crc =
          crc32c(&block_head_.length, sizeof block_head_ - sizeof block_head_.crc, crc32c(&sent_, sizeof sent_));
      for (size_t i = 1; i < batch.piece_count; ++i)
        block_head_.crc = crc32c(batch.pieces[i].iov_base, batch.pieces[i].iov_len, block_head_.crc);
      block_head_sent_ = 0;
      told_ack_ = owed_ack_;
      TERN_DEBUG_ASSERT(block_end_ >= sent_ && block_end_ <= history_.end());
    } else if (sent_ != block_end_) {
      gather(batch, size_t(block_end_ - sent_));
    }
    size_t of_head = sizeof block_head_ - block_head_sent_;
    batch.pieces[0] = {reinterpret_cast<std::byte*>(&block_head_) + block_head_sent_, of_head};
    const size_t skip = of_head == 0;
    ssize_t n = shared_.port.send_pieces(stream_, batch.pieces + skip, batch.piece_count - skip, false);
    if (n < 0) {
      if (n == -EAGAIN) return Flush::blocked;
      error_ = int(-n);
      return Flush::broken;
    }
    size_t left = std::min(size_t(n), of_head);
    block_head_sent_ += left;
    TERN_DEBUG_ASSERT(block_head_sent_ <= sizeof block_head_);
    sent_ += size_t(n) - left;
    if (size_t(n) < of_head + batch.bytes) return Flush::blocked;
  }
  return empty() ? Flush::all : Flush::blocked;
}

// --- Encrypted.

TcpOutbound::Flush TcpOutbound::flush_encrypted() {
  for (int round = 0; round < 64; ++round) {
    if (cipher_sent_ == cipher_bytes_) {
      Batch batch;
      gather(batch, wire::kMaxBlockBytes);
      if (batch.bytes == 0 && owed() == 0) return Flush::all;
      const wire::BlockHead head = wire::build_block(batch.bytes, owed_ack_);
      std::byte* at = cipher_block_.get();
      std::memcpy(at, &head, sizeof head);
      at += sizeof head;
      for (size_t i = 0; i < batch.piece_count; ++i) {
        std::memcpy(at, batch.pieces[i].iov_base, batch.pieces[i].iov_len);
        at += batch.pieces[i].iov_len;
      }
      cipher_.seal(head, cipher_block_.get() + sizeof head);
      cipher_sent_ = 0;
      cipher_bytes_ = sizeof head + batch.bytes + TcpCipher::kTagBytes;
      told_ack_ = owed_ack_;
      TERN_DEBUG_ASSERT(sent_ + batch.bytes <= history_.end());
      sent_ += batch.bytes;
    }
    ssize_t n = shared_.port.send(stream_, cipher_block_.get() + cipher_sent_, cipher_bytes_ - cipher_sent_, false);
    if (n < 0) {
      if (n == -EAGAIN) return Flush::blocked;
      error_ = int(-n);
      return Flush::broken;
    }
    cipher_sent_ += size_t(n);
    TERN_DEBUG_ASSERT(cipher_sent_ <= cipher_bytes_);
    if (cipher_sent_ != cipher_bytes_) return Flush::blocked;
  }
  return empty() ? Flush::all : Flush::blocked;
}

// --- What has arrived.

std::byte* TcpOutbound::reserve_slow(size_t bytes, bool force) {
  ask_kernel();
  return history_.log_room() >= bytes ? history_.log_place() : history_.make_log_room(bytes, force);
}

void TcpOutbound::ask_kernel() {
  if (shared_.sealed || !trusted_ || stream_ < 0 || acknowledged() == sent_) return;
  const int unacknowledged = shared_.port.unacknowledged(stream_);
  if (unacknowledged < 0) return;
  // (Valid also when the connection has broken: the kernel drops its queue, but not its counts.)
  uint64_t since = sent_ - began_;
  TERN_DEBUG_ASSERT(sent_ >= began_);
  if (uint64_t(unacknowledged) < since) history_.forget(sent_ - uint64_t(unacknowledged));
}

bool TcpOutbound::unsure() {
  ask_kernel();
  return acknowledged() != history_.end();
}

uint64_t TcpOutbound::awaited() {
  ask_kernel();
  return history_.end() - acknowledged() - std::min<uint64_t>(history_.end() - acknowledged(), kTailBytes);
}

uint64_t TcpOutbound::backlog() {
  ask_kernel();
  return history_.end() - acknowledged() + queued_bytes_;
}

void TcpOutbound::settle() {
  const tcp::OutboundHistory::Unfinished first = history_.first_unfinished();
  if (!first.operation) return;
  if (first.end > sent_ && !tcp::OutboundHistory::is_eager(*first.operation, shared_.eager_bytes)) return;
  const uint64_t most = history_.end() - first.begin;
  if (most <= kTailBytes) (void)reserve(size_t(most));  // makes room for a copy; may ask the kernel
  if (most > kCopyUnasked || !history_.has_copy_room()) {
    ask_kernel();
    if (acknowledged() != looked_at_) empty_looks_ = 0;
    looked_at_ = acknowledged();
    // (What is before it and not acknowledged is a copy already.)
    if (most > kTailBytes && history_.end() - acknowledged() > kTailBytes && ++empty_looks_ <= kMaxEmptyLooks) return;
  }
  history_.copy_operations(shared_.eager_bytes);
}

// --- Begin and end of connections.

bool TcpOutbound::acknowledge(uint64_t received) {
  if (received > sent_) return false;
  history_.forget(received);
  return true;
}

bool TcpOutbound::resume(int handle, uint64_t received, bool trusted) {
  if (received < history_.oldest() || received > std::max(sent_, most_sent_)) return false;
  most_sent_ = std::max(sent_, most_sent_);
  history_.forget(received);
  sent_ = began_ = block_end_ = received;
  block_head_sent_ = sizeof block_head_;
  stream_ = handle;
  error_ = 0;
  trusted_ = trusted;
  TERN_DEBUG_ASSERT(sent_ <= std::max(history_.end(), most_sent_));
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
  history_.surrender(out);
  held_ = false;
  while (SendOperation* operation = queue_.pop_front()) out.push_back(operation);
  queued_bytes_ = 0;
  sent_ = history_.end();
  cipher_sent_ = cipher_bytes_ = 0;
  told_ack_ = owed_ack_;  // there is no connection to state it on
}

}  // namespace tern
