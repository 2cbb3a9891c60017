// The buffers of MPI_Bsend: memory that the user attached to the rank, a communicator or a session (or that
// the library finds itself: MPI_BUFFER_AUTOMATIC), and the messages under way in it. Source: MPI 5.0
// section 3.6. Thread rule: under the rank's lock.
#pragma once

#include <cstddef>
#include <list>
#include <memory>
#include <vector>

#include "base/error.h"
#include "base/types.h"
#include "comm/communicator.h"

namespace tern::capi {

class FlushRequest;
class BufferedSend;

/// One attached buffer. A message takes its packed bytes, at the first gap that fits; nothing else is stored
/// there, so whenever the standard's model implementation (3.6.1) finds room for a message, so does this.
///
///   memory_  [ message 3 |    gap    | message 1 | message 2 |   gap   ]
///
/// A message leaves when its send is complete; the gap is found again by the next reap().
class AttachedBuffer {
 public:
  AttachedBuffer() = default;
  ~AttachedBuffer();
  AttachedBuffer(const AttachedBuffer&) = delete;
  AttachedBuffer& operator=(const AttachedBuffer&) = delete;

  bool attached() const { return attached_; }
  /// `memory` null means MPI_BUFFER_AUTOMATIC: the library allocates what it needs.
  void attach(void* memory, Count bytes);
  /// Waits until the messages have left; returns the address given to attach (null: automatic).
  void detach(ProgressEngine& progress, void*& memory, Count& bytes);

  /// Copies the message and starts sending it; complete for the caller when this returns. `bytes_type` is
  /// MPI_BYTE. Error: not enough room (MPI_ERR_BUFFER).
  /// `user`: the request that may cancel the message; null: none.
  Error send(Communicator& comm, const void* data, Count count, const Datatype& type, int dest, int tag,
             const Datatype& bytes_type, BufferedSend* user);
  /// Waits until the messages that are in the buffer now have left.
  void flush(ProgressEngine& progress);
  /// A request, the caller's, that is complete when the messages that are in the buffer now have left.
  Request* iflush();
  /// Whether a message through this communicator is still in the buffer.
  bool holds(const Communicator& comm);

 private:
  friend class FlushRequest;
  friend class BufferedSend;
  struct Held {
    AttachedBuffer* buffer;
    uint64_t number;                   ///< in the order of sending
    size_t begin, end;                 ///< bytes in memory_; nothing when automatic
    std::unique_ptr<std::byte[]> own;  ///< automatic buffers only
    Request* request;
    Ref<Communicator> comm;  ///< lives until its message has left
    BufferedSend* user;      ///< null: none, or gone
  };
  static void on_sent(Request& request);
  /// Forgets the messages that have left.
  void reap();
  bool find_room(size_t bytes, std::list<Held>::iterator& before, size_t& begin);

  bool attached_ = false;
  std::byte* memory_ = nullptr;
  Count bytes_ = 0;
  uint64_t next_number_ = 1;
  std::list<Held> held_;                ///< by place in the buffer
  std::vector<FlushRequest*> flushes_;  ///< not complete
};

/// What the user has of a nonblocking or persistent buffered send: complete from the start, until it is cancelled. The
/// message's own request is the buffer's while its bytes are there, and this one's afterwards.
class BufferedSend : public Request {
 public:
  explicit BufferedSend(bool persistent) : Request(Kind::send) {
    if (persistent) make_persistent();
    complete_ = true;
  }
  void cancel() override;

 protected:
  ~BufferedSend() override { forget(); }
  void destroy() override { delete this; }
  /// Of a message that was sent before this.
  void forget();

 private:
  friend class AttachedBuffer;
  void answered(const Request& message);
  AttachedBuffer::Held* held_ = nullptr;  ///< while the message is in its buffer
  Request* left_ = nullptr;               ///< then; owned
};

}  // namespace tern::capi
