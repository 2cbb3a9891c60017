// The frames that a message leaves in (wire/message_head.h): a whole one, or a first one and more.
// Thread rule: pure function.
#pragma once

#include <algorithm>

#include "fabric/path.h"

namespace tern {

/// The next frame of that message, without its payload; `frame_bytes`: longest frame. `Frame`: as wire::MessageFrame,
/// with a type; `head_bytes(type)`: of a frame's head.
template <typename Frame, typename HeadBytes>
Frame next_frame(const SendOperation& operation, size_t frame_bytes, HeadBytes&& head_bytes) {
  using Type = decltype(Frame::type);
  const size_t left = operation.payload.remaining();
  Frame frame;
  frame.type = Type::more;
  if (!operation.header_sent) frame.type = head_bytes(Type::whole) + left <= frame_bytes ? Type::whole : Type::first;
  frame.header = operation.header;
  frame.message_bytes = operation.total_bytes;
  frame.payload_bytes = std::min(left, frame_bytes - head_bytes(frame.type));
  return frame;
}

}  // namespace tern
