// BetweenPolls: work for a thread of the program while it is in a call that polls: callbacks of the program's own
// (capi/continuations.h). An engine does it between its polls, never inside of one, so that the lock can be given up.
#pragma once

namespace tern {

class BetweenPolls {
 public:
  /// Does what there is to do, and may give the rank's lock up meanwhile. False: nothing was done. Under the lock.
  virtual bool run() = 0;

 protected:
  ~BetweenPolls() = default;
};

}  // namespace tern
