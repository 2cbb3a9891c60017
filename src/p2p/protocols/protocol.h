// Which protocol a message takes: one function of what is known when it is sent, a table (Small and Yuan 2009,
// Table 1). Each protocol's messages and states are in the file named beside it.
//
//   message size          sender early                    receiver early (its announcement is here)
//   <= eager              eager                           eager
//   <= hybrid             hybrid                          receiver_put, or receiver_stream
//   larger                sender_get | _put | _data       receiver_put, or receiver_stream
//
// With tuple queues (mode tupleq) every message whose tuple has a queue is offered to it before the table is asked,
// whatever its size (tuples.h): whether it goes there is known when the queue has taken it. The others as here.
// Both at about the same time: as sender early; announcement and message cross, see rendezvous_send.h.
// Where a copy costs CPU time of a rank (no autonomous path), it matters which rank has time for it. A receiver that is
// in its library takes its part of a stream, which is faster than one CPU copying alone; for one that computes, the
// data is put into its buffer meanwhile. A nonblocking sender may go off computing, so a long message is only
// announced: the receiver fetches it, or asks for a stream, whichever fits when it gets there; or the sender puts it,
// if it waits before the receiver does (deferred_copies.h).
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "base/error.h"
#include "base/tunables.h"

namespace tern {

enum class Protocol : uint8_t {
  eager,            ///< eager.h: the data goes at once and waits at the receiver if it must
  tuple,            ///< tuples.h: into the queue of its (communicator, source, tag), where its receive lies or will
  receiver_put,     ///< announced_send.h: the sender puts the data into the announced buffer
  receiver_stream,  ///< announced_send.h: the sender streams it to the announced receive
  hybrid,           ///< hybrid.h: the sender copies and is free, the receiver fetches the copy
  sender_put,       ///< rendezvous_send.h: the receiver clears, the sender puts
  sender_get,       ///< rendezvous_send.h: the receiver fetches the data from the sender's memory, or clears
  sender_data,      ///< rendezvous_send.h: the receiver clears, the sender sends
};
inline constexpr size_t kProtocolCount = 8;

/// How large messages are sent (tunable `rendezvous`).
enum class RendezvousMode : uint8_t { customised, rput, rget, stream, tupleq };
/// Whether the customised protocols are used with a peer. In mode tupleq the announced receives are what a path without
/// tuple queues has instead of them.
constexpr bool is_customised(RendezvousMode mode, bool has_tuple_queues) {
  return mode == RendezvousMode::customised || (mode == RendezvousMode::tupleq && !has_tuple_queues);
}

/// What the tunables `rendezvous` and `sender_rendezvous` say.
struct RendezvousPolicy {
  RendezvousMode mode = RendezvousMode::customised;
  bool by_write = false;  ///< sender first: put rather than get
};
/// Reads them; an error names what they may be.
Error parse_rendezvous(const Tunables& tunables, RendezvousPolicy& policy);

/// What the choice depends on.
struct SendSituation {
  size_t bytes;
  size_t eager_limit;  ///< of the path to the peer
  /// Of the path; 0: no library buffer is free, the send is synchronous, or the mode has no hybrid.
  size_t hybrid_limit;
  bool credit;          ///< the receiver still has room for that much unread data from us
  bool ready;           ///< the receive is posted, and has been announced
  bool can_put;         ///< the path puts from this memory into that receive's
  bool can_get;         ///< the path gets from this memory: contiguous, and the peer may read it
  bool receiver_polls;  ///< a copy would cost CPU time, and the receiver is in its library and takes its part
  bool returns;         ///< nonblocking: the sender may go off computing
  bool can_defer;       ///< a copy would cost CPU time, and whose can be decided later
  bool by_write;        ///< sender first: put rather than get
};

struct ProtocolRecord {
  Protocol protocol;
  const char* name;
  bool (*applies)(const SendSituation&);
};

constexpr bool goes_eagerly(size_t bytes, size_t eager_limit, bool credit) { return bytes <= eager_limit && credit; }

/// A message of a nonblocking sender, where it matters whose CPU copies. One of medium size is streamed without asking
/// to a receiver that is in its library: it is soon over.
constexpr bool decided_later(const SendSituation& s) {
  return s.returns && s.can_get && (s.receiver_polls ? s.bytes > s.hybrid_limit : s.can_defer);
}

/// In order of preference; the last always applies.
inline constexpr ProtocolRecord kProtocols[] = {
    {Protocol::eager, "eager", [](const SendSituation& s) { return goes_eagerly(s.bytes, s.eager_limit, s.credit); }},
    {Protocol::tuple, "tuple", [](const SendSituation&) { return false; }},  // before the table: see above
    {Protocol::receiver_put, "receiver-put",
     [](const SendSituation& s) { return s.ready && s.can_put && !s.receiver_polls && !decided_later(s); }},
    {Protocol::receiver_stream, "receiver-stream", [](const SendSituation& s) { return s.ready && !decided_later(s); }},
    {Protocol::hybrid, "hybrid",
     [](const SendSituation& s) { return s.bytes > s.eager_limit && s.bytes <= s.hybrid_limit && !decided_later(s); }},
    {Protocol::sender_put, "sender-put", [](const SendSituation& s) { return s.by_write && s.can_put; }},
    {Protocol::sender_get, "sender-get", [](const SendSituation& s) { return s.can_get && s.bytes != 0; }},
    {Protocol::sender_data, "sender-data", [](const SendSituation&) { return true; }},
};
static_assert(sizeof kProtocols / sizeof kProtocols[0] == kProtocolCount);

constexpr Protocol choose_protocol(const SendSituation& situation) {
  Protocol chosen = Protocol::sender_data;
  // Unrolled, so that the table costs no calls.
  [&]<size_t... kRow>(std::index_sequence<kRow...>) {
    static_cast<void>(((kProtocols[kRow].applies(situation) && (chosen = kProtocols[kRow].protocol, true)) || ...));
  }
  (std::make_index_sequence<kProtocolCount>());
  return chosen;
}

/// Who was there first, as the receiver sees it (Small and Yuan 2009, Figure 3).
enum class Arrival : uint8_t {
  sender,       ///< the message was waiting
  receiver,     ///< the announcement of the receive was used
  both,         ///< message and announcement have crossed
  unannounced,  ///< the receive was posted, but its sender was not told: a wildcard, say
};
inline constexpr size_t kArrivalCount = 4;
inline constexpr const char* kArrivalNames[] = {"sender early", "receiver early", "both", "unannounced"};
static_assert(sizeof kArrivalNames / sizeof kArrivalNames[0] == kArrivalCount);

/// How often which protocol was taken, and who was there first; and what became of the announcements. Only 64-bit
/// counts.
struct ProtocolCounters {
  uint64_t sent[kProtocolCount] = {};  ///< messages by protocol: the sums of the rank's table (base/counters.h)
  uint64_t received[kProtocolCount][kArrivalCount] = {};  ///< large receives by protocol and order of arrival
  // Announcements sent, and as their senders judged them (SentLog::Verdict).
  uint64_t announced = 0, held = 0, useless = 0, unknown = 0;
  uint64_t withdrawn = 0;   ///< by cancelling
  uint64_t no_buffer = 0;   ///< hybrid or copying out refused: all library buffers in use
  uint64_t copied_out = 0;  ///< messages whose receive was late, copied by their waiting sender (copy_out.h)
  uint64_t fins_saved = 0;  ///< puts that needed no FIN
  uint64_t crossed = 0;     ///< announcements that served messages which they had crossed, instead of a cts

  void count_received(Protocol protocol, Arrival arrival) { ++received[size_t(protocol)][size_t(arrival)]; }
  uint64_t arrivals(Arrival arrival) const {
    uint64_t sum = 0;
    for (const auto& row : received) sum += row[size_t(arrival)];
    return sum;
  }
  ProtocolCounters& operator+=(const ProtocolCounters& other) {
    using Words = std::array<uint64_t, sizeof(ProtocolCounters) / sizeof(uint64_t)>;
    auto sum = std::bit_cast<Words>(*this), more = std::bit_cast<Words>(other);
    for (size_t i = 0; i < sum.size(); ++i) sum[i] += more[i];
    return *this = std::bit_cast<ProtocolCounters>(sum);
  }
};

}  // namespace tern
