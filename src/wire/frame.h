// How messages stand one after the other in a byte stream (TCP): a frame head of 32 bytes, then the payload.
//
//   u32 payload length, low | u16 payload length, high | u8 type | u8 zero | wire::Header (24 bytes)
//
// With checksums (TERN_TCP_CRC) the same stream travels in blocks, each with a head of its own:
//
//   u32 CRC-32C of the block's place in the stream (u64), its length, the check, the acknowledgement, the bytes
//   u16 length | u16 check of length and acknowledgement | u64 acknowledgement: so many bytes of the other direction
//   have arrived and are sound | bytes
//
// Encrypted (TERN_ENCRYPT) the blocks are the same, except that the CRC is 0 and a tag of 16 bytes follows them.
//
// The stream is believed only after the handshake (wire/handshake.h), but a head that cannot be is still
// refused: it means the stream is out of step, and the connection ends.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "base/crc32c.h"
#include "wire/header.h"

namespace tern::wire {

/// Values are wire format: append only.
enum class FrameType : uint8_t {
  message = 1,  ///< `header` and the payload are a message
  goodbye = 2,  ///< the sender will send no more, in order: the end of the stream follows, and is not a loss
  settled = 3,  ///< carries nothing: the caller uses this connection, and its first bytes show that
  stripe = 4,   ///< payload is a StripeTable: a message whose parts come over several connections
  part = 5,     ///< one part of it; header.token is the stripe's number
};

struct FrameHead {
  uint32_t length_low;
  uint16_t length_high;
  FrameType type;
  uint8_t zero;
  Header header;

  uint64_t length() const { return uint64_t(length_high) << 32 | length_low; }
};
static_assert(sizeof(FrameHead) == 32 && std::is_trivially_copyable_v<FrameHead>);

/// Connections over which one message may be divided.
inline constexpr size_t kMaxStreams = 4;

/// Body of a stripe: the message itself, and how much of it comes over which connection, in this order.
struct StripeTable {
  Header header;
  uint32_t number;  ///< counts the stripes of one direction of one pair
  uint32_t reserved;
  uint64_t bytes[kMaxStreams];
};
static_assert(sizeof(StripeTable) == 64 && std::is_trivially_copyable_v<StripeTable>);

/// False: no message can be so. `data` is a whole frame payload.
inline bool parse_stripe(const std::byte* data, StripeTable& table, uint64_t& total);

inline constexpr uint64_t kMaxFramePayload = (uint64_t{1} << 48) - 1;

inline FrameHead build_frame(FrameType type, const Header& header, uint64_t payload_bytes) {
  return {uint32_t(payload_bytes), uint16_t(payload_bytes >> 32), type, 0, header};
}

enum class FrameResult : uint8_t {
  head,   ///< `head` is filled; its payload follows
  more,   ///< fewer than a head's bytes are there
  wrong,  ///< no frame begins like this
};

/// Looks at the frame that begins at `data`.
inline FrameResult parse_frame(const std::byte* data, size_t bytes, FrameHead& head) {
  if (bytes < sizeof head) return FrameResult::more;
  std::memcpy(&head, data, sizeof head);
  if (head.zero != 0) return FrameResult::wrong;
  switch (head.type) {
    case FrameType::message: return uint8_t(head.header.kind) == 0 ? FrameResult::wrong : FrameResult::head;
    case FrameType::goodbye:
    case FrameType::settled: return head.length() != 0 ? FrameResult::wrong : FrameResult::head;
    case FrameType::stripe: return head.length() != sizeof(StripeTable) ? FrameResult::wrong : FrameResult::head;
    case FrameType::part: return head.length() == 0 ? FrameResult::wrong : FrameResult::head;
  }
  return FrameResult::wrong;
}

inline bool parse_stripe(const std::byte* data, StripeTable& table, uint64_t& total) {
  std::memcpy(&table, data, sizeof table);
  total = 0;
  for (uint64_t bytes : table.bytes) {
    if (bytes > kMaxFramePayload) return false;
    total += bytes;
  }
  return uint8_t(table.header.kind) != 0 && total != 0 && total <= kMaxFramePayload;
}

struct BlockHead {
  uint32_t crc;
  uint16_t length;
  uint16_t check;  ///< of length and acknowledged: with a wrong length the receiver would wait for ever
  uint64_t acknowledged;
};
static_assert(sizeof(BlockHead) == 16 && std::is_trivially_copyable_v<BlockHead>);

/// Behind an encrypted block.
inline constexpr size_t kBlockTagBytes = 16;

/// A block is lost when one bit of it is wrong, and is used only when all of it has arrived.
inline constexpr size_t kMaxBlockBytes = 32 * 1024;

inline uint16_t check_of(const BlockHead& head) {
  const uint32_t crc = crc32c(&head.acknowledged, sizeof head.acknowledged, crc32c(&head.length, sizeof head.length));
  return uint16_t(crc ^ crc >> 16);
}

/// Its crc is still to be filled in.
inline BlockHead build_block(size_t length, uint64_t acknowledged) {
  BlockHead head{0, uint16_t(length), 0, acknowledged};
  head.check = check_of(head);
  return head;
}

/// False: it is damaged. Only the length of what follows is known yet.
inline bool parse_block(const std::byte* data, BlockHead& head) {
  std::memcpy(&head, data, sizeof head);
  return head.length <= kMaxBlockBytes && head.check == check_of(head);
}

}  // namespace tern::wire
