#include "fabric/ofi/ofi_streams.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/assert.h"
#include "fabric/next_frame.h"
#include "fabric/ofi/ofi_peer.h"
#include "fabric/poll_bounds.h"

namespace tern {

using OfiType = wire::OfiFrameType;

// Whether a message that leaves now may wait for the next ones. One that would fill more than half of a frame does not:
// none as long has room beside it.
//
// It may wait in this rank only if a later call surely sends it: the sender's own, or the event thread's.
bool OfiStreams::may_wait(OfiPeer& peer, const wire::Header& header, size_t bytes) {
  if (2 * (wire::ofi_head_bytes(OfiType::whole) + bytes) > adapter_.frame_bytes) return false;
  if (!bursts_.may_wait(peer, adapter_.clock.rough_ns(), header)) return false;
  if (!(helped_ || wire::sender_comes_back(header)) || armed_) return false;
  return hints_.holding = true;
}

void OfiStreams::end_bursts() {
  bursts_.note_poll();
  if (bursts_.empty()) return;
  bursts_.end(adapter_.clock.rough_ns(), [this](OfiPeer& peer) {
    if (!peer.lost && !peer.doomed) (void)push(peer);  // what the port refuses now is pumped later: the peer is busy
  });
  hints_.holding = false;
}

// Messages do not overtake puts that wait for room.
bool OfiStreams::may_leave(const OfiPeer& peer) const { return peer.transfers.waiting_puts == 0; }

// The buffer for a frame of `bytes`: the staged one if it has room, else a new one. Null: there is none.
OfiBuffer* OfiStreams::room_for(OfiPeer& peer, size_t bytes) {
  OfiBuffer*& staged = peer.stream.staged;
  if (staged) {
    const size_t begin = wire::ofi_stride(staged->bytes);
    if (begin + bytes <= adapter_.frame_bytes) {
      std::memset(staged->memory + staged->bytes, 0, begin - staged->bytes);
      staged->bytes = begin;
      return staged;
    }
    if (!push(peer)) return nullptr;
  }
  staged = adapter_.take_buffer();
  if (!staged) return nullptr;
  staged->bytes = 0;
  staged->peer = &peer;
  staged->incarnation = peer.incarnation;
  return staged;
}

// False, and nothing has happened: there is no room.
bool OfiStreams::stage(OfiPeer& peer, wire::OfiFrame& frame, const void* flat, Cursor* cursor) {
  const size_t bytes = frame.payload_bytes;
  OfiBuffer* buffer = room_for(peer, wire::ofi_head_bytes(frame.type) + bytes);
  if (!buffer) return false;
  frame.incarnation = uint16_t(peer.incarnation);
  frame.source = adapter_.options.peers->me();
  frame.number = peer.stream.sent;
  frame.proof = peer.out_proof;
  if (wire::is_numbered(frame.type)) ++peer.stream.sent;
  std::byte* begin = buffer->memory + buffer->bytes;
  const size_t head = wire::build_ofi_frame(frame, begin);
  if (cursor) {
    cursor->pack(begin + head, bytes);
  } else if (bytes != 0) {
    std::memcpy(begin + head, flat, bytes);
  }
  buffer->bytes += head + bytes;
  TERN_DEBUG_ASSERT(buffer->bytes <= adapter_.frame_bytes);
  return true;
}

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
    peer.coalescing.has_left(adapter_.clock.rough_ns());
    return true;
  }
  if (result != ofi::kAgain) peers_.doom(peer, adapter_.port->explain("fi_sendmsg", result));
  return false;
}

bool OfiStreams::try_send(OfiPeer& peer, const wire::Header& header, const void* payload, size_t bytes) {
  if (!peer.stream.queue.empty() || !may_leave(peer)) return false;
  if (!peer.met && !peers_.meet(peer)) return false;
  wire::OfiFrame frame;
  frame.type = OfiType::whole;
  frame.header = header;
  frame.payload_bytes = bytes;
  if (!stage(peer, frame, payload, nullptr)) return false;
  if (may_wait(peer, header, bytes) || !push(peer)) peers_.keep_busy(peer);  // it is copied: taken all the same
  return true;
}

void OfiStreams::enqueue(OfiPeer& peer, SendOperation& operation) {
  operation.total_bytes = operation.payload.remaining();
  operation.header_sent = false;
  peer.stream.queue.push_back(&operation);
  ++queued_;
  if (!peer.met && !peers_.meet(peer)) return;
  const bool waits = may_wait(peer, operation.header, operation.total_bytes);
  if (!stage_queue(peer) || waits || !push(peer)) peers_.keep_busy(peer);
}

bool OfiStreams::withdraw(SendOperation& operation) {
  if (operation.header_sent || !operation.linked()) return false;
  IntrusiveList<SendOperation>::remove(&operation);
  --queued_;
  return true;
}

// The next frame of that message. False: there is no room.
bool OfiStreams::stage_next(OfiPeer& peer, SendOperation& operation) {
  auto frame = next_frame<wire::OfiFrame>(operation, adapter_.frame_bytes, wire::ofi_head_bytes);
  if (!stage(peer, frame, nullptr, &operation.payload)) return false;
  operation.header_sent = true;
  return true;
}

// As much of the queue as there is room for. False: something is left.
bool OfiStreams::stage_queue(OfiPeer& peer) {
  OfPeer& its = peer.stream;
  while (SendOperation* operation = its.queue.front()) {
    if (!may_leave(peer) || !stage_next(peer, *operation)) return false;
    if (operation->payload.remaining() != 0) continue;
    IntrusiveList<SendOperation>::remove(operation);
    --queued_;
    finished_.push_back(operation);
  }
  return true;
}

bool OfiStreams::pump(OfiPeer& peer) {
  const bool all = stage_queue(peer);
  return push(peer) && all;
}

bool OfiStreams::send_sign(OfiPeer& peer, OfiType type, const void* payload, size_t bytes) {
  if (!peer.met && !peers_.meet(peer)) return false;
  wire::OfiFrame frame;
  frame.type = type;
  frame.payload_bytes = bytes;
  if (!stage(peer, frame, payload, nullptr)) return false;
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

void OfiStreams::on_frame(OfiPeer& peer, const wire::OfiFrame& frame, const std::byte* data) {
  OfPeer& its = peer.stream;
  TERN_ASSERT(wire::is_numbered(frame.type));
  if (frame.number != its.received) {
    if (int32_t(frame.number - its.received) < 0) return;  // no provider repeats; nothing is believed twice
    if (!its.held) its.held = std::make_unique<std::map<uint32_t, std::vector<std::byte>>>();
    ++adapter_.held;
    its.held->try_emplace(frame.number, data, data + frame.bytes);
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
  reception.deliver(sink_, peer, frame);
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
