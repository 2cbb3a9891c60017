#include "base/assert.h"
#include "p2p/protocols/eager.h"

namespace tern {

namespace {
uint8_t flags_of(const SendArguments& a) { return a.requested ? wire::kRequested : 0; }
}  // namespace

bool EagerSender::leave_packed(Endpoint& to, const SendArguments& a, const wire::Header& header, size_t bytes) {
  std::byte packed[kPackBytes];
  Cursor(const_cast<void*>(a.buffer), a.count, *a.type).pack(packed, bytes);
  return to.try_send_message(header, packed, bytes);
}

Request* EagerSender::send_at_once(Endpoint& peer, const SendArguments& a) {
  const size_t bytes = size_t(a.count) * a.type->size();
  if (int64_t(bytes) > peer.at_once_limit() || a.mode == SendMode::synchronous || !peer.credit.take(bytes))
    return nullptr;
  const uint32_t sequence = sends_.next_sequence();
  const uint64_t began_ns = sends_.trace_time_ns();
  if (!leave_with_credit(peer, a, bytes, sequence, flags_of(a))) return nullptr;
  sends_.note_sent(peer, a, bytes, began_ns);
  return &sends_.sent(peer, sequence, a.context);
}

void EagerSender::begin(SendRequest& send, bool blocking) {
  const SendArguments& a = send.arguments;
  Endpoint& peer = send.endpoint;
  const size_t bytes = send.data_bytes();
  const bool taken = peer.credit.take(bytes);
  TERN_ASSERT(taken);
  wire::Header header =
      wire::make_header(wire::Kind::eager, a.source, a.context, a.tag, 0, flags_of(a), peer.credit.carry());
  if (a.mode == SendMode::synchronous) {
    send.waits |= SendRequest::kMatch;
    header.kind = wire::Kind::eager_sync;
    header.token = sends_.name(send);
  } else {
    header.token = sends_.next_sequence();
    send.state = SendRequest::EagerName{header.token};
  }
  TERN_DEBUG_ASSERT((send.waits & SendRequest::kPath) == 0);
  send.waits |= SendRequest::kPath;
  if (blocking || int64_t(bytes) <= peer.at_once_limit()) {  // else the path need not copy it
    if (leave_now(peer, a, header, bytes)) {
      sends_.settle(send, SendRequest::kPath);
      return;
    }
    ++sends_.counts().sends_queued;
  }
  sends_.enqueue(send, header, send.data());
}

}  // namespace tern
