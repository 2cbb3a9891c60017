// Sender-initiated rendezvous, in the two forms that every path allows.
//
//   the path can get, the data is contiguous        otherwise
//   sender                 receiver                 sender                  receiver
//     rts(address) ------->                           rts ----------------->
//                            get (one copy)             <------------------- cts (when matched)
//     <-------------------- fin                       data -----------------> into the user's buffer
//
// A get that fails (the kernel refuses, DESIGN.md 3) falls back to cts and data: the sender stands ready for both.
#include <algorithm>

#include "p2p/impl.h"

namespace tern {

void PointToPoint::Impl::begin_rendezvous(SendRequest& send, Peer& peer, size_t bytes, Protocol protocol) {
  const SendArguments& a = send.arguments;
  send.token = send_tokens.add(send);
  send.waits |= SendRequest::kData;
  send.body = wire::RendezvousBody{bytes, 0, {0, 0}};
  if (protocol == Protocol::rendezvous_get) {
    send.exposed = peer.path->expose(a.buffer, bytes);
    send.body.address = reinterpret_cast<uint64_t>(a.buffer);
    send.body.key[0] = send.exposed.words[0];
    send.body.key[1] = send.exposed.words[1];
  }
  wire::Header header = wire::make_header(wire::Kind::rts, a.source, a.context, a.tag, send.token);
  push(send, header, &send.body, sizeof send.body);
}

void PointToPoint::Impl::on_rts(PeerId peer, const wire::Header& header, const std::byte* payload, size_t bytes) {
  if (bytes != sizeof(wire::RendezvousBody)) return;
  wire::RendezvousBody body;
  std::memcpy(&body, payload, sizeof body);
  give_credit(peer);  // a sender that announces may be out of credit
  PostedReceive* posted = matching.match_arrival(header.context, header.source, header.tag);
  if (!posted) {
    UnexpectedMessage* message = keep(peer, header, body.bytes);
    message->body = body;
    return;
  }
  auto& receive = static_cast<ReceiveRequest&>(*posted);
  match(receive, peer, header, body.bytes);
  receive.sender_token = header.token;
  answer(receive, body);
}

// The receive is matched with an announcement: fetch the data, or ask for it.
void PointToPoint::Impl::answer(ReceiveRequest& receive, const wire::RendezvousBody& body) {
  Path* path = peers[receive.sender].path;
  size_t bytes = size_t(receive.status.bytes);
  if (!path) {
    receive.error = Error(ErrorClass::proc_aborted, "the sending process is gone");
    complete(receive);
    return;
  }
  if (bytes == 0) {
    fetched(receive);
    return;
  }
  if (body.address == 0 || !path->can_get(receive.sender)) {
    clear_to_send(receive, bytes);
    return;
  }
  Fetch& fetch = *fetches.create();
  fetch.receive = &receive;
  fetch.peer = receive.sender;
  fetch.local = receive.target();
  fetch.local.truncate(bytes);
  fetch.remote_address = body.address;
  fetch.key = RemoteKey{{body.key[0], body.key[1]}};
  fetch.bytes = bytes;
  fetch.done = [](TransferOperation& op, Error e) {
    auto& done = static_cast<Fetch&>(op);
    done.receive->impl.get_done(done, std::move(e));
  };
  path->get(fetch);
}

void PointToPoint::Impl::get_done(Fetch& fetch, Error error) {
  ReceiveRequest& receive = *fetch.receive;
  fetches.destroy(&fetch);
  if (error) {
    if (peers[receive.sender].path) {
      clear_to_send(receive, size_t(receive.status.bytes));
    } else {
      receive.error = std::move(error);
      complete(receive);
    }
    return;
  }
  fetched(receive);
}

void PointToPoint::Impl::fetched(ReceiveRequest& receive) {
  control(receive.sender, wire::make_control_header(wire::Kind::fin, receive.sender_token));
  complete(receive);
}

void PointToPoint::Impl::clear_to_send(ReceiveRequest& receive, size_t bytes) {
  receive.token = receive_tokens.add(receive);
  wire::ClearBody body{receive.token, 0, bytes};
  control(receive.sender, wire::make_control_header(wire::Kind::cts, receive.sender_token), &body, sizeof body);
}

void PointToPoint::Impl::on_cts(PeerId peer, const wire::Header& header, const std::byte* payload, size_t bytes) {
  SendRequest* send = sender(peer, header.token);
  if (!send || bytes != sizeof(wire::ClearBody) || !(send->waits & SendRequest::kData)) return;
  std::memcpy(&send->clear, payload, sizeof send->clear);
  if (send->waits & SendRequest::kPath) {
    send->clear_pending = true;  // the path still holds the rts: path_done goes on
  } else {
    send_data(*send);
  }
}

void PointToPoint::Impl::send_data(SendRequest& send) {
  const SendArguments& a = send.arguments;
  send.waits &= uint8_t(~SendRequest::kData);
  Cursor payload(const_cast<void*>(a.buffer), a.count, *a.type);
  payload.truncate(size_t(std::min<uint64_t>(send.clear.bytes, send.body.bytes)));
  queue(send, wire::make_control_header(wire::Kind::data, send.clear.receiver_token), payload);
}

void PointToPoint::Impl::on_data(PeerId peer, const wire::Header& header, const std::byte* payload, size_t bytes) {
  Landing landing = on_header(peer, header, bytes);
  landing.target.unpack(payload, bytes);
  on_landed(peer, header, landing, bytes, {});
}

void PointToPoint::Impl::on_fin(PeerId peer, const wire::Header& header) {
  SendRequest* send = sender(peer, header.token);
  if (send && (send->waits & SendRequest::kData)) settle(*send, SendRequest::kData);
}

}  // namespace tern
