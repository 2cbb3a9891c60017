// MessageCount: the messages between this rank and a peer, counted on both sides. Which message an announced receive
// will match is known by counting (sent_log.h), so what is counted must be the same on both sides: every message that a
// receive will match, and nothing else. `is_message` says which those are; the sender counts where the message is
// handed to the path (endpoint.h, the only way there), the receiver where it comes from it.
//
// Thread rule: under the rank's lock.
#pragma once

#include <cstdint>
#include <memory>

#include "base/assert.h"
#include "p2p/matching/sent_log.h"
#include "wire/header.h"

namespace tern {

/// Whether a receive will match it. A put's message is the part of its FIN that takes the receive.
constexpr bool is_message(const wire::Header& header) {
  switch (header.kind) {
    case wire::Kind::eager:
    case wire::Kind::eager_sync:
    case wire::Kind::rts:
    case wire::Kind::direct: return true;
    case wire::Kind::filled: return (header.flags & wire::kTaken) != 0;
    default: return false;
  }
}

class MessageCount {
 public:
  /// Messages handed to the path, and messages that have come, since counting began.
  uint32_t sent() const { return sent_; }
  uint32_t arrived() const { return arrived_; }

  /// Counting has begun anew: numbers from before say nothing of the order.
  bool restarted() const { return epoch_sent_ != 0; }

  // --- As sender: the receives that the peer has announced.
  /// From here on messages are logged, so that announcements can be judged. Idempotent.
  void begin_log() {
    if (!log_) log_ = std::make_unique<SentLog>(sent_);
  }
  /// The announced receive that the next message of this key will match; null: none is known. Valid until the next
  /// call.
  const Ready* find(uint64_t context, int tag) const { return log_ ? log_->find(context, tag) : nullptr; }
  /// `token`: as SentLog::offer.
  SentLog::Verdict offer(const Ready& ready, uint32_t& token) {
    begin_log();
    newest_offer_ = ready.body.serial;
    if (ready.body.epoch != uint16_t(epoch_sent_)) return SentLog::Verdict::unknown;
    return log_->offer(ready, token);
  }
  /// A put goes out that uses this announcement and is followed by no message.
  void note_put(const Ready& ready) {
    TERN_ASSERT(log_);
    log_->note_put(ready);
  }
  /// As SentLog::note_crossed.
  void note_crossed(const Ready& ready, uint32_t token) {
    TERN_ASSERT(log_ && token != 0);
    log_->note_crossed(ready, token);
  }
  /// Serial of the newest announcement of the peer's that was read; 0: none was.
  uint32_t newest_offer() const { return newest_offer_; }
  /// Forgets the offers of a key.
  void withdraw(uint64_t context, int tag) {
    if (log_) log_->withdraw(context, tag);
  }
  /// A message was taken back: what was offered so far is void, counting begins anew. The number of the new epoch,
  /// which the peer must be told.
  uint32_t restart_sent() {
    begin_log();
    log_->restart();
    sent_ = 0;
    return ++epoch_sent_;
  }

  // --- As receiver.
  uint32_t arrived_epoch() const { return epoch_arrived_; }
  /// The peer has begun anew.
  void restart_arrived(uint32_t epoch) {
    arrived_ = 0;
    epoch_arrived_ = epoch;
  }

 private:
  friend class Endpoint;  // counting is part of sending, and of arriving
  void count_sent(const wire::Header& header) {
    ++sent_;
    if (log_) [[unlikely]]
      log_->note(header.context, header.tag, sent_, header.kind == wire::Kind::rts ? header.token : 0);
  }
  void count_arrived() { ++arrived_; }
  /// The peer is lost.
  void close() { log_.reset(); }

  uint32_t sent_ = 0;
  uint32_t arrived_ = 0;
  std::unique_ptr<SentLog> log_;  ///< null: no receive was announced yet, either way
  uint32_t newest_offer_ = 0;
  uint32_t epoch_sent_ = 0;
  uint32_t epoch_arrived_ = 0;
};

}  // namespace tern
