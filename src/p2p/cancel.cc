// Taking back: MPI_Cancel of receives and sends (MPI 5.0, 3.8.4), and what becomes of requests whose peer is lost.
//
// A receive is cancelled while it is posted. A send is taken back from the path's queue if none of it has left, or else
// by asking the receiver, who gives it up if it is still unmatched:
//
//   sender                                            receiver
//     eager(token = sequence), complete --------------> kept, unmatched
//     MPI_Cancel: incomplete again; cancel -----------> looks for it among the unmatched, drops it
//     complete, cancelled or not  <-------------------- cancel_answer
//
// Rendezvous announcements and synchronous messages are known to the receiver by the sender's token, other eager
// messages by their number among those of the sending rank; blocking sends have none. The number repeats after 2^32
// sends: a message that is still unmatched then could be dropped in place of its namesake, so the newest is taken.
#include "p2p/impl.h"
#include "p2p/tuples.h"

namespace tern {

void ReceiveRequest::cancel() {
  if (impl.tuples && impl.tuples->cancel(*this)) return;
  if (!posted || (marks & kCancelling) || impl.withdraw(*this)) return;
  impl.matching.unpost(*this);
  posted = false;
  status = Status{kAnySource, kAnyTag, 0, true};
  impl.complete(*this);
}

void SendRequest::cancel() {
  if (!active() || (waits & kAnswer) || status.cancelled || error) return;
  Endpoint& to = endpoint;
  if (to.lost()) return;
  if (copy != 0) {
    impl.cancel_copy(*this);
    return;
  }
  if (tuple) {
    impl.tuples->cancel(*this);
    return;
  }
  // With tuple queues messages keep the numbers they have been given: the receiver drops what is taken back.
  if ((waits & kPath) && header.kind != wire::Kind::data && !to.tuples && to.withdraw(*this)) {
    impl.recount(to);
    status.cancelled = true;
    if (header.kind == wire::Kind::eager || header.kind == wire::Kind::eager_sync) {
      to.credit.untake(total_bytes);
      to.credit.uncarry(header.carried);
    } else if (header.carried != 0) {
      impl.owe_release(to, header.carried);
    }
    impl.settle(*this, 0xff);
    return;
  }
  if (sequence != 0) {
    if (complete()) {
      complete_ = false;
      ++impl.sends_open;
    }
    if (token == 0) token = impl.send_tokens.add(*this);
  } else if (!(waits & (kData | kMatch))) {
    return;
  }
  waits |= kAnswer;
  impl.control(to, wire::make_header(wire::Kind::cancel, 0, arguments.context, int32_t(sequence), token));
}

// A hybrid send is over; what may still be taken back is its copy.
void PointToPoint::Impl::cancel_copy(SendRequest& send) {
  SendRequest* own = send_tokens.find(send.copy);
  const SendArguments& a = send.arguments;
  bool found = own && own->library && &own->endpoint == &send.endpoint && own->arguments.tag == a.tag &&
               own->arguments.context == a.context;
  if (!found || !send.complete()) return;  // received, or asked already
  own->watcher = &send;
  own->on_complete = [](Request& asked) {
    auto& copied = *static_cast<SendRequest*>(asked.watcher);
    copied.status.cancelled = asked.status.cancelled;
    copied.set_complete();
  };
  send.complete_ = false;
  own->cancel();
}

// The question is that of a full request, made for it.
void SentRequest::cancel() {
  if (!complete() || status.cancelled) return;
  SendRequest* asking =
      impl.sends.create(impl, *receiver, SendArguments{nullptr, 0, nullptr, receiver->peer, 0, 0, context});
  asking->complete_ = true;
  asking->sequence = sequence;
  asking->watcher = this;
  asking->on_complete = [](Request& asked) {
    auto& sent = *static_cast<SentRequest*>(asked.watcher);
    sent.status.cancelled = asked.status.cancelled;
    sent.set_complete();
  };
  complete_ = false;
  asking->cancel();
  if (asking->complete()) complete_ = true;  // answered at once, or there is nobody to ask
  asking->release();
}

void PointToPoint::Impl::on_cancel(Endpoint& peer, const wire::Header& header) {
  UnexpectedMessage* found = nullptr;
  uint32_t sequence = uint32_t(header.tag);
  matching.for_each_waiting([&](WaitingMessage& waiting) {
    auto& message = static_cast<UnexpectedMessage&>(waiting);
    if (message.from != &peer || message.arriving || message.context != header.context) return;
    bool eager = message.header.kind == wire::Kind::eager;
    if (eager == (sequence != 0) && message.header.token == (eager ? sequence : header.token)) found = &message;
  });
  if (found) {
    unwait(*found);
    if (found->owed) tuples->discard(*found);
    counts.unexpected_bytes -= found->kept();
    bool charged = found->header.kind == wire::Kind::eager || found->header.kind == wire::Kind::eager_sync;
    if (charged) consumed(peer, found->bytes);
    unexpected.destroy(found);
  }
  control(peer, wire::make_control_header(wire::Kind::cancel_answer, header.token, found ? 1 : 0));
}

void PointToPoint::Impl::on_cancel_answer(Endpoint& peer, const wire::Header& header) {
  SendRequest* send = sender(peer, header.token);
  if (!send || !(send->waits & SendRequest::kAnswer)) return;
  if (header.flags & 1) {
    send->status.cancelled = true;
    settle(*send, uint8_t(~SendRequest::kPath));  // the path may still hold what was sent: its `done` comes yet
  } else {
    settle(*send, SendRequest::kAnswer);
  }
}

uint32_t PointToPoint::losses() const { return impl_->endpoints.losses(); }
bool PointToPoint::lost(PeerId peer) const { return impl_->endpoints.lost(peer); }

void PointToPoint::Impl::on_peer_lost(Lane& lane, Error error) {
  Endpoint& peer = endpoints.of(lane);
  if (!endpoints.lose(peer, error)) return;
  std::string text(error.text());
  int error_class = error.error_class();
  if (!watched.empty()) check_watched();  // what had landed counts
  if (tuples) tuples->on_peer_lost(peer);
  peer.owed_releases.clear();
  std::erase(owing_releases, &peer);
  matching.for_each_posted([&](PostedReceive& posted) {
    auto& receive = static_cast<ReceiveRequest&>(posted);
    if (receive.from != &peer) return;
    matching.unpost(receive);
    receive.posted = false;
    receive.error = Error(error_class, text);
    complete(receive);
  });
  receive_tokens.for_each([&](ReceiveRequest& receive) {
    if (receive.sender != &peer) return;
    receive.error = Error(error_class, text);
    complete(receive);
  });
  send_tokens.for_each([&](SendRequest& send) {
    if (&send.endpoint != &peer) return;
    send.error = Error(error_class, text);
    if (!send.library) send.exposed = {};
    settle(send, uint8_t(~(SendRequest::kPath | SendRequest::kPut)));
  });
  for (MessageHandler* handler : endpoints.handlers()) handler->on_peer_lost(peer, error);
}

}  // namespace tern
