// Copying out: a message of medium size was left to its receiver, which is late; its sender has reached MPI_Wait and
// has nothing else to do. It copies the message to a library buffer and is free, as with hybrid (hybrid.h).
//
//   sender                               receiver
//     Isend: rts(user's address) --------->  computes
//     computes                               ...
//     waits: lock, copy                      ...
//     moved(buffer's address) ------------>  ...
//     free                                   matched: get from the buffer, release it
//
// Until the lock is taken (CopyArbiter::try_lock_copy) the receiver may fetch the data from the user's memory, while
// the sender computes. So a nonblocking send costs its caller no copy, and a wait for it no wait for the receiver
// (Small and Yuan 2009, 5.2, configuration (0,0,60,X,0,0)).
//
// The copy travels on as a send request of the library's own, which takes over the name that the receiver knows.
// Thread rule: under the rank's lock.
#pragma once

#include <memory>

#include "datatype/predefined.h"
#include "p2p/core/control_messages.h"
#include "p2p/core/library_buffers.h"
#include "p2p/core/sends.h"
#include "p2p/protocols/protocol.h"

namespace tern {

class CopyOut {
 public:
  CopyOut(Sends& sends, LibraryBuffers& buffers, ControlMessages& control, Clock& clock, ProtocolCounters& counters)
      : sends_(sends), buffers_(buffers), control_(control), clock_(clock), counters_(counters) {}

  /// Whether a send of that kind may be copied out later: it is no longer than a library buffer, need not wait for its
  /// receive, and its peer can read such buffers.
  static bool fits(const SendRequest& send);

  enum class Result : uint8_t {
    copied,     ///< the send is complete
    taken,      ///< the receiver copies already
    no_buffer,  ///< all library buffers are in use
  };
  /// Of a send whose memory is exposed with a copy lock.
  Result begin(SendRequest& send);

 private:
  Sends& sends_;
  LibraryBuffers& buffers_;
  ControlMessages& control_;
  Clock& clock_;
  ProtocolCounters& counters_;
  std::unique_ptr<PredefinedTypes> types_;  ///< made when first used
};

}  // namespace tern
