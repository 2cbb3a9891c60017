// Reception: a message that comes from a peer in several frames, between its first and its last. Paths whose frames
// arrive in order put their messages together with it.
//
// Thread rule: under the rank's lock.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

#include "fabric/path.h"

namespace tern {

class Reception {
 public:
  /// Whether a frame may come now: `more` goes on with a message that has begun, others begin one.
  bool fits(bool more, size_t payload_bytes) const {
    return active_ == more && (!active_ || payload_bytes <= bytes_ - received_);
  }
  /// A frame that fits.
  template <typename Frame>
  void deliver(Sink& sink, Lane& from, const Frame& frame) {
    using Type = decltype(Frame::type);
    if (frame.type == Type::whole) return sink.on_message(from, frame.header, frame.payload, frame.payload_bytes);
    if (frame.type == Type::first) begin(sink, from, frame.header, frame.message_bytes);
    take(sink, from, frame.payload, frame.payload_bytes);
  }
  /// The first frame of a message of `bytes`; its payload goes to `take`.
  void begin(Sink& sink, Lane& from, const wire::Header& header, uint64_t bytes) {
    active_ = true;
    header_ = header;
    bytes_ = bytes;
    received_ = 0;
    landing_ = sink.on_header(from, header, bytes);
  }
  /// The payload of the next frame; with the last one the message has landed.
  void take(Sink& sink, Lane& from, const std::byte* payload, size_t bytes) {
    landing_.target.unpack(payload, bytes);
    received_ += bytes;
    if (received_ >= bytes_) end(sink, from, Error());
  }
  /// The lane is lost: a message that has begun ends with the error that `reason` gives.
  template <typename Reason>
  void fail(Sink& sink, Lane& from, Reason&& reason) {
    if (active_) end(sink, from, reason());
  }

 private:
  void end(Sink& sink, Lane& from, Error error) {
    active_ = false;
    sink.on_landed(from, header_, landing_, bytes_, std::move(error));
  }

  bool active_ = false;
  wire::Header header_{};
  Landing landing_;
  uint64_t bytes_ = 0, received_ = 0;
};

}  // namespace tern
