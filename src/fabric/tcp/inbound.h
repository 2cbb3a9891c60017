// The receiving half of a stream: bytes into frames, frames to the sink.
//
// One recv fetches many small messages into the buffer, from which they are delivered whole. A message longer
// than what has arrived is announced (Sink::on_header), and the rest of it is read directly into the sink's
// target. A stream outlives its connections: a half-read frame is continued from the next one (`drain`, `begin`).
//
// With checksums, blocks (wire/frame.h) are read whole and checked before a byte of them is used.
//
// A striped message comes over several streams of the same peer, its table over the first: see TcpAssembly. A
// stream that is ahead of the others waits.
//
// Thread rule: under the rank's lock, from Path::poll only (it calls the sink).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "fabric/ip/stream_port.h"
#include "fabric/path.h"
#include "fabric/tcp/cipher.h"
#include "wire/frame.h"

namespace tern {

/// The striped message that a peer's streams are receiving; one at a time. The table names it and opens it; every
/// stream receives its part; the last one to finish closes it, and only then does the first stream go on.
struct TcpAssembly {
  bool open = false;
  wire::StripeTable table{};
  uint64_t total = 0, missing = 0;
  Landing landing;
  size_t landing_begin = 0;  ///< position of landing.target at its first byte
};

class TcpInbound {
 public:
  enum class State : uint8_t {
    idle,     ///< nothing more now
    more,     ///< there may be more: this stream's turn is over
    waits,    ///< for the peer's other streams
    ended,    ///< the peer has closed
    broken,   ///< the socket has failed: `error`
    unsound,  ///< a checksum is wrong: bytes after `received` are not used
    wrong,    ///< what arrived is not a stream of frames
  };

  /// What the streams of one peer share. `scratch`: `scratch_bytes` of working memory. The port is not owned.
  struct Shared {
    StreamPort& port;
    Lane& peer;  ///< the lane that the sink is told
    Sink& sink;
    std::byte* scratch;
    size_t scratch_bytes;
    bool sealed = false;
    TcpAssembly assembly;
  };

  /// `stream`: which of the peer's streams this is.
  explicit TcpInbound(Shared& shared, size_t stream = 0);
  /// Reads from the port's `stream` and delivers; adds the number of messages delivered to `handled`.
  State receive(int handle, int& handled);
  /// Whether a stream in state `waits` can go on.
  bool can_go_on() const { return waiting_ && (index_ == 0 ? !shared_.assembly.open : announced()); }
  bool waiting() const { return waiting_; }
  /// Bytes that must still be read from the socket in any case; 0: none is certain.
  uint64_t certain_to_come() const {
    return landing_now_ && !waiting_ && !shared_.sealed && ready_bytes_ == 0 ? left_ : 0;
  }
  /// The connection is over: reads everything that its socket still holds.
  void drain(int handle);
  /// A new connection begins.
  void begin();
  /// The new connection is encrypted.
  void decrypt(const TcpKey& key) { cipher_.begin(key); }
  /// The peer is lost: an incomplete message is returned to the sink with `error`.
  void abandon(const Error& error);

  /// Bytes of the stream that need not be sent again.
  uint64_t received() const { return received_; }
  /// With checksums: how much of the other direction the peer has confirmed.
  uint64_t acknowledged() const { return acknowledged_; }
  bool departed() const { return departed_; }
  /// The peer uses this connection: bytes of the stream have come over it. (A parsed frame `settled` is not enough: it
  /// may come from an earlier connection, drained or sent again.) Without checksums.
  bool settled() const { return received_ != began_; }
  int error() const { return error_; }

  /// The payload of a message has arrived in part.
  bool incomplete() const { return landing_now_; }

 private:
  State deliver_buffered(int& handled);
  State read_landing(int handle, int& handled);
  State read_block(int handle);
  State after(ssize_t n);
  State on_stripe(const std::byte* payload);
  bool announced() const;
  bool begin_part(const wire::FrameHead& head);
  void land(int& handled);
  ssize_t take(int handle, std::byte* to, size_t bytes);
  ssize_t take_away(int handle, size_t bytes);
  void keep_ready();

  Shared& shared_;
  const size_t index_;
  std::unique_ptr<std::byte[]> buffer_;
  size_t begin_ = 0, end_ = 0;  ///< what is in the buffer and not yet delivered
  bool landing_now_ = false;    ///< a payload is arriving at landing_; the buffer is empty
  bool waiting_ = false;
  bool departed_ = false;  ///< the peer has said goodbye
  int error_ = 0;
  uint64_t left_ = 0;  ///< bytes of that payload that have not arrived
  wire::FrameHead head_{};
  Landing landing_;
  uint64_t received_ = 0, acknowledged_ = 0;
  uint64_t began_ = 0;  ///< received_ when this connection began
  /// Bytes read from the socket and not yet in the buffer: of a checked block, or drained.
  const std::byte* ready_ = nullptr;
  size_t ready_bytes_ = 0;
  std::vector<std::byte> drained_;
  TcpCipher cipher_;
  std::vector<std::byte> raw_;  ///< blocks as they arrive; empty if the stream has none
  size_t raw_begin_ = 0, raw_end_ = 0;
};

}  // namespace tern
