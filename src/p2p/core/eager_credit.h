// EagerCredit: how much eager data one rank of a pair may still have waiting unread at the other, and what it owes for
// the other's data that it has consumed.
//
//   sender                                     receiver
//   take;  eager ----------------------------->  matched: unpack, consume
//                                                unmatched: kept until a receive comes, then the same
//   returned   <---------------------- eager     carry: what is owed goes along with a message
//   returned   <--------------------- credit     settle: without one, when five eighths of the window are owed
//
// What is available here, what is on its way, and what the peer owes always add up to the window. With no credit left a
// sender uses rendezvous, whose announcements cost the receiver one record each and the sender a request: memory for a
// flood that nobody reads is the window per sender, whatever its length.
//
// Units: 64 bytes of payload, and one for each message. Thread rule: under the rank's lock.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "base/assert.h"

namespace tern {

class EagerCredit {
 public:
  static constexpr int64_t kUnitBytes = 64;

  /// Of the tunable unexpected_credit_bytes, at most 2^30.
  explicit EagerCredit(int64_t window_bytes)
      : available_(int32_t(window_bytes / kUnitBytes)),
        window_(available_),
        // More than half of the window, for over TCP that is one message of the longest, which most often is answered.
        settle_from_(available_ * 5 / 8),
        carry_from_(std::max(available_ / 16, 1)) {}

  // --- As sender.
  bool covers(size_t bytes) const { return available_ >= units(bytes); }
  /// False: there is not enough, nothing is taken.
  bool take(size_t bytes) {
    const int64_t wanted = units(bytes);
    if (available_ < wanted) return false;
    available_ -= int32_t(wanted);
    TERN_DEBUG_ASSERT(available_ >= 0);
    return true;
  }
  /// The message was not sent, or was taken back before it left.
  void untake(size_t bytes) {
    available_ += int32_t(units(bytes));
    TERN_ASSERT(window_ < 0 || available_ <= window_);  // below 0: the peer is lost
  }
  /// The receiver has given units back.
  void returned(uint32_t units) { available_ = int32_t(std::min(int64_t(available_) + units, int64_t(window_))); }
  /// The peer is lost: nothing is covered any more.
  void close() {
    available_ = INT32_MIN / 2;
    window_ = INT32_MIN / 2;
  }

  // --- As receiver.
  /// So much of the peer's eager data has been taken out of the way. True: so much is owed now that it should be
  /// settled at once.
  [[nodiscard]] bool consume(size_t bytes) {
    owed_ += int32_t(units(bytes));
    TERN_DEBUG_ASSERT(owed_ > 0);
    return owed_ >= settle_from_;
  }
  /// What an eager message takes along.
  uint16_t carry() {
    if (owed_ < carry_from_) [[likely]]
      return 0;
    const auto units = uint16_t(std::min<int32_t>(owed_, UINT16_MAX));
    owed_ -= units;
    TERN_DEBUG_ASSERT(owed_ >= 0);
    return units;
  }
  /// That message was not sent.
  void uncarry(uint16_t units) { owed_ += units; }
  uint32_t owed() const { return uint32_t(owed_); }
  /// Worth a message to a sender that may be out of credit.
  bool half_due() const { return 2 * int64_t(owed_) >= settle_from_; }
  /// A message with all that is owed has left.
  void settled() { owed_ = 0; }

 private:
  static int64_t units(size_t bytes) { return int64_t(1 + (bytes + kUnitBytes - 1) / kUnitBytes); }

  int32_t available_;
  int32_t owed_ = 0;
  int32_t window_;
  int32_t settle_from_;
  int32_t carry_from_;
};

}  // namespace tern
