#include "p2p/unexpected.h"

namespace tern {

UnexpectedMessage& Unexpected::keep(Endpoint& from, const wire::Header& header, size_t bytes) {
  UnexpectedMessage& message = create();
  message.context = header.context;
  message.source = header.source;
  message.tag = header.tag;
  message.from = &from;
  message.header = header;
  message.bytes = bytes;
  message.number = from.messages.arrived();
  if (message.kept_bytes() > UnexpectedMessage::kInlineBytes)
    message.heap = std::make_unique_for_overwrite<std::byte[]>(bytes);
  matching_.add_waiting(message);
  appeared(message.kept_bytes());
  return message;
}

}  // namespace tern
