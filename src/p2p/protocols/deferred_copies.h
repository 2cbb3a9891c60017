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
// If this rank waits and knows of no receive, it copies a message of medium size to a library buffer (copy_out.h).
// Thread rule: under the rank's lock.
#pragma once

#include "p2p/core/chore.h"
#include "p2p/core/sends.h"
#include "p2p/core/transfers.h"
#include "p2p/core/who_copies.h"
#include "p2p/matching/sent_log.h"
#include "p2p/protocols/copy_out.h"

namespace tern {

class DeferredCopies final : Chore {
 public:
  using Chore::is_idle;
  DeferredCopies(ProgressEngine& progress, Sends& sends, Puts& puts, CopyOut& copy_out)
      : Chore(progress), sends_(sends), puts_(puts), copy_out_(copy_out) {}

  /// Its memory is exposed, with a copy lock if the path has them, and its receive waits at `to`. Does nothing where
  /// the path does not allow it.
  void add(SendRequest& send, RendezvousSend& state, const wire::ClearBody& to);
  /// Its receive is not known yet. Does nothing for a message that cannot be copied out.
  void add_unmatched(SendRequest& send, RendezvousSend& state);
  void remove(DeferredCopy& copy);

 private:
  int advance() override;
  void append(SendRequest& send, DeferredCopy& copy);
  bool copy_out(SendRequest& send, DeferredCopy& copy);
  bool put(SendRequest& send, DeferredCopy& copy);
  bool is_due(DeferredCopy& copy) const;
  Mover mover_of(DeferredCopy& copy) const;

  Sends& sends_;
  Puts& puts_;
  CopyOut& copy_out_;
  IntrusiveList<DeferredCopy> copies_;  ///< which this rank may make when it has time
  DeferredCopy* cursor_ = nullptr;      ///< what advance looks at next; null outside of it
};

}  // namespace tern
