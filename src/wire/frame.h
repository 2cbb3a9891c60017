// How messages stand one after the other in a byte stream (TCP): a frame head of 32 bytes, then the payload.
//
//   u32 payload length, low | u16 payload length, high | u8 type | u8 zero | wire::Header (24 bytes)
//
// The stream is believed only after the handshake (wire/handshake.h), but a head that cannot be is still
// refused: it means the stream is out of step, and the connection ends.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "wire/header.h"

namespace tern::wire {

/// Values are wire format: append only.
enum class FrameType : uint8_t {
  message = 1,  ///< `header` and the payload are a message
  goodbye = 2,  ///< the sender will send no more, in order: what follows is the end of the stream, not a loss
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
    case FrameType::message:
      return uint8_t(head.header.kind) == 0 ? FrameResult::wrong : FrameResult::head;
    case FrameType::goodbye:
      return head.length() != 0 ? FrameResult::wrong : FrameResult::head;
  }
  return FrameResult::wrong;
}

}  // namespace tern::wire
