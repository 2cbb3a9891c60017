// What precedes every message between two ranks. Fixed layout, little-endian as every supported machine is,
// version in the connection's handshake (kVersion). One builder (aggregate initialisation) and, for bodies that
// follow a header, one parser each in this folder; parsers trust nothing.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <type_traits>

namespace tern::wire {

inline constexpr uint32_t kVersion = 2;

/// What a message is. Values are wire format: append only.
enum class Kind : uint8_t {
  eager = 1,       ///< payload is the whole message; `token`: its name should it be cancelled, 0: none
  eager_sync = 2,  ///< the same, and `token` (sender's) wants a sync_ack when matched
  sync_ack = 3,    ///< `token`: the sender's of an eager_sync that was matched
  rts = 4,         ///< request to send; payload is RendezvousBody
  cts = 5,         ///< clear to send; `token` is the sender's; payload is ClearBody
  data = 6,        ///< `token` is the receiver's; payload is the whole message's bytes
  fin = 7,         ///< `token` is the sender's: the receiver has taken the data itself (get)
  credit = 8,      ///< `token` is how many 64-byte units of unexpected-data credit come back
  cancel = 9,      ///< `token` is the sender's: take the message back if it is still unmatched. An eager message is not
                   ///< known by that: `context` is its context, `tag` what its `token` was (else 0)
  cancel_answer = 10,  ///< `token` is the sender's; flags bit 0: it was taken back
};

struct Header {
  Kind kind;
  uint8_t flags = 0;
  uint16_t reserved = 0;
  int32_t source = 0;    ///< sender's rank in the communicator (in its local group)
  uint64_t context = 0;  ///< context id of the communicator
  int32_t tag = 0;
  uint32_t token = 0;  ///< names a request of one side, see Kind
};
static_assert(sizeof(Header) == 24 && std::is_trivially_copyable_v<Header>);

/// The builder. It writes whole 8-byte words: a header is copied right after it was built, and a load that spans
/// several smaller stores waits until they have left the store buffer, behind the cache miss of the message before
/// (measured on the shared-memory path: two thirds of the time of a small send).
inline Header make_header(Kind kind, int32_t source, uint64_t context, int32_t tag, uint32_t token,
                          uint8_t flags = 0) {
  std::array<uint64_t, 3> words = {uint64_t(kind) | uint64_t(flags) << 8 | uint64_t(uint32_t(source)) << 32, context,
                                   uint64_t(uint32_t(tag)) | uint64_t(token) << 32};
  return std::bit_cast<Header>(words);
}
/// A message of a protocol's own, which names one request and nothing else.
inline Header make_control_header(Kind kind, uint32_t token, uint8_t flags = 0) {
  return make_header(kind, 0, 0, 0, token, flags);
}

/// Copies by the words in which a header is built (see there).
inline void copy_header(Header& to, const Header& from) {
  using Word [[gnu::may_alias]] = uint64_t;
  auto* target = reinterpret_cast<Word*>(&to);
  const auto* source = reinterpret_cast<const Word*>(&from);
  for (int i = 0; i < 3; ++i) target[i] = source[i];
}

/// Body of an rts: how much there is, and where, if the path can get.
struct RendezvousBody {
  uint64_t bytes;
  uint64_t address;   ///< of contiguous data in the sender; 0: not gettable
  uint64_t key[2];    ///< RemoteKey of that memory
};
static_assert(sizeof(RendezvousBody) == 32);

/// Body of a cts: which receive the data is for, and how much of it is wanted (less than offered: truncation).
struct ClearBody {
  uint32_t receiver_token;
  uint32_t reserved;
  uint64_t bytes;
};
static_assert(sizeof(ClearBody) == 16);

}  // namespace tern::wire
