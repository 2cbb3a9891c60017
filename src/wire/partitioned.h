// Messages of partitioned communication (partitioned/environment.h). All bodies are short enough to come whole
// (kAlwaysWholeBytes of fabric/path.h). The parser trusts nothing: a body of another length is none.
// Thread rule: pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "wire/header.h"

namespace tern::wire {

/// A partitioned send was made: source, context, tag as of a message; `token` is the sender's; payload is
/// PartitionedOfferBody.
inline constexpr Kind kPartitionedOffer = kFirstPartitionedKind;
/// It is matched with a receive: `token` is the sender's; payload is PartitionedAnswerBody.
inline constexpr Kind kPartitionedAnswer = Kind(int(kFirstPartitionedKind) + 1);
/// The receive is started, data may come: `token` is the sender's.
inline constexpr Kind kPartitionedOpen = Kind(int(kFirstPartitionedKind) + 2);
/// Data: `token` is the receiver's, `context` the offset of the payload in the packed message.
inline constexpr Kind kPartitionedData = Kind(int(kFirstPartitionedKind) + 3);
/// Data that was put: `token` is the receiver's, `context` the offset; payload is PartitionedLandedBody.
inline constexpr Kind kPartitionedLanded = Kind(int(kFirstPartitionedKind) + 4);

struct PartitionedOfferBody {
  uint64_t bytes;  ///< of the whole message
};
static_assert(sizeof(PartitionedOfferBody) == 8);

struct PartitionedAnswerBody {
  uint64_t bytes;    ///< of the receiver's buffer
  uint64_t address;  ///< of contiguous memory that can be put to; 0: none
  uint64_t key[2];   ///< RemoteKey of that memory
  uint32_t token;    ///< the receiver's
  uint32_t reserved;
};
static_assert(sizeof(PartitionedAnswerBody) == 40);

struct PartitionedLandedBody {
  uint64_t bytes;
};
static_assert(sizeof(PartitionedLandedBody) == 8);

/// False: not such a body.
template <typename Body>
bool parse_partitioned_body(const std::byte* payload, size_t bytes, Body& body) {
  static_assert(std::is_trivially_copyable_v<Body> && sizeof(Body) <= 64);
  if (bytes != sizeof body) return false;
  std::memcpy(&body, payload, sizeof body);
  return true;
}

}  // namespace tern::wire
