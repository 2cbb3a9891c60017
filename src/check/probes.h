// Messages that MPI_Probe or MPI_Iprobe has found: another thread may receive such a message first, and the receive
// that the probe was made for then gets another one, or waits (MPI 5.0, 3.8.2). Messages of one sender with one tag are
// received in the order in which they were sent, so two threads that have found (communicator, source, tag) mean the
// same message as long as nobody has received it:
//
//   thread 1                    thread 2
//   MPI_Probe -> (0, 5), 8 B
//                               MPI_Probe -> (0, 5), 8 B      the same message
//                               MPI_Recv(0, 5) of 8 B         takes it
//   MPI_Recv(0, 5) of 8 B                                     takes another one, of 4 B: reported
//
// Programs may well look for messages in several threads and receive in one that has other reasons. So only a receive
// that has room for just what its thread has found, and gets a message of another length, is reported.
// Thread rule: under the rank's lock.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "check/findings.h"
#include "p2p/request.h"

namespace tern::check {

class Probes {
 public:
  explicit Probes(const Findings& findings) : findings_(findings) {}

  /// What the calling thread's probe has found.
  void found(uint64_t context, const Status& status);
  /// Its probe has found nothing.
  void found_nothing() { found_.erase(self()); }
  /// What is wrong if a receive gets a message of another length; `text` empty: nothing.
  struct Doubt {
    Count bytes = 0;
    std::string text;
  };
  /// The calling thread begins to receive. `capacity`: bytes of its buffer. Source and tag may be wildcards.
  Doubt receives(uint64_t context, int source, int tag, Count capacity);

 private:
  struct Found {
    uint64_t context;
    int source, tag;
    Count bytes;
    std::string place;
    std::string taken;  ///< where another thread has received it; empty: it is still there
    bool fits(uint64_t of, int from, int with) const { return context == of && source == from && tag == with; }
  };
  /// The calling thread's number in the kernel: the next thread often gets the std::thread::id of one that has ended.
  static uint64_t self();

  const Findings& findings_;
  std::map<uint64_t, Found> found_;  ///< by the last probe of each thread, until it receives
};

}  // namespace tern::check
