#include "fabric/ofi/ofi_streams.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/assert.h"
#include "fabric/ofi/ofi_peer.h"
#include "fabric/poll_bounds.h"

namespace tern {

using OfiType = wire::OfiFrameType;

// Messages do not overtake puts that wait for room.
bool OfiStreams::may_leave(const OfiPeer& peer) const { return peer.transfers.waiting_puts == 0; }

// A frame in a buffer; null: there is none left.
OfiBuffer* OfiStreams::build(OfiPeer& peer, wire::OfiFrame& frame, const void* flat, Cursor* cursor) {
  OfiBuffer* buffer = adapter_.take_buffer();
  if (!buffer) return nullptr;
  frame.incarnation = uint16_t(peer.incarnation);
  frame.source = adapter_.options.peers->me();
  frame.number = peer.stream.sent;
  frame.proof = peer.out_proof;
  if (wire::is_numbered(frame.type)) ++peer.stream.sent;
  const size_t head = wire::build_ofi_frame(frame, buffer->memory), bytes = frame.payload_bytes;
  if (cursor) {
    cursor->pack(buffer->memory + head, bytes);
  } else if (bytes != 0) {
    std::memcpy(buffer->memory + head, flat, bytes);
  }
  buffer->bytes = head + bytes;
  buffer->peer = &peer;
  buffer->incarnation = peer.incarnation;
  return buffer;
}

// Hands the staged frame to the port. False: it is still here (or the peer is doomed).
bool OfiStreams::push(OfiPeer& peer) {
  OfiBuffer*& staged = peer.stream.staged;
  if (!staged) return true;
  const bool inject = staged->bytes <= adapter_.able().inject_bytes;
  const int result = adapter_.port->send(peer.address, adapter_.piece_of(*staged, staged->bytes), inject, *staged);
  if (result == 0) {
    staged = nullptr;
    peer.spoken = true;
    ++peer.outstanding;
    ++adapter_.outstanding;
    return true;
  }
  if (result != ofi::kAgain) peers_.doom(peer, adapter_.port->explain("fi_sendmsg", result));
  return false;
}

bool OfiStreams::try_send(OfiPeer& peer, const wire::Header& header, const void* payload, size_t bytes) {
  OfPeer& its = peer.stream;
  if (its.staged || !its.queue.empty() || !may_leave(peer)) return false;
  if (!peer.met && !peers_.meet(peer)) return false;
  wire::OfiFrame frame;
  frame.type = OfiType::whole;
  frame.header = header;
  frame.payload_bytes = bytes;
  its.staged = build(peer, frame, payload, nullptr);
  if (!its.staged) return false;
  if (!push(peer)) peers_.keep_busy(peer);  // it is copied: taken all the same
  return true;
}

void OfiStreams::enqueue(OfiPeer& peer, SendOperation& operation) {
  operation.total_bytes = operation.payload.remaining();
  operation.header_sent = false;
  peer.stream.queue.push_back(&operation);
  ++queued_;
  if (!peer.met && !peers_.meet(peer)) return;
  if (!pump(peer)) peers_.keep_busy(peer);
}

bool OfiStreams::withdraw(SendOperation& operation) {
  if (operation.header_sent || !operation.linked()) return false;
  IntrusiveList<SendOperation>::remove(&operation);
  --queued_;
  return true;
}

// The next frame of that message. False: there is no buffer.
bool OfiStreams::stage_next(OfiPeer& peer, SendOperation& operation) {
  const size_t left = operation.payload.remaining();
  wire::OfiFrame frame;
  frame.type = OfiType::more;
  if (!operation.header_sent) {
    const bool fits = wire::ofi_head_bytes(OfiType::whole) + left <= adapter_.frame_bytes;
    frame.type = fits ? OfiType::whole : OfiType::first;
  }
  frame.header = operation.header;
  frame.message_bytes = operation.total_bytes;
  frame.payload_bytes = std::min(left, adapter_.frame_bytes - wire::ofi_head_bytes(frame.type));
  peer.stream.staged = build(peer, frame, nullptr, &operation.payload);
  if (!peer.stream.staged) return false;
  operation.header_sent = true;
  return true;
}

bool OfiStreams::pump(OfiPeer& peer) {
  OfPeer& its = peer.stream;
  if (!push(peer)) return false;
  while (SendOperation* operation = its.queue.front()) {
    if (!may_leave(peer) || !stage_next(peer, *operation)) return false;
    if (operation->payload.remaining() == 0) {
      IntrusiveList<SendOperation>::remove(operation);
      --queued_;
      finished_.push_back(operation);
    }
    if (!push(peer)) return false;
  }
  return true;
}

bool OfiStreams::send_sign(OfiPeer& peer, OfiType type, const void* payload, size_t bytes) {
  if (peer.stream.staged || (!peer.met && !peers_.meet(peer))) return false;
  wire::OfiFrame frame;
  frame.type = type;
  frame.payload_bytes = bytes;
  peer.stream.staged = build(peer, frame, payload, nullptr);
  if (!peer.stream.staged) return false;
  if (!push(peer)) peers_.keep_busy(peer);
  return true;
}

void OfiStreams::on_sent(OfiBuffer& buffer, int error) {
  OfiPeer& peer = *buffer.peer;
  --peer.outstanding;
  --adapter_.outstanding;
  const bool of_now = buffer.incarnation == peer.incarnation;
  adapter_.give_back(buffer);
  if (error != 0 && of_now) peers_.doom(peer, adapter_.port->explain("fi_sendmsg", error));
}

void OfiStreams::on_frame(OfiPeer& peer, const wire::OfiFrame& frame, const std::byte* data, size_t bytes) {
  OfPeer& its = peer.stream;
  TERN_ASSERT(wire::is_numbered(frame.type));
  if (frame.number != its.received) {
    if (int32_t(frame.number - its.received) < 0) return;  // no provider repeats; nothing is believed twice
    if (!its.held) its.held = std::make_unique<std::map<uint32_t, std::vector<std::byte>>>();
    ++adapter_.held;
    its.held->try_emplace(frame.number, data, data + bytes);
    return;
  }
  ++its.received;
  deliver(peer, frame);
  while (its.held && !peer.doomed && !peer.lost) {
    const auto next = its.held->find(its.received);
    if (next == its.held->end()) return;
    const std::vector<std::byte> kept = std::move(next->second);
    its.held->erase(next);
    wire::OfiFrame parsed;
    if (!wire::parse_ofi_frame(kept.data(), kept.size(), parsed)) return;  // it was parsed before
    ++its.received;
    deliver(peer, parsed);
  }
}

// In the order of the stream.
void OfiStreams::deliver(OfiPeer& peer, const wire::OfiFrame& frame) {
  Reception& reception = peer.stream.reception;
  if (!reception.fits(frame.type == OfiType::more, frame.payload_bytes)) {
    peers_.doom(peer, "its frames are out of step");
    return;
  }
  adapter_.clock.charge_copy(frame.payload_bytes);
  if (frame.type == OfiType::whole) {
    sink_.on_message(peer, frame.header, frame.payload, frame.payload_bytes);
    return;
  }
  if (frame.type == OfiType::first) reception.begin(sink_, peer, frame.header, frame.message_bytes);
  reception.take(sink_, peer, frame.payload, frame.payload_bytes);
}

int OfiStreams::complete() {
  int handled = 0;
  while (handled < kMaxCompletions) {
    SendOperation* operation = finished_.pop_front();
    if (!operation) break;
    ++handled;
    operation->done(*operation, Error());
  }
  return handled;
}

void OfiStreams::fail_all(OfiPeer& peer) {
  OfPeer& its = peer.stream;
  if (its.staged) adapter_.give_back(*std::exchange(its.staged, nullptr));
  while (SendOperation* operation = its.queue.pop_front()) {
    --queued_;
    operation->done(*operation, peers_.reason(peer));
  }
  its.held.reset();
  its.reception.fail(sink_, peer, [&] { return peers_.reason(peer); });
}

void OfiStreams::reset(OfiPeer& peer) {
  OfPeer& its = peer.stream;
  TERN_ASSERT(its.queue.empty() && !its.staged);
  its.sent = its.received = 0;
  its.held.reset();
  its.reception = {};
}

void OfiStreams::forget(OfiPeer& peer) {
  while (peer.stream.queue.pop_front()) {
  }
  while (finished_.pop_front()) {
  }
}

}  // namespace tern
