#include "fabric/rdma/message_streams.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/assert.h"
#include "fabric/next_frame.h"
#include "fabric/rdma/rdma_peer.h"

namespace tern {

using Type = wire::RdmaFrameType;
using State = RdmaPeer::State;

void MessageStreams::begin(RdmaPeer& peer, std::unique_ptr<Channel> base, uint32_t credits) {
  OfPeer& its = peer.stream;
  TERN_DEBUG_ASSERT(base && !its.base);
  its.base = std::move(base);
  its.channel = its.base.get();
  its.credits = credits;
  its.window = adapter_.window;
}

// Payload from `flat`, or packed from `cursor`. False: nothing has happened (no slot, or the send queue is full). A
// frame of a message, or the last one of a channel, uses one of the credits.
bool MessageStreams::post_frame(RdmaPeer& peer, Channel& channel, wire::RdmaFrame& frame, const void* flat,
                                Cursor* cursor) {
  const ChannelTraits& traits = channel.traits();
  if (!channel.room(peer, traits.requests)) return false;
  OfPeer& its = peer.stream;
  const size_t bytes = frame.payload_bytes;
  frame.credits = uint16_t(std::min<uint32_t>(its.owed, 0xffff));
  frame.credit_epoch = its.in_epoch;
  frame.epoch = its.out_epoch;
  frame.source = peer.connection.call;
  frame.incarnation = uint16_t(peer.incarnation);
  const size_t whole = wire::rdma_head_bytes(frame.type) + bytes;
  std::byte small[RdmaAdapter::kMaxInlineBytes];
  std::byte* at = small;
  RdmaSlots& slots = adapter_.slots;
  const bool inlined = !traits.scratch && whole + traits.tail_bytes <= adapter_.inline_bytes;
  const bool in_slot = !traits.scratch && (!inlined || traits.keeps_memory);
  if (traits.scratch) at = traits.scratch;
  if (in_slot) {
    if (!slots.any()) return false;
    at = slots.memory(slots.next());
  }
  size_t head = wire::build_rdma_frame(frame, at);
  if (cursor) {
    cursor->pack(at + head, bytes);
  } else if (bytes != 0) {
    std::memcpy(at + head, flat, bytes);
  }
  adapter_.clock.charge_copy(bytes);
  adapter_.charge(adapter_.options.send_ns);
  rdma::Piece piece =
      in_slot ? slots.piece(slots.next(), whole) : rdma::Piece{reinterpret_cast<uint64_t>(at), uint32_t(whole), 0};
  rdma::WorkRequest work;
  work.inlined = inlined;
  work.id = in_slot ? RdmaAdapter::id_of(RdmaTag::slot, slots.next()) : RdmaAdapter::id_of(RdmaTag::inlined, peer.id);
  channel.post_frame(peer, work, piece);
  if (in_slot) slots.take({peer.id, nullptr, uint32_t(bytes)});
  TERN_DEBUG_ASSERT(its.owed >= frame.credits);
  its.owed -= frame.credits;
  if (frame.type != Type::credit && frame.type != Type::change) {
    TERN_DEBUG_ASSERT(its.credits != 0);
    --its.credits;
    ++its.sent;
  }
  return true;
}

bool MessageStreams::try_send(RdmaPeer& peer, const wire::Header& header, const void* payload, size_t bytes) {
  OfPeer& its = peer.stream;
  if (peer.state != State::ready || its.credits == 0 || !its.queue.empty() || !peer.transfers.waiting.empty())
    return false;
  if (waits_for_puts(peer)) return false;
  if (wire::rdma_head_bytes(Type::whole) + bytes > its.channel->traits().frame_bytes) return false;
  wire::RdmaFrame frame;
  frame.type = Type::whole;
  frame.header = header;
  frame.payload_bytes = bytes;
  return post_frame(peer, *its.channel, frame, payload, nullptr);
}

// Puts that go by another channel are over before a message that was sent after them leaves.
bool MessageStreams::waits_for_puts(const RdmaPeer& peer) {
  return peer.transfers.puts != 0 && !peer.stream.channel->traits().carries_transfers;
}

void MessageStreams::enqueue(RdmaPeer& peer, SendOperation& operation) {
  operation.total_bytes = operation.payload.remaining();
  operation.header_sent = false;
  TERN_DEBUG_ASSERT(!operation.linked());
  ++queued_;
  if (peer.state == RdmaPeer::State::lost) {
    failed_.push_back(&operation);
    return;
  }
  peer.stream.queue.push_back(&operation);
  pump(peer);
}

bool MessageStreams::withdraw(SendOperation& operation) {
  if (operation.header_sent || !operation.linked()) return false;
  IntrusiveList<SendOperation>::remove(&operation);
  TERN_DEBUG_ASSERT(queued_ != 0);
  --queued_;
  return true;
}

// Nothing leaves while a put waits to be posted, which messages must not overtake.
void MessageStreams::pump(RdmaPeer& peer) {
  OfPeer& its = peer.stream;
  if (peer.state != State::ready) return;
  switches_.pump(peer);  // transfers may wait for what it has to tell the peer
  if (!peer.transfers.waiting.empty()) return;
  if (waits_for_puts(peer)) {
    if (!its.queue.empty()) adapter_.block(peer);
    return;
  }
  const size_t frame_bytes = its.channel->traits().frame_bytes;
  while (SendOperation* operation = its.queue.front()) {
    if (its.credits == 0) return;  // called again after an arrival
    auto frame = next_frame<wire::RdmaFrame>(*operation, frame_bytes, wire::rdma_head_bytes);
    if (!post_frame(peer, *its.channel, frame, nullptr, &operation->payload)) {
      adapter_.block(peer);
      return;
    }
    operation->header_sent = true;
    if (operation->payload.remaining() != 0) continue;
    IntrusiveList<SendOperation>::remove(operation);
    TERN_DEBUG_ASSERT(queued_ != 0);
    --queued_;
    finished_.push_back(operation);
  }
}

void MessageStreams::take_credits(RdmaPeer& peer, const wire::RdmaFrame& frame) {
  OfPeer& its = peer.stream;
  if (frame.credits == 0 || frame.credit_epoch != its.out_epoch) return;
  const bool starved = its.credits == 0;
  its.credits += frame.credits;
  if (starved) pump(peer);
}

void MessageStreams::on_shared_frame(RdmaPeer& peer, const wire::RdmaFrame& frame, const std::byte* data,
                                     size_t bytes) {
  if (frame.type == Type::credit) {
    take_credits(peer, frame);
  } else if (frame.type == Type::change) {
    take_credits(peer, frame);
    switches_.on_change(peer, frame);
  } else if (frame.epoch == uint8_t(peer.stream.in_epoch + 1) && peer.switching.changing) [[unlikely]] {
    adapter_.clock.charge_copy(bytes);
    peer.stream.held.emplace_back(data, data + bytes);
  } else {
    on_frame(peer, frame);
  }
}

void MessageStreams::on_ring_frame(RdmaPeer& peer, const std::byte* data, size_t bytes) {
  wire::RdmaFrame frame;
  if (!wire::parse_rdma_frame(data, bytes, frame) || frame.source != peer.id) {
    peers_.break_peer(peer, "what the peer wrote into its ring is no frame");
    return;
  }
  peer.heard = true;
  adapter_.charge(adapter_.options.receive_ns);
  on_frame(peer, frame);
}

// In the order of the stream.
void MessageStreams::on_frame(RdmaPeer& peer, const wire::RdmaFrame& frame) {
  if (frame.epoch != peer.stream.in_epoch) {
    peers_.break_peer(peer, "the peer's frames are of another channel");
    return;
  }
  if (frame.type == Type::last) {
    take_credits(peer, frame);
    switches_.on_last(peer);
    return;
  }
  on_message_frame(peer, frame);
  take_into_account(peer);
  take_credits(peer, frame);
}

bool MessageStreams::post_last(RdmaPeer& peer) {
  OfPeer& its = peer.stream;
  if (peer.state != State::ready || its.credits == 0 || !peer.transfers.waiting.empty()) return false;
  // Transfers that come after these by another queue pair must not overtake them.
  if (!peer.transfers.posted.empty()) {
    adapter_.block(peer);
    return false;
  }
  wire::RdmaFrame frame;
  frame.type = Type::last;
  if (post_frame(peer, *its.channel, frame, nullptr, nullptr)) return true;
  adapter_.block(peer);
  return false;
}

bool MessageStreams::post_change(RdmaPeer& peer, const wire::RdmaChange& change) {
  if (peer.state != State::ready) return false;
  std::byte body[wire::kRdmaChangeBytes];
  wire::build_rdma_change(change, body);
  wire::RdmaFrame frame;
  frame.type = Type::change;
  frame.payload_bytes = sizeof body;
  return post_frame(peer, *peer.stream.base, frame, body, nullptr);
}

void MessageStreams::change_out(RdmaPeer& peer, Channel& channel, uint32_t credits) {
  OfPeer& its = peer.stream;
  ++its.out_epoch;
  its.channel = &channel;
  its.credits = credits;
}

void MessageStreams::change_in(RdmaPeer& peer, uint32_t window) {
  OfPeer& its = peer.stream;
  ++its.in_epoch;
  its.owed = std::exchange(its.written_early, 0);
  its.window = window;
  for (const std::vector<std::byte>& held : std::exchange(its.held, {})) {
    wire::RdmaFrame frame;
    if (peer.state == State::ready && wire::parse_rdma_frame(held.data(), held.size(), frame)) on_frame(peer, frame);
  }
}

void MessageStreams::on_written(RdmaPeer& peer, uint8_t epoch) {
  if (epoch == peer.stream.in_epoch) take_into_account(peer);
  // It has overtaken the last frame of this epoch.
  if (epoch == uint8_t(peer.stream.in_epoch + 1) && peer.switching.changing) ++peer.stream.written_early;
}

void MessageStreams::take_into_account(RdmaPeer& peer) {
  if (++peer.stream.owed >= peer.stream.window / 2) give_credit(peer);
}

void MessageStreams::on_message_frame(RdmaPeer& peer, const wire::RdmaFrame& frame) {
  Reception& reception = peer.stream.reception;
  if (!reception.fits(frame.type == Type::more, frame.payload_bytes)) {
    peers_.break_peer(peer, "the peer's frames are out of step");
    return;
  }
  adapter_.clock.charge_copy(frame.payload_bytes);
  if (frame.type != Type::more && ++peer.stream.received == 1) switches_.on_first_message(peer);
  reception.deliver(sink_, peer, frame);
}

void MessageStreams::give_credit(RdmaPeer& peer, bool now) {
  OfPeer& its = peer.stream;
  if (peer.state != State::ready || (!now && its.owed < std::max(1u, its.window / 2))) return;
  ++credit_frames_;
  wire::RdmaFrame frame;
  if (!post_frame(peer, *its.base, frame, nullptr, nullptr)) adapter_.block(peer);
}

int MessageStreams::complete() {
  int handled = 0;
  while (SendOperation* operation = finished_.pop_front()) {
    ++handled;
    operation->done(*operation, Error());
  }
  while (SendOperation* operation = failed_.pop_front()) {
    ++handled;
    --queued_;
    operation->done(*operation, peers_.reason(static_cast<RdmaPeer&>(*operation->lane)));
  }
  return handled;
}

void MessageStreams::fail_all(RdmaPeer& peer) {
  OfPeer& its = peer.stream;
  while (SendOperation* operation = its.queue.pop_front()) {
    --queued_;
    operation->done(*operation, peers_.reason(peer));
  }
  its.reception.fail(sink_, peer, [&] { return peers_.reason(peer); });
  peer.stream.held.clear();
  its.channel = nullptr;
  its.base.reset();
}

void MessageStreams::reset(RdmaPeer& peer) {
  OfPeer& its = peer.stream;
  TERN_ASSERT(its.queue.empty());
  its.credits = its.owed = its.written_early = its.window = its.received = 0;
  its.out_epoch = its.in_epoch = 0;
  its.reception = {};
}

}  // namespace tern
