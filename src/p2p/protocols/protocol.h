// The protocols of messages by name, what is counted of them, and the modes that a user can choose. Which protocol a
// message takes, and what each does, is the table of protocols/table.h. Thread rule: values.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <iterator>

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
/// By Protocol: as statistics and traces call them.
inline constexpr const char* kProtocolNames[] = {"eager",  "tuple",      "receiver-put", "receiver-stream",
                                                 "hybrid", "sender-put", "sender-get",   "sender-data"};
static_assert(std::size(kProtocolNames) == kProtocolCount);

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
