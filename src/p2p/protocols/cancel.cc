#include "p2p/protocols/cancel.h"

#include "p2p/tuples/tuples.h"

namespace tern {

// From the path's queue, if none of it has left.
bool SendCancels::take_back(SendRequest& send) {
  Endpoint& to = send.endpoint;
  // With tuple queues messages keep the numbers they have been given: the receiver drops what is taken back.
  if (!(send.waits & SendRequest::kPath) || send.header.kind == wire::Kind::data || to.tuples || !to.withdraw(send))
    return false;
  announced_.recount(to);
  send.status.cancelled = true;
  const wire::Header& header = send.header;
  if (header.kind == wire::Kind::eager || header.kind == wire::Kind::eager_sync) {
    to.credit.untake(send.total_bytes);
    to.credit.uncarry(header.carried);
  } else if (header.carried != 0) {
    control_.owe_release(to, header.carried);
  }
  sends_.settle(send, 0xff);
  return true;
}

void SendCancels::cancel(SendRequest& send) {
  if (take_back(send)) return;
  const uint32_t sequence = send.sequence();
  if (sequence == 0 && !(send.waits & (SendRequest::kData | SendRequest::kMatch))) return;
  if (sequence != 0 && send.complete()) sends_.reopen(send);
  send.waits |= SendRequest::kAnswer;
  control_.post(send.endpoint,
                wire::make_header(wire::Kind::cancel, 0, send.arguments.context, int32_t(sequence), sends_.name(send)));
}

// The question is that of a full request, made for it.
void SendCancels::cancel(SentRequest& sent) {
  if (!sent.complete() || sent.status.cancelled) return;
  SendArguments nothing{.buffer = nullptr,
                        .count = 0,
                        .type = nullptr,
                        .peer = sent.receiver->peer,
                        .source = 0,
                        .tag = 0,
                        .context = sent.context};
  SendRequest& asking = sends_.create(*sent.receiver, nothing);
  sends_.set_complete_unbegun(asking);
  asking.state = SendRequest::EagerName{sent.sequence};
  asking.watcher = &sent;
  asking.on_complete = [](Request& asked) {
    auto& about = *static_cast<SentRequest*>(asked.watcher);
    about.status.cancelled = asked.status.cancelled;
    about.set_complete();
  };
  sent.set_asking(true);
  asking.cancel();
  if (asking.complete()) sent.set_asking(false);  // answered at once, or the receiver is lost
  asking.release();
}

bool SendCancels::on_cancel(Endpoint& peer, const wire::Header& header, Tuples* tuples) {
  const auto sequence = uint32_t(header.tag);
  UnexpectedMessage* found = unexpected_.find_last([&](const UnexpectedMessage& message) {
    if (message.from != &peer || message.arriving || message.context != header.context) return false;
    const bool eager = message.header.kind == wire::Kind::eager;
    return eager == (sequence != 0) && message.header.token == (eager ? sequence : header.token);
  });
  if (found) {
    unexpected_.hide(*found);
    if (found->owed) tuples->receiver.discard(*found);
    if (found->charged()) eager_.consumed(peer, found->bytes);
    unexpected_.destroy(*found);
  }
  control_.post(peer, wire::make_control_header(wire::Kind::cancel_answer, header.token, found ? 1 : 0));
  return found != nullptr;
}

void SendCancels::on_answer(Endpoint& peer, const wire::Header& header) {
  SendRequest* send = sends_.find(peer, header.token);
  if (!send || !(send->waits & SendRequest::kAnswer)) return;
  if (header.flags & 1) {
    send->status.cancelled = true;
    sends_.settle(*send, uint8_t(~SendRequest::kPath));  // the path may still hold what was sent: its `done` comes yet
  } else {
    sends_.settle(*send, SendRequest::kAnswer);
  }
}

}  // namespace tern
