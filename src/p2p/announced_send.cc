#include "p2p/announced_send.h"

#include <cstring>

namespace tern {

void AnnouncedSender::on_ready(Endpoint& peer, const wire::Header& header, const std::byte* payload, size_t bytes) {
  if (bytes != sizeof(wire::ReadyBody) && bytes != wire::kShortReadyBytes) return;
  if (!is_customised(mode_, peer.tuples)) return;
  Ready ready{.context = header.context, .tag = header.tag, .token = header.token};
  std::memcpy(&ready.body, payload, bytes);
  if (bytes == wire::kShortReadyBytes && peer.memory) {
    const RemoteKey& key = peer.memory->remote_properties().usual_key;
    ready.body.key[0] = key.words[0];
    ready.body.key[1] = key.words[1];
  }
  uint32_t token = 0;
  switch (peer.messages.offer(ready, token)) {
    case SentLog::Verdict::held: ++counters_.held; return;
    case SentLog::Verdict::unknown: ++counters_.unknown; return;
    case SentLog::Verdict::useless: ++counters_.useless; break;
  }
  // It has crossed the announcement of its message, which waits for just this: the receiver's cts will come too late.
  // Not if the receiver watches its buffer: it may see that change before it has read the message's announcement.
  if (ready.body.watched()) return;
  SendRequest* send = token ? sends_.find(peer, token) : nullptr;
  if (!send || !send->rendezvous() || !(send->waits & SendRequest::kData) || send->rendezvous()->body.address != 0)
    return;
  rendezvous_.clear(*send, ready.clear_for(send->data_bytes()), 0);
}

void AnnouncedSender::on_withdraw(Endpoint& peer, const wire::Header& header) {
  peer.messages.withdraw(header.context, header.tag);
  control_.post(peer, wire::make_control_header(wire::Kind::withdrawn, header.token));
}

void AnnouncedSender::stream(SendRequest& send) {
  const SendArguments& a = send.arguments;
  wire::Header header = wire::make_header(wire::Kind::direct, a.source, a.context, a.tag, 0);
  if (a.mode == SendMode::synchronous) {
    send.waits |= SendRequest::kMatch;
    header.flags = wire::kWantsAck;
    header.token = sends_.name(send);
  }
  sends_.enqueue(send, header, send.data());
}

void AnnouncedSender::put(SendRequest& send, Ready ready) {
  const SendArguments& a = send.arguments;
  Endpoint& peer = send.endpoint;
  const size_t bytes = send.data_bytes();
  const wire::ReadyBody& body = ready.body;
  const auto last = uint8_t(static_cast<const std::byte*>(a.buffer)[bytes - 1]);
  const bool seen = body.watched() && bytes == body.capacity && last != body.last_byte &&
                    peer.memory->remote_properties().ordered_writes;
  if (seen) {
    peer.messages.note_put(ready);
    ++counters_.fins_saved;
  }
  if (puts_.begin(send, ready.clear_for(bytes), seen ? 0 : wire::kTaken | wire::kLanded)) return;
  // Nothing has been told yet: the receive is still posted for a stream.
  sends_.enqueue(send, wire::make_header(wire::Kind::direct, a.source, a.context, a.tag, 0), send.data());
}

void AnnouncedSender::recount(Endpoint& peer) {
  if (peer.properties().announce_from_bytes == 0) return;
  control_.post(peer, wire::make_control_header(wire::Kind::recount, peer.messages.restart_sent()));
}

}  // namespace tern
