// io_uring: the kernel carries reads and writes out by itself (io_uring(7), through liburing). Where the kernel, a
// container or a limit forbids it, `create` says so and threads do the work (io/threads.h).
// Thread rule: under the rank's lock. The kernel ends what a thread has begun when that thread ends; such jobs are
// begun again by the next poll.
#pragma once

#include <liburing.h>

#include <memory>

#include "io/background.h"

namespace tern::io {

class Uring {
 public:
  /// Null: it is not allowed here.
  static std::unique_ptr<Uring> create();
  ~Uring();
  Uring(const Uring&) = delete;
  Uring& operator=(const Uring&) = delete;

  void begin(Job& job);
  void flush();
  /// The jobs that are done since the last time, as a list by Job::next; null: none.
  Job* take();
  /// Readable while `take` would return something.
  int descriptor() const { return ring_.ring_fd; }

 private:
  Uring() = default;
  bool submit(Job& job);

  io_uring ring_;
  unsigned in_flight_ = 0;  ///< at the kernel, or in the submission queue
  unsigned unsubmitted_ = 0;
  Job *waiting_ = nullptr, **waiting_end_ = &waiting_;  ///< for room
};

}  // namespace tern::io
