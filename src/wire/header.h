// What precedes every message between two ranks. Fixed layout, little-endian (all supported machines are); the
// version is in the connection's handshake (kVersion). Headers have one builder; bodies that follow a header have one
// parser each in this folder. Parsers trust nothing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace tern::wire {

inline constexpr uint32_t kVersion = 9;

/// What a message is. Values are wire format: append only.
enum class Kind : uint8_t {
  eager = 1,       ///< payload is the whole message; `token`: its name should it be cancelled, 0: none
  eager_sync = 2,  ///< the same, and `token` (sender's) wants a sync_ack when matched
  sync_ack = 3,    ///< `token`: the sender's of an eager_sync that was matched
  rts = 4,         ///< request to send; payload is RendezvousBody
  cts = 5,         ///< clear to send; `token` is the sender's; payload is ClearBody
  data = 6,        ///< `token` is the receiver's; payload is the whole message's bytes
  fin = 7,         ///< `token` is the sender's: the receiver has taken the data itself (get)
  credit = 8,  ///< `token` is how many 64-byte units of unexpected-data credit come back (when no eager message carries
               ///< them)
  cancel = 9,  ///< `token` is the sender's: take the message back if it is still unmatched. An eager message is not
               ///< known by that: `context` is its context, `tag` what its `token` was (else 0)
  cancel_answer = 10,  ///< `token` is the sender's; flags bit 0: it was taken back
  // The customised protocols (p2p/protocols/announcements.h, p2p/protocols/hybrid.h).
  ready = 11,     ///< RECEIVER_READY: `token` is the receiver's; payload is ReadyBody
  direct = 12,    ///< the whole message, of any size, because its receive was announced; flags kWantsAck: token wants a
                  ///< sync_ack
  filled = 13,    ///< FIN of a put: `token` is the receiver's; payload is FilledBody; flags kTaken, kLanded; context
                  ///< and tag as the message's; source: serial of the newest announcement that its sender has read
  withdraw = 14,  ///< announcements for (context, tag) are void; `token` (receiver's) comes back with withdrawn
  withdrawn = 15,  ///< `token` is the receiver's: no announcement made before that withdraw will be used from now on
  recount = 16,    ///< the sender's messages are counted from nought again; `token` is the new epoch
  release = 17,    ///< payload: 16-bit names of library buffers that were read (see Header::carried)
  // Tuple queues (p2p/tuples/tuples.h, wire/tuples.h).
  tuple_ask = 18,      ///< for (source, context, tag); `token` is the sender's; payload is TupleAskBody
  tuple_answer = 19,   ///< `token` is the sender's; payload is TupleAnswerBody
  tuple_begin = 20,    ///< `token` is the receiver's: what follows of this tuple goes into its queue
  tuple_stop = 21,     ///< `token` is the sender's: send nothing more into the queue, and tell
  tuple_owed = 22,     ///< `token` is the receiver's: a message that may still be on its way in the queue; payload is
                       ///< TupleOwedBody
  tuple_stopped = 23,  ///< `token` is the receiver's; payload is TupleStoppedBody
  tuple_repair = 24,   ///< `token` is the receiver's: the queue's connection has failed; payload is TupleRepairBody
  tuple_resume = 25,   ///< `token` is the sender's: its answer; payload is TupleResumeBody

  moved = 26,  ///< the data of the rts `token` lies in a library buffer now; payload is RendezvousBody (copy_out.h)

  // A tuple queue whose path is lost while another one goes on (p2p/tuples/tuple_loss.cc).
  tuple_lost = 27,    ///< `token` is the receiver's: how many have landed? payload is TupleLostBody
  tuple_landed = 28,  ///< `token` is the sender's: its answer; payload is TupleLandedBody
  tuple_want = 29,    ///< `token` is the sender's: send that message over the lane; payload is TupleWantBody
  tuple_data = 30,    ///< `token` is the receiver's: the oldest message it wants, whole; flags kGone: it is not there

  // 32 to 223: kinds of the layers above point-to-point, which register them (p2p/core/endpoint.h).
  // 224 and more: the path scheduler's kinds (wire/lanes.h).
};
inline constexpr Kind kFirstWindowKind = Kind(32), kLastWindowKind = Kind(95);
inline constexpr Kind kFirstFileKind = Kind(96), kLastFileKind = Kind(127);
inline constexpr Kind kFirstCollectiveKind = Kind(128), kLastCollectiveKind = Kind(159);
inline constexpr Kind kFirstPartitionedKind = Kind(160), kLastPartitionedKind = Kind(167);
inline constexpr Kind kFirstLaneKind = Kind(224);

/// The low bits of Header::flags belong to the kind. The others belong to the path scheduler: how many messages of the
/// receiver this one confirms (fabric/scheduler/).
inline constexpr uint8_t kKindFlags = 0x07;
inline constexpr int kConfirmShift = 3;
inline constexpr uint8_t kMaxConfirmed = 0xff >> kConfirmShift;

// Flag of eager and eager_sync: the sending program holds a request for the message, so it will call its library again.
inline constexpr uint8_t kRequested = 1;
// Flag of tuple_data.
inline constexpr uint8_t kGone = 1;
// Flags of rts: the data lies in a library buffer, return it with a release; return all of them now.
inline constexpr uint8_t kHybrid = 1, kWantsReleases = 2;
// Flags of direct.
inline constexpr uint8_t kWantsAck = 1;
// Flags of filled: the receive is taken by this message; its data is there.
inline constexpr uint8_t kTaken = 1, kLanded = 2;
/// Of a cts: the receiver will fetch the data when it has time; the sender may put it, if it has the copy lock first.
inline constexpr uint8_t kEither = 1;

struct Header {
  Kind kind;
  uint8_t flags = 0;
  uint16_t carried = 0;  ///< what goes back along with it. Eager: so many 64-byte units of credit. A protocol's own:
                         ///< names a library buffer that was read. 0: nothing
  int32_t source = 0;    ///< sender's rank in the communicator (in its local group)
  uint64_t context = 0;  ///< context id of the communicator
  int32_t tag = 0;
  uint32_t token = 0;  ///< names a request of one side, see Kind
};
static_assert(sizeof(Header) == 24 && std::is_trivially_copyable_v<Header>);

/// The builder. It writes whole 8-byte words to the caller's memory. A header is copied right after it was built, and a
/// load that spans several smaller stores (16 bytes of two words, too) waits until they have left the store buffer,
/// behind the cache miss of the message before (measured on the shared-memory path: two thirds of the time of a small
/// send).
inline Header make_header(Kind kind, int32_t source, uint64_t context, int32_t tag, uint32_t token, uint8_t flags = 0,
                          uint16_t carried = 0) {
  Header header;
  using Word [[gnu::may_alias]] = uint64_t;
  auto* words = reinterpret_cast<Word*>(&header);
  words[0] = uint64_t(kind) | uint64_t(flags) << 8 | uint64_t(carried) << 16 | uint64_t(uint32_t(source)) << 32;
  words[1] = context;
  words[2] = uint64_t(uint32_t(tag)) | uint64_t(token) << 32;
  return header;
}
/// A protocol's message that names one request and carries nothing else.
inline Header make_control_header(Kind kind, uint32_t token, uint8_t flags = 0) {
  return make_header(kind, 0, 0, 0, token, flags);
}

/// Whether the sending program has reason to call its library again.
inline bool sender_comes_back(const Header& header) {
  return (header.kind == Kind::eager || header.kind == Kind::eager_sync) && (header.flags & kRequested) != 0;
}

/// Copies in the words in which `build` writes a header, for the same reason.
inline void copy_header(Header& to, const Header& from) {
  using Word [[gnu::may_alias]] = uint64_t;
  auto* target = reinterpret_cast<Word*>(&to);
  const auto* source = reinterpret_cast<const Word*>(&from);
  for (int i = 0; i < 3; ++i) target[i] = source[i];
}

/// Body of an rts: the size of the message, and its address if the path can get.
struct RendezvousBody {
  uint64_t bytes;
  uint64_t address;  ///< of contiguous data in the sender; 0: not gettable
  uint64_t key[2];   ///< RemoteKey of that memory; without an address, the first one: serial of the newest announcement
                     ///< of the receiver's that the sender had read
};
static_assert(sizeof(RendezvousBody) == 32);

/// Body of a cts: which receive the data is for, and how many bytes it wants (fewer than offered: truncation). Without
/// an address for a put, the body ends after `bytes`.
struct ClearBody {
  uint32_t receiver_token;
  uint32_t reserved;
  uint64_t bytes;
  uint64_t address;
  uint64_t key[2];
};
static_assert(sizeof(ClearBody) == 40);
inline constexpr size_t kShortClearBytes = 16;

/// Body of a ready: where the data may be put, and which message this receive will match. Of the sender's messages with
/// this (context, tag), skip the first `arrived` ones and `ahead` more: the next one is meant.
/// Of memory with the path's usual key the body ends before `key`: it then fits into a cell of shared memory.
struct ReadyBody {
  uint64_t capacity;
  uint64_t address;  ///< 0: the data cannot be put, only sent
  uint32_t arrived;
  uint32_t serial;  ///< of this announcement
  uint16_t epoch;   ///< of `arrived`, the low bits: an old one cannot be so late that they are equal again
  uint16_t ahead;
  uint16_t oldest_before;  ///< how much less the serial of the oldest announced receive among those ahead is; 0: none
  uint8_t last_byte;       ///< present value of the buffer's last byte
  uint8_t flags;
  uint64_t key[2];  ///< RemoteKey of that memory

  /// The receiver watches that byte; if the message changes it, no FIN is needed.
  static constexpr uint8_t kWatched = 1;
  /// The receiving rank stays in its library until it has the message.
  static constexpr uint8_t kStays = 2;
  bool watched() const { return (flags & kWatched) != 0; }
  bool stays() const { return (flags & kStays) != 0; }
  uint32_t oldest() const { return serial - oldest_before; }
};
inline constexpr size_t kShortReadyBytes = 32;
static_assert(sizeof(ReadyBody) == 48 && offsetof(ReadyBody, key) == kShortReadyBytes);

/// Body of a filled.
struct FilledBody {
  uint64_t bytes;  ///< of the whole message, possibly more than the receive's buffer holds
};

}  // namespace tern::wire
