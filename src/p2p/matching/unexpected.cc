#include "p2p/matching/unexpected.h"

#include <vector>

namespace tern {

Unexpected::~Unexpected() {
  std::vector<UnexpectedMessage*> left;
  matching_.for_each_waiting(
      [&](WaitingMessage& waiting) { left.push_back(static_cast<UnexpectedMessage*>(&waiting)); });
  for (UnexpectedMessage* message : left) {
    hide(*message);
    destroy(*message);
  }
}

UnexpectedMessage& Unexpected::keep(Endpoint& from, const wire::Header& header, size_t bytes) {
  UnexpectedMessage& message = create();
  message.context = header.context;
  message.source = header.source;
  message.tag = header.tag;
  message.from = &from;
  message.header = header;
  message.bytes = bytes;
  message.number = from.messages.arrived();
  if (message.kept_bytes() > UnexpectedMessage::kInlineBytes) message.block = room(bytes);
  matching_.add_waiting(message);
  appeared(message.kept_bytes());
  if (counts_.watched != 0) [[unlikely]]
    counts_.tell(Event::message_unexpected, {int32_t(from.peer), header.tag, int64_t(header.context), int64_t(bytes)});
  return message;
}

}  // namespace tern
