// The history of a stream: its bytes from the oldest that is not known to have arrived to the newest that has been
// begun. It is made of segments. Small frames are copied to the log; of long operations only the place in the user's
// memory is kept, until their bytes have arrived, or what is left of them is so little that it is copied instead.
//
// Bytes are numbered from the stream's beginning (outbound.h). Thread rule: under the rank's lock.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>

#include "base/intrusive_list.h"
#include "fabric/path.h"
#include "fabric/tcp/pieces.h"
#include "wire/frame.h"

namespace tern {

using SendList = IntrusiveList<SendOperation>;

namespace tcp {

class OutboundHistory {
 public:
  static constexpr size_t kHeadBytes = sizeof(wire::FrameHead);
  static constexpr size_t kScratchBytes = 64 * 1024;  ///< of the memory for `add`: scattered data of one batch
  /// Beyond this small messages wait in the queue: as much memory per peer as TERN_UNEXPECTED_CREDIT_BYTES.
  static constexpr size_t kMaxLogBytes = 1 << 20;
  /// If no more than this is left of operations, it is copied, so that they complete (6.4 us).
  static constexpr size_t kTailBytes = 64 * 1024 + kHeadBytes;

  /// `finished`: operations of which nothing is needed any more go to its end.
  explicit OutboundHistory(SendList& finished) : finished_(finished) {}

  // --- The log of small frames.
  size_t log_room() const { return log_capacity_ - log_end_; }
  size_t log_bytes() const { return log_end_ - log_begin_; }
  /// Where the next bytes go: log_room() of them.
  std::byte* log_place() const { return log_.get() + log_end_; }
  /// Makes room for `bytes` at the end of the log: moves or enlarges it. Null: it is full (never when `force`).
  std::byte* make_log_room(size_t bytes, bool force);
  /// The bytes written at `log_place` become part of the stream.
  void commit(size_t bytes);

  // --- The stream.
  /// An operation becomes part of it. `head`: of its frame.
  void append(SendOperation& operation, const wire::FrameHead& head);
  /// Bytes that have left, and arrived, before they were here.
  void skip(size_t bytes) { end_ += bytes; }
  /// Adds its bytes from `position` on, and moves that on: to `limit` bytes in the batch (but for the last piece's), or
  /// to the end of scattered data, which may be in `scratch`. True: to the end of the stream, and more may be added.
  bool add(Batch& batch, uint64_t& position, size_t limit, std::byte* scratch);
  /// Bytes before `received` need no longer be kept.
  void forget(uint64_t received);
  struct Unfinished {
    const SendOperation* operation = nullptr;  ///< null: there is none
    uint64_t begin = 0, end = 0;               ///< its bytes
  };
  /// The first operation that is not complete.
  Unfinished first_unfinished() const;
  /// A copy of an operation's tail has room outside the log.
  bool has_copy_room() const { return owned_bytes_ + kTailBytes <= kMaxLogBytes; }
  /// Copies what is left of operations, so that they complete: short ones, and those whose receiver may be slow.
  void copy_operations(size_t eager_bytes);
  /// Whether the operation should complete although the receiver does not read.
  static bool is_eager(const SendOperation& operation, size_t eager_bytes) {
    return uint8_t(operation.header.kind) != 0 && operation.total_bytes <= eager_bytes;
  }
  /// Empties it. Operations go to the end of `out`.
  void surrender(SendList& out);

  uint64_t acknowledged() const { return acked_; }
  uint64_t end() const { return end_; }
  /// The first byte that is here.
  uint64_t oldest() const { return segments_.empty() ? end_ : segments_.front().begin; }
  /// Operations are part of it that are not complete.
  bool has_operations() const { return operations_ != 0; }

 private:
  struct Segment {
    uint64_t begin = 0, bytes = 0;
    SendOperation* operation = nullptr;  ///< null: a copy
    size_t payload_begin = 0;            ///< operation: position of its cursor at the first payload byte
    wire::FrameHead head{};              ///< operation
    size_t at = 0;                       ///< copy: place in the log
    std::unique_ptr<std::byte[]> own;    ///< copy: or in its own memory, of kTailBytes or more
    uint64_t end() const { return begin + bytes; }
  };

  bool add_segment(Batch& batch, Segment& segment, size_t offset, size_t limit, std::byte* scratch);
  static std::byte* pack(Segment& segment, uint64_t from, std::byte* to);
  bool copy_from(size_t at, size_t eager_bytes);
  /// A copy outside the log takes kTailBytes, which the next one uses again. A much shorter or a longer one takes as
  /// much as it is long.
  static bool fits_spare(size_t bytes) { return bytes >= kTailBytes / 4 && bytes <= kTailBytes; }

  SendList& finished_;
  std::deque<Segment> segments_;  ///< [acked_ or before, end_) without gaps
  uint64_t acked_ = 0, end_ = 0;
  size_t operations_ = 0;               ///< segments that are operations
  size_t owned_bytes_ = 0;              ///< of segments with memory of their own
  std::unique_ptr<std::byte[]> spare_;  ///< unused memory of such a segment, of kTailBytes
  std::unique_ptr<std::byte[]> log_;
  size_t log_capacity_ = 0, log_begin_ = 0, log_end_ = 0;
};

}  // namespace tcp
}  // namespace tern
