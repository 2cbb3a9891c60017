#include "fabric/udp/message_reader.h"

#include <algorithm>
#include <cstring>

namespace tern {

bool MessageReader::feed(const std::byte* data, size_t bytes, int& handled) {
  while (bytes != 0) {
    if (landing_now_) {
      const size_t now = size_t(std::min<uint64_t>(left_, bytes));
      land(data, now, handled);
      data += now;
      bytes -= now;
      continue;
    }
    wire::FrameHead head;
    const bool gathering = gathered_bytes_ != 0 || bytes < sizeof head;
    if (gathering) {
      const size_t taken = gather(data, bytes);
      data += taken;
      bytes -= taken;
    }
    switch (gathering ? wire::parse_frame(gathered_, gathered_bytes_, head) : wire::parse_frame(data, bytes, head)) {
      case wire::FrameResult::more: continue;
      case wire::FrameResult::wrong: return false;
      case wire::FrameResult::head: break;
    }
    if (head.type != wire::FrameType::message) return false;
    size_t used = 0;
    if (!gathering) {
      data += sizeof head;
      bytes -= sizeof head;
      if (!begin(head, data, bytes, used, handled)) continue;
      data += used;
      bytes -= used;
    } else if (begin(head, gathered_ + sizeof head, gathered_bytes_ - sizeof head, used, handled)) {
      gathered_bytes_ = 0;
    }
  }
  return true;
}

// Fills gathered_ up to the end of the head, then with a payload so short that it must be delivered whole.
size_t MessageReader::gather(const std::byte* data, size_t bytes) {
  size_t wanted = sizeof(wire::FrameHead);
  if (gathered_bytes_ >= wanted) {
    wire::FrameHead head;
    std::memcpy(&head, gathered_, sizeof head);
    wanted += size_t(std::min<uint64_t>(head.length(), kAlwaysWholeBytes));
  }
  const size_t now = std::min(wanted - gathered_bytes_, bytes);
  std::memcpy(gathered_ + gathered_bytes_, data, now);
  gathered_bytes_ += now;
  return now;
}

// A head has arrived, and `there` bytes behind it, of which `used` are taken. False: the payload has to be gathered
// first.
bool MessageReader::begin(const wire::FrameHead& head, const std::byte* payload, size_t there, size_t& used,
                          int& handled) {
  const uint64_t length = head.length();
  if (length <= there) {
    used = size_t(length);
    ++handled;
    sink_.on_message(lane_, head.header, payload, used);
    return true;
  }
  if (length <= kAlwaysWholeBytes) {
    if (gathered_bytes_ == 0) {
      std::memcpy(gathered_, &head, sizeof head);
      gathered_bytes_ = sizeof head;
    }
    return false;
  }
  head_ = head;
  left_ = length;
  landing_ = sink_.on_header(lane_, head.header, size_t(length));
  landing_now_ = true;
  used = there;
  if (there != 0) land(payload, there, handled);
  return true;
}

void MessageReader::land(const std::byte* data, size_t bytes, int& handled) {
  landing_.target.unpack(data, bytes);  // bytes beyond the target's room are dropped
  left_ -= bytes;
  if (left_ != 0) return;
  landing_now_ = false;
  ++handled;
  sink_.on_landed(lane_, head_.header, landing_, size_t(head_.length()), {});
}

void MessageReader::abandon(const Error& error) {
  gathered_bytes_ = 0;
  if (!landing_now_) return;
  landing_now_ = false;
  sink_.on_landed(lane_, head_.header, landing_, size_t(head_.length()),
                  Error(error.error_class(), std::string(error.text())));
}

}  // namespace tern
