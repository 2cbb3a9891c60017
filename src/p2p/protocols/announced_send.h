// The receiver first, the sender's side (announcements.h has the picture): what a sender does with the receives that
// its peers have announced. A sender that takes a message back has counted it: whatever both sides counted since is
// wrong.
//
//   receiver                    sender
//     <----------------- recount    counts from nought, in a new epoch; offers of the old one are void
//
// Thread rule: under the rank's lock.
#pragma once

#include <cstddef>
#include <cstdint>

#include "p2p/core/control_messages.h"
#include "p2p/core/sends.h"
#include "p2p/core/transfers.h"
#include "p2p/protocols/protocol.h"
#include "p2p/protocols/rendezvous_send.h"

namespace tern {

class AnnouncedSender {
 public:
  AnnouncedSender(Sends& sends, Puts& puts, RendezvousSender& rendezvous, ControlMessages& control,
                  ProtocolCounters& counters, RendezvousMode mode)
      : sends_(sends), puts_(puts), rendezvous_(rendezvous), control_(control), counters_(counters), mode_(mode) {}

  void on_ready(Endpoint& peer, const wire::Header& header, const std::byte* payload, size_t bytes);
  void on_withdraw(Endpoint& peer, const wire::Header& header);
  /// Streams the message; its receive is posted, so that neither size nor credit matter.
  void stream(SendRequest& send);
  /// Puts it to where `ready` says, or streams it if the path does not put.
  void put(SendRequest& send, Ready ready);
  /// A counted message was taken back from the path.
  void recount(Endpoint& peer);

 private:
  static bool sees_by_itself(const SendRequest& send, const wire::ReadyBody& body);
  Sends& sends_;
  Puts& puts_;
  RendezvousSender& rendezvous_;
  ControlMessages& control_;
  ProtocolCounters& counters_;
  const RendezvousMode mode_;
};

}  // namespace tern
