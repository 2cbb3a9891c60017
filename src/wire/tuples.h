// Bodies of the messages by which tuple queues are made and ended (p2p/tuples/tuples.h), parsed by parse_body.
#pragma once

#include <cstddef>
#include <cstdint>

#include "wire/body.h"

namespace tern::wire {

inline constexpr size_t kTupleTicketBytes = 56;

/// Body of a tuple_ask.
struct TupleAskBody {
  uint8_t ticket[kTupleTicketBytes];  ///< the sender's path's
};
static_assert(sizeof(TupleAskBody) == 56);

/// Body of a tuple_answer.
struct TupleAnswerBody {
  uint32_t queue;                     ///< the receiver's token; 0: refused
  uint32_t never;                     ///< refused, 1: do not ask again for this tuple
  uint8_t ticket[kTupleTicketBytes];  ///< the receiver's path's; refused: nothing
};
static_assert(sizeof(TupleAnswerBody) == 64);

/// Body of a tuple_owed: one message that has been sent into the queue and is not known to have arrived.
struct TupleOwedBody {
  uint64_t bytes;
  uint32_t index;      ///< among the queue's messages, from 0
  uint32_t position;   ///< how many messages the sender had begun to send to this receiver otherwise
  uint32_t order;      ///< among all messages of this sender into queues of this receiver
  uint32_t token;      ///< of the send, which can be cancelled by it; 0: it cannot
  uint32_t wants_ack;  ///< 1: synchronous, `token` wants a sync_ack when it is matched
  uint32_t reserved;
};
static_assert(sizeof(TupleOwedBody) == 32);

/// Body of a tuple_stopped, which follows the tuple_owed of the queue.
struct TupleStoppedBody {
  uint32_t sent;  ///< messages ever sent into the queue
  uint32_t reserved;
};
static_assert(sizeof(TupleStoppedBody) == 8);

/// Body of a tuple_repair.
struct TupleRepairBody {
  uint32_t line;  ///< the sender's token
  uint32_t reserved;
  uint8_t ticket[kTupleTicketBytes];  ///< the sender's path's
};
static_assert(sizeof(TupleRepairBody) == 64);

/// Body of a tuple_resume.
struct TupleResumeBody {
  enum Result : uint32_t { repaired, closed, failed };
  uint32_t result;  ///< `closed`: there is no such queue any more, since all messages have landed
  uint32_t reserved;
  uint8_t ticket[kTupleTicketBytes];  ///< the receiver's path's; not repaired: nothing
};
static_assert(sizeof(TupleResumeBody) == 64);

/// Body of a tuple_lost.
struct TupleLostBody {
  uint32_t line;  ///< the sender's token
  uint32_t reserved;
};
static_assert(sizeof(TupleLostBody) == 8);

/// Body of a tuple_landed.
struct TupleLandedBody {
  uint32_t landed;  ///< messages that have landed in the queue
  uint32_t all;     ///< 1: there is no such queue any more, since all have
};
static_assert(sizeof(TupleLandedBody) == 8);

/// Body of a tuple_want.
struct TupleWantBody {
  uint32_t queue;  ///< the receiver's token
  uint32_t index;  ///< of the message, as TupleOwedBody::index
};
static_assert(sizeof(TupleWantBody) == 8);

}  // namespace tern::wire
