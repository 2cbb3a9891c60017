// The receiver first (Small and Yuan 2009, RECV_RNDV): a receive that is posted before its message comes is announced
// to the sender. This is the receiver's side; announced_send.h is the sender's.
//
//   put (the path can, no CPU has to help)          stream (no put, or the receiver is there to take its part)
//   receiver               sender                   receiver               sender
//     ready(address) ------->                         ready --------------->
//     computes ...            send: put (one copy)                           send: no asking
//     <---------------------- filled                  <--------------------- direct, into the user's buffer
//
// Which message an announced receive will match is known exactly (sent_log.h), and must be: a put goes straight into
// the user's memory. What would change it afterwards, and what is done about it:
//   - an earlier wildcard receive that fits too: the receive is not announced
//   - an earlier receive is cancelled: the announcements are withdrawn first
//   - the sender takes a message back: its offers are void, counting begins anew (recount)
// A stream is matched like any message, the announcement only says that it will not wait; but the data of a message
// that had already announced itself (rendezvous_send.h, both at about the same time) is addressed to the receive, too.
//
// A `filled` stands in the sender's stream of messages where the message would. A put that is not done when it must be
// told of (messages may overtake puts) is told in two parts: the receive is taken; the data has landed.
//
// FIN elimination: where writes land in order the receiver watches the last byte of its buffer instead of waiting for a
// `filled`, if the message has just the size of the buffer and that byte changes. It looks only at the oldest receive
// of a key, and before it matches any other message with it. A rank that sleeps sees no byte change: such a put wakes
// its receiver (TransferOperation::wakes), which costs it no message.
//
// Where message and announcement cross, the sender of a put uses the announcement (AnnouncedSender::on_ready), and
// the receiver, which has read the rts, goes on watching. It may also see the data before it reads the rts, which must
// then find no other receive. An rts says which announcement its sender had read last, so the receiver knows:
//
//   receiver                 sender              The rts has not seen the announcement (serial 7) of a receive of its
//     ready(serial 7) --.  .-- rts(newest: 6)    key that was filled: it is that receive's own. For if it were another
//                        \/                      message's, that one would come before the one that was put, and an
//                        /\                      earlier receive would still be waiting for it.
//     <-----------------'  '->
//     <======================= put
//     sees the last byte; complete
//     reads the rts: it has been served
//
// What was filled is remembered until the sender says that it has read that announcement (kMaxWatched at most, then no
// receive is watched): by an rts, or by the FIN of an announced receive that was not watched.
//
// Withdrawal. A receive is cancelled that was announced, or before others that were: which message those will match
// would change. So the announcements are withdrawn first, and the receive stays posted meanwhile; what arrives for it
// completes it, as MPI allows.
//
//   receiver                    sender
//     cancel: withdraw ---------->  forgets its offers of the key
//     <--------------- withdrawn    (in its stream behind everything that used one of them)
//     still posted: cancelled
//
// Thread rule: under the rank's lock.
#pragma once

#include <cstdint>
#include <vector>

#include "p2p/core/chore.h"
#include "p2p/core/control_messages.h"
#include "p2p/core/receives.h"
#include "p2p/protocols/protocol.h"

namespace tern {

class alignas(64) Announcements final : Chore {
 public:
  using Chore::is_idle;
  /// `by_write`: senders that come first put, so that a put may be seen before its rts.
  Announcements(ProgressEngine& progress, Receives& receives, ControlMessages& control, ProtocolCounters& counters,
                bool by_write)
      : Chore(progress), receives_(receives), control_(control), counters_(counters), by_write_(by_write) {}

  /// An exact receive has been posted: its sender is told, where that is worth it.
  void announce(ReceiveRequest& receive);
  /// The receive that an arriving message matches, out of the posted ones; null: none.
  ReceiveRequest* receive_for(const wire::Header& header) {
    auto* receive =
        static_cast<ReceiveRequest*>(receives_.matching.match_arrival(header.context, header.source, header.tag));
    if (receive && receive->watched()) [[unlikely]]
      return unless_filled(*receive, header);
    return receive;
  }
  /// The receive that an rts without memory matches; null: none. `served`: the data of its message has come before it,
  /// nothing is left to do; null is returned.
  ReceiveRequest* receive_for_put(Endpoint& peer, const wire::Header& header, const wire::RendezvousBody& body,
                                  bool& served);
  /// The data comes by messages after all: it must not be looked at until all of it is there.
  void expect_messages(ReceiveRequest& receive) {
    if (receive.watched()) [[unlikely]]
      unwatch(*receive.offer);
  }
  void on_peer_lost(Endpoint& peer) {
    std::erase_if(filled_, [&](const Filled& filled) { return filled.peer == &peer; });
  }
  void on_filled(Endpoint& peer, const wire::Header& header, const std::byte* payload, size_t bytes);
  /// Completes the watched receives that are filled; how many.
  int check_watched();

  /// MPI_Cancel of a posted receive. True: it waits until the announcements are withdrawn. False: nothing is in the
  /// way.
  bool withdraw(ReceiveRequest& receive);
  void on_withdrawn(Endpoint& peer, const wire::Header& header);

 private:
  friend struct ReceiveOffer;
  int advance() override { return check_watched(); }
  void watch(ReceiveOffer& offer);
  void unwatch(ReceiveOffer& offer);
  ReceiveRequest* unless_filled(ReceiveRequest& receive, const wire::Header& header);
  void fill(ReceiveRequest& receive, size_t bytes);
  void complete_seen(ReceiveRequest& receive);
  bool serve(Endpoint& peer, const wire::Header& header, uint32_t newest);
  void forget_filled(const Endpoint& peer, uint32_t newest);
  [[gnu::noinline]] bool find_place(ReceiveRequest& receive, wire::ReadyBody& body, uint32_t& place);

  Receives& receives_;
  ControlMessages& control_;
  ProtocolCounters& counters_;
  /// A receive that was filled by a put, whose message may have been announced and not been read yet.
  struct Filled {
    const Endpoint* peer;
    uint64_t context;
    int tag;
    uint32_t serial;  ///< of its announcement
  };

  const bool by_write_;
  std::vector<Filled> filled_;  ///< in the order of completion; at most kMaxWatched
  uint32_t watched_count_ = 0;
  IntrusiveList<ReceiveOffer> watched_;  ///< their last byte tells that they are filled; in the order of posting
};

}  // namespace tern
