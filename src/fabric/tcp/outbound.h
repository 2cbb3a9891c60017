// The sending half of a stream: operations in order, as few system calls as possible, and everything that might have to
// be sent again.
//
// A stream outlives its connections. Its bytes are numbered; the history holds those from `acked_` to `end_`, and
// a new connection goes on from whatever byte the peer has got to (`resume`):
//
//    0 ........ acked_ ............ sent_ ............ end_ | queue
//     forgotten      kept, has left      kept, will leave   | operations not begun
//
// The history is made of segments: small frames are copied to the log (their senders are free at once); of long
// operations only the place in the user's memory is kept, and they are finished when their last bytes are
// acknowledged, or when what is not is so little that it is copied instead. When is decided by polls, after they have
// left: of a stream of operations most are acknowledged by the time that their sender waits for them.
//
// What counts as acknowledged: without checksums, what the peer's kernel has acknowledged (the peer reads its socket
// to the end before it says where to go on, so that is as good as received, and costs no message); with
// checksums, what the peer says in its blocks, for only it knows what was sound. A copy is made after the
// bytes have left: nobody waits for it.
//
// outbound.cc: the way to the socket; outbound_history.cc: the history. Thread rule: under the rank's lock.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>

#include "base/intrusive_list.h"
#include "fabric/ip/stream_port.h"
#include "fabric/path.h"
#include "fabric/tcp/cipher.h"
#include "wire/frame.h"

namespace tern {

using SendList = IntrusiveList<SendOperation>;

class TcpOutbound {
 public:
  enum class Flush : uint8_t { all, blocked, broken };
  /// How a message waits for those that will follow: not at all; in the kernel, which sends it after 200 ms if none
  /// comes; or here, which costs no system call, but somebody has to `flush`.
  enum class Wait : uint8_t { no, in_kernel, here };

  /// What the streams of one path share.
  struct Shared {
    StreamPort& port;                        ///< not owned
    SendList finished{};                     ///< left altogether; `done` is due
    std::unique_ptr<std::byte[]> scratch{};  ///< kScratchBytes of working memory
    bool sealed = false;                     ///< in blocks: with checksums or encrypted
    size_t eager_bytes = 0;  ///< a message so short is copied rather than wait for a peer that does not read
  };

  explicit TcpOutbound(Shared& shared) : shared_(shared) {}

  /// A whole small message: true when it has left, or is in the history and will.
  bool try_send(const wire::Header& header, const void* payload, size_t bytes, Wait wait = Wait::no);
  /// Nothing waits in the kernel any more for what follows.
  void push();
  /// Takes its place in the queue; nothing is sent yet. A kind of 0 in its header: a frame of the type in its flags.
  void enqueue(SendOperation& operation);
  /// Sends what the socket takes. `blocked`: something is left to send, or to be acknowledged. `more`: the end of it
  /// waits in the kernel.
  Flush flush(bool more = false);
  /// What is queued may wait here. False: there is enough for a system call, or what was before is in its way.
  bool hold();
  /// Everything that is still to be handed to the kernel only waits for company.
  bool held() const { return held_; }
  /// Frees the senders of operations: of those that are acknowledged, and of what is little enough to be copied. They
  /// go to the end of Shared::finished.
  void settle();
  /// Takes back an operation of which no byte has left.
  bool withdraw(SendOperation& operation);
  /// Empties everything; the operations go to the end of `out`.
  void surrender(SendList& out);
  /// A frame of the path's own, behind everything begun.
  void say(wire::FrameType type);

  /// A connection begins: the peer has got the first `received` bytes. False: we cannot go on from there. `trusted`:
  /// the peer is known to rely on it, so its kernel's acknowledgements count.
  bool resume(int stream, uint64_t received, bool trusted);
  /// What this connection carries is encrypted. Just after `resume`.
  void encrypt(const TcpKey& key);
  void trust() { trusted_ = true; }
  /// The connection is over.
  void detach();
  bool attached() const { return stream_ >= 0; }
  /// With checksums: the peer has got so many bytes. False: it cannot have.
  bool acknowledge(uint64_t received);
  /// With checksums: what we have got, to be told with the next block.
  void owe_acknowledgement(uint64_t received) { owed_ack_ = received; }
  uint64_t owed() const { return owed_ack_ - told_ack_; }

  /// Nothing is left to be handed to the kernel.
  bool empty() const { return queue_.empty() && sent_ == end_ && cipher_sent_ == cipher_bytes_; }
  /// Operations have left whose memory is not free yet.
  bool waits() const { return references_ != 0; }
  /// Something may still be unacknowledged; asks the kernel.
  bool unsure();
  /// Bytes that have to be acknowledged before the last operation that waits is done; asks the kernel.
  uint64_t awaited();
  /// Bytes of everything that is here and not known to have arrived; asks the kernel.
  uint64_t backlog();
  /// Bytes handed to kernels, and known to have arrived.
  uint64_t sent() const { return sent_; }
  uint64_t acknowledged() const { return acked_; }
  /// What the socket said when it broke; 0: it did not.
  int error() const { return error_; }

  static constexpr size_t kScratchBytes = 64 * 1024;
  /// A message so short is copied before it is sent, by the cheaper call (8 B: 0.1 us less than by sendmsg); of a
  /// longer one only what is not acknowledged later.
  static constexpr size_t kCopyFirst = 4096;

 private:
  struct Segment {
    uint64_t begin = 0, bytes = 0;
    SendOperation* operation = nullptr;  ///< null: a copy
    size_t payload_begin = 0;            ///< operation: position of its cursor at the first payload byte
    wire::FrameHead head{};              ///< operation
    size_t at = 0;                       ///< copy: place in the log
    std::unique_ptr<std::byte[]> own;    ///< copy: or its own memory, of kTailBytes or more
    uint64_t end() const { return begin + bytes; }
  };
  struct Batch;
  static constexpr size_t kHeadBytes = sizeof(wire::FrameHead);
  /// So much is copied without asking whether it has arrived: asking costs as much (0.2 us).
  static constexpr size_t kCopyUnasked = 16 * 1024;
  /// So much may wait here for company: more makes a system call hardly cheaper, and the receiver wait.
  static constexpr size_t kMaxHeldBytes = 32 * 1024;
  static constexpr size_t kMaxLogBytes = 1 << 20;  ///< beyond it small messages wait in the queue

  /// Room at the end of the log; null: it is full (never when forced).
  std::byte* reserve(size_t bytes, bool force = false) {
    if (log_capacity_ - log_end_ >= bytes) [[likely]]
      return log_.get() + log_end_;
    return reserve_slow(bytes, force);
  }
  std::byte* reserve_slow(size_t bytes, bool force);
  void commit(size_t bytes);
  bool send_large(const wire::Header& header, const void* payload, size_t bytes, bool more);
  bool pull();
  void gather(Batch& batch, size_t limit);
  bool add_payload(Batch& batch, Segment& segment, size_t offset, size_t limit);
  std::byte* copy_out(Segment& segment, uint64_t from, std::byte* to);
  Flush flush_plain(bool more);
  Flush flush_blocks() { return cipher_.on() ? flush_encrypted() : flush_sealed(); }
  Flush flush_sealed();
  Flush flush_encrypted();
  void ask_kernel();
  void forget(uint64_t received);
  bool is_eager(const SendOperation& operation) const;
  bool free_by_copy(size_t at);

  Shared& shared_;
  SendList queue_;
  uint64_t queued_bytes_ = 0;     ///< frames of queue_
  std::deque<Segment> segments_;  ///< [acked_ or before, end_) without gaps
  uint64_t acked_ = 0, sent_ = 0, end_ = 0;
  uint64_t most_sent_ = 0;  ///< sent_ before the last rewind
  uint64_t began_ = 0;      ///< sent_ when this connection began
  uint64_t owed_ack_ = 0, told_ack_ = 0;
  int stream_ = -1;  ///< of the connection; -1: there is none
  int error_ = 0;
  bool held_ = false;  ///< [sent_, end_), all of it in the log, and the queue wait for company
  bool trusted_ = false;
  size_t references_ = 0;               ///< segments that are operations
  size_t owned_bytes_ = 0;              ///< of segments with memory of their own
  uint64_t looked_at_ = 0;              ///< acked_ when it was looked at last
  int empty_looks_ = 0;                 ///< so often in a row it was the same
  std::unique_ptr<std::byte[]> spare_;  ///< such memory, kTailBytes of it, for the next
  std::unique_ptr<std::byte[]> log_;
  size_t log_capacity_ = 0, log_begin_ = 0, log_end_ = 0;
  // The block being sent (sealed).
  wire::BlockHead block_head_{};
  size_t block_head_sent_ = sizeof(wire::BlockHead);
  uint64_t block_end_ = 0;
  // The same encrypted. Its bytes count as sent when they are in here.
  TcpCipher cipher_;
  std::unique_ptr<std::byte[]> cipher_block_;  ///< head, bytes, tag
  size_t cipher_sent_ = 0, cipher_bytes_ = 0;
};

}  // namespace tern
