// What ranks say to each other over RDMA queue pairs (fabric/rdma/): the card by which a rank is found, the greeting
// that makes a connection, and the frames on it. Parsers trust nothing: lengths are checked against what arrived.
//
//   card      u32 magic | u16 version | u8 flags | u8 zero | address of the UD queue pair for greetings (48 bytes) |
//             address of the UD queue pair for messages (48 bytes) | 16 bytes of salt, fresh for every start of a rank
//   greeting  u32 magic | u16 version | u8 kind | u8 base | u64 job, u32 rank: from |
//             u64 job, u32 rank: to |
//             address of the RC queue pair or the DC target (48 bytes) |
//             u32 frame bytes | u32 window | u32 incarnation | u32 call | 32 bytes of authentication over all before
//             (keyed BLAKE2b, the job's key)
//   frame     u8 type | u8 epoch | u16 credits | u32 payload bytes |
//             u32 source | u16 incarnation | u8 epoch of the credits | u8 zero |
//             [head of a message] | payload                                        (wire/message_head.h)
//   change    (payload of a frame, fabric/rdma/channels/channel_switches.h) u8 step | u8 kind | u8 epoch | u8 flags |
//             u32 entries | u32 entry bytes | u32 key | u64 address | address of the RC queue pair (48 bytes)
//
// A frame names its source, by the number that its receiver has asked to be called by, because the queue pair that it
// arrives on need not belong to one peer. The epoch counts the
// channels that a stream of messages has had.
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

inline constexpr size_t kRdmaAddressBytes = 48;

struct RdmaAddress {
  uint8_t bytes[kRdmaAddressBytes] = {};
};

struct RdmaCard {
  RdmaAddress greetings;
  bool datagrams = false;  ///< it takes messages by UD; else what follows does not count
  bool aes = false;        ///< its processor does AES
  RdmaAddress messages;
  std::array<uint8_t, 16> salt{};
};

std::string build_rdma_card(const RdmaCard& card);
/// Error: not a card, or of another version.
Error parse_rdma_card(std::string_view text, RdmaCard& card);

struct RdmaGreeting {
  enum class Kind : uint8_t {
    hello = 1,    ///< here is my queue pair, connect yours to it
    welcome = 2,  ///< mine is connected to yours
  };
  Kind kind = Kind::hello;
  uint8_t base = 0;  ///< the channel that carries messages at first (fabric/rdma/channels/channel.h)
  RankName from, to;
  uint32_t call = 0;  ///< the source number that frames of the other side must contain
  RdmaAddress address;
  uint32_t frame_bytes = 0;  ///< longest frame that the sender of the greeting can receive
  uint32_t window = 0;       ///< frames that it grants
  uint32_t incarnation = 0;  ///< how often this lane was made anew: earlier greetings are void
};

inline constexpr size_t kRdmaGreetingBytes = 32 + kRdmaAddressBytes + 16 + 32;

void build_rdma_greeting(const RdmaGreeting& greeting, const uint8_t* key, std::byte* out);
/// False: not a greeting of this job.
bool parse_rdma_greeting(const std::byte* data, size_t bytes, const uint8_t* key, RdmaGreeting& greeting);

enum class RdmaFrameType : uint8_t {
  whole = 1,   ///< header, and all of the message
  first = 2,   ///< header, length of the message, and its beginning
  more = 3,    ///< what follows
  credit = 4,  ///< nothing but credits; takes none itself
  last = 5,    ///< the last frame of this epoch: later ones come by another channel
  change = 6,  ///< about a change of channels; takes no credit
};

struct RdmaFrame : MessageFrame {
  RdmaFrameType type = RdmaFrameType::credit;
  uint8_t epoch = 0;         ///< of the stream that this frame belongs to
  uint16_t credits = 0;      ///< for the stream of the other direction,
  uint8_t credit_epoch = 0;  ///< if it is still in this epoch
  uint32_t source = 0;       ///< by RdmaGreeting::call
  uint16_t incarnation = 0;  ///< of the lane: its low bits
};

inline constexpr size_t kRdmaFrameHeadBytes = 16;
inline constexpr size_t kRdmaMaxHeadBytes = kRdmaFrameHeadBytes + kMaxMessageHeadBytes;

inline size_t rdma_head_bytes(RdmaFrameType type) { return kRdmaFrameHeadBytes + message_head_bytes(type); }

/// Writes the head; the payload goes behind it. Of `frame` all but the payload's address is used. Returns its length.
inline size_t build_rdma_frame(const RdmaFrame& frame, std::byte* out) {
  uint64_t words[2] = {uint64_t(frame.type) | uint64_t(frame.epoch) << 8 | uint64_t(frame.credits) << 16 |
                           uint64_t(frame.payload_bytes) << 32,
                       uint64_t(frame.source) | uint64_t(frame.incarnation) << 32 | uint64_t(frame.credit_epoch) << 48};
  std::memcpy(out, words, sizeof words);
  return kRdmaFrameHeadBytes + build_message_head(frame.type, frame, out + kRdmaFrameHeadBytes);
}

/// False: no frame looks like this.
inline bool parse_rdma_frame(const std::byte* data, size_t bytes, RdmaFrame& frame) {
  if (bytes < kRdmaFrameHeadBytes) return false;
  uint64_t words[2];
  std::memcpy(words, data, sizeof words);
  frame.type = RdmaFrameType(words[0] & 0xff);
  if (frame.type < RdmaFrameType::whole || frame.type > RdmaFrameType::change || words[1] >> 56 != 0) return false;
  frame.epoch = uint8_t(words[0] >> 8);
  frame.credits = uint16_t(words[0] >> 16);
  frame.payload_bytes = size_t(words[0] >> 32);
  frame.source = uint32_t(words[1]);
  frame.incarnation = uint16_t(words[1] >> 32);
  frame.credit_epoch = uint8_t(words[1] >> 48);
  if (!parse_message_head(frame.type, data + kRdmaFrameHeadBytes, bytes - kRdmaFrameHeadBytes, frame)) return false;
  const bool empty = frame.type == RdmaFrameType::credit || frame.type == RdmaFrameType::last;
  return !empty || frame.payload_bytes == 0;
}

/// About a change of the channel that carries one stream of messages.
struct RdmaChange {
  enum class Step : uint8_t {
    offer = 1,   ///< receiver: send by this from now on
    accept = 2,  ///< sender: agreed, with its queue pair
    ready = 3,   ///< receiver: my queue pair is connected to yours
    refuse = 4,  ///< sender: I cannot
    cancel = 5,  ///< receiver: I cannot connect to yours, stay where you are
    // Of the queue pair that both streams share, when neither uses it.
    retire = 6,   ///< either: I want to give mine to another peer
    retired = 7,  ///< the other: its end is reset, too
    keep = 8,     ///< the other: mine is in use
    // Of the same queue pair, for transfers of one side, where the channel of its messages carries none.
    join = 9,     ///< connect yours to mine
    joined = 10,  ///< it is, connect yours, too
    unable = 11,  ///< I cannot
  };
  Step step = Step::offer;
  uint8_t kind = 0;          ///< ChannelKind
  uint8_t epoch = 0;         ///< of the stream on the new channel
  bool has_pair = false;     ///< `pair` is valid
  uint32_t entries = 0;      ///< offer: frames that may be sent before some were taken
  uint32_t entry_bytes = 0;  ///< of a ring; 0: there is none
  uint32_t key = 0;          ///< of the ring's memory
  uint64_t address = 0;
  RdmaAddress pair;
};
inline constexpr size_t kRdmaChangeBytes = 24 + kRdmaAddressBytes;

void build_rdma_change(const RdmaChange& change, std::byte* out);
/// False: no change looks like this.
bool parse_rdma_change(const std::byte* data, size_t bytes, RdmaChange& change);

/// The immediate of a write that takes a receive: the writer, and the epoch of its stream.
inline constexpr uint32_t kRdmaMaxRanks = 1u << 24;
inline uint32_t rdma_immediate(uint32_t source, uint8_t epoch) { return uint32_t(epoch) << 24 | source; }
inline uint32_t rdma_immediate_source(uint32_t immediate) { return immediate & (kRdmaMaxRanks - 1); }
inline uint8_t rdma_immediate_epoch(uint32_t immediate) { return uint8_t(immediate >> 24); }

/// The word at the end of a ring's entry tells that a frame has arrived just before it, and how long it is. Frames of a
/// ring are counted from 1.
inline uint64_t rdma_arrival_word(uint32_t count, uint32_t frame_bytes) { return uint64_t(count) << 32 | frame_bytes; }
inline constexpr size_t kRdmaArrivalBytes = 8;

}  // namespace tern::wire
