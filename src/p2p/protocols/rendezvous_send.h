// Sender-initiated rendezvous, the sender's side; rendezvous_receive.h is the receiver's. In three forms.
//
//   get: the path can, the data is contiguous       data                            put: the same with a put, FIN after
//   it sender                 receiver                 sender                  receiver
//     rts(address) ------->                           rts ----------------->
//                            get (one copy)             <------------------- cts (when matched)
//     <-------------------- fin                       data -----------------> into the user's buffer
//
// The receiver may answer any rts with a cts, and does so if it cannot get, if its get fails (the kernel refuses), and
// if a copy costs CPU time (no autonomous path) and the sender is in its library to take its part of a stream.
//
// Both at about the same time: the rts crosses the receiver's announcement. With an address in it the receiver fetches,
// the announcement is dropped; without, the announcement serves as the cts at once (AnnouncedSender::on_ready), and the
// cts that the receiver sends for the rts finds the send cleared. If the receiver watches its buffer the put has no
// FIN, and may be seen before the rts is read (Announcements::receive_for_put). Thread rule: under the rank's lock.
#pragma once

#include <cstddef>
#include <cstdint>

#include "p2p/core/control_messages.h"
#include "p2p/core/sends.h"
#include "p2p/core/transfers.h"
#include "p2p/protocols/deferred_copies.h"
#include "p2p/protocols/protocol.h"

namespace tern {

class RendezvousSender {
 public:
  RendezvousSender(Sends& sends, Puts& puts, DeferredCopies& deferred, ControlMessages& control, Heartbeat& heartbeat,
                   RendezvousMode mode)
      : sends_(sends), puts_(puts), deferred_(deferred), control_(control), heartbeat_(heartbeat), mode_(mode) {}

  /// `protocol`: sender_get, sender_put or sender_data. `ready`: its receive is announced; null: it is not.
  void begin(SendRequest& send, Protocol protocol, const Ready* ready);
  /// Of the library's own request, whose data lies in `buffer` (hybrid.h).
  void begin(SendRequest& send, LibraryBuffers::Loan buffer);
  /// The receiver's answers to the announcement of that send.
  void on_cts(SendRequest& send, const wire::Header& header, const std::byte* payload, size_t bytes);
  void on_fin(SendRequest& send);
  /// The send's receive has room, as `clear` says: its data goes, from `offset` on, as soon as its rts has left.
  /// `seen`: the receiver sees a put by itself.
  void clear(SendRequest& send, const wire::ClearBody& clear, uint64_t offset_bytes, bool seen = false);

 private:
  void announce(SendRequest& send, RendezvousSend& state, uint8_t flags);
  void send_data(SendRequest& send);
  static void rts_left(SendOperation& operation, Error error);

  Sends& sends_;
  Puts& puts_;
  DeferredCopies& deferred_;
  ControlMessages& control_;
  Heartbeat& heartbeat_;
  const RendezvousMode mode_;
};

}  // namespace tern
