// Messages between ranks in UDP datagrams (fabric/udp/): the card by which a rank is found, and the datagrams.
// Every datagram is sealed with the key of its pair of ranks and direction (fabric/udp/seal.h); `number`, which is
// never used twice under a key, is the nonce. Parsers trust nothing: lengths are checked against what arrived.
//
//   datagram     DatagramHead (16) | body by type | 16 bytes of authentication over all before
//     stream       StreamHead (32) | bytes of the stream from `offset` on (none: a question whether the peer is there)
//     acknowledge  StreamHead (32) | AckRange (8) ...
//     fragment     FragmentHead (56) | bytes of the message
//     ack, nack    FragmentAnswer (16)
//
// The stream is the same sequence of frames as TCP's (wire/frame.h).
//
//   card   u32 magic | u16 version | u8 protocol | u8 flags | 16 bytes of salt | u8 n | n times:
//          u16 length, a wire::Card
//
// Thread rule: pure functions.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "wire/card.h"
#include "wire/header.h"

namespace tern::wire {

inline constexpr uint16_t kDatagramMagic = 0x7455;
inline constexpr uint8_t kDatagramVersion = 2;
inline constexpr size_t kDatagramTagBytes = 16;
/// The largest payload that UDP over IPv4 and over IPv6 carries.
inline constexpr size_t kMaxDatagramBytes = 65'487;

/// Values are wire format: append only.
enum class DatagramType : uint8_t { stream = 1, acknowledge = 2, fragment = 3, ack = 4, nack = 5, introduction = 6 };

struct DatagramHead {
  uint16_t magic;
  DatagramType type;
  uint8_t version;
  uint32_t from;    ///< rank in its job
  uint64_t job;     ///< the sender's
  uint64_t number;  ///< from 1 on; counts the datagrams of one direction of one pair
};
static_assert(sizeof(DatagramHead) == 24 && std::is_trivially_copyable_v<DatagramHead>);

struct StreamHead {
  uint64_t offset;    ///< of the payload's first byte in the stream
  uint64_t largest;   ///< number of the newest datagram received; 0: none yet
  uint64_t limit;     ///< bytes of the stream the other side may send, from its beginning on
  uint32_t run;       ///< how many numbers just below `largest` were received, too
  uint32_t delay_us;  ///< since `largest` was received
};
static_assert(sizeof(StreamHead) == 32 && std::is_trivially_copyable_v<StreamHead>);

/// Continues downwards: `gap` numbers are missing, then `run` were received.
struct AckRange {
  uint32_t gap, run;
};
inline constexpr size_t kMaxAckRanges = 32;

struct FragmentHead {
  uint64_t message;  ///< counts the messages of one direction of one pair, from 0 on
  uint64_t bytes;    ///< of the whole message
  uint32_t index;    ///< of this fragment; where it lies follows from it (fragment_offset)
  uint32_t crc;      ///< CRC-32C of this head with crc and attempt 0, and the payload
  uint32_t attempt;  ///< how often it was sent before; comes back in its answer, which so measures one round trip
  uint32_t reserved;
  Header header;  ///< of the message
};
static_assert(sizeof(FragmentHead) == 56 && std::is_trivially_copyable_v<FragmentHead>);

struct FragmentAnswer {
  uint64_t message;
  uint32_t index;
  uint32_t attempt;  ///< FragmentHead::attempt of what is answered
};
static_assert(sizeof(FragmentAnswer) == 16 && std::is_trivially_copyable_v<FragmentAnswer>);

/// The first datagram to a peer that may never have heard of the sender. Its tag is made with the job's key, not with
/// the pair's, which the receiver does not have yet; so nothing is done for a stranger.
struct Introduction {
  uint8_t salt[16];  ///< the receiver's, of its card: an introduction to a rank that was there before is void
};
static_assert(sizeof(Introduction) == 16);
inline constexpr size_t kIntroductionBytes = sizeof(DatagramHead) + sizeof(Introduction) + kDatagramTagBytes;

inline constexpr size_t kStreamOverhead = sizeof(DatagramHead) + sizeof(StreamHead) + kDatagramTagBytes;
inline constexpr size_t kFragmentOverhead = sizeof(DatagramHead) + sizeof(FragmentHead) + kDatagramTagBytes;

/// Sizes of LA-MPI (Majumder 2004, 3.1.1), heads included (a message of 2 KB is one of two fragments there): the first
/// fragment, which is the request, and every further one.
inline constexpr size_t kFirstFragmentBytes = 2048 - kFragmentOverhead, kFragmentBytes = 8192 - kFragmentOverhead;

inline uint64_t fragment_offset(uint32_t index) {
  return index == 0 ? 0 : kFirstFragmentBytes + uint64_t(index - 1) * kFragmentBytes;
}
inline uint64_t fragment_count(uint64_t bytes) {
  return bytes <= kFirstFragmentBytes ? 1 : 1 + (bytes - kFirstFragmentBytes + kFragmentBytes - 1) / kFragmentBytes;
}
/// Longest message: its last index must fit.
inline constexpr uint64_t kMaxFragmentedBytes = uint64_t{1} << 44;

/// A datagram taken apart; which members count depends on its type.
struct Datagram {
  DatagramHead head{};
  StreamHead stream{};
  FragmentHead fragment{};
  FragmentAnswer answer{};
  Introduction introduction{};
  AckRange ranges[kMaxAckRanges];
  size_t range_count = 0;
  const std::byte* payload = nullptr;
  size_t payload_bytes = 0;
};

/// Parses the head alone; its sender's key then shows whether the rest is valid. False: no datagram of Tern.
bool parse_datagram_head(const std::byte* data, size_t bytes, DatagramHead& head);
/// Parses all of it, the tag included in `bytes`. False: invalid.
bool parse_datagram(const std::byte* data, size_t bytes, Datagram& datagram);

struct DatagramCard {
  enum Flags : uint8_t { kAes = 1 };  ///< its processor does AES
  uint8_t protocol = 0;               ///< of UdpProtocol
  uint8_t flags = 0;
  std::array<uint8_t, 32> exchange{};  ///< its public key, if it encrypts; else 0
  std::array<uint8_t, 16> salt{};      ///< fresh for every start of a rank, so that no key is used by two of them
  std::vector<Card> channels;  ///< where each of its sockets is; the last: where TCP shows whether its process lives
};
inline constexpr size_t kMaxCardChannels = 3;

std::string build_datagram_card(const DatagramCard& card);
/// Error: not a card, cut short, or of another version.
Error parse_datagram_card(std::string_view text, DatagramCard& card);

}  // namespace tern::wire
