// The sending half of a stream: sends operations in order with as few system calls as possible, and keeps everything
// that might have to be sent again.
//
// A stream outlives its connections. Its bytes are numbered; the history holds those from `acked_` to `end_`, and
// a new connection continues at the byte that the peer has received (`resume`):
//
//    0 ........ acked_ ............ sent_ ............ end_ | queue
//     forgotten      kept, has left      kept, will leave   | operations not begun
//
// Sends of small frames complete at once. Long operations complete when their last bytes are acknowledged, or when what
// is not acknowledged is so little that it is copied instead. Polls decide that after they have left: of a stream of
// operations most are acknowledged when their sender waits for them.
//
// What counts as acknowledged: without checksums, what the peer's kernel has acknowledged (the peer reads its socket
// to the end before it states where to continue, so that is as good as received, and costs no message); with
// checksums, what the peer states in its blocks, since only it knows which were valid. A copy is made after the
// bytes have left, so it delays no message.
//
// The history: outbound_history.h. Thread rule: under the rank's lock.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "fabric/ip/stream_port.h"
#include "fabric/path.h"
#include "fabric/tcp/cipher.h"
#include "fabric/tcp/outbound_history.h"
#include "wire/frame.h"

namespace tern {

class TcpOutbound {
 public:
  enum class Flush : uint8_t { all, blocked, broken };
  /// How a message waits for those that will follow: not at all; in the kernel, which sends it after 200 ms if none
  /// comes; or here, which costs no system call but needs a `flush`.
  enum class Wait : uint8_t { no, in_kernel, here };

  /// What the streams of one path share.
  struct Shared {
    StreamPort& port;                        ///< not owned
    SendList finished{};                     ///< left completely; `done` is due
    std::unique_ptr<std::byte[]> scratch{};  ///< kScratchBytes of working memory
    bool sealed = false;                     ///< in blocks: with checksums or encrypted
    size_t eager_bytes = 0;  ///< messages up to this size are copied, so they do not wait for a peer that does not read
  };

  explicit TcpOutbound(Shared& shared) : shared_(shared), history_(shared.finished) {}

  /// A whole small message: true when it has left, or is in the history and will.
  bool try_send(const wire::Header& header, const void* payload, size_t bytes, Wait wait = Wait::no);
  /// Sends what waits in the kernel for more.
  void push();
  /// Appends it to the queue; nothing is sent yet. Kind 0 in its header: a frame of the type in its flags.
  void enqueue(SendOperation& operation);
  /// Sends what the socket takes. `blocked`: something is left to send, or to be acknowledged. `more`: its end waits in
  /// the kernel.
  Flush flush(bool more = false);
  /// Queued messages may wait here. False: there is enough for a system call, or earlier data must leave first.
  bool hold();
  /// Everything not yet handed to the kernel is only held back to leave with later messages.
  bool held() const { return held_; }
  /// Completes operations: those that are acknowledged, and those of which little enough is left to be copied. They go
  /// to the end of Shared::finished.
  void settle();
  /// Takes back an operation of which no byte has left.
  bool withdraw(SendOperation& operation);
  /// Empties everything; the operations go to the end of `out`.
  void surrender(SendList& out);
  /// A frame of the path's own, behind everything begun.
  void say(wire::FrameType type);

  /// A connection begins: the peer has received the first `received` bytes. False: the stream cannot continue there.
  /// `trusted`: the peer is known to use the connection, so its kernel's acknowledgements count.
  bool resume(int handle, uint64_t received, bool trusted);
  /// This connection is encrypted. Called just after `resume`.
  void encrypt(const TcpKey& key);
  void trust() { trusted_ = true; }
  /// The connection is over.
  void detach();
  bool attached() const { return stream_ >= 0; }
  /// With checksums: the peer has received so many bytes. False: that cannot be.
  bool acknowledge(uint64_t received);
  /// With checksums: how much this rank has received, stated in the next block.
  void owe_acknowledgement(uint64_t received) { owed_ack_ = received; }
  uint64_t owed() const { return owed_ack_ - told_ack_; }

  /// Everything was handed to the kernel.
  bool empty() const { return queue_.empty() && sent_ == history_.end() && cipher_sent_ == cipher_bytes_; }
  /// Operations have left that are not complete yet.
  bool waits() const { return history_.has_operations(); }
  /// Something is left to send, or an operation to complete.
  bool pending() const { return !empty() || waits(); }
  /// Something may still be unacknowledged; asks the kernel.
  bool unsure();
  /// Bytes to be acknowledged before the last waiting operation is complete; asks the kernel.
  uint64_t awaited();
  /// Bytes here that are not known to have arrived; asks the kernel.
  uint64_t backlog();
  /// Bytes handed to kernels, and known to have arrived.
  uint64_t sent() const { return sent_; }
  uint64_t acknowledged() const { return history_.acknowledged(); }
  /// The socket's error when it broke; 0: none.
  int error() const { return error_; }

  static constexpr size_t kScratchBytes = tcp::OutboundHistory::kScratchBytes;
  /// A message up to this size is copied before it is sent, by the cheaper call (8 B: 0.1 us less than by sendmsg; 4
  /// KiB take 0.1 us to copy). Of a longer one only the unacknowledged rest is copied later.
  static constexpr size_t kCopyFirst = 4096;

 private:
  using Batch = tcp::Batch;
  static constexpr size_t kHeadBytes = tcp::OutboundHistory::kHeadBytes;
  static constexpr size_t kTailBytes = tcp::OutboundHistory::kTailBytes;
  static constexpr size_t kMaxLogBytes = tcp::OutboundHistory::kMaxLogBytes;
  /// So much is copied without asking whether it has arrived: asking costs as much (0.2 us).
  static constexpr size_t kCopyUnasked = 16 * 1024;
  /// So much may be held back here: with more a system call gets hardly cheaper per message, and the receiver waits.
  static constexpr size_t kMaxHeldBytes = 32 * 1024;
  /// The number of looks in a row without progress (0.2 us or more each) after which more than kTailBytes are copied: a
  /// peer that reads acknowledges them before.
  static constexpr int kMaxEmptyLooks = 16;

  /// Room at the end of the log; null: it is full (never when forced).
  std::byte* reserve(size_t bytes, bool force = false) {
    if (history_.log_room() >= bytes) [[likely]]
      return history_.log_place();
    return reserve_slow(bytes, force);
  }
  std::byte* reserve_slow(size_t bytes, bool force);
  bool send_large(const wire::Header& header, const void* payload, size_t bytes, bool more);
  bool pull();
  void gather(Batch& batch, size_t limit);
  Flush flush_plain(bool more);
  Flush flush_blocks() { return cipher_.on() ? flush_encrypted() : flush_sealed(); }
  Flush flush_sealed();
  Flush flush_encrypted();
  void ask_kernel();

  Shared& shared_;
  SendList queue_;
  uint64_t queued_bytes_ = 0;  ///< frames of queue_
  tcp::OutboundHistory history_;
  uint64_t sent_ = 0;
  uint64_t most_sent_ = 0;  ///< sent_ before the last rewind
  uint64_t began_ = 0;      ///< sent_ when this connection began
  uint64_t owed_ack_ = 0, told_ack_ = 0;
  int stream_ = -1;  ///< of the connection; -1: there is none
  int error_ = 0;
  bool held_ = false;  ///< what is not sent, all of it in the log, and the queue are held back
  bool trusted_ = false;
  uint64_t looked_at_ = 0;  ///< acknowledged() at the last look
  int empty_looks_ = 0;     ///< how often in a row it had not changed
  // The block being sent (sealed).
  wire::BlockHead block_head_{};
  size_t block_head_sent_ = sizeof(wire::BlockHead);
  uint64_t block_end_ = 0;
  // The encrypted block. Its bytes count as sent when they are in here.
  TcpCipher cipher_;
  std::unique_ptr<std::byte[]> cipher_block_;  ///< head, bytes, tag
  size_t cipher_sent_ = 0, cipher_bytes_ = 0;
};

}  // namespace tern
