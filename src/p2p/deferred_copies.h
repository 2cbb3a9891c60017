// A long message between two ranks that both compute, over a path whose copies cost CPU time: whichever has time first
// makes the copy, and only one does. The sender knows of the posted receive, the receiver of the data; a lock on the
// data (CopyArbiter::try_lock_copy) decides between them.
//
//   receiver                    sender                      receiver                   sender
//     ready(address) ---------->                              ready(address) --------->
//     computes                    isend: rts(address)         computes                   isend: rts(address)
//                                 computes                                               computes
//     waits: lock, get            ...                                                    waits: lock, put
//     fin ----------------------> free                        has it <------------------ filled
//
// When both wait, the receiver asks for a stream (RendezvousReceiver::answer), for which it looks a few times.
// Thread rule: under the rank's lock.
#pragma once

#include "p2p/chore.h"
#include "p2p/sends.h"
#include "p2p/sent_log.h"
#include "p2p/transfers.h"

namespace tern {

class DeferredCopies final : Chore {
 public:
  DeferredCopies(ProgressEngine& progress, Sends& sends, Puts& puts) : Chore(progress), sends_(sends), puts_(puts) {}

  /// Its memory is exposed, with a copy lock if the path has them, and its receive waits at `to`. Does nothing where
  /// the path does not allow it.
  void add(SendRequest& send, RendezvousSend& state, const wire::ClearBody& to);
  void remove(DeferredCopy& copy);

 private:
  int advance() override;
  enum class Turn : uint8_t { mine, peers, later };
  Turn turn_of(DeferredCopy& copy);

  Sends& sends_;
  Puts& puts_;
  IntrusiveList<DeferredCopy> copies_;  ///< which this rank may make when it has time
  DeferredCopy* cursor_ = nullptr;      ///< what advance looks at next; null outside of it
};

}  // namespace tern
