// What the table of protocols (table.h) is asked with, and the choice itself: pure. Thread rule: values.
#pragma once

#include <cstddef>

#include "p2p/core/who_copies.h"
#include "p2p/matching/sent_log.h"

namespace tern {

/// What the protocol of a send depends on. The rows down to `eager` need only the first block.
struct SendSituation {
  size_t bytes = 0;
  size_t eager_limit = 0;  ///< of the path to the peer
  bool credit = false;     ///< the receiver still has room for that much unread data from us
  bool queues = false;     ///< the path has tuple queues, and they are wanted
  bool blocking = false;   ///< its caller waits for it; else it may go off computing

  /// The announced receive that the message will match; null: none is known, or it is of no use. Valid until the peer
  /// is sent another message.
  const Ready* ready = nullptr;
  Mover mover = Mover::stream;  ///< ready: who_copies
  /// Of the path; 0: no library buffer is free, the send is synchronous, or the mode has no hybrid.
  size_t hybrid_limit = 0;
  bool can_put = false;        ///< the path puts from this memory into that receive's
  bool can_get = false;        ///< the path gets from this memory: contiguous, and the peer may read it
  bool by_write = false;       ///< sender first: put rather than get
  bool stream_faster = false;  ///< as CopySituation; the request keeps it
};

constexpr bool goes_eagerly(const SendSituation& s) { return s.bytes <= s.eager_limit && s.credit; }

}  // namespace tern
