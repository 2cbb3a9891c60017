// Sender-initiated rendezvous, the receiver's side (rendezvous_send.h has the picture): the receive is matched with an
// announcement; its data is fetched, or asked for. Thread rule: under the rank's lock.
#pragma once

#include <cstddef>
#include <cstdint>

#include "p2p/announcements.h"
#include "p2p/control_messages.h"
#include "p2p/protocol.h"
#include "p2p/receives.h"
#include "p2p/transfers.h"
#include "p2p/unexpected.h"

namespace tern {

class RendezvousReceiver final : Gets::Client {
 public:
  RendezvousReceiver(Receives& receives, Announcements& announcements, Unexpected& unexpected, Endpoints& endpoints,
                     ControlMessages& control, ProtocolCounters& counters, const RendezvousPolicy& policy)
      : receives_(receives),
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

 private:
  bool worth_getting(const ReceiveRequest& receive, const ReceivedRts& rts) const;
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
};

}  // namespace tern
