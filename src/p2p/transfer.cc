// Puts and gets. Where they are copies by a CPU (no autonomous path) they go piece by piece: if the peer comes to its
// library meanwhile, the rest is streamed, which both copy at the same time. Where either may copy (deferred.cc) the
// peer is likely to come soon: pieces begin short and double, so that it waits for no longer than this rank has worked
// alone.
//
//   getter                        owner                    putter                        owner
//     get piece, piece ...          computes                 put piece, piece ...          computes
//                                   is back                                                is back
//     cts(offset) -------------->                            filled(taken), if not told
//     <------------------------- data, from there on         data, from there on ------->
#include <algorithm>

#include "p2p/impl.h"

namespace tern {

// `either`: of a message that either side may copy.
size_t PointToPoint::Impl::first_piece(const Endpoint& peer, bool either) const {
  if (mode != RendezvousMode::customised || !peer.arbiter) return 0;
  const CopyArbiterProperties& properties = peer.arbiter->arbiter_properties();
  return either && properties.first_piece_bytes != 0 ? properties.first_piece_bytes : properties.piece_bytes;
}

// How much of `left` is moved now.
size_t PointToPoint::Impl::next_piece(const Endpoint& peer, size_t& piece, size_t left) {
  if (piece == 0 || piece >= left) return left;
  const size_t now = piece;
  piece = std::min(2 * piece, peer.arbiter->arbiter_properties().piece_bytes);
  return now;
}

// --- Get

// Fetches the data of a matched receive.
void PointToPoint::Impl::fetch(ReceiveRequest& receive, const wire::RendezvousBody& body) {
  Fetch& operation = *fetches.create();
  operation.receive = &receive;
  operation.address = body.address;
  operation.key = RemoteKey{{body.key[0], body.key[1]}};
  constexpr uint8_t kWhich = ReceiveRequest::kAnnounced | ReceiveRequest::kFromLibrary;
  operation.piece = first_piece(*receive.sender, (receive.marks & kWhich) == ReceiveRequest::kAnnounced);
  operation.done = [](TransferOperation& op, Error e) {
    auto& self = static_cast<Fetch&>(op);
    self.error = std::move(e);
    self.finished = true;
    Impl& impl = self.receive->impl;
    if (!self.in_call && impl.piece_done(self)) impl.run(self);
  };
  run(operation);
}

void PointToPoint::Impl::run(Fetch& operation) {
  Endpoint& peer = *operation.receive->sender;
  do {
    const size_t left = size_t(operation.receive->status.bytes) - operation.offset;
    operation.bytes = next_piece(peer, operation.piece, left);
    operation.local = operation.receive->target();
    operation.local.skip(operation.offset);
    operation.local.truncate(operation.bytes);
    operation.remote_address = operation.address + operation.offset;
    operation.finished = false;
    operation.in_call = true;
    operation.lane = &peer.lane();  // each time: where several paths lead to the peer, the last piece had another
    peer.memory->get(operation);
    operation.in_call = false;
  } while (operation.finished && piece_done(operation));
}

// True: there is a next piece to get. False: the operation is no more.
bool PointToPoint::Impl::piece_done(Fetch& operation) {
  ReceiveRequest& receive = *operation.receive;
  Endpoint& peer = *receive.sender;
  const size_t bytes = size_t(receive.status.bytes);
  if (!operation.error) operation.offset += operation.bytes;
  if (!operation.error && operation.offset < bytes && !peer.lost() && !peer.peer_has_polled()) return true;
  const size_t offset = operation.offset;
  Error error = std::move(operation.error);
  fetches.destroy(&operation);
  if (offset == bytes) {
    fetched(receive);
  } else if (!peer.lost()) {
    clear_to_send(receive, offset);
  } else {
    receive.error = error ? std::move(error) : endpoints.loss_of(peer.peer);
    complete(receive);
  }
  return false;
}

// --- Put

// Puts the send's data to where `to` says, and tells the receiver as `tell` says, at once or when it is done. `quiet`:
// tells nothing. False: the put has failed at once, nothing was told.
bool PointToPoint::Impl::put(SendRequest& send, const wire::ClearBody& to, size_t total, uint8_t flags, bool quiet) {
  Put& operation = *puts.create();
  operation.send = &send;
  operation.to = to;
  operation.total = total;
  operation.wanted = size_t(std::min<uint64_t>(to.bytes, total));
  operation.offset = size_t(std::min<uint64_t>(send.clear_offset, operation.wanted));
  operation.key = RemoteKey{{to.key[0], to.key[1]}};
  operation.piece = first_piece(send.endpoint, !send.exposed.empty());
  operation.tell = quiet ? 0 : flags;
  operation.wakes = quiet;
  operation.done = [](TransferOperation& op, Error e) {
    auto& self = static_cast<Put&>(op);
    self.error = std::move(e);
    self.finished = true;
    Impl& impl = self.send->impl;
    if (!self.in_call && impl.piece_done(self)) static_cast<void>(impl.run(self));
  };
  send.waits |= SendRequest::kPut;
  return run(operation);
}

// False: the first piece has failed at once, and nothing was told; the operation is no more.
bool PointToPoint::Impl::run(Put& operation) {
  SendRequest& send = *operation.send;
  const SendArguments& a = send.arguments;
  Endpoint& peer = send.endpoint;
  do {
    operation.bytes = next_piece(peer, operation.piece, operation.wanted - operation.offset);
    operation.local =
        Cursor::bytes(static_cast<std::byte*>(const_cast<void*>(a.buffer)) + operation.offset, operation.bytes);
    operation.remote_address = operation.to.address + operation.offset;
    operation.finished = false;
    operation.in_call = true;
    operation.lane = &peer.lane();
    peer.memory->put(operation);
    operation.in_call = false;
    if (!operation.finished) {
      operation.begun = true;
      // What stands in the order of messages is told now; that the data has landed, if that can only be seen after it.
      const bool last = operation.offset + operation.bytes == operation.wanted;
      tell(operation, last && peer.memory->remote_properties().puts_before_messages
                          ? operation.tell
                          : uint8_t(operation.tell & wire::kTaken));
      return true;
    }
    if (operation.error && !operation.begun) {
      send.waits &= uint8_t(~SendRequest::kPut);
      puts.destroy(&operation);
      return false;
    }
    operation.begun = true;
  } while (piece_done(operation));
  return true;
}

void PointToPoint::Impl::tell(Put& operation, uint8_t flags) {
  if (flags == 0) return;
  operation.tell &= uint8_t(~flags);
  wire::FilledBody body{operation.total};
  // The part that takes the receive is counted as the message, by its context and tag.
  const SendArguments& a = operation.send->arguments;
  control(operation.send->endpoint,
          wire::make_header(wire::Kind::filled, 0, a.context, a.tag, operation.to.receiver_token, flags), &body,
          sizeof body);
}

// True: there is a next piece to put. False: the operation is no more.
bool PointToPoint::Impl::piece_done(Put& operation) {
  SendRequest& send = *operation.send;
  Endpoint& peer = send.endpoint;
  if (operation.error && (peer.lost() || peer.memory->remote_properties().puts_before_messages || send.error)) {
    if (!send.error) send.error = std::move(operation.error);
    puts.destroy(&operation);
    settle(send, SendRequest::kPut);
    return false;
  }
  if (!operation.error) operation.offset += operation.bytes;
  if (operation.offset == operation.wanted && !operation.error) {
    if (!peer.lost()) tell(operation, operation.tell);
    puts.destroy(&operation);
    settle(send, SendRequest::kPut);
    return false;
  }
  if (!operation.error && !peer.lost() && !peer.peer_has_polled()) return true;
  if (peer.lost()) {
    if (!send.error) send.error = endpoints.loss_of(peer.peer);
    puts.destroy(&operation);
    settle(send, SendRequest::kPut);
    return false;
  }
  // The receive is taken and waits for its data, or for the rest of it.
  tell(operation, operation.tell & wire::kTaken);
  const uint32_t token = operation.to.receiver_token;
  const size_t end = operation.wanted, offset = operation.offset;
  puts.destroy(&operation);
  send.waits &= uint8_t(~SendRequest::kPut);
  stream_rest(send, token, end, offset);
  return false;
}

}  // namespace tern
