#include <algorithm>
#include <cstring>

#include "base/assert.h"
#include "base/looks.h"
#include "p2p/protocols/eager.h"

namespace tern {

// Where nothing else is posted or waiting, the next message of its sender, if it fits, is its message: it needs no
// request and no matching. Looks for a short while.
bool EagerReceiver::receive_at_once(Endpoint& from, const ReceiveArguments& a, Status& status) {
  if (!from.peeks() || !a.type->is_contiguous() || progress_.has_work()) return false;
  const size_t capacity = size_t(a.count) * a.type->size();
  if (capacity > from.eager_limit()) return false;
  PeekedMessage arrival;
  if (!progress_.polls_closely()) return false;  // other threads or ranks may need the core
  if (!from.peek(arrival) && !look_at<Look::message>([&] { return from.peek(arrival); })) return false;
  const wire::Header& header = *arrival.header;
  if (header.kind != wire::Kind::eager || header.context != a.context || header.source != a.source ||
      (header.tag != a.tag && a.tag != kAnyTag) || arrival.bytes > capacity) {
    return false;
  }
  from.eager_arrived(header);
  status = Status{.source = header.source, .tag = header.tag, .bytes = Count(arrival.bytes)};
  copy_small(a.buffer, arrival.payload, arrival.bytes);
  from.take();
  receives_.count_direct(a.peer, status.tag, a.context, arrival.bytes);
  consumed(from, arrival.bytes);
  return true;
}

void EagerReceiver::keep(Endpoint& from, const wire::Header& header, const std::byte* payload, size_t bytes) {
  UnexpectedMessage& message = unexpected_.keep(from, header, bytes);
  if (bytes != 0) std::memcpy(message.data(), payload, bytes);
}

Landing EagerReceiver::landing_of(Endpoint& from, const wire::Header& header, size_t bytes) {
  switch (header.kind) {
    case wire::Kind::data: {
      ReceiveRequest* receive = receives_.find(header.token);
      if (!receive || receive->sender != &from) break;
      announcements_.expect_messages(*receive);
      Cursor target = receive->target();
      target.truncate(size_t(receive->status.bytes));
      target.skip(size_t(header.context));
      return Landing{.target = target, .token = receive, .token_kind = kLandReceive};
    }
    case wire::Kind::eager:
    case wire::Kind::eager_sync:
    case wire::Kind::direct: {
      const bool direct = header.kind == wire::Kind::direct;
      if (direct) from.arrived(header);
      else from.eager_arrived(header);
      if (ReceiveRequest* receive = announcements_.receive_for(header)) {
        if (direct) counters_.count_received(Protocol::receiver_stream, Arrival::receiver);
        receives_.match(*receive, from, header, bytes);
        Cursor target = receive->target();
        target.truncate(size_t(receive->status.bytes));
        return Landing{.target = target, .token = receive, .token_kind = kLandReceive};
      }
      UnexpectedMessage& message = unexpected_.keep(from, header, bytes);
      message.arriving = true;
      return Landing{.target = Cursor::bytes(message.data(), bytes), .token = &message, .token_kind = kLandUnexpected};
    }
    default: break;
  }
  return Landing{.target = Cursor(), .token = nullptr, .token_kind = kLandNowhere};
}

void EagerReceiver::landed(Endpoint& from, const wire::Header& header, Landing& landing, size_t bytes, Error error) {
  if (landing.token_kind == kLandUnexpected) {
    landed_unexpected(*static_cast<UnexpectedMessage*>(landing.token), std::move(error));
    return;
  }
  if (landing.token_kind != kLandReceive) return;
  auto& receive = *static_cast<ReceiveRequest*>(landing.token);
  if (error) {
    receive.error = std::move(error);
  } else if (header.kind != wire::Kind::data) {
    control_.acknowledge(from, header);
    if (header.kind != wire::Kind::direct) consumed(from, bytes);
  }
  receives_.complete(receive);
}

void EagerReceiver::landed_unexpected(UnexpectedMessage& message, Error error) {
  TERN_DEBUG_ASSERT(message.arriving);
  message.arriving = false;
  ReceiveRequest* receive = message.receiver;
  if (error) {
    if (receive) receives_.fail(*receive, std::move(error));
    else unexpected_.hide(message);
    unexpected_.destroy(message);
  } else if (receive) {
    take(*receive, message);
  }
}

bool EagerReceiver::take_shortly(UnexpectedMessage& message, const ReceiveArguments& a, Status& status) {
  const wire::Header& header = message.header;
  if (header.kind != wire::Kind::eager || message.arriving || !a.type->is_contiguous() ||
      message.bytes > size_t(a.count) * a.type->size())
    return false;
  unexpected_.hide(message);
  status = Status{.source = header.source, .tag = header.tag, .bytes = Count(message.bytes)};
  copy_small(a.buffer, message.data(), message.bytes);
  receives_.count(true, message.bytes);
  if (message.charged()) consumed(*message.from, message.bytes);
  unexpected_.destroy(message);
  return true;
}

void EagerReceiver::take(ReceiveRequest& receive, UnexpectedMessage& message) {
  if (message.arriving) {
    TERN_DEBUG_ASSERT(!message.receiver);
    message.receiver = &receive;  // landed delivers
    return;
  }
  Receives::unpack(receive, message.data(), size_t(receive.status.bytes));
  progress_.clock().charge_copy(size_t(receive.status.bytes));
  control_.acknowledge(*message.from, message.header);
  if (message.charged()) consumed(*message.from, message.bytes);  // room at the receiver is free again
  unexpected_.destroy(message);
  receives_.complete(receive);
}

}  // namespace tern
