// The sink: hands what arrives to the part that knows it.
#include "p2p/impl.h"
#include "p2p/protocols/table.h"

namespace tern {

void PointToPoint::Impl::on_message(Lane& lane, const wire::Header& header, const std::byte* payload, size_t bytes) {
  Endpoint& from = endpoints.of(lane);
  if (header.kind != wire::Kind::eager && header.kind != wire::Kind::eager_sync) [[unlikely]] {
    on_other(from, header, payload, bytes);
    return;
  }
  eager_receiver.arrive(from, header, payload, bytes);
}

void PointToPoint::Impl::on_other(Endpoint& from, const wire::Header& header, const std::byte* payload, size_t bytes) {
  if (tracer) [[unlikely]]
    tracer->add(record::EventKind::control, Recorder::now_ns(), 0, uint16_t(header.kind), from.peer);
  MessageHandler* handler = header.kind < wire::kFirstWindowKind ? nullptr : endpoints.handler_of(header.kind);
  if (handler) {
    handler->on_message(from, header, payload, bytes);
  } else if (header.kind == wire::Kind::tuple_data) {
    if (!tuples) return;
    Landing landing = tuples->receiver.landing_of(from, header);
    landing.target.unpack(payload, bytes);
    tuples->receiver.landed(from, header, bytes, {});
  } else if (header.kind == wire::Kind::data || header.kind == wire::Kind::direct) {
    on_data(from, header, payload, bytes);
  } else {
    on_control(from, header, payload, bytes);
  }
}

// As if it came in pieces.
void PointToPoint::Impl::on_data(Endpoint& from, const wire::Header& header, const std::byte* payload, size_t bytes) {
  Landing landing = eager_receiver.landing_of(from, header, bytes);
  landing.target.unpack(payload, bytes);
  eager_receiver.landed(from, header, landing, bytes, {});
}

void PointToPoint::Impl::on_control(Endpoint& from, const wire::Header& header, const std::byte* payload,
                                    size_t bytes) {
  from.arrived(header);
  if (header.carried != 0) [[unlikely]]
    hybrid.released(from, header.carried);
  // The end of most large messages: not by the table of jumps.
  if (header.kind == wire::Kind::filled) {
    announcements.on_filled(from, header, payload, bytes);
    return;
  }
  switch (header.kind) {
    case wire::Kind::rts: rendezvous_receiver.on_rts(from, header, payload, bytes); return;
    case wire::Kind::moved: rendezvous_receiver.on_moved(from, header, payload, bytes); return;
    case wire::Kind::cts:
    case wire::Kind::fin:
    case wire::Kind::sync_ack:
      if (SendRequest* send = sends.find(from, header.token))
        record_of(send->protocol).on_answer(*this, *send, header, payload, bytes);
      return;
    case wire::Kind::ready: announced_sender.on_ready(from, header, payload, bytes); return;
    case wire::Kind::withdraw: announced_sender.on_withdraw(from, header); return;
    case wire::Kind::withdrawn: announcements.on_withdrawn(from, header); return;
    case wire::Kind::recount: from.messages.restart_arrived(header.token); return;
    case wire::Kind::release: hybrid.on_release(from, payload, bytes); return;
    case wire::Kind::credit: from.credit.returned(header.token); return;
    case wire::Kind::cancel:
      if (cancels.on_cancel(from, header, tuples.get())) rendezvous_receiver.forget_moved(from, header.token);
      return;
    case wire::Kind::cancel_answer: cancels.on_answer(from, header); return;
    default:
      if (tuples) tuples->on_message(from, header, payload, bytes);
      else if (header.kind == wire::Kind::tuple_ask) refuse_tuple_queue(control, from, header, false);
      return;
  }
}

Landing PointToPoint::Impl::on_header(Lane& lane, const wire::Header& header, size_t bytes) {
  Endpoint& from = endpoints.of(lane);
  if (MessageHandler* handler = endpoints.handler_of(header.kind)) return handler->on_header(from, header, bytes);
  if (header.kind == wire::Kind::tuple_data) return tuples ? tuples->receiver.landing_of(from, header) : Landing{};
  return eager_receiver.landing_of(from, header, bytes);
}

void PointToPoint::Impl::on_landed(Lane& lane, const wire::Header& header, Landing& landing, size_t bytes,
                                   Error error) {
  Endpoint& from = endpoints.of(lane);
  if (MessageHandler* handler = endpoints.handler_of(header.kind)) {
    handler->on_landed(from, header, landing, bytes, std::move(error));
  } else if (header.kind == wire::Kind::tuple_data) {
    if (tuples) tuples->receiver.landed(from, header, bytes, std::move(error));
  } else {
    eager_receiver.landed(from, header, landing, bytes, std::move(error));
  }
}

void PointToPoint::Impl::on_queues_lost(Lane& lane) {
  if (tuples) tuples->on_queues_lost(endpoints.of(lane));
}

// Every request that waits for the peer is completed with the error.
void PointToPoint::Impl::on_peer_lost(Lane& lane, Error error) {
  Endpoint& peer = endpoints.of(lane);
  if (!endpoints.lose(peer, error)) return;
  const auto reason = [&] { return Error(error.error_class(), std::string(error.text())); };
  announcements.check_watched();  // what had landed counts
  announcements.on_peer_lost(peer);
  rendezvous_receiver.on_peer_lost(peer);
  if (tuples) tuples->on_peer_lost(peer);
  control.forget(peer);
  receives.matching.for_each_posted([&](PostedReceive& posted) {
    auto& receive = static_cast<ReceiveRequest&>(posted);
    if (receive.from != &peer) return;
    receives.unpost(receive);
    receives.fail(receive, reason());
  });
  receives.for_each_offered([&](ReceiveRequest& receive) {
    if (receive.sender == &peer) receives.fail(receive, reason());
  });
  sends.for_each_named([&](SendRequest& send) {
    if (&send.endpoint != &peer) return;
    send.error = reason();
    sends.settle(send, uint8_t(~(SendRequest::kPath | SendRequest::kPut)));
  });
  for (MessageHandler* handler : endpoints.handlers()) handler->on_peer_lost(peer, error);
}

}  // namespace tern
