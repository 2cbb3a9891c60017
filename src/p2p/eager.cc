// Arrivals: eager messages here, the others to who knows them. Credit: eager_credit.h.
#include <algorithm>

#include "base/copy.h"
#include "p2p/impl.h"
#include "p2p/tuples.h"

namespace tern {

// Written for the expected, contiguous, short message: what others need is out of line, so that it has no frame for
// them.
void PointToPoint::Impl::on_message(Lane& lane, const wire::Header& header, const std::byte* payload, size_t bytes) {
  Endpoint& from = endpoints.of(lane);
  if (header.kind != wire::Kind::eager && header.kind != wire::Kind::eager_sync) [[unlikely]] {
    on_other(from, header, payload, bytes);
    return;
  }
  from.eager_arrived(header);
  ReceiveRequest* receive = matching_receive(header);
  if (!receive) {
    keep_eager(from, header, payload, bytes);
    return;
  }
  match(*receive, from, header, bytes);
  const size_t stored = size_t(receive->status.bytes);
  if (receive->type->is_contiguous()) copy_small(receive->buffer, payload, stored);
  else unpack(*receive, payload, stored);
  if (header.kind == wire::Kind::eager_sync) acknowledge(from, header);
  consumed(from, bytes);
  complete(*receive);
}

void PointToPoint::Impl::unpack(ReceiveRequest& receive, const std::byte* payload, size_t bytes) {
  Cursor target = receive.target();
  target.unpack(payload, bytes);
}

void PointToPoint::Impl::keep_eager(Endpoint& peer, const wire::Header& header, const std::byte* payload,
                                    size_t bytes) {
  UnexpectedMessage* message = keep(peer, header, bytes);
  if (bytes != 0) std::memcpy(message->data(), payload, bytes);
}

void PointToPoint::Impl::on_other(Endpoint& peer, const wire::Header& header, const std::byte* payload, size_t bytes) {
  if (tracer) [[unlikely]]
    tracer->add(record::EventKind::control, Recorder::now_ns(), 0, uint16_t(header.kind), peer.peer);
  if (MessageHandler* handler = endpoints.handler_of(header.kind)) handler->on_message(peer, header, payload, bytes);
  else if (header.kind == wire::Kind::data || header.kind == wire::Kind::direct) on_data(peer, header, payload, bytes);
  else on_control(peer, header, payload, bytes);
}

void PointToPoint::Impl::on_control(Endpoint& peer, const wire::Header& header, const std::byte* payload,
                                    size_t bytes) {
  peer.arrived(header);
  if (header.carried != 0) released(peer, header.carried);
  switch (header.kind) {
    case wire::Kind::rts: on_rts(peer, header, payload, bytes); return;
    case wire::Kind::cts: on_cts(peer, header, payload, bytes); return;
    case wire::Kind::fin: on_fin(peer, header); return;
    case wire::Kind::ready: on_ready(peer, header, payload, bytes); return;
    case wire::Kind::filled: on_filled(peer, header, payload, bytes); return;
    case wire::Kind::withdraw: on_withdraw(peer, header); return;
    case wire::Kind::withdrawn: on_withdrawn(peer, header); return;
    case wire::Kind::recount: on_recount(peer, header); return;
    case wire::Kind::release: on_release(peer, payload, bytes); return;
    case wire::Kind::credit: peer.credit.returned(header.token); return;
    case wire::Kind::sync_ack:
      if (SendRequest* send = sender(peer, header.token)) settle(*send, SendRequest::kMatch);
      return;
    case wire::Kind::cancel: on_cancel(peer, header); return;
    case wire::Kind::cancel_answer: on_cancel_answer(peer, header); return;
    default:
      if (tuples) tuples->on_message(peer, header, payload, bytes);
      else if (header.kind == wire::Kind::tuple_ask) Tuples::refuse(*this, peer, header);
      return;
  }
}

UnexpectedMessage* PointToPoint::Impl::keep(Endpoint& peer, const wire::Header& header, size_t bytes) {
  UnexpectedMessage* message = unexpected.create();
  message->context = header.context;
  message->source = header.source;
  message->tag = header.tag;
  message->from = &peer;
  message->header = header;
  message->bytes = bytes;
  message->number = peer.messages.arrived();
  if (header.kind != wire::Kind::rts && bytes > UnexpectedMessage::kInlineBytes) {
    message->heap = std::make_unique_for_overwrite<std::byte[]>(bytes);
  }
  matching.add_waiting(*message);
  counts.raise_unexpected(matching.waiting_count(), message->kept());
  // A thread of this rank may sleep in a probe, and a message to self arrives outside of any poll.
  progress.notify();
  return message;
}

void PointToPoint::Impl::send_credit(Endpoint& peer) {
  wire::Header header = wire::make_control_header(wire::Kind::credit, peer.credit.owed());
  // Not queued when the way is full: the debt stays until the peer's next message, eager or an rts.
  if (!peer.lost() && peer.try_send(header, nullptr, 0)) peer.credit.settled();
}

void PointToPoint::Impl::acknowledge(Endpoint& peer, const wire::Header& header) {
  bool wanted =
      header.kind == wire::Kind::direct ? header.flags & wire::kWantsAck : header.kind == wire::Kind::eager_sync;
  if (!wanted) return;
  control(peer, wire::make_control_header(wire::Kind::sync_ack, header.token));
}

Landing PointToPoint::Impl::on_header(Lane& lane, const wire::Header& header, size_t bytes) {
  Endpoint& from = endpoints.of(lane);
  if (MessageHandler* handler = endpoints.handler_of(header.kind)) return handler->on_header(from, header, bytes);
  return landing_of(from, header, bytes);
}

void PointToPoint::Impl::on_landed(Lane& lane, const wire::Header& header, Landing& landing, size_t bytes,
                                   Error error) {
  Endpoint& from = endpoints.of(lane);
  if (MessageHandler* handler = endpoints.handler_of(header.kind)) {
    handler->on_landed(from, header, landing, bytes, std::move(error));
  } else {
    landed(from, header, landing, bytes, std::move(error));
  }
}

Landing PointToPoint::Impl::landing_of(Endpoint& peer, const wire::Header& header, size_t bytes) {
  if (header.kind == wire::Kind::data) {
    ReceiveRequest* receive = receive_tokens.find(header.token);
    if (receive && receive->sender == &peer) {
      Cursor target = receive->target();
      target.truncate(size_t(receive->status.bytes));
      target.skip(size_t(header.context));
      return Landing{target, receive, kLandReceive};
    }
  } else if (header.kind == wire::Kind::eager || header.kind == wire::Kind::eager_sync ||
             header.kind == wire::Kind::direct) {
    if (header.kind == wire::Kind::direct) peer.arrived(header);
    else peer.eager_arrived(header);
    if (ReceiveRequest* posted = matching_receive(header)) {
      ReceiveRequest& receive = *posted;
      if (header.kind == wire::Kind::direct) count_received(Protocol::receiver_stream, Arrival::receiver);
      match(receive, peer, header, bytes);
      Cursor target = receive.target();
      target.truncate(size_t(receive.status.bytes));
      return Landing{target, &receive, kLandReceive};
    }
    UnexpectedMessage* message = keep(peer, header, bytes);
    message->arriving = true;
    return Landing{Cursor::bytes(message->data(), bytes), message, kLandUnexpected};
  }
  return Landing{Cursor(), nullptr, kLandNowhere};
}

void PointToPoint::Impl::landed(Endpoint& peer, const wire::Header& header, Landing& landing, size_t bytes,
                                Error error) {
  if (landing.token_kind == kLandReceive) {
    auto& receive = *static_cast<ReceiveRequest*>(landing.token);
    if (error) {
      receive.error = std::move(error);
    } else if (header.kind != wire::Kind::data) {
      acknowledge(peer, header);
      if (header.kind != wire::Kind::direct) consumed(peer, bytes);
    }
    complete(receive);
    return;
  }
  if (landing.token_kind != kLandUnexpected) return;
  auto& message = *static_cast<UnexpectedMessage*>(landing.token);
  message.arriving = false;
  ReceiveRequest* receive = message.receiver;
  if (error) {
    if (receive) {
      receive->error = std::move(error);
      complete(*receive);
    } else {
      unwait(message);
    }
    counts.unexpected_bytes -= message.kept();
    unexpected.destroy(&message);
    return;
  }
  if (!receive) return;
  unpack(*receive, message.data(), size_t(receive->status.bytes));
  drop(message);
  complete(*receive);
}

}  // namespace tern
