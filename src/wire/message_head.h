// What frames of every path over adapters (wire/rdma.h, wire/ofi.h) have behind their own head:
//
//   whole   wire::Header | payload                           all of a message
//   first   wire::Header | u64 message bytes | payload       the beginning of a longer one
//   more    payload                                          what follows
//   others  payload                                          no part of a message
//
// Type: the path's own enumeration of frames, with whole = 1, first = 2 and more = 3. Parsers trust nothing. Units:
// bytes. Thread rule: pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "wire/header.h"

namespace tern::wire {

struct MessageFrame {
  Header header{};             ///< of whole and first
  uint64_t message_bytes = 0;  ///< of the message that begins; of frames but first: as payload_bytes
  const std::byte* payload = nullptr;
  size_t payload_bytes = 0;
};

inline constexpr size_t kMaxMessageHeadBytes = sizeof(Header) + sizeof(MessageFrame::message_bytes);

template <typename Type>
constexpr size_t message_head_bytes(Type type) {
  static_assert(int(Type::whole) == 1 && int(Type::first) == 2 && int(Type::more) == 3);
  if (type == Type::whole) return sizeof(Header);
  return type == Type::first ? kMaxMessageHeadBytes : 0;
}

/// Writes what stands between the path's head and the payload. Returns its length.
template <typename Type>
size_t build_message_head(Type type, const MessageFrame& frame, std::byte* out) {
  const size_t head = message_head_bytes(type);
  if (head != 0) std::memcpy(out, &frame.header, sizeof frame.header);
  if (head == kMaxMessageHeadBytes)
    std::memcpy(out + sizeof frame.header, &frame.message_bytes, sizeof frame.message_bytes);
  return head;
}

/// `data`: behind the path's head, which has stated frame.payload_bytes. False: no frame looks like this.
template <typename Type>
bool parse_message_head(Type type, const std::byte* data, size_t bytes, MessageFrame& frame) {
  const size_t head = message_head_bytes(type);
  if (bytes < head || bytes - head != frame.payload_bytes) return false;
  if (head != 0) std::memcpy(&frame.header, data, sizeof frame.header);
  frame.message_bytes = frame.payload_bytes;
  if (head == kMaxMessageHeadBytes)
    std::memcpy(&frame.message_bytes, data + sizeof frame.header, sizeof frame.message_bytes);
  frame.payload = data + head;
  if (type == Type::first) return frame.message_bytes > frame.payload_bytes;
  return type != Type::more || frame.payload_bytes != 0;
}

}  // namespace tern::wire
