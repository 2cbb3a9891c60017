#include "fabric/rdma/rdma_completions.h"

#include "base/assert.h"

namespace tern {

int RdmaCompletions::take() {
  size_t count = adapter_.take(batch_);
  for (size_t i = 0; i < count; ++i) on_completion(batch_[i]);
  return int(count);
}

namespace {

// A greeting may come from a rank whose card is not known, a transfer ends an operation, and what failed loses a peer.
bool is_short(const rdma::Completion& completion) {
  if (completion.status != rdma::Status::success) return false;
  switch (RdmaAdapter::tag_of(completion.id)) {
    case RdmaTag::receive:
    case RdmaTag::slot:
    case RdmaTag::inlined:
    case RdmaTag::datagram:
    case RdmaTag::greeting_out: return true;
    case RdmaTag::part:
    case RdmaTag::transfer:
    case RdmaTag::greeting_in: return false;
  }
  return false;
}

}  // namespace

int RdmaCompletions::take_shortly() {
  const size_t count = adapter_.take(batch_);
  for (size_t i = 0; i < count; ++i) {
    if (!is_short(batch_[i])) [[unlikely]] {
      adapter_.put_back({batch_ + i, count - i});
      return -1;
    }
    on_completion(batch_[i]);
  }
  return int(count);
}

// False: the request is not over, although it has completed.
bool RdmaCompletions::returned(RdmaPeer& peer, const rdma::Completion& completion) {
  if (by_.dc && !by_.dc->on_completion(peer, completion)) return false;
  TERN_DEBUG_ASSERT(peer.outstanding != 0);
  adapter_.returned(peer);
  if (by_.xrc) by_.xrc->on_completion(completion);
  if (completion.status != rdma::Status::success) peers_.break_peer(peer, rdma::status_name(completion.status));
  return true;
}

void RdmaCompletions::on_completion(const rdma::Completion& completion) {
  const uint64_t value = RdmaAdapter::value_of(completion.id);
  const bool ok = completion.status == rdma::Status::success;
  switch (RdmaAdapter::tag_of(completion.id)) {
    case RdmaTag::receive:
      if (ok) on_receive(completion);
      adapter_.receive_taken(uint32_t(value));
      return;
    case RdmaTag::slot:
      if (returned(*table_.known(adapter_.slots.use(value).peer), completion))
        adapter_.slots.give_back(uint32_t(value));
      return;
    case RdmaTag::inlined: returned(*table_.known(uint32_t(value)), completion); return;
    case RdmaTag::part: {
      RdmaPeer& peer = *table_.known(adapter_.slots.use(value).peer);
      if (returned(peer, completion)) transfers_.on_part(uint32_t(value), ok);
      return;
    }
    case RdmaTag::transfer: {
      auto& transfer = *static_cast<RdmaTransfers::Transfer*>(RdmaAdapter::address_of(completion.id));
      if (returned(transfer.peer, completion)) transfers_.on_transfer(transfer, ok);
      return;
    }
    case RdmaTag::datagram: by_.ud->on_sent(completion); return;
    case RdmaTag::greeting_in: connections_.on_greeting_in(completion); return;
    case RdmaTag::greeting_out: connections_.on_greeting_out(completion); return;
  }
}

void RdmaCompletions::on_receive(const rdma::Completion& completion) {
  const uint32_t slot = uint32_t(RdmaAdapter::value_of(completion.id));
  if (by_.ud && completion.queue_pair == by_.ud->number()) {
    if (completion.bytes > rdma::kUdHeaderBytes)
      by_.ud->on_arrival(adapter_.slots.memory(slot) + rdma::kUdHeaderBytes, completion.bytes - rdma::kUdHeaderBytes);
    return;
  }
  // A put that wakes: the rank that waits for it finds it in the memory it has filled.
  const bool written = completion.kind == rdma::CompletionKind::receive_write;
  wire::RdmaFrame frame;
  if (!written && !wire::parse_rdma_frame(adapter_.slots.memory(slot), completion.bytes, frame)) {
    if (RdmaPeer* peer = connections_.by_number(completion.queue_pair))
      peers_.break_peer(*peer, "the peer sent what is no frame");
    return;
  }
  const uint32_t source = written ? wire::rdma_immediate_source(completion.immediate) : frame.source;
  RdmaPeer* peer = table_.known(source);
  if (!peer || table_.is_me(*peer)) return;                                  // no messages come that way
  if (!written && frame.incarnation != uint16_t(peer->incarnation)) return;  // of a lane that was given up
  if (!hears(*peer)) return;
  if (written) {
    streams_.on_written(*peer, wire::rdma_immediate_epoch(completion.immediate));
    return;
  }
  adapter_.charge(adapter_.options.receive_ns);
  streams_.on_shared_frame(*peer, frame, adapter_.slots.memory(slot), completion.bytes);
}

// Something came from there, so the peer is connected, too. False: it does not count any more, or not yet.
bool RdmaCompletions::hears(RdmaPeer& peer) {
  if (peer.state != RdmaPeer::State::ready && peer.state != RdmaPeer::State::answered) return false;
  peer.heard = true;
  TERN_DEBUG_ASSERT(peer.state != RdmaPeer::State::lost && peer.state != RdmaPeer::State::broken);
  connections_.answered_is_ready(peer);
  return true;
}

void RdmaCompletions::on_stream_frame(RdmaPeer& peer, const std::byte* data, size_t bytes) {
  wire::RdmaFrame frame;
  if (!hears(peer)) return;
  if (!wire::parse_rdma_frame(data, bytes, frame) || frame.source != peer.id) {
    peers_.break_peer(peer, "the peer's datagrams bring what is no frame");
    return;
  }
  adapter_.charge(adapter_.options.receive_ns);
  streams_.on_shared_frame(peer, frame, data, bytes);
}

}  // namespace tern
