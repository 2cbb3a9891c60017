// Hybrid (Small and Yuan 2009): a message of medium size whose receiver is not there yet is copied to a library buffer;
// the sender is free at once, the receiver fetches the copy when it comes.
//
//   sender                                   receiver
//     copy;  rts(hybrid, address) ------------>  matched: get (over shared memory: copy out)
//     complete                                   ...
//     buffer free  <--------------------------   its release rides on a message of the protocols' own
//                                                (control_messages.h), or goes alone when too many are owed, or none
//                                                comes
//
// The copy travels as a send request of the library's own, so that a get that fails, a lost peer, the end of the
// program are no special cases. An announcement that is found after copying is still used: the data is put (or
// streamed) from the copy. Buffers are few (tunable hybrid_buffers); without one a sender waits for its receiver, and
// asks it for those that it owes. If the path has no room for what it is to be given, the sender waits for that, too:
// a rank that computes gives it nothing.
// Thread rule: under the rank's lock.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "datatype/predefined.h"
#include "p2p/core/library_buffers.h"
#include "p2p/core/sends.h"
#include "p2p/protocols/announced_send.h"
#include "p2p/protocols/protocol_choice.h"
#include "p2p/protocols/rendezvous_send.h"
#include "progress/engine.h"

namespace tern {

class HybridSender {
 public:
  HybridSender(ProgressEngine& progress, Endpoints& endpoints, Sends& sends, LibraryBuffers& buffers,
               ProtocolChoice& choice, AnnouncedSender& announced, RendezvousSender& rendezvous,
               ProtocolCounters& counters)
      : progress_(progress),
        endpoints_(endpoints),
        sends_(sends),
        buffers_(buffers),
        choice_(choice),
        announced_(announced),
        rendezvous_(rendezvous),
        counters_(counters) {}

  /// False: refused, the path has no more memory for it, whatever the tunable says.
  bool begin(SendRequest& send, const SendSituation& s);
  /// MPI_Cancel of a hybrid send, which is over; what may still be taken back is its copy. `copy_token`: 0: it may not.
  void cancel(SendRequest& send, uint32_t copy_token);
  /// The peer has read a library buffer. `name`: 0: none.
  void released(Endpoint& peer, uint16_t name);
  void on_release(Endpoint& peer, const std::byte* payload, size_t bytes);

 private:
  static void copy_has_left(Request& own);
  SendRequest& send_copy(const SendArguments& a, Endpoint& peer, LibraryBuffers::Loan buffer, const SendSituation& s);

  ProgressEngine& progress_;
  Endpoints& endpoints_;
  Sends& sends_;
  LibraryBuffers& buffers_;
  ProtocolChoice& choice_;
  AnnouncedSender& announced_;
  RendezvousSender& rendezvous_;
  ProtocolCounters& counters_;
  std::unique_ptr<PredefinedTypes> types_;  ///< made when first used
};

}  // namespace tern
