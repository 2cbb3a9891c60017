// Sender-initiated rendezvous, the receiver's side (rendezvous_send.h has the picture): the receive is matched with an
// announcement; its data is fetched, or asked for. Thread rule: under the rank's lock.
#pragma once

#include <cstddef>
#include <cstdint>

#include "p2p/announcements.h"
#include "p2p/chore.h"
#include "p2p/control_messages.h"
#include "p2p/protocol.h"
#include "p2p/receives.h"
#include "p2p/transfers.h"
#include "p2p/unexpected.h"

namespace tern {

class RendezvousReceiver final : Chore, Gets::Client {
 public:
  RendezvousReceiver(ProgressEngine& progress, Receives& receives, Announcements& announcements, Unexpected& unexpected,
                     Endpoints& endpoints, ControlMessages& control, ProtocolCounters& counters,
                     const RendezvousPolicy& policy)
      : Chore(progress),
        receives_(receives),
        announcements_(announcements),
        unexpected_(unexpected),
        endpoints_(endpoints),
        control_(control),
        counters_(counters),
        policy_(policy),
        gets_(receives, endpoints, *this, is_customised(policy.mode, false)) {}

  void on_rts(Endpoint& peer, const wire::Header& header, const std::byte* payload, size_t bytes);
  /// The receive is matched with the announcement.
  void answer(ReceiveRequest& receive, const ReceivedRts& rts, Arrival arrival);
  /// The same, but a copy that costs CPU time waits for its turn.
  void answer_in_turn(ReceiveRequest& receive, const ReceivedRts& rts, Arrival arrival);

  /// While one exists, this rank makes no copies: for calls that only begin a message. Copies of those that have come
  /// would keep this one, and those that the program begins next, from peers that wait for them (64 messages of 64 KiB
  /// in both directions: one rank copied, the other one waited). Their senders may put the data, if they have time
  /// first (deferred_copies.h).
  class Hold {
   public:
    explicit Hold(RendezvousReceiver& receiver) : receiver_(receiver) { ++receiver_.holds_; }
    Hold(const Hold&) = delete;
    Hold& operator=(const Hold&) = delete;
    ~Hold() { --receiver_.holds_; }

   private:
    RendezvousReceiver& receiver_;
  };

 private:
  /// One of the answers that wait.
  int advance() override;
  bool worth_getting(const ReceiveRequest& receive, const ReceivedRts& rts) const;
  bool may_wait(ReceiveRequest& receive, const ReceivedRts& rts);
  bool clear_to_send(ReceiveRequest& receive, const ReceivedRts& rts, size_t offset);
  void fetched(ReceiveRequest& receive, const ReceivedRts& rts) override;
  void interrupted(ReceiveRequest& receive, const ReceivedRts& rts, size_t offset) override {
    clear_to_send(receive, rts, offset);
  }

  Receives& receives_;
  Announcements& announcements_;
  Unexpected& unexpected_;
  Endpoints& endpoints_;
  ControlMessages& control_;
  ProtocolCounters& counters_;
  const RendezvousPolicy policy_;
  Gets gets_;
  /// Answers that cost a copy: one for each poll, so that a rank that copies goes on polling.
  IntrusiveList<PendingAnswer> pending_;
  uint32_t holds_ = 0;
};

}  // namespace tern
