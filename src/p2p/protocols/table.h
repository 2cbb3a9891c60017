// The table of protocols: one record for each, in order of preference (Small and Yuan 2009, Table 1). A send takes the
// first row that applies to its situation and does not refuse it; what comes back for it goes to the same row.
//
//   message size          sender early                    receiver early (its announcement is here)
//   any, with queues      tuple, where its (communicator, source, tag) has a queue
//   <= eager              eager                           eager
//   <= hybrid             hybrid                          receiver_put, or receiver_stream
//   larger                sender_get | _put | _data       receiver_put, or receiver_stream
//
// Both at about the same time: as sender early; announcement and message cross, see rendezvous_send.h. Who moves the
// data of a message whose receive is known: who_copies.h. What a row applies to is pure, and tested as a table
// (tests/unit/protocol_test.cc); each row's messages and states are in the file that Protocol names.
//
// Of a lost peer every row's sends end alike: settled with the error (arrivals.cc), what they hold of others goes back
// with their state.
// Thread rule: under the rank's lock.
#pragma once

#include <cstddef>
#include <utility>

#include "p2p/impl.h"
#include "p2p/pending.h"
#include "p2p/protocols/protocol.h"
#include "p2p/protocols/situation.h"
#include "p2p/tuples/tuples.h"

namespace tern {

struct ProtocolRecord {
  using Parts = PointToPoint::Impl;

  Protocol protocol;
  const char* source;  ///< of the protocol: paper and section; "MPI": any implementation has it
  bool (*applies)(const SendSituation&);
  /// Begins the send, and notes it. False: refused (a full queue, no buffer), nothing has changed: the next row is
  /// asked.
  bool (*begin)(Parts&, SendRequest&, const SendSituation&);
  /// The receiver has answered: cts, fin or sync_ack. Anything else that a peer may send is ignored.
  void (*on_answer)(Parts&, SendRequest&, const wire::Header&, const std::byte* payload, size_t bytes);
  /// MPI_Cancel of a send that may still be taken back.
  void (*withdraw)(Parts&, SendRequest&);
  /// For the hang report: whether the network or the receiver has to act.
  PendingMessage::Kind (*report)(const SendRequest&);

  const char* name() const { return kProtocolNames[size_t(protocol)]; }
};

namespace protocols {

using Parts = ProtocolRecord::Parts;

/// A message within the eager limit takes another row where it has no credit.
inline void note(Parts& p, Protocol protocol, const SendRequest& send, const SendSituation& s) {
  p.sends.counts().without_credit += s.bytes <= s.eager_limit && protocol != Protocol::eager;
  p.sends.note(protocol, send.endpoint, send.arguments, s.bytes);
}

/// A synchronous message is matched.
inline void on_match(Parts& p, SendRequest& send, const wire::Header& header, const std::byte*, size_t) {
  if (header.kind == wire::Kind::sync_ack) p.sends.settle(send, SendRequest::kMatch);
}

inline void on_rendezvous(Parts& p, SendRequest& send, const wire::Header& header, const std::byte* payload,
                          size_t bytes) {
  if (header.kind == wire::Kind::cts) p.rendezvous_sender.on_cts(send, header, payload, bytes);
  else if (header.kind == wire::Kind::fin) p.rendezvous_sender.on_fin(send);
}

/// From the path, or by asking the receiver.
inline void take_back(Parts& p, SendRequest& send) { p.cancels.cancel(send); }

/// Its path still holds it, or the receiver has answered and the data is on its way.
inline PendingMessage::Kind by_its_waits(const SendRequest& send) {
  constexpr int kMoves = SendRequest::kPath | SendRequest::kPut;
  constexpr int kAsks = SendRequest::kData | SendRequest::kMatch | SendRequest::kAnswer;
  const bool moves = (send.waits & kMoves) != 0 || (send.waits & kAsks) == 0;
  return moves ? PendingMessage::Kind::moving : PendingMessage::Kind::send;
}

template <Protocol protocol>
bool begin_rendezvous(Parts& p, SendRequest& send, const SendSituation& s) {
  note(p, protocol, send, s);
  p.rendezvous_sender.begin(send, protocol, s.ready);
  return true;
}

}  // namespace protocols

inline constexpr ProtocolRecord kProtocols[] = {
    {Protocol::tuple, "Koop et al. 2009, 3", [](const SendSituation& s) { return s.queues; },
     [](ProtocolRecord::Parts& p, SendRequest& send, const SendSituation& s) {
       return p.tuples->sender.send(send, s.bytes);
     },
     protocols::on_match,
     [](ProtocolRecord::Parts& p, SendRequest& send) {
       if (send.tuple()) p.tuples->sender.cancel(send);
       else p.cancels.cancel(send);
     },
     // The queue holds it until its receive takes it.
     [](const SendRequest&) { return PendingMessage::Kind::send; }},

    {Protocol::eager, "MPI", [](const SendSituation& s) { return goes_eagerly(s); },
     [](ProtocolRecord::Parts& p, SendRequest& send, const SendSituation& s) {
       protocols::note(p, Protocol::eager, send, s);
       p.eager_sender.begin(send, s.blocking);
       return true;
     },
     protocols::on_match, protocols::take_back, protocols::by_its_waits},

    {Protocol::receiver_put, "Small and Yuan 2009, 4.1 (RECV_RNDV)",
     [](const SendSituation& s) { return s.ready && s.mover == Mover::put; },
     [](ProtocolRecord::Parts& p, SendRequest& send, const SendSituation& s) {
       protocols::note(p, Protocol::receiver_put, send, s);
       p.announced_sender.put(send, *s.ready);
       return true;
     },
     protocols::on_match, protocols::take_back, protocols::by_its_waits},

    {Protocol::receiver_stream, "Small and Yuan 2009, 4.1, by messages",
     [](const SendSituation& s) { return s.ready && s.mover == Mover::stream; },
     [](ProtocolRecord::Parts& p, SendRequest& send, const SendSituation& s) {
       protocols::note(p, Protocol::receiver_stream, send, s);
       p.announced_sender.stream(send);
       return true;
     },
     protocols::on_match, protocols::take_back, protocols::by_its_waits},

    {Protocol::hybrid, "Small and Yuan 2009, 4.1 (HYBRID)",
     [](const SendSituation& s) { return !s.ready && s.bytes > s.eager_limit && s.bytes <= s.hybrid_limit; },
     [](ProtocolRecord::Parts& p, SendRequest& send, const SendSituation& s) { return p.hybrid.begin(send, s); },
     protocols::on_rendezvous,
     [](ProtocolRecord::Parts& p, SendRequest& send) {
       if (const auto* copy = std::get_if<SendRequest::HybridCopy>(&send.state)) p.hybrid.cancel(send, copy->token);
       else p.cancels.cancel(send);
     },
     protocols::by_its_waits},

    {Protocol::sender_put, "Small and Yuan 2009, 4.1 (SEND_RNDV by write)",
     [](const SendSituation& s) { return s.by_write && s.can_put; }, protocols::begin_rendezvous<Protocol::sender_put>,
     protocols::on_rendezvous, protocols::take_back, protocols::by_its_waits},

    {Protocol::sender_get, "Small and Yuan 2009, 4.1 (SEND_RNDV by read)",
     [](const SendSituation& s) { return s.can_get && s.bytes != 0; },
     protocols::begin_rendezvous<Protocol::sender_get>, protocols::on_rendezvous, protocols::take_back,
     protocols::by_its_waits},

    {Protocol::sender_data, "MPI", [](const SendSituation&) { return true; },
     protocols::begin_rendezvous<Protocol::sender_data>, protocols::on_rendezvous, protocols::take_back,
     protocols::by_its_waits},
};
static_assert(std::size(kProtocols) == kProtocolCount);

constexpr const ProtocolRecord& record_of(Protocol protocol) {
  size_t row = 0;
  while (kProtocols[row].protocol != protocol) ++row;
  return kProtocols[row];
}

/// Offers the send's situation to the rows until one of them takes it: `take(row)` says so. The last one always does.
template <typename Take>
constexpr void choose_protocol(const SendSituation& situation, Take&& take) {
  // Unrolled, so that the table costs no calls.
  [&]<size_t... kRow>(std::index_sequence<kRow...>) {
    static_cast<void>(((kProtocols[kRow].applies(situation) && take(kProtocols[kRow])) || ...));
  }
  (std::make_index_sequence<kProtocolCount>());
}

}  // namespace tern
