// The ofi path's card and frames (fabric/ofi/). Parsers trust nothing: lengths are checked against what arrived.
//
//   card    u32 magic | u16 version | u8 length of the provider's name | u8 length of the format's name |
//           u16 address bytes | 16 bytes of salt, fresh for every start of a rank | names | address
//   frame   u8 type | u8 zero | u16 incarnation | u32 source rank | u32 number | u32 payload bytes |
//           u64 proof | [head of a message] | payload                              (wire/message_head.h)
//
// A message of the provider is one frame, or several. Each but the last is filled up to a multiple of 8 bytes.
//
// The proof is a keyed hash (BLAKE2b, the job's key) of sender, receiver, the receiver's salt and the incarnation: who
// cannot read the job's messages cannot make a frame that is believed. The number counts the frames of messages of one
// incarnation, from 0: providers may complete receives in another order than that of sending.
//
// Thread rule: pure functions.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

#include "base/error.h"
#include "base/types.h"
#include "wire/message_head.h"

namespace tern::wire {

struct OfiCard {
  std::string provider;  ///< by name, as libfabric has it
  std::string format;    ///< of the address, by name
  std::array<uint8_t, 16> salt{};
  std::string address;  ///< bytes
};

/// Longer addresses than any provider has; bounds what a card can make us keep.
inline constexpr size_t kMaxOfiAddress = 512;

/// The card of a rank that does not have this path. (Launchers may refuse an empty value.)
inline constexpr std::string_view kNoOfiCard = "none";

std::string build_ofi_card(const OfiCard& card);
/// Error: not a card, cut short, or of another version.
Error parse_ofi_card(std::string_view text, OfiCard& card);

/// What frames from one rank to another contain; `key`: the job's, 32 bytes.
uint64_t ofi_proof(const uint8_t* key, const RankName& from, const RankName& to, const std::array<uint8_t, 16>& salt,
                   uint16_t incarnation);

/// Values are wire format: append only.
enum class OfiFrameType : uint8_t {
  whole = 1,  ///< header, and all of the message
  first = 2,  ///< header, length of the message, and its beginning
  more = 3,   ///< what follows
  // Not numbered:
  ping = 4,    ///< asks for a pong; no payload
  pong = 5,    ///< answers it; no payload
  landed = 6,  ///< OfiLanded: the number of messages of a tuple queue that have been received
  wake = 7,    ///< a write that its target waits for is at its place; no payload
};

/// A frame of `bytes` begins at offset 0 of a provider's message. Returns the offset of the next frame.
inline constexpr size_t ofi_stride(size_t bytes) { return (bytes + 7) & ~size_t{7}; }

struct OfiFrame : MessageFrame {
  OfiFrameType type = OfiFrameType::whole;
  uint16_t incarnation = 0;  ///< of the lane: its low bits
  uint32_t source = 0;       ///< rank in the job
  uint32_t number = 0;
  uint64_t proof = 0;
  size_t bytes = 0;  ///< of the parsed frame
};

/// Whether it is part of a message; these are put into the order of their numbers.
inline bool is_numbered(OfiFrameType type) { return type < OfiFrameType::ping; }

/// Payload of OfiFrameType::landed.
struct OfiLanded {
  uint32_t queue = 0;   ///< the sender's number of the queue
  uint32_t landed = 0;  ///< messages since the queue was made (modulo 2^32)
};
static_assert(sizeof(OfiLanded) == 8);

inline constexpr size_t kOfiFrameHeadBytes = 24;
inline constexpr size_t kOfiMaxHeadBytes = kOfiFrameHeadBytes + kMaxMessageHeadBytes;

inline size_t ofi_head_bytes(OfiFrameType type) { return kOfiFrameHeadBytes + message_head_bytes(type); }

/// Writes the head; the payload goes behind it. Of `frame` all but `payload` and `bytes` is used. Returns its length.
inline size_t build_ofi_frame(const OfiFrame& frame, std::byte* out) {
  const uint64_t words[3] = {
      uint64_t(frame.type) | uint64_t(frame.incarnation) << 16 | uint64_t(frame.source) << 32,
      uint64_t(frame.number) | uint64_t(frame.payload_bytes) << 32,
      frame.proof,
  };
  static_assert(sizeof words == kOfiFrameHeadBytes);
  std::memcpy(out, words, sizeof words);
  return kOfiFrameHeadBytes + build_message_head(frame.type, frame, out + kOfiFrameHeadBytes);
}

/// The frame at the beginning of `data`. False: no frame looks like this.
inline bool parse_ofi_frame(const std::byte* data, size_t bytes, OfiFrame& frame) {
  if (bytes < kOfiFrameHeadBytes) return false;
  uint64_t words[3];
  std::memcpy(words, data, sizeof words);
  frame.type = OfiFrameType(words[0] & 0xff);
  if (frame.type < OfiFrameType::whole || frame.type > OfiFrameType::wake || (words[0] & 0xff00) != 0) return false;
  frame.incarnation = uint16_t(words[0] >> 16);
  frame.source = uint32_t(words[0] >> 32);
  frame.number = uint32_t(words[1]);
  frame.payload_bytes = size_t(words[1] >> 32);
  frame.proof = words[2];
  frame.bytes = ofi_head_bytes(frame.type) + frame.payload_bytes;
  if (frame.bytes > bytes) return false;
  const size_t behind = frame.bytes - kOfiFrameHeadBytes;
  if (!parse_message_head(frame.type, data + kOfiFrameHeadBytes, behind, frame)) return false;
  if (frame.type == OfiFrameType::landed) return frame.payload_bytes == sizeof(OfiLanded);
  return is_numbered(frame.type) || frame.payload_bytes == 0;
}

/// Of a parsed OfiFrameType::landed.
inline OfiLanded landed_of(const OfiFrame& frame) {
  OfiLanded landed;
  std::memcpy(&landed, frame.payload, sizeof landed);
  return landed;
}

}  // namespace tern::wire
