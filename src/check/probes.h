// Messages that MPI_Probe or MPI_Iprobe has found: another thread may receive such a message first, and the receive
// that the probe was made for then gets another one, or waits (MPI 5.0, 3.8.2). Messages of one sender with one tag are
// received in the order in which they were sent, so two threads that have found (communicator, source, tag) mean the
// same message as long as nobody has received it:
//
//   thread 1           thread 2
//   MPI_Probe -> (0, 5)
//                      MPI_Probe -> (0, 5)       the same message
//                      MPI_Recv(0, 5)            takes it
//   MPI_Recv(0, 5)                               takes another one: reported
//
// A thread that receives for another one, which has told it of the message, is none of these.
// Thread rule: under the rank's lock.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <thread>

#include "check/findings.h"

namespace tern::check {

class Probes {
 public:
  explicit Probes(const Findings& findings) : findings_(findings) {}

  /// What the calling thread's probe has found.
  void found(uint64_t context, int source, int tag);
  /// Its probe has found nothing.
  void found_nothing() { found_.erase(std::this_thread::get_id()); }
  /// The calling thread begins to receive. Source or tag may be wildcards.
  void receives(uint64_t context, int source, int tag);

 private:
  struct Found {
    uint64_t context;
    int source, tag;
    std::string place;
    std::string taken;  ///< where another thread has received it; empty: it is still there
    bool fits(uint64_t of, int from, int with) const { return context == of && source == from && tag == with; }
  };
  const Findings& findings_;
  std::map<std::thread::id, Found> found_;  ///< by the last probe of each thread, until it receives
};

}  // namespace tern::check
