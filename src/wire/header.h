// What precedes every message between two ranks. Fixed layout, little-endian as every supported machine is,
// version in the connection's handshake (kVersion). One builder (aggregate initialisation) and, for bodies that
// follow a header, one parser each in this folder; parsers trust nothing.
#pragma once

#include <cstdint>
#include <type_traits>

namespace tern::wire {

inline constexpr uint32_t kVersion = 1;

/// What a message is. Values are wire format: append only.
enum class Kind : uint8_t {
  eager = 1,       ///< payload is the whole message
  eager_sync = 2,  ///< the same, and `token` (sender's) wants a sync_ack when matched
  sync_ack = 3,    ///< `token`: the sender's of an eager_sync that was matched
  rts = 4,         ///< request to send; payload is RendezvousBody
  cts = 5,         ///< clear to send; `token` is the sender's; payload is ClearBody
  data = 6,        ///< `token` is the receiver's; payload is the whole message's bytes
  fin = 7,         ///< `token` is the sender's: the receiver has taken the data itself (get)
  credit = 8,      ///< `token` is how many 64-byte units of unexpected-data credit come back
  cancel = 9,      ///< `token` is the sender's: take the message back if it is still unmatched
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
