#include "p2p/protocols/rendezvous_send.h"

#include <algorithm>
#include <cstring>

#include "p2p/core/who_copies.h"

namespace tern {

void RendezvousSender::begin(SendRequest& send, Protocol protocol, const Ready* ready) {
  Endpoint& peer = send.endpoint;
  const size_t bytes = send.data_bytes();
  RendezvousSend& state = sends_.begin_rendezvous(send, *this);
  if (protocol == Protocol::sender_get) {
    state.exposed.expose(peer, send.arguments.buffer, bytes, {.read = true});
    if (peer.arbitrates()) state.heartbeat.begin(heartbeat_);
    if (!state.exposed.empty() && is_customised(mode_, peer.tuples) && peer.copy_locks()) {
      state.copy_lock = state.exposed.add_copy_lock(peer);
      if (!ready) deferred_.add_unmatched(send, state);
      else if (!ready->body.watched()) deferred_.add(send, state, ready->clear_for(bytes));
    }
  }
  if (!state.exposed.empty()) {
    state.body.address = reinterpret_cast<uint64_t>(send.arguments.buffer);
    state.body.key[0] = state.exposed.key().words[0];
    state.body.key[1] = state.exposed.key().words[1];
  }
  announce(send, state, bytes <= peer.properties().hybrid_bytes ? wire::kWantsReleases : 0);
}

void RendezvousSender::begin(SendRequest& send, LibraryBuffers::Loan buffer) {
  RendezvousSend& state = sends_.begin_rendezvous(send, *this);
  state.buffer = std::move(buffer);
  state.body.address = reinterpret_cast<uint64_t>(state.buffer.memory());
  state.body.key[0] = state.buffer.key().words[0];
  state.body.key[1] = state.buffer.key().words[1];
  announce(send, state, wire::kHybrid);
}

void RendezvousSender::announce(SendRequest& send, RendezvousSend& state, uint8_t flags) {
  TERN_ASSERT(!(send.waits & (SendRequest::kData | SendRequest::kPath)));
  const SendArguments& a = send.arguments;
  state.body.bytes = send.data_bytes();
  sends_.count_fetchable(state);
  if (state.body.address == 0) state.body.key[0] = send.endpoint.messages.newest_offer();
  send.waits |= SendRequest::kData;
  wire::Header header = wire::make_header(wire::Kind::rts, a.source, a.context, a.tag, sends_.name(send), flags);
  header.carried = control_.carry_release(send.endpoint);
  sends_.push(send, header, &state.body, sizeof state.body, rts_left);
}

void RendezvousSender::rts_left(SendOperation& operation, Error error) {
  auto& send = static_cast<SendRequest&>(operation);
  RendezvousSend* state = send.rendezvous();
  if (error || !state || !state->clear_pending || send.error) {  // send.error: the peer was lost meanwhile
    Sends::settle_path(operation, std::move(error));
    return;
  }
  state->clear_pending = false;
  send.waits &= uint8_t(~SendRequest::kPath);
  state->sender.send_data(send);
}

void RendezvousSender::on_cts(SendRequest& send, const wire::Header& header, const std::byte* payload, size_t bytes) {
  if (!send.rendezvous() || (bytes != sizeof(wire::ClearBody) && bytes != wire::kShortClearBytes)) return;
  // Without kData: an announcement has cleared it before.
  if (!(send.waits & SendRequest::kData) || send.rendezvous()->clear_pending) return;
  wire::ClearBody body{};
  std::memcpy(&body, payload, bytes);
  if (header.flags & wire::kEither) {
    deferred_.add(send, *send.rendezvous(), body);
    return;
  }
  clear(send, body, header.context);
}

void RendezvousSender::clear(SendRequest& send, const wire::ClearBody& clear, uint64_t offset_bytes, bool seen) {
  TERN_ASSERT(send.rendezvous() && (send.waits & SendRequest::kData));
  RendezvousSend& state = *send.rendezvous();
  if (state.deferred.owner) deferred_.remove(state.deferred);
  state.clear = clear;
  state.clear_offset_bytes = offset_bytes;
  state.seen = seen;
  if (send.waits & SendRequest::kPath) {
    state.clear_pending = true;  // the path still holds the rts: rts_left goes on
  } else {
    send_data(send);
  }
}

void RendezvousSender::send_data(SendRequest& send) {
  const RendezvousSend& state = *send.rendezvous();
  TERN_ASSERT(!(send.waits & SendRequest::kPath) && !state.deferred.owner);
  const wire::ClearBody to = state.clear;
  const auto offset = size_t(state.clear_offset_bytes);
  Endpoint& peer = send.endpoint;
  send.waits &= uint8_t(~SendRequest::kData);
  const auto bytes = size_t(std::min<uint64_t>(to.bytes, state.body.bytes));
  const bool can_put = to.address != 0 && bytes != 0 && send.arguments.type->is_contiguous() && peer.can_put();
  const CopySituation cleared{.side = CopySide::sender, .can_put = can_put, .stream_faster = send.stream_faster};
  if (who_copies(cleared, [&] { return peer.peer_is_polling(); }) == Mover::put &&
      puts_.begin(send, to, state.seen ? 0 : wire::kLanded, offset))
    return;
  sends_.stream(send, to.receiver_token, bytes, offset);
}

void RendezvousSender::on_fin(SendRequest& send) {
  if (send.waits & SendRequest::kData) sends_.settle(send, SendRequest::kData);
}

}  // namespace tern
