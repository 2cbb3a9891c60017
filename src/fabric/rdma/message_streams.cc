#include "fabric/rdma/message_streams.h"

#include <algorithm>
#include <cstring>

#include "base/assert.h"
#include "fabric/rdma/rdma_peer.h"

namespace tern {

using Type = wire::RdmaFrameType;
using State = RdmaPeer::State;

// Payload from `flat`, or packed from `cursor`. False: nothing has happened (no slot, or the send queue is full).
bool MessageStreams::post_frame(RdmaPeer& peer, Type type, const wire::Header& header, uint64_t message_bytes,
                                const void* flat, Cursor* cursor, size_t bytes) {
  if (!adapter_.room(peer)) return false;
  OfPeer& its = peer.stream;
  uint16_t credits = uint16_t(std::min<uint32_t>(its.owed, 0xffff));
  size_t whole = wire::rdma_head_bytes(type) + bytes;
  std::byte small[RdmaAdapter::kMaxInlineBytes];
  std::byte* at = small;
  RdmaSlots& slots = adapter_.slots;
  const bool inlined = whole <= adapter_.inline_bytes;
  if (!inlined) {
    if (!slots.any()) return false;
    at = slots.memory(slots.next());
  }
  size_t head = wire::build_rdma_frame(type, credits, bytes, header, message_bytes, at);
  if (cursor) {
    cursor->pack(at + head, bytes);
  } else if (bytes != 0) {
    std::memcpy(at + head, flat, bytes);
  }
  adapter_.charge_copy(bytes);
  adapter_.charge(adapter_.options.send_ns);
  rdma::Piece piece =
      inlined ? rdma::Piece{reinterpret_cast<uint64_t>(small), uint32_t(whole), 0} : slots.piece(slots.next(), whole);
  rdma::WorkRequest work;
  work.inlined = inlined;
  work.pieces = &piece;
  work.piece_count = 1;
  work.id = inlined ? RdmaAdapter::id_of(RdmaTag::inlined, peer.id) : RdmaAdapter::id_of(RdmaTag::slot, slots.next());
  if (!its.channel->post_frame(peer, work)) {
    TERN_ASSERT(!cursor);  // packed is packed; `room` has been asked, and the queue has what we asked it to have
    return false;
  }
  if (!inlined) slots.take({peer.id, nullptr, uint32_t(bytes)});
  its.owed -= credits;
  if (type != Type::credit) --its.credits;
  return true;
}

bool MessageStreams::try_send(RdmaPeer& peer, const wire::Header& header, const void* payload, size_t bytes) {
  OfPeer& its = peer.stream;
  if (peer.state != State::ready || its.credits == 0 || !its.queue.empty() || !peer.transfers.waiting.empty())
    return false;
  if (wire::rdma_head_bytes(Type::whole) + bytes > its.channel->frame_bytes()) return false;
  return post_frame(peer, Type::whole, header, bytes, payload, nullptr, bytes);
}

void MessageStreams::enqueue(RdmaPeer& peer, SendOperation& operation) {
  operation.total_bytes = operation.payload.remaining();
  operation.header_sent = false;
  peer.stream.queue.push_back(&operation);
  ++queued_;
  pump(peer);
}

bool MessageStreams::withdraw(SendOperation& operation) {
  if (operation.header_sent || !operation.linked()) return false;
  IntrusiveList<SendOperation>::remove(&operation);
  --queued_;
  return true;
}

// Nothing leaves while a put waits to be posted, which messages must not overtake.
void MessageStreams::pump(RdmaPeer& peer) {
  OfPeer& its = peer.stream;
  if (peer.state != State::ready || !peer.transfers.waiting.empty()) return;
  const size_t frame_bytes = its.channel->frame_bytes();
  while (SendOperation* operation = its.queue.front()) {
    if (its.credits == 0) return;  // an arrival brings us here again
    size_t left = operation->payload.remaining();
    Type type = Type::more;
    if (!operation->header_sent) {
      bool fits = wire::rdma_head_bytes(Type::whole) + left <= frame_bytes;
      type = fits ? Type::whole : Type::first;
    }
    size_t part = std::min(left, frame_bytes - wire::rdma_head_bytes(type));
    if (!post_frame(peer, type, operation->header, operation->total_bytes, nullptr, &operation->payload, part)) {
      adapter_.block(peer);
      return;
    }
    operation->header_sent = true;
    if (part < left) continue;
    IntrusiveList<SendOperation>::remove(operation);
    --queued_;
    finished_.push_back(operation);
  }
}

void MessageStreams::on_frame(RdmaPeer& peer, const std::byte* data, size_t bytes) {
  wire::RdmaFrame frame;
  if (!wire::parse_rdma_frame(data, bytes, frame)) {
    peers_.break_peer(peer, "the peer sent what is no frame");
    return;
  }
  OfPeer& its = peer.stream;
  const bool starved = its.credits == 0;
  its.credits += frame.credits;
  if (frame.type != Type::credit) {
    on_message_frame(peer, frame);
    take_into_account(peer);
  }
  if (starved && frame.credits != 0) pump(peer);
}

void MessageStreams::take_into_account(RdmaPeer& peer) {
  if (++peer.stream.owed >= peer.stream.window / 2) give_credit(peer);
}

void MessageStreams::on_message_frame(RdmaPeer& peer, const wire::RdmaFrame& frame) {
  Reception& reception = peer.stream.reception;
  if (reception.active != (frame.type == Type::more) ||
      (reception.active && frame.payload_bytes > reception.bytes - reception.received)) {
    peers_.break_peer(peer, "the peer's frames are out of step");
    return;
  }
  adapter_.charge_copy(frame.payload_bytes);
  if (frame.type == Type::whole) {
    sink_.on_message(peer, frame.header, frame.payload, frame.payload_bytes);
    return;
  }
  if (frame.type == Type::first) {
    reception.active = true;
    reception.header = frame.header;
    reception.bytes = frame.message_bytes;
    reception.received = 0;
    reception.landing = sink_.on_header(peer, frame.header, frame.message_bytes);
  }
  reception.landing.target.unpack(frame.payload, frame.payload_bytes);
  reception.received += frame.payload_bytes;
  if (reception.received < reception.bytes) return;
  reception.active = false;
  sink_.on_landed(peer, reception.header, reception.landing, reception.bytes, Error());
}

void MessageStreams::give_credit(RdmaPeer& peer, bool now) {
  OfPeer& its = peer.stream;
  if (peer.state != State::ready || (!now && its.owed < std::max(1u, its.window / 2))) return;
  if (!post_frame(peer, Type::credit, {}, 0, nullptr, nullptr, 0)) adapter_.block(peer);
}

int MessageStreams::complete() {
  int handled = 0;
  while (SendOperation* operation = finished_.pop_front()) {
    ++handled;
    operation->done(*operation, Error());
  }
  return handled;
}

void MessageStreams::fail_all(RdmaPeer& peer) {
  OfPeer& its = peer.stream;
  while (SendOperation* operation = its.queue.pop_front()) {
    --queued_;
    operation->done(*operation, peers_.reason(peer));
  }
  if (its.reception.active) {
    its.reception.active = false;
    sink_.on_landed(peer, its.reception.header, its.reception.landing, its.reception.bytes, peers_.reason(peer));
  }
  its.channel.reset();
}

void MessageStreams::reset(RdmaPeer& peer) {
  OfPeer& its = peer.stream;
  TERN_ASSERT(its.queue.empty());
  its.channel.reset();
  its.credits = its.owed = its.window = 0;
  its.reception = {};
}

}  // namespace tern
