// The buffers of MPI_Bsend: memory that the user attached to the rank, a communicator or a session (or that the library
// finds itself: MPI_BUFFER_AUTOMATIC), and the messages under way in it.
// Source: MPI 5.0 section 3.6. Thread rule: under the rank's lock.
#pragma once

#include <cstddef>
#include <list>
#include <memory>
#include <vector>

#include "base/error.h"
#include "base/types.h"
#include "comm/communicator.h"

namespace tern::capi {

/// One attached buffer. Messages are packed into it in order of sending and leave when their sends are complete; free
/// space is found first fit, which is what the standard's model implementation promises (3.6.1): whenever that finds
/// room for a message, so does this.
class AttachedBuffer {
 public:
  AttachedBuffer() = default;
  AttachedBuffer(const AttachedBuffer&) = delete;
  AttachedBuffer& operator=(const AttachedBuffer&) = delete;

  bool attached() const { return attached_; }
  /// `memory` null means MPI_BUFFER_AUTOMATIC: the library allocates what it needs.
  void attach(void* memory, Count bytes);
  /// Waits until the messages have left; gives back what attach got.
  void detach(ProgressEngine& progress, void*& memory, Count& bytes);
  bool automatic() const { return memory_ == nullptr; }

  /// Copies the message into the buffer and starts sending it. Error: not enough room (MPI_ERR_BUFFER).
  /// The caller has the message's request for nothing: it completes here.
  Error send(Communicator& comm, const void* data, Count count, const Datatype& type, int dest, int tag,
             const Datatype& byte_type);
  /// No message is in the buffer any more.
  bool empty();
  /// Waits until the messages that are in the buffer now have left.
  void flush(ProgressEngine& progress);
  /// The number that the next message will get, and whether all before a number have left (nonblocking flush).
  uint64_t next_number() const { return next_number_; }
  bool left_before(uint64_t number);

 private:
  struct Held {
    uint64_t number;
    size_t begin, end;                  ///< bytes in memory_
    std::unique_ptr<std::byte[]> own;   ///< automatic buffers
    Request* request;
    Ref<Communicator> comm;             ///< lives until its message has left
  };
  void reap();
  /// The first gap of `bytes`; held_ iterator to insert before.
  std::list<Held>::iterator find_room(size_t bytes, size_t& begin);

  bool attached_ = false;
  std::byte* memory_ = nullptr;
  Count bytes_ = 0;
  uint64_t next_number_ = 1;
  std::list<Held> held_;  ///< by place in the buffer (automatic: by number)
};

}  // namespace tern::capi
