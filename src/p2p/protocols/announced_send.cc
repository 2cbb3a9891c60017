#include "p2p/protocols/announced_send.h"

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
  SendRequest* send = token ? sends_.find(peer, token) : nullptr;
  if (!send || !send->rendezvous() || !(send->waits & SendRequest::kData) || send->rendezvous()->body.address != 0)
    return;
  // A message that is too long would change the byte that the receiver watches: it must have read the rts before.
  if (ready.body.watched() && send->data_bytes() > ready.body.capacity) return;
  const bool seen = sees_by_itself(*send, ready.body);
  if (seen) {
    peer.messages.note_crossed(ready, token);
    ++counters_.fins_saved;
  }
  ++counters_.crossed;
  rendezvous_.clear(*send, ready.clear_for(send->data_bytes()), 0, seen);
}

// Whether the receiver sees by its buffer's last byte that the message is put there: no FIN is needed.
bool AnnouncedSender::sees_by_itself(const SendRequest& send, const wire::ReadyBody& body) {
  const size_t bytes = send.data_bytes();
  if (!body.watched() || body.address == 0 || bytes != body.capacity) return false;
  if (!send.arguments.type->is_contiguous() || !send.endpoint.can_put()) return false;
  const auto last = uint8_t(static_cast<const std::byte*>(send.arguments.buffer)[bytes - 1]);
  return last != body.last_byte && send.endpoint.memory->remote_properties().ordered_writes;
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
  const bool seen = sees_by_itself(send, ready.body);
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
