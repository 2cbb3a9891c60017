// What ranks say to each other over RDMA queue pairs (fabric/rdma/): the card by which a rank is found, the greeting
// that makes a connection, and the frames on it. Parsers trust nothing: lengths are checked against what arrived.
//
//   card      u32 magic | u16 version | u16 zero | address of the UD queue pair (48 bytes)
//   greeting  u32 magic | u16 version | u8 kind | u8 zero | u32 from | u32 to |
//             address of the RC queue pair (48 bytes) |
//             u32 frame bytes | u32 window | u32 incarnation | 32 bytes of authentication over all before (keyed
//             BLAKE2b, the job's key)
//   frame     u8 type | u8 zero | u16 credits | u32 payload bytes | [wire::Header] | [u64 message bytes] | payload
//
// Thread rule: pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

#include "base/error.h"
#include "base/types.h"
#include "wire/header.h"

namespace tern::wire {

inline constexpr size_t kRdmaAddressBytes = 48;

struct RdmaAddress {
  uint8_t bytes[kRdmaAddressBytes] = {};
};

std::string build_rdma_card(const RdmaAddress& address);
/// Error: not a card, or of another version.
Error parse_rdma_card(std::string_view text, RdmaAddress& address);

struct RdmaGreeting {
  enum class Kind : uint8_t {
    hello = 1,    ///< here is my queue pair, connect yours to it
    welcome = 2,  ///< mine is connected to yours
  };
  Kind kind = Kind::hello;
  RankName from, to;
  RdmaAddress address;
  uint32_t frame_bytes = 0;  ///< longest frame that the sender of the greeting can receive
  uint32_t window = 0;       ///< frames that it grants
  uint32_t incarnation = 0;  ///< how often this lane was made anew: earlier greetings are void
};

inline constexpr size_t kRdmaGreetingBytes = 32 + kRdmaAddressBytes + 12 + 32;

void build_rdma_greeting(const RdmaGreeting& greeting, const uint8_t* key, std::byte* out);
/// False: not a greeting of this job.
bool parse_rdma_greeting(const std::byte* data, size_t bytes, const uint8_t* key, RdmaGreeting& greeting);

enum class RdmaFrameType : uint8_t {
  whole = 1,   ///< header, and all of the message
  first = 2,   ///< header, length of the message, and its beginning
  more = 3,    ///< what follows
  credit = 4,  ///< nothing but credits; takes none itself
};

struct RdmaFrame {
  RdmaFrameType type = RdmaFrameType::credit;
  uint16_t credits = 0;
  Header header{};
  uint64_t message_bytes = 0;
  const std::byte* payload = nullptr;
  size_t payload_bytes = 0;
};

inline constexpr size_t kRdmaFrameHeadBytes = 8;
inline constexpr size_t kRdmaMaxHeadBytes = kRdmaFrameHeadBytes + sizeof(Header) + 8;

inline size_t rdma_head_bytes(RdmaFrameType type) {
  switch (type) {
    case RdmaFrameType::whole: return kRdmaFrameHeadBytes + sizeof(Header);
    case RdmaFrameType::first: return kRdmaMaxHeadBytes;
    default: return kRdmaFrameHeadBytes;
  }
}

/// Writes the head; the payload goes behind it. Returns its length.
inline size_t build_rdma_frame(RdmaFrameType type, uint16_t credits, size_t payload_bytes, const Header& header,
                               uint64_t message_bytes, std::byte* out) {
  uint64_t word = uint64_t(type) | uint64_t(credits) << 16 | uint64_t(payload_bytes) << 32;
  std::memcpy(out, &word, sizeof word);
  size_t head = rdma_head_bytes(type);
  if (head > kRdmaFrameHeadBytes) std::memcpy(out + kRdmaFrameHeadBytes, &header, sizeof header);
  if (head == kRdmaMaxHeadBytes)
    std::memcpy(out + kRdmaFrameHeadBytes + sizeof header, &message_bytes, sizeof message_bytes);
  return head;
}

/// False: no frame looks like this.
inline bool parse_rdma_frame(const std::byte* data, size_t bytes, RdmaFrame& frame) {
  if (bytes < kRdmaFrameHeadBytes) return false;
  uint64_t word;
  std::memcpy(&word, data, sizeof word);
  frame.type = RdmaFrameType(word & 0xff);
  if (frame.type < RdmaFrameType::whole || frame.type > RdmaFrameType::credit || (word >> 8 & 0xff) != 0) return false;
  frame.credits = uint16_t(word >> 16);
  frame.payload_bytes = size_t(word >> 32);
  size_t head = rdma_head_bytes(frame.type);
  if (bytes < head || bytes - head != frame.payload_bytes) return false;
  if (head > kRdmaFrameHeadBytes) std::memcpy(&frame.header, data + kRdmaFrameHeadBytes, sizeof frame.header);
  frame.message_bytes = frame.payload_bytes;
  if (head == kRdmaMaxHeadBytes) std::memcpy(&frame.message_bytes, data + kRdmaFrameHeadBytes + sizeof(Header), 8);
  frame.payload = data + head;
  if (frame.type == RdmaFrameType::first && frame.message_bytes <= frame.payload_bytes) return false;
  return frame.type != RdmaFrameType::credit || frame.payload_bytes == 0;
}

}  // namespace tern::wire
