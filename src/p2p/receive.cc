// A receive from the call to its message, and probes.
#include <optional>

#include "p2p/impl.h"
#include "p2p/tuples/tuples.h"

namespace tern {

// True: it is posted; false: it has its message, or has failed.
[[gnu::always_inline]] inline bool PointToPoint::Impl::take_or_post(ReceiveRequest& receive) {
  if (UnexpectedMessage* message = unexpected.find(receive.context, receive.source, receive.tag)) {
    unexpected.hide(*message);
    take(receive, *message);
    return false;
  }
  if (receive.from && receive.from->lost()) [[unlikely]] {
    receives.fail(receive, endpoints.loss_of(receive.from->peer));
    return false;
  }
  receives.post(receive);
  return true;
}

// What every receive goes through, inlined into the calls.
[[gnu::always_inline]] inline void PointToPoint::Impl::begin_now(ReceiveRequest& receive) {
  receives.open(receive);
  if (looks.looks(receive.capacity)) [[unlikely]] {
    begin_large(receive);
  } else {
    take_or_post(receive);
  }
}

Error PointToPoint::receive(const ReceiveArguments& a, Status& status) {
  const Matching& matching = impl_->receives.matching;
  if (a.peer != kNoPeer && matching.posted_count() == 0 && matching.waiting_count() == 0 &&
      impl_->eager_receiver.receive_at_once(impl_->endpoints.at(a.peer), a, status))
    return {};
  ReceiveRequest& request = impl_->make_receive(a);
  request.stay = Stay::now;
  impl_->begin_now(request);
  wait(request);
  status = request.status;
  Error error = std::move(request.error);
  request.release();
  return error;
}

Shortly PointToPoint::receive_shortly(const ReceiveArguments& a, Status& status) {
  UnexpectedMessage* message = impl_->unexpected.find(a.context, a.source, a.tag);
  if (!message) return Shortly::not_yet;
  return impl_->eager_receiver.take_shortly(*message, a, status) ? Shortly::done : Shortly::never;
}

// Peers of which nothing has been handled yet are left to the rounds of the rank. A lane that cannot be peeked at
// shares its path's poll with the others.
int PointToPoint::poll_shortly(PeerId from) {
  constexpr int kMost = 32;  // of one peer, which may go on sending meanwhile; the next call takes the rest
  int count = 0;
  bool other = false;
  const auto take = [&](Endpoint& peer) {
    PeekedMessage arrival;
    for (int taken = 0; taken < kMost && peer.peeks() && peer.peek(arrival); ++taken, ++count) {
      other |= arrival.header->kind != wire::Kind::eager;
      if (other) return;
      const wire::Header header = *arrival.header;
      impl_->on_message(peer.lane(), header, arrival.payload, arrival.bytes);
      peer.take();
    }
  };
  Endpoint* sender = from == kNoPeer ? nullptr : impl_->endpoints.find(from);
  if (sender && sender->peeks()) {
    take(*sender);
    return other ? -1 : count;
  }
  if (from == kNoPeer) impl_->endpoints.for_each(take);
  for (Path* path : impl_->endpoints.paths()) {
    if (other || path->properties().peek) continue;
    const int came = path->poll_shortly();
    other = came < 0;
    count += came;
  }
  return other ? -1 : count;
}

Request* PointToPoint::ireceive_shortly(const ReceiveArguments& a) {
  if (impl_->looks.looks(size_t(a.count) * a.type->size())) return nullptr;
  if (a.peer != kNoPeer && !impl_->endpoints.find(a.peer)) return nullptr;
  const UnexpectedMessage* message = impl_->unexpected.find(a.context, a.source, a.tag);
  if (message && (message->header.kind != wire::Kind::eager || message->arriving)) return nullptr;
  ReceiveRequest& request = impl_->make_receive(a);
  impl_->begin_now(request);
  return &request;
}

// What a program that has computed meanwhile waits for is often there.
void PointToPoint::wait(Request& request) {
  if (request.complete()) return;
  if (request.from && request.from->peeks()) {
    impl_->look_at(request.from);
    if (request.complete()) return;
  }
  progress_.wait_until([&] { return request.complete(); });
}

Request* PointToPoint::ireceive(const ReceiveArguments& a) {
  ReceiveRequest& request = impl_->make_receive(a);
  impl_->begin_now(request);
  return &request;
}

Request* PointToPoint::receive_init(const ReceiveArguments& a) {
  ReceiveRequest& request = impl_->make_receive(a);
  request.make_persistent();
  return &request;
}

void PointToPoint::Impl::begin(ReceiveRequest& receive) { begin_now(receive); }

// One whose sender should know of it, and whose message may be here already.
void PointToPoint::Impl::begin_large(ReceiveRequest& receive) {
  if (tuples) [[unlikely]] {
    begin_with_queues(receive);
    return;
  }
  std::optional<RendezvousReceiver::Hold> hold;
  if (!receive.copies_at_once()) hold.emplace(rendezvous_receiver);
  look_at(receive.from);
  if (take_or_post(receive) && !receive.wild()) announcements.announce(receive);
}

// The same, and any receive, where there are tuple queues.
void PointToPoint::Impl::begin_with_queues(ReceiveRequest& receive) {
  const bool queued = tuples->contexts.wants(receive.context) && (!receive.from || receive.from->tuples);
  const bool announced = !queued && looks.announces(receive.capacity);
  std::optional<RendezvousReceiver::Hold> hold;
  if (!receive.copies_at_once()) hold.emplace(rendezvous_receiver);
  if (announced) look_at(receive.from);
  if (tuples->receiver.hold_back(receive) || !take_or_post(receive) || receive.wild()) return;
  if (queued) tuples->receiver.posted(receive);
  if (announced) announcements.announce(receive);
}

// A receive meets a message that was there before it. The message is out of matching already.
void PointToPoint::Impl::take(ReceiveRequest& receive, UnexpectedMessage& message) {
  receives.match(receive, *message.from, message.header, message.bytes, true);
  receive.number = message.number;
  if (message.header.kind == wire::Kind::rts) {
    const ReceivedRts rts = {.token = message.header.token, .flags = message.header.flags, .body = message.body};
    unexpected.destroy(message);
    if (receive.copies_at_once()) rendezvous_receiver.answer(receive, rts, Arrival::sender);
    else rendezvous_receiver.answer_in_turn(receive, rts, Arrival::sender);
  } else if (message.header.kind == wire::Kind::tuple_owed) {
    tuples->receiver.take(receive, message);
  } else {
    eager_receiver.take(receive, message);
  }
}

void PointToPoint::Impl::cancel(ReceiveRequest& receive) {
  if (tuples && tuples->receiver.cancel(receive)) return;
  if (!receive.posted() || receive.cancelling() || announcements.withdraw(receive)) return;
  receives.complete_cancelled(receive);
}

// --- Probes

UnexpectedMessage* PointToPoint::Impl::find_visible(int source, int tag, uint64_t context) {
  if (tuples && !tuples->receiver.visible(source, tag, context)) return nullptr;
  return unexpected.find(context, source, tag);
}

UnexpectedMessage* PointToPoint::Impl::look(int source, int tag, uint64_t context) {
  if (UnexpectedMessage* message = find_visible(source, tag, context)) return message;
  progress.look();
  return find_visible(source, tag, context);
}

UnexpectedMessage* PointToPoint::Impl::await(int source, int tag, uint64_t context) {
  UnexpectedMessage* message = nullptr;
  progress.wait_until([&] { return (message = find_visible(source, tag, context)) != nullptr; });
  return message;
}

MatchedMessage* PointToPoint::Impl::take_waiting(UnexpectedMessage& message, Status& status) {
  status = message.status();
  unexpected.hide(message);
  return &message;
}

bool PointToPoint::iprobe(int source, int tag, uint64_t context, Status& status) {
  UnexpectedMessage* message = impl_->look(source, tag, context);
  if (message) status = message->status();
  return message != nullptr;
}

MatchedMessage* PointToPoint::improbe(int source, int tag, uint64_t context, Status& status) {
  UnexpectedMessage* message = impl_->look(source, tag, context);
  return message ? impl_->take_waiting(*message, status) : nullptr;
}

Status PointToPoint::probe(int source, int tag, uint64_t context) {
  return impl_->await(source, tag, context)->status();
}

MatchedMessage* PointToPoint::mprobe(int source, int tag, uint64_t context, Status& status) {
  return impl_->take_waiting(*impl_->await(source, tag, context), status);
}

Request* PointToPoint::imreceive(MatchedMessage* matched, void* buffer, Count count, const Datatype& type) {
  auto& message = static_cast<UnexpectedMessage&>(*matched);
  ReceiveRequest& request = impl_->make_receive({.buffer = buffer,
                                                 .count = count,
                                                 .type = &type,
                                                 .peer = message.from->peer,
                                                 .source = message.header.source,
                                                 .tag = message.header.tag,
                                                 .context = message.header.context});
  impl_->receives.open(request);
  impl_->take(request, message);
  return &request;
}

Error PointToPoint::mreceive(MatchedMessage* matched, void* buffer, Count count, const Datatype& type, Status& status) {
  Request* request = imreceive(matched, buffer, count, type);
  wait(*request);
  status = request->status;
  Error error = std::move(request->error);
  request->release();
  return error;
}

}  // namespace tern
