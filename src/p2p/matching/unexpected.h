// Unexpected: messages without their receive, from their arrival until a receive has taken them. What they hold is
// bounded per sender by EagerCredit. Thread rule: under the rank's lock.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/assert.h"
#include "base/counters.h"
#include "base/pool.h"
#include "base/scratch.h"
#include "p2p/core/endpoint.h"
#include "p2p/matching/matching.h"
#include "p2p/point_to_point.h"
#include "progress/engine.h"

namespace tern {

class ReceiveRequest;
struct TupleOwed;

/// What MPI_Mprobe hands out: an unexpected message that is out of matching.
class MatchedMessage {};

/// Eager data kept for its receive, or the announcement of a rendezvous.
struct UnexpectedMessage final : WaitingMessage, MatchedMessage {
  static constexpr size_t kInlineBytes = 128;
  Endpoint* from = nullptr;
  wire::Header header{};
  size_t bytes = 0;                    ///< of the whole message
  wire::RendezvousBody body{};         ///< rts only
  ReceiveRequest* receiver = nullptr;  ///< matched while its data was still arriving
  bool arriving = false;
  uint32_t number = 0;        ///< among its sender's messages (MessageCount::arrived); of a tuple queue's: TupleOwed's
  uint32_t order = 0;         ///< tuple queues: the same
  bool by_queue = false;      ///< tuple queues: it has come by one
  TupleOwed* owed = nullptr;  ///< tuple queues: its data is in one
  ScratchBlock block;         ///< empty: the data, if any, is in `inline_data`
  std::byte inline_data[kInlineBytes];
  std::byte* data() { return block ? block.data() : inline_data; }
  Status status() const { return Status{.source = header.source, .tag = header.tag, .bytes = Count(bytes)}; }
  /// Its data counts against the sender's credit until it is taken.
  bool charged() const { return header.kind == wire::Kind::eager || header.kind == wire::Kind::eager_sync; }
  /// Of its data that are kept here.
  size_t kept_bytes() const { return charged() || header.kind == wire::Kind::direct ? bytes : 0; }
};

class Unexpected {
 public:
  Unexpected(ProgressEngine& progress, Matching& matching, Counters& counts)
      : progress_(progress), counts_(counts), matching_(matching) {}

  /// What was never received ends here.
  ~Unexpected();
  Unexpected(const Unexpected&) = delete;
  Unexpected& operator=(const Unexpected&) = delete;

  /// Keeps an arrived message, to be found by receives from now on; with room for its data, unless that comes later
  /// (rts).
  UnexpectedMessage& keep(Endpoint& from, const wire::Header& header, size_t bytes);
  /// Keeps a message whose data is still in a tuple queue; `later` says which others of its sender it precedes.
  template <typename Later>
  void keep_in_order(UnexpectedMessage& message, Later&& later) {
    matching_.add_waiting_before(message,
                                 [&](WaitingMessage& other) { return later(static_cast<UnexpectedMessage&>(other)); });
    appeared(0);
  }
  UnexpectedMessage& create() { return *messages_.create(); }
  /// Memory for the data of a message; ends before this does.
  ScratchBlock room(size_t bytes) { return room_.block(bytes); }

  /// The oldest that fits; null: none. It stays where it is.
  UnexpectedMessage* find(uint64_t context, int source, int tag) {
    return static_cast<UnexpectedMessage*>(matching_.find_waiting(context, source, tag));
  }
  /// The newest that the predicate takes; null: none.
  template <typename Predicate>
  UnexpectedMessage* find_last(Predicate&& fits) {
    UnexpectedMessage* found = nullptr;
    matching_.for_each_waiting([&](WaitingMessage& waiting) {
      auto& message = static_cast<UnexpectedMessage&>(waiting);
      if (fits(message)) found = &message;
    });
    return found;
  }
  /// Receives no longer find it.
  void hide(UnexpectedMessage& message) {
    matching_.remove_waiting(message);
    counts_.unexpected_queue = matching_.waiting_count();
  }
  /// Its data has come here after it was kept without.
  void landed(UnexpectedMessage& message) { counts_.unexpected_bytes += message.kept_bytes(); }
  /// Ends it; it is hidden already.
  void destroy(UnexpectedMessage& message) {
    TERN_DEBUG_ASSERT(!static_cast<ListHook<ByKey>&>(message).linked());
    counts_.unexpected_bytes -= message.kept_bytes();
    messages_.destroy(&message);
  }

 private:
  void appeared(size_t kept_bytes) {
    counts_.raise_unexpected(matching_.waiting_count(), kept_bytes);
    // A thread of this rank may sleep in a probe, and a message to self arrives outside of any poll.
    progress_.notify();
  }

  ProgressEngine& progress_;
  Counters& counts_;
  Matching& matching_;
  Scratch room_;
  Pool<UnexpectedMessage, 16> messages_;
};

}  // namespace tern
