#include "fabric/tcp/outbound_history.h"

#include <algorithm>
#include <cstring>

#include "base/assert.h"

namespace tern::tcp {
namespace {

// The log of small frames: usually acknowledged long before it is full, then it starts again at its beginning. Some 200
// of the smallest frames.
constexpr size_t kFirstLogBytes = 16 * 1024;

}  // namespace

std::byte* OutboundHistory::make_log_room(size_t bytes, bool force) {
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
  return log_place();
}

void OutboundHistory::commit(size_t bytes) {
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

void OutboundHistory::append(SendOperation& operation, const wire::FrameHead& head) {
  Segment& segment = segments_.emplace_back();
  segment.begin = end_;
  segment.bytes = kHeadBytes + operation.total_bytes;
  segment.operation = &operation;
  segment.payload_begin = operation.payload.position();
  TERN_DEBUG_ASSERT(operation.payload.remaining() == operation.total_bytes);
  segment.head = head;
  end_ += segment.bytes;
  ++operations_;
}

// --- To the socket.

namespace {

// Adds an operation's payload from `offset` on. False: it ends the batch.
bool add_payload(Batch& batch, SendOperation& operation, size_t offset, size_t limit, std::byte* scratch) {
  Cursor& payload = operation.payload;
  TERN_DEBUG_ASSERT(offset <= operation.total_bytes);
  size_t left = std::min(operation.total_bytes - offset, limit);
  if (left == 0) return true;
  if (payload.is_contiguous()) {
    batch.add(payload.contiguous_data(), left);
    return left == operation.total_bytes - offset;
  }
  // Scattered data ends the batch: it may need the scratch memory, of which there is one.
  Cursor ahead = payload;
  iovec pieces[kMaxPieces];
  size_t bytes = 0;
  size_t count = ahead.segments({pieces, kMaxPieces - batch.piece_count}, left, bytes);
  if (count != 0 && bytes / count >= kWorthAPieceBytes) {
    for (size_t i = 0; i < count; ++i) batch.add(pieces[i].iov_base, pieces[i].iov_len);
  } else {
    Cursor again = payload;
    batch.add(scratch, again.pack(scratch, std::min(left, OutboundHistory::kScratchBytes)));
  }
  return false;
}

}  // namespace

// False: not to its end.
bool OutboundHistory::add_segment(Batch& batch, Segment& segment, size_t offset, size_t limit, std::byte* scratch) {
  if (!segment.operation) {
    std::byte* data = segment.own ? segment.own.get() : log_.get() + segment.at;
    const size_t n = std::min(size_t(segment.bytes) - offset, limit);
    batch.add(data + offset, n);
    return n == segment.bytes - offset;
  }
  if (offset < kHeadBytes) {
    const size_t n = std::min(kHeadBytes - offset, limit);
    batch.add(reinterpret_cast<const std::byte*>(&segment.head) + offset, n);
    offset += n;
    limit -= n;
    if (offset < kHeadBytes) return false;
  }
  segment.operation->payload.seek(segment.payload_begin + offset - kHeadBytes);
  return add_payload(batch, *segment.operation, offset - kHeadBytes, limit, scratch);
}

bool OutboundHistory::add(Batch& batch, uint64_t& position, size_t limit, std::byte* scratch) {
  size_t index = segments_.size();
  while (index != 0 && segments_[index - 1].end() > position) --index;
  for (; batch.bytes < limit && !batch.full(); ++index) {
    if (index == segments_.size()) return true;
    Segment& segment = segments_[index];
    const size_t offset = size_t(position - segment.begin), before = batch.bytes;
    TERN_DEBUG_ASSERT(position >= segment.begin && offset <= segment.bytes);
    const bool whole = add_segment(batch, segment, offset, limit - batch.bytes, scratch);
    position += batch.bytes - before;
    if (!whole) return false;
  }
  return false;
}

// --- What has arrived.

void OutboundHistory::forget(uint64_t received) {
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
      TERN_DEBUG_ASSERT(operations_ != 0);
      --operations_;
      finished_.push_back(segment.operation);
    }
    if (segment.own) {
      TERN_DEBUG_ASSERT(owned_bytes_ >= segment.bytes);
      owned_bytes_ -= segment.bytes;
      if (fits_spare(size_t(segment.bytes))) spare_ = std::move(segment.own);
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

OutboundHistory::Unfinished OutboundHistory::first_unfinished() const {
  if (operations_ == 0) return {};
  const auto first = std::find_if(segments_.begin(), segments_.end(), [](auto& s) { return s.operation; });
  TERN_DEBUG_ASSERT(first != segments_.end());
  return {first->operation, first->begin, first->end()};
}

void OutboundHistory::copy_operations(size_t eager_bytes) {
  for (size_t at = 0; at < segments_.size() && operations_ != 0; ++at) {
    if (segments_[at].operation && !copy_from(at, eager_bytes)) return;
  }
}

// What is in the segment from `from` on. Returns the end of the copy.
std::byte* OutboundHistory::pack(Segment& segment, uint64_t from, std::byte* to) {
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

// Copies the operation there, and those that follow it while there is room. False: it is too long.
bool OutboundHistory::copy_from(size_t at, size_t eager_bytes) {
  const uint64_t from = std::max(acked_, segments_[at].begin);
  size_t rest = size_t(segments_[at].end() - from), run = 1;
  if (rest > kTailBytes && !is_eager(*segments_[at].operation, eager_bytes)) return false;
  for (; at + run < segments_.size() && segments_[at + run].operation; ++run) {
    const size_t longer = size_t(segments_[at + run].end() - from);
    if (longer > kTailBytes) break;
    rest = longer;
  }
  // The log is in stream order: only the last bytes can go there.
  std::unique_ptr<std::byte[]> own;
  const bool to_log = at + run == segments_.size() && log_room() >= rest;
  if (!to_log) {
    if (owned_bytes_ + rest > kMaxLogBytes) return false;
    if (fits_spare(rest)) own = std::move(spare_);
    if (!own) own.reset(new std::byte[fits_spare(rest) ? kTailBytes : rest]);
  }
  std::byte* to = to_log ? log_place() : own.get();
  for (size_t i = at; i < at + run; ++i) {
    to = pack(segments_[i], std::max(from, segments_[i].begin), to);
    finished_.push_back(segments_[i].operation);
  }
  TERN_DEBUG_ASSERT(operations_ >= run && run != 0);
  operations_ -= run;
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

void OutboundHistory::surrender(SendList& out) {
  for (Segment& segment : segments_) {
    if (segment.operation) out.push_back(segment.operation);
  }
  segments_.clear();
  operations_ = owned_bytes_ = 0;
  acked_ = end_;
  log_begin_ = log_end_ = log_capacity_ = 0;
  log_.reset();
  spare_.reset();
}

}  // namespace tern::tcp
