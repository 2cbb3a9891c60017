#include "p2p/core/transfers.h"

#include <algorithm>

#include "base/assert.h"
#include "p2p/core/who_copies.h"

namespace tern {

Pieces::Pieces(const Endpoint& peer, bool stream_faster, bool either) {
  // Nothing would be streamed: each piece costs a system call for nothing.
  if (!stream_faster) return;
  const CopyArbiterProperties& properties = peer.arbiter->arbiter_properties();
  most_bytes_ = properties.piece_bytes;
  now_bytes_ = either && properties.first_piece_bytes != 0 ? properties.first_piece_bytes : most_bytes_;
}

size_t Pieces::next(size_t left) {
  if (now_bytes_ == 0 || now_bytes_ >= left) return left;
  const size_t now = now_bytes_;
  now_bytes_ = std::min(2 * now_bytes_, most_bytes_);
  return now;
}

// --- Get

void Gets::begin(ReceiveRequest& receive, const ReceivedRts& rts, bool stream_faster) {
  TERN_ASSERT(receive.sender && receive.sender->memory && rts.body.address != 0);
  Get& get = *gets_.create();
  get.owner = this;
  get.receive = &receive;
  get.rts = rts;
  get.key = RemoteKey{{rts.body.key[0], rts.body.key[1]}};
  get.stream_faster = stream_faster;
  get.pieces = Pieces(*receive.sender, stream_faster, receive.announced() && !rts.from_library());
  get.done = [](TransferOperation& operation, Error e) {
    auto& self = static_cast<Get&>(operation);
    self.error = std::move(e);
    self.finished = true;
    Gets& gets = *self.owner;
    if (!self.in_call && gets.piece_done(self)) gets.run(self);
  };
  run(get);
}

void Gets::run(Get& get) {
  Endpoint& peer = *get.receive->sender;
  do {
    const size_t left = size_t(get.receive->status.bytes) - get.offset;
    get.bytes = get.pieces.next(left);
    get.of_bytes = size_t(get.receive->status.bytes);
    get.local = get.receive->target();
    get.local.skip(get.offset);
    get.local.truncate(get.bytes);
    get.remote_address = get.rts.body.address + get.offset;
    get.finished = false;
    get.in_call = true;
    get.lane = &peer.lane();  // each time: where several paths lead to the peer, the last piece had another
    peer.memory->get(get);
    get.in_call = false;
  } while (get.finished && piece_done(get));
}

// True: there is a next piece to get. False: the operation is no more.
bool Gets::piece_done(Get& get) {
  ReceiveRequest& receive = *get.receive;
  Endpoint& peer = *receive.sender;
  const size_t bytes = size_t(receive.status.bytes);
  if (!get.error) get.offset += get.bytes;
  TERN_ASSERT(get.offset <= bytes);
  if (!get.error && get.offset < bytes && !peer.lost()) {
    const CopySituation rest{.side = CopySide::receiver, .can_get = true, .stream_faster = get.stream_faster};
    if (who_copies(rest, [&] { return peer.peer_has_polled(); }) == Mover::get) return true;
  }
  const size_t offset = get.offset;
  const ReceivedRts rts = get.rts;
  Error error = std::move(get.error);
  gets_.destroy(&get);
  if (offset == bytes) {
    client_.fetched(receive, rts);
  } else if (!peer.lost()) {
    client_.interrupted(receive, rts, offset);
  } else {
    receives_.fail(receive, error ? std::move(error) : endpoints_.loss_of(peer.peer));
  }
  return false;
}

// --- Put

bool Puts::begin(SendRequest& send, const wire::ClearBody& to, uint8_t flags, size_t offset) {
  TERN_ASSERT(send.endpoint.memory && to.address != 0 && !(send.waits & SendRequest::kPut));
  const RendezvousSend* rendezvous = send.rendezvous();
  Put& put = *puts_.create();
  put.owner = this;
  put.send = &send;
  put.to = to;
  put.total = send.data_bytes();
  put.wanted = size_t(std::min<uint64_t>(to.bytes, put.total));
  put.offset = std::min(offset, put.wanted);
  put.key = RemoteKey{{to.key[0], to.key[1]}};
  put.pieces = Pieces(send.endpoint, send.stream_faster, rendezvous && !rendezvous->exposed.empty());
  put.tell = flags;
  put.wakes = flags == 0;
  put.done = [](TransferOperation& operation, Error e) {
    auto& self = static_cast<Put&>(operation);
    self.error = std::move(e);
    self.finished = true;
    Puts& puts = *self.owner;
    if (!self.in_call && puts.piece_done(self)) static_cast<void>(puts.run(self));
  };
  send.waits |= SendRequest::kPut;
  return run(put);
}

// False: the first piece has failed at once, and nothing was told; the operation is no more.
bool Puts::run(Put& put) {
  SendRequest& send = *put.send;
  Endpoint& peer = send.endpoint;
  auto* data = static_cast<std::byte*>(const_cast<void*>(send.arguments.buffer));
  do {
    put.bytes = put.pieces.next(put.wanted - put.offset);
    put.of_bytes = put.wanted;
    put.local = Cursor::bytes(data + put.offset, put.bytes);
    put.remote_address = put.to.address + put.offset;
    put.finished = false;
    put.in_call = true;
    put.lane = &peer.lane();
    peer.memory->put(put);
    put.in_call = false;
    if (!put.finished) {
      put.begun = true;
      // What stands in the order of messages is told now; that the data has landed, if that can only be seen after it.
      const bool last = put.offset + put.bytes == put.wanted;
      tell(put,
           last && peer.memory->remote_properties().puts_before_messages ? put.tell : uint8_t(put.tell & wire::kTaken));
      return true;
    }
    if (put.error && !put.begun) {
      send.waits &= uint8_t(~SendRequest::kPut);
      puts_.destroy(&put);
      return false;
    }
    put.begun = true;
  } while (piece_done(put));
  return true;
}

void Puts::tell(Put& put, uint8_t flags) {
  if (flags == 0) return;
  put.tell &= uint8_t(~flags);
  wire::FilledBody body{put.total};
  // The part that takes the receive is counted as the message, by its context and tag.
  const SendArguments& a = put.send->arguments;
  Endpoint& peer = put.send->endpoint;
  control_.post(peer,
                wire::make_header(wire::Kind::filled, int32_t(peer.messages.newest_offer()), a.context, a.tag,
                                  put.to.receiver_token, flags),
                &body, sizeof body);
}

void Puts::end(Put& put) {
  SendRequest& send = *put.send;
  TERN_ASSERT(send.waits & SendRequest::kPut);
  puts_.destroy(&put);
  sends_.settle(send, SendRequest::kPut);
}

// True: there is a next piece to put. False: the operation is no more.
bool Puts::piece_done(Put& put) {
  SendRequest& send = *put.send;
  Endpoint& peer = send.endpoint;
  if (put.error && (peer.lost() || peer.memory->remote_properties().puts_before_messages || send.error)) {
    if (!send.error) send.error = std::move(put.error);
    end(put);
    return false;
  }
  if (!put.error) put.offset += put.bytes;
  if (put.offset == put.wanted && !put.error) {
    if (!peer.lost()) tell(put, put.tell);
    end(put);
    return false;
  }
  TERN_ASSERT(put.error || put.offset < put.wanted);
  if (!put.error && !peer.lost()) {
    const CopySituation rest{.side = CopySide::sender, .can_put = true, .stream_faster = send.stream_faster};
    if (who_copies(rest, [&] { return peer.peer_has_polled(); }) == Mover::put) return true;
  }
  if (peer.lost()) {
    if (!send.error) send.error = endpoints_.loss_of(peer.peer);
    end(put);
    return false;
  }
  // The receive is taken and waits for its data, or for the rest of it.
  tell(put, put.tell & wire::kTaken);
  const uint32_t token = put.to.receiver_token;
  const size_t end_of_data = put.wanted, offset = put.offset;
  puts_.destroy(&put);
  send.waits &= uint8_t(~SendRequest::kPut);
  sends_.stream(send, token, end_of_data, offset);
  return false;
}

}  // namespace tern
