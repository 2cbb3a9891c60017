// SharedPointer: the file pointer that all ranks of a file share (MPI 5.0, 14.4.4), in etypes. It is never in a file.
//
//   one node         a number in memory that the ranks share: fetch-and-add
//   several nodes    rank 0 has it; others ask by a message and get the old value back. The answer is given where the
//   message
//                    is handled: by a thread that polls for rank 0, its event thread while it computes (TERN_PROGRESS)
//
//   rank 2                          rank 0 (always has a receive posted)
//   add(10)  ── request: 10 ──────> 40 += 10
//            <──── answer: 40 ─────
//
// Units: etypes. Thread rule: under the rank's lock; the shared memory by atomic operations.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "io/access.h"

namespace tern::io {

class SharedPointer {
 public:
  /// `memory`: eight bytes that all ranks share; null: there are none. `comm` is the file's own.
  SharedPointer(Environment& environment, Communicator& comm, std::atomic<int64_t>* memory);
  /// Collective in effect: no rank asks any more (a barrier is over), and all questions of this rank are answered.
  ~SharedPointer();
  SharedPointer(const SharedPointer&) = delete;
  SharedPointer& operator=(const SharedPointer&) = delete;

  /// Adds, and gives the value before. As a flow, since it may be a message to and fro.
  Flow add(int64_t etypes, int64_t& before, bool blocking);
  /// Rank 0 only, while no rank adds.
  void set(int64_t etypes);

 private:
  struct Server;
  std::atomic<int64_t>& value() { return memory_ ? *memory_ : own_; }

  Environment& environment_;
  Communicator& comm_;
  std::atomic<int64_t>* memory_;
  std::atomic<int64_t> own_{0};
  std::unique_ptr<Server> server_;  ///< rank 0, where there is no memory
};

}  // namespace tern::io
