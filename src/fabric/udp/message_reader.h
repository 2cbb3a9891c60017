// Turns the bytes of a stream, in order and in pieces of any length, into messages for the sink (frames: wire/frame.h).
// A message that is complete in its piece is delivered from there; the payload of a longer one is unpacked into the
// sink's target. Protocols' own short bodies are gathered first (Sink::on_header). Thread rule: under the rank's lock,
// from Path::poll only (it calls the sink).
#pragma once

#include <cstddef>
#include <cstdint>

#include "fabric/path.h"
#include "wire/frame.h"

namespace tern {

class MessageReader {
 public:
  MessageReader(Lane& lane, Sink& sink) : lane_(lane), sink_(sink) {}

  /// False: this is no stream of messages. Adds the messages delivered to `handled`.
  bool feed(const std::byte* data, size_t bytes, int& handled);
  /// The stream ends here: what was landing fails.
  void abandon(const Error& error);

 private:
  bool begin(const wire::FrameHead& head, const std::byte* payload, size_t there, size_t& used, int& handled);
  size_t gather(const std::byte* data, size_t bytes);
  void land(const std::byte* data, size_t bytes, int& handled);

  Lane& lane_;
  Sink& sink_;
  wire::FrameHead head_{};
  Landing landing_;
  bool landing_now_ = false;
  uint64_t left_ = 0;  ///< of the payload, when landing
  std::byte gathered_[sizeof(wire::FrameHead) + kAlwaysWholeBytes];
  size_t gathered_bytes_ = 0;
};

}  // namespace tern
