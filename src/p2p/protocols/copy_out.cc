#include "p2p/protocols/copy_out.h"

#include <utility>

#include "base/assert.h"
#include "datatype/kind.h"

namespace tern {

bool CopyOut::fits(const SendRequest& send) {
  Endpoint& peer = send.endpoint;
  return send.arguments.mode != SendMode::synchronous && send.data_bytes() <= peer.properties().hybrid_bytes &&
         peer.can_get_lent();
}

CopyOut::Result CopyOut::begin(SendRequest& send) {
  Endpoint& peer = send.endpoint;
  RendezvousSend& left = *send.rendezvous();
  TERN_ASSERT(send.waits == SendRequest::kData && left.copy_lock && !left.buffer && send.token != 0);
  LibraryBuffers::Loan buffer = buffers_.borrow(peer);
  if (!buffer) {
    ++counters_.no_buffer;
    return Result::no_buffer;
  }
  if (!peer.arbiter->try_lock_copy(nullptr, left.exposed.key())) return Result::taken;
  const size_t bytes = send.data_bytes();
  send.data().pack(buffer.memory(), bytes);
  clock_.charge_copy(bytes);
  ++counters_.copied_out;

  if (!types_) types_ = std::make_unique<PredefinedTypes>();
  SendArguments copied = send.arguments;
  copied.buffer = buffer.memory();
  copied.count = Count(bytes);
  copied.type = &types_->get(type_id::kByte);
  copied.attended = copied.requested = false;
  SendRequest& own = sends_.create(peer, copied);
  sends_.open(own);
  own.protocol = send.protocol = Protocol::hybrid;
  own.stream_faster = send.stream_faster;
  sends_.rename(send, own);
  RendezvousSend& state = sends_.begin_rendezvous(own, left.sender);
  state.body.bytes = bytes;
  state.body.address = reinterpret_cast<uint64_t>(buffer.memory());
  state.body.key[0] = buffer.key().words[0];
  state.body.key[1] = buffer.key().words[1];
  state.buffer = std::move(buffer);
  own.waits = SendRequest::kData;
  control_.post(peer, wire::make_control_header(wire::Kind::moved, own.token), &state.body, sizeof state.body);
  sends_.end_rendezvous(send);
  send.state = SendRequest::HybridCopy{own.token};  // for MPI_Cancel
  own.release();                                    // destroys itself when it completes
  sends_.settle(send, SendRequest::kData);
  return Result::copied;
}

}  // namespace tern
