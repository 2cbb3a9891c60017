// The sending half of a connection: operations in order, as few system calls as possible, nothing copied but
// the rest of a small message that the socket took in part.
//
// Order of leaving: the rest of a try_send (`rest_`), then the queue. try_send goes straight to the socket,
// and only when both are empty. Lives with the peer, not with the socket: operations queue up here before a
// connection exists.
//
// Thread rule: under the rank's lock.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/intrusive_list.h"
#include "fabric/path.h"
#include "wire/frame.h"

namespace tern {

using SendList = IntrusiveList<SendOperation>;

class TcpOutbound {
 public:
  enum class Flush : uint8_t { all, blocked, broken };

  /// A whole small message: true when it has left, or the socket took part of it and we keep the rest.
  bool try_send(int fd, const wire::Header& header, const void* payload, size_t bytes);
  /// Takes its place in the queue; nothing is sent yet.
  void enqueue(SendOperation& operation);
  /// Sends what the socket takes; operations that have left altogether go to the end of `finished`. `scratch`
  /// is kScratchBytes of working memory.
  Flush flush(int fd, SendList& finished, std::byte* scratch);
  /// Takes back an operation of which no byte has left.
  bool withdraw(SendOperation& operation);
  /// Empties everything; the operations go to the end of `out`.
  void surrender(SendList& out);
  /// The orderly end: a goodbye behind everything else.
  void say_goodbye();

  bool empty() const { return queue_.empty() && rest_begin_ == rest_.size(); }
  /// What the socket said when it broke; 0: it did not.
  int error() const { return error_; }

  static constexpr size_t kScratchBytes = 64 * 1024;

 private:
  struct Batch;
  void gather(Batch& batch, std::byte* scratch);
  void account(size_t sent, SendList& finished);
  void keep_rest(const wire::FrameHead& head, const void* payload, size_t bytes, size_t sent);

  SendList queue_;
  size_t head_sent_ = 0;         ///< bytes of the front operation's frame head that have left
  std::vector<std::byte> rest_;  ///< keeps its capacity: no allocation once warm
  size_t rest_begin_ = 0;
  int error_ = 0;
};

}  // namespace tern
