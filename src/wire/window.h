// Messages between the ranks of a window (rma/). All of one origin and one target stays in order.
//
//   kind      header                                        payload
//   batch     context: the window; source: sender's rank;   records for the target, one after the other
//             token: the number of a confirmation that
//             is asked for behind them, or 0
//   data      the same                                      the bytes of the operation that ended the batch before
//   answers   the same                                      records for the origin
//   result    the same; token: the origin's                 the bytes that a get or a fetching operation wants
//   post      the same                                      -   the sender's exposure epoch is open to the receiver
//   nudge     the same                                      -   what the receiver waits for in shared memory changed
//
// A record is a head of 8 bytes, then what its code says; each begins at a multiple of 8 bytes from the first.
//
//   for targets                                             for origins
//   lock       flag: exclusive                              granted  -
//   unlock     -                                            ack      number
//   flush      number: to be confirmed by an ack            result   number: the origin's token; Length, bytes
//   complete   - (the end of an access epoch)               failed   number: the token, or 0; flag: its error class;
//   datatype   slot; Length, code (datatype/code.h)                  Length, text
//   operate    flag: the operation; OperationBody, bytes
//   brief      flag: the operation; slot: the type; number: the token; BriefBody, bytes. An operation on at most 255
//              bytes of a predefined type without gaps: with it a message of one operation fits a cache line.
//
// The parsers trust nothing: what they hand out lies within the message.
#pragma once

#include <cstring>
#include <span>
#include <vector>

#include "wire/header.h"

namespace tern::wire {

inline constexpr Kind kWindowBatch = kFirstWindowKind, kWindowData = Kind(33), kWindowAnswers = Kind(34),
                      kWindowResult = Kind(35), kWindowPost = Kind(36), kWindowNudge = Kind(37);

enum class WindowCode : uint8_t {
  lock = 1,
  unlock,
  flush,
  complete,
  datatype,
  operate,
  brief,
  granted = 32,
  ack,
  result,
  failed
};

enum class WindowAction : uint8_t { put = 1, get, accumulate, get_accumulate, compare_and_swap };

struct WindowRecord {
  WindowCode code;
  uint8_t flag = 0;
  uint16_t slot = 0;
  uint32_t number = 0;
};
static_assert(sizeof(WindowRecord) == 8);

/// A datatype that the target knows by its number in the standard ABI is named by that, others by a slot that a
/// datatype record has filled.
inline constexpr uint16_t kTypeSlot = 0x8000;
inline constexpr uint16_t kTypeSlots = 64;

struct WindowOperationBody {
  uint8_t op = 0;      ///< OpId
  uint8_t inside = 0;  ///< 1: the data follow; 0: they come as the next message, or there are none
  uint16_t type = 0;
  uint32_t reserved = 0;
  uint64_t address = 0;  ///< bytes from the window's base; dynamic windows: the target's own address
  uint64_t count = 0;    ///< elements of the target's datatype
  uint64_t offset = 0;   ///< where in their packed stream this operation begins
  uint64_t bytes = 0;    ///< of them. A compare-and-swap carries twice as many: the new value, and the one to compare
};
static_assert(sizeof(WindowOperationBody) == 40);

/// The body of a brief operation, in one word: address 48 bits | bytes 8 bits | op 8 bits. What it brings follows.
struct WindowBriefBody {
  static constexpr uint64_t kMaxBytes = 255, kAddressEnd = uint64_t{1} << 48;
  uint8_t op = 0;
  uint8_t bytes = 0;
  uint64_t address = 0;  ///< less than kAddressEnd
};

/// A brief record up to its data, whose place it returns.
inline constexpr size_t kWindowBriefHeadBytes = sizeof(WindowRecord) + sizeof(uint64_t);
inline std::byte* write_window_brief(std::byte* to, WindowAction action, uint16_t type, uint32_t token,
                                     const WindowBriefBody& body) {
  const WindowRecord head{WindowCode::brief, uint8_t(action), type, token};
  const uint64_t word = body.address | uint64_t{body.bytes} << 48 | uint64_t{body.op} << 56;
  std::memcpy(to, &head, sizeof head);
  std::memcpy(to + sizeof head, &word, sizeof word);
  return to + kWindowBriefHeadBytes;
}

/// A result record up to its bytes.
inline constexpr size_t kWindowResultHeadBytes = sizeof(WindowRecord) + sizeof(uint64_t);
inline void write_window_result_head(std::byte* to, uint32_t token, uint64_t bytes) {
  const WindowRecord head{WindowCode::result, 0, 0, token};
  std::memcpy(to, &head, sizeof head);
  std::memcpy(to + sizeof head, &bytes, sizeof bytes);
}

/// Builds records in a vector.
class WindowWriter {
 public:
  explicit WindowWriter(std::vector<std::byte>& out) : out_(out) {}
  void record(const WindowRecord& head) { append(&head, sizeof head); }
  void operation(WindowAction action, uint32_t token, const WindowOperationBody& body) {
    record({WindowCode::operate, uint8_t(action), 0, token});
    append(&body, sizeof body);
  }
  /// Room for the data that follow, to be filled by the caller.
  std::byte* brief(WindowAction action, uint16_t type, uint32_t token, const WindowBriefBody& body, size_t data_bytes) {
    return write_window_brief(room(kWindowBriefHeadBytes + data_bytes), action, type, token, body);
  }
  /// Length and bytes.
  void text(WindowRecord head, const void* data, uint64_t bytes) {
    record(head);
    append(&bytes, sizeof bytes);
    append(data, bytes);
    pad();
  }
  /// Room for `bytes`, to be filled by the caller before anything else is written; up to the next record.
  std::byte* room(size_t bytes) {
    const size_t at = out_.size();
    out_.resize(at + padded(bytes));
    return out_.data() + at;
  }
  static constexpr size_t padded(size_t bytes) { return (bytes + 7) & ~size_t{7}; }

 private:
  void append(const void* data, size_t bytes) {
    const auto* from = static_cast<const std::byte*>(data);
    out_.insert(out_.end(), from, from + bytes);
  }
  void pad() { out_.resize(padded(out_.size())); }
  std::vector<std::byte>& out_;
};

/// Takes records apart, one after the other.
class WindowReader {
 public:
  explicit WindowReader(std::span<const std::byte> message) : left_(message) {}
  /// The head of the next one; false: there is none, or the message is damaged.
  bool next(WindowRecord& head) { return ok_ && !left_.empty() && take(&head, sizeof head); }
  bool operation(WindowOperationBody& body) { return take(&body, sizeof body); }
  bool brief(WindowBriefBody& body) {
    uint64_t word = 0;
    if (!take(&word, sizeof word)) return false;
    body = {uint8_t(word >> 56), uint8_t(word >> 48), word % WindowBriefBody::kAddressEnd};
    return true;
  }
  bool text(std::span<const std::byte>& bytes) {
    uint64_t length = 0;
    return take(&length, sizeof length) && data(length, bytes);
  }
  bool data(uint64_t length, std::span<const std::byte>& bytes) {
    if (!ok_ || length > left_.size() || WindowWriter::padded(length) > left_.size()) return ok_ = false;
    bytes = left_.first(length);
    left_ = left_.subspan(WindowWriter::padded(length));
    return true;
  }
  /// The rest that was not read yet.
  std::span<const std::byte> rest() const { return left_; }
  bool ok() const { return ok_; }

 private:
  bool take(void* to, size_t bytes) {
    if (!ok_ || bytes > left_.size()) return ok_ = false;
    std::memcpy(to, left_.data(), bytes);
    left_ = left_.subspan(bytes);
    return true;
  }
  std::span<const std::byte> left_;
  bool ok_ = true;
};

}  // namespace tern::wire
