// What RDMA tuple queues put into a TupleTicket. Plain bytes; both ends are checked where they are used. See
// rdma_tuples.h.
#pragma once

#include <cstddef>
#include <cstdint>

#include "fabric/rdma/verbs/hca.h"
#include "fabric/tuple_queues.h"

namespace tern::rdma {

inline constexpr size_t kTicketUnitBytes = 64;  ///< in which a ticket states the longest message

/// Of ask and answer. A repair's question is one, too: the address is that of the initiator that was reset.
struct TicketBody {
  uint32_t number = 0;  ///< of the SRQ, in an answer
  uint32_t has_address : 1 = 0;
  uint32_t longest_units : 31 = 0;
  QueuePairAddress address;
};
static_assert(sizeof(TicketBody) == sizeof(TupleTicket));

/// Of a repair's answer.
struct RepairedBody {
  uint32_t number = 0;       ///< of the new SRQ
  uint32_t landed : 31 = 0;  ///< messages, since the queue was made, modulo 2^31
  uint32_t posted : 1 = 0;   ///< a receive is in the queue
  QueuePairAddress address;
  static constexpr uint32_t kLandedMask = (1u << 31) - 1;  ///< the width of `landed`
};
static_assert(sizeof(RepairedBody) == sizeof(TupleTicket));

}  // namespace tern::rdma
