// Sender-initiated rendezvous, the receiver's side (rendezvous_send.h has the picture): the receive is matched with an
// announcement; its data is fetched, or asked for. Thread rule: under the rank's lock.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/assert.h"
#include "p2p/core/chore.h"
#include "p2p/core/control_messages.h"
#include "p2p/core/receives.h"
#include "p2p/core/sends.h"
#include "p2p/core/transfers.h"
#include "p2p/core/who_copies.h"
#include "p2p/matching/unexpected.h"
#include "p2p/protocols/announcements.h"
#include "p2p/protocols/protocol.h"

namespace tern {

class RendezvousReceiver final : Chore, Gets::Client {
 public:
  using Chore::is_idle;
  RendezvousReceiver(ProgressEngine& progress, Receives& receives, Announcements& announcements, Unexpected& unexpected,
                     const Sends& sends, Endpoints& endpoints, ControlMessages& control, ProtocolCounters& counters,
                     const RendezvousPolicy& policy)
      : Chore(progress),
        receives_(receives),
        announcements_(announcements),
        unexpected_(unexpected),
        sends_(sends),
        endpoints_(endpoints),
        control_(control),
        counters_(counters),
        policy_(policy),
        gets_(receives, endpoints, *this) {}

  void on_rts(Endpoint& peer, const wire::Header& header, const std::byte* payload, size_t bytes);
  /// The receive is matched with the announcement.
  void answer(ReceiveRequest& receive, const ReceivedRts& rts, Arrival arrival);
  /// Answers too, but a copy that costs CPU time waits for its turn.
  void answer_in_turn(ReceiveRequest& receive, const ReceivedRts& rts, Arrival arrival);

  /// The data of an announced message lies somewhere else now (copy_out.h).
  void on_moved(Endpoint& peer, const wire::Header& header, const std::byte* payload, size_t bytes);
  /// The message of that name was taken back.
  void forget_moved(const Endpoint& peer, uint32_t token) {
    std::erase_if(moved_, [&](const Moved& moved) { return moved.peer == &peer && moved.token == token; });
  }
  void on_peer_lost(const Endpoint& peer) {
    std::erase_if(moved_, [&](const Moved& moved) { return moved.peer == &peer; });
  }

  /// While one exists, this rank makes no copies: for calls that only begin a message. Copies of those that have come
  /// would keep this one, and those that the program begins next, from peers that wait for them (64 messages of 64 KiB
  /// in both directions: one rank copied, the other one waited). Their senders may put the data, if they have time
  /// first (deferred_copies.h).
  class Hold {
   public:
    explicit Hold(RendezvousReceiver& receiver) : receiver_(receiver) { ++receiver_.holds_; }
    Hold(const Hold&) = delete;
    Hold& operator=(const Hold&) = delete;
    ~Hold() {
      TERN_ASSERT(receiver_.holds_ != 0);
      --receiver_.holds_;
    }

   private:
    RendezvousReceiver& receiver_;
  };

 private:
  /// One of the answers that wait.
  int advance() override;
  bool stream_is_faster(const ReceiveRequest& receive) const;
  Mover mover_of(const ReceiveRequest& receive, const ReceivedRts& rts, bool stream_faster) const;
  bool may_wait(ReceiveRequest& receive, const ReceivedRts& rts);
  bool clear_to_send(ReceiveRequest& receive, const ReceivedRts& rts, size_t offset);
  void fetched(ReceiveRequest& receive, const ReceivedRts& rts) override;
  void interrupted(ReceiveRequest& receive, const ReceivedRts& rts, size_t offset) override {
    clear_to_send(receive, rts, offset);
  }

  bool take_moved(const Endpoint& peer, ReceivedRts& rts);
  void await_sender(ReceiveRequest& receive, const ReceivedRts& rts, Arrival arrival);

  /// A message without a receive yet, whose sender has moved its data. At most as many as its sender has library
  /// buffers.
  struct Moved {
    const Endpoint* peer;
    uint32_t token;
    wire::RendezvousBody body;
  };

  Receives& receives_;
  Announcements& announcements_;
  Unexpected& unexpected_;
  const Sends& sends_;
  Endpoints& endpoints_;
  ControlMessages& control_;
  ProtocolCounters& counters_;
  const RendezvousPolicy policy_;
  Gets gets_;
  /// Answers that cost a copy: one for each poll, so that a rank that copies goes on polling.
  IntrusiveList<PendingAnswer> pending_;
  /// Receives whose senders have taken the copy lock: they put the data, or say where they have moved it.
  IntrusiveList<PendingAnswer> with_sender_;
  std::vector<Moved> moved_;
  uint32_t holds_ = 0;
};

}  // namespace tern
