// The receiving half of a connection: bytes into frames, frames to the sink.
//
// One recv fetches many small messages into the buffer, from which they are delivered whole. A message longer
// than what has arrived is announced (Sink::on_header), and the rest of it is read straight to where the sink
// says.
//
// Thread rule: under the rank's lock, from Path::poll only (it calls the sink).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "fabric/path.h"
#include "wire/frame.h"

namespace tern {

class TcpInbound {
 public:
  enum class State : uint8_t {
    idle,    ///< nothing more now
    more,    ///< there may be more: the turn is over, so that others get theirs
    ended,   ///< the peer has closed
    broken,  ///< the socket has failed: `error`
    wrong,   ///< what arrived is not a stream of frames
  };

  TcpInbound();
  /// Reads and delivers; adds the number of messages delivered to `handled`. `scratch` as in
  /// TcpOutbound::flush.
  State receive(int fd, PeerId peer, Sink& sink, std::byte* scratch, size_t scratch_bytes, int& handled);
  /// The connection is gone: a message in the middle of its arrival is given back to the sink with `error`.
  void abandon(PeerId peer, Sink& sink, Error error);

  bool departed() const { return departed_; }
  int error() const { return error_; }

 private:
  State deliver_buffered(PeerId peer, Sink& sink, int& handled);
  State read_landing(int fd, PeerId peer, Sink& sink, std::byte* scratch, size_t scratch_bytes, int& handled);
  State after(ssize_t n);

  std::unique_ptr<std::byte[]> buffer_;
  size_t begin_ = 0, end_ = 0;  ///< what is in the buffer and not yet delivered
  bool landing_now_ = false;    ///< a payload is on its way to landing_; the buffer is empty
  bool departed_ = false;       ///< the peer has said goodbye
  int error_ = 0;
  uint64_t left_ = 0;  ///< bytes of that payload that have not arrived
  wire::FrameHead head_{};
  Landing landing_;
};

}  // namespace tern
