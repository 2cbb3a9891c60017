// What has arrived from a peer, and how much of it the peer was told. Confirmations travel in the headers of messages
// to the peer; if none goes there for long, one goes alone.
// Thread rule: under the rank's lock.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "base/assert.h"
#include "fabric/scheduler/unconfirmed.h"
#include "wire/header.h"

namespace tern::scheduler {

class ArrivalCount {
 public:
  /// A message of `bytes` has arrived completely. True: a confirmation is due.
  bool count(size_t bytes) {
    ++arrived_;
    untold_bytes_ += bytes;
    TERN_DEBUG_ASSERT(told_ < arrived_);
    // One that was not copied holds its sender's memory.
    return bytes > Unconfirmed::kCopyBytes || untold_bytes_ >= kConfirmBytes || arrived_ - told_ >= kConfirmMessages;
  }
  /// The flags of the next header to the peer: how many messages it confirms.
  uint8_t take_confirmation() {
    const uint64_t count = std::min<uint64_t>(arrived_ - told_, wire::kMaxConfirmed);
    if (count == 0) return 0;
    told_ += count;
    TERN_ASSERT(told_ <= arrived_);
    if (told_ == arrived_) untold_bytes_ = 0;
    return uint8_t(count << wire::kConfirmShift);
  }
  /// That header was not sent.
  void give_back(uint8_t confirmation) { told_ -= confirmation >> wire::kConfirmShift; }
  /// The peer is told all by a message of its own.
  void tell_all() {
    told_ = arrived_;
    untold_bytes_ = 0;
  }
  bool all_told() const { return told_ == arrived_; }
  /// Complete messages so far.
  uint64_t arrived() const { return arrived_; }

 private:
  /// Unconfirmed messages after which the receiver sends a confirmation alone. It costs both sides as much as 50 small
  /// messages. The sender keeps 80 KiB of records for 256 messages, which stay in its cache.
  static constexpr uint32_t kConfirmMessages = 256;
  /// Unconfirmed bytes after which it does: half of the copies that a sender may keep, so a stream never waits for
  /// them.
  static constexpr size_t kConfirmBytes = Unconfirmed::kMaxCopiedBytes / 2;

  uint64_t arrived_ = 0, told_ = 0;
  size_t untold_bytes_ = 0;
};

}  // namespace tern::scheduler
