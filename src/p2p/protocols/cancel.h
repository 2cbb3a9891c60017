// Taking back sends: MPI_Cancel (MPI 5.0, 3.8.4). A send is taken back from the path's queue if none of it has left, or
// else by asking the receiver, which gives it up if it is still unmatched:
//
//   sender                                            receiver
//     eager(token = sequence), complete --------------> kept, unmatched
//     MPI_Cancel: incomplete again; cancel -----------> looks for it among the unmatched, drops it
//     complete, cancelled or not  <-------------------- cancel_answer
//
// Rendezvous announcements and synchronous messages are known to the receiver by the sender's token, other eager
// messages by their number among those of the sending rank; blocking sends have none. The number repeats after 2^32
// sends: a message that is still unmatched then could be dropped in place of its namesake, so the newest is taken.
//
// Receives are cancelled where they wait: Announcements, Tuples, Receives. Thread rule: under the rank's lock.
#pragma once

#include "p2p/core/control_messages.h"
#include "p2p/core/sends.h"
#include "p2p/matching/unexpected.h"
#include "p2p/protocols/announced_send.h"
#include "p2p/protocols/eager.h"

namespace tern {

class Tuples;

class SendCancels {
 public:
  SendCancels(Sends& sends, AnnouncedSender& announced, EagerReceiver& eager, Unexpected& unexpected,
              ControlMessages& control)
      : sends_(sends), announced_(announced), eager_(eager), unexpected_(unexpected), control_(control) {}

  /// Of anything but a hybrid send, or one in a tuple queue.
  void cancel(SendRequest& send);
  void cancel(SentRequest& sent);
  /// `tuples`: null: there are none.
  /// True: it was still waiting for its receive, and is no more.
  bool on_cancel(Endpoint& peer, const wire::Header& header, Tuples* tuples);
  void on_answer(Endpoint& peer, const wire::Header& header);

 private:
  bool take_back(SendRequest& send);

  Sends& sends_;
  AnnouncedSender& announced_;
  EagerReceiver& eager_;
  Unexpected& unexpected_;
  ControlMessages& control_;
};

}  // namespace tern
