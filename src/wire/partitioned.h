// Messages of partitioned communication (partitioned/environment.h). Their bodies are parsed by parse_body.
#pragma once

#include <cstddef>
#include <cstdint>

#include "wire/body.h"
#include "wire/header.h"

namespace tern::wire {

/// A partitioned send was made: source, context, tag as of a message; `token` is the sender's; payload is
/// PartitionedOfferBody.
inline constexpr Kind kPartitionedOffer = kFirstPartitionedKind;
/// It is matched with a receive: `token` is the sender's; payload is PartitionedAnswerBody.
inline constexpr Kind kPartitionedAnswer = Kind(int(kFirstPartitionedKind) + 1);
/// The receive is started, data may come: `token` is the sender's, `context` the receiver's token.
inline constexpr Kind kPartitionedOpen = Kind(int(kFirstPartitionedKind) + 2);
/// Data: `token` is the receiver's, `context` the offset of the payload in the packed message.
inline constexpr Kind kPartitionedData = Kind(int(kFirstPartitionedKind) + 3);
/// Data that was put: `token` is the receiver's, `context` the offset; payload is PartitionedLandedBody.
inline constexpr Kind kPartitionedLanded = Kind(int(kFirstPartitionedKind) + 4);

/// The send that the receive is matched with exists no longer: `token` is the receiver's. Says so to one who asks for
/// it.
inline constexpr Kind kPartitionedGone = Kind(int(kFirstPartitionedKind) + 5);

struct PartitionedOfferBody {
  uint64_t bytes;  ///< of the whole message
};
static_assert(sizeof(PartitionedOfferBody) == 8);

struct PartitionedAnswerBody {
  uint64_t bytes;    ///< of the receiver's buffer
  uint64_t address;  ///< of contiguous memory that can be put to; 0: none
  uint64_t key[2];   ///< RemoteKey of that memory
  uint32_t token;    ///< the receiver's; 0: it was freed before it was matched
  uint32_t reserved;
};
static_assert(sizeof(PartitionedAnswerBody) == 40);

struct PartitionedLandedBody {
  uint64_t bytes;
};
static_assert(sizeof(PartitionedLandedBody) == 8);

}  // namespace tern::wire
