#include "fabric/tcp/outbound.h"

#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/assert.h"

namespace tern {
namespace {

constexpr size_t kMaxPieces = 64;
constexpr size_t kMaxHeads = 32;
// Enough for the kernel to be busy during one call; more only delays the look at what has arrived meanwhile.
constexpr size_t kBatchBytes = 1 << 20;
// A message so short is joined with its head and sent by the cheaper call (8 B: 0.1 us less than by sendmsg).
constexpr size_t kJoinBytes = 512;
// Pieces shorter than this on average are packed first: the kernel's work for a piece costs as much as
// copying a few hundred bytes.
constexpr size_t kWorthAPiece = 512;

ssize_t send_pieces(int fd, iovec* pieces, size_t count) {
  msghdr message{};
  message.msg_iov = pieces;
  message.msg_iovlen = count;
  ssize_t n;
  do {
    n = sendmsg(fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
  } while (n < 0 && errno == EINTR);
  return n;
}

ssize_t send_bytes(int fd, const void* data, size_t bytes) {
  ssize_t n;
  do {
    n = send(fd, data, bytes, MSG_DONTWAIT | MSG_NOSIGNAL);
  } while (n < 0 && errno == EINTR);
  return n;
}

// The socket lives, but takes nothing now.
bool is_full(int error) {
  return error == EAGAIN || error == EWOULDBLOCK || error == ENOBUFS || error == ENOMEM;
}

}  // namespace

struct TcpOutbound::Batch {
  iovec pieces[kMaxPieces];
  wire::FrameHead heads[kMaxHeads];
  size_t piece_count = 0, head_count = 0, bytes = 0;

  void add(const void* data, size_t n) {
    pieces[piece_count++] = {const_cast<void*>(data), n};
    bytes += n;
  }
};

bool TcpOutbound::try_send(int fd, const wire::Header& header, const void* payload, size_t bytes) {
  if (!empty() || error_ != 0) return false;
  wire::FrameHead head = wire::build_frame(wire::FrameType::message, header, bytes);
  ssize_t n;
  if (bytes <= kJoinBytes) {
    std::byte joined[sizeof head + kJoinBytes];
    std::memcpy(joined, &head, sizeof head);
    if (bytes != 0) std::memcpy(joined + sizeof head, payload, bytes);
    n = send_bytes(fd, joined, sizeof head + bytes);
  } else {
    iovec pieces[2] = {{&head, sizeof head}, {const_cast<void*>(payload), bytes}};
    n = send_pieces(fd, pieces, 2);
  }
  if (n == ssize_t(sizeof head + bytes)) return true;
  if (n < 0) {
    if (!is_full(errno)) error_ = errno;
    return false;
  }
  keep_rest(head, payload, bytes, size_t(n));
  return true;
}

void TcpOutbound::keep_rest(const wire::FrameHead& head, const void* payload, size_t bytes, size_t sent) {
  auto* h = reinterpret_cast<const std::byte*>(&head);
  auto* p = static_cast<const std::byte*>(payload);
  rest_.clear();
  rest_begin_ = 0;
  if (sent < sizeof head) rest_.insert(rest_.end(), h + sent, h + sizeof head);
  size_t payload_sent = sent > sizeof head ? sent - sizeof head : 0;
  if (payload_sent < bytes) rest_.insert(rest_.end(), p + payload_sent, p + bytes);
}

void TcpOutbound::enqueue(SendOperation& operation) {
  operation.total_bytes = operation.payload.remaining();
  operation.header_sent = false;
  queue_.push_back(&operation);
}

bool TcpOutbound::withdraw(SendOperation& operation) {
  if (!operation.linked() || operation.header_sent) return false;
  SendList::remove(&operation);
  return true;
}

void TcpOutbound::surrender(SendList& out) {
  while (SendOperation* operation = queue_.pop_front()) out.push_back(operation);
  head_sent_ = 0;
  rest_.clear();
  rest_begin_ = 0;
}

void TcpOutbound::say_goodbye() {
  TERN_ASSERT(queue_.empty());
  wire::FrameHead head = wire::build_frame(wire::FrameType::goodbye, {}, 0);
  auto* h = reinterpret_cast<const std::byte*>(&head);
  rest_.insert(rest_.end(), h, h + sizeof head);
}

// The next pieces to send, in order, without changing anything.
void TcpOutbound::gather(Batch& batch, std::byte* scratch) {
  if (rest_begin_ < rest_.size()) batch.add(rest_.data() + rest_begin_, rest_.size() - rest_begin_);
  size_t head_sent = head_sent_;  // of the front operation only
  for (SendOperation* operation = queue_.front(); operation; operation = queue_.next(operation)) {
    if (batch.piece_count + 2 > kMaxPieces || batch.head_count == kMaxHeads || batch.bytes >= kBatchBytes)
      return;
    if (head_sent < sizeof(wire::FrameHead)) {
      wire::FrameHead& head = batch.heads[batch.head_count++];
      head = wire::build_frame(wire::FrameType::message, operation->header, operation->total_bytes);
      batch.add(reinterpret_cast<const std::byte*>(&head) + head_sent, sizeof head - head_sent);
    }
    head_sent = 0;
    size_t left = operation->payload.remaining();
    if (left == 0) continue;
    if (operation->payload.is_contiguous()) {
      batch.add(operation->payload.contiguous_data(), left);
      continue;
    }
    // Scattered data ends the batch: it may need the scratch memory, of which there is one.
    Cursor ahead = operation->payload;
    iovec pieces[kMaxPieces];
    size_t bytes = 0;
    size_t count = ahead.segments({pieces, kMaxPieces - batch.piece_count}, kBatchBytes, bytes);
    if (count != 0 && bytes / count >= kWorthAPiece) {
      for (size_t i = 0; i < count; ++i) batch.add(pieces[i].iov_base, pieces[i].iov_len);
    } else {
      Cursor again = operation->payload;
      batch.add(scratch, again.pack(scratch, kScratchBytes));
    }
    return;
  }
}

// `sent` bytes of the last batch have left.
void TcpOutbound::account(size_t sent, SendList& finished) {
  size_t of_rest = std::min(sent, rest_.size() - rest_begin_);
  rest_begin_ += of_rest;
  sent -= of_rest;
  if (rest_begin_ == rest_.size()) {
    rest_.clear();
    rest_begin_ = 0;
  }
  while (sent != 0) {
    SendOperation* operation = queue_.front();
    TERN_ASSERT(operation != nullptr);
    operation->header_sent = true;
    size_t of_head = std::min(sent, sizeof(wire::FrameHead) - head_sent_);
    head_sent_ += of_head;
    sent -= of_head;
    size_t of_payload = std::min(sent, operation->payload.remaining());
    operation->payload.skip(of_payload);
    sent -= of_payload;
    if (head_sent_ < sizeof(wire::FrameHead) || operation->payload.remaining() != 0) break;
    head_sent_ = 0;
    SendList::remove(operation);
    finished.push_back(operation);
  }
  TERN_ASSERT(sent == 0);
}

TcpOutbound::Flush TcpOutbound::flush(int fd, SendList& finished, std::byte* scratch) {
  if (error_ != 0) return Flush::broken;
  // Bounded, so that a fast reader on the other side cannot keep us here: 8 batches.
  for (int round = 0; round < 8; ++round) {
    Batch batch;
    gather(batch, scratch);
    if (batch.piece_count == 0) return Flush::all;
    ssize_t n = send_pieces(fd, batch.pieces, batch.piece_count);
    if (n < 0) {
      if (is_full(errno)) return Flush::blocked;
      error_ = errno;
      return Flush::broken;
    }
    account(size_t(n), finished);
    if (size_t(n) < batch.bytes) return Flush::blocked;
  }
  return empty() ? Flush::all : Flush::blocked;
}

}  // namespace tern
