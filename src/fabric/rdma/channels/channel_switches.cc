#include "fabric/rdma/channels/channel_switches.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "base/assert.h"
#include "fabric/rdma/channels/send_channels.h"
#include "fabric/rdma/channels/ud_endpoint.h"
#include "fabric/rdma/rdma_peer.h"

namespace tern {
namespace {

// Peers that still write into the rings of a sleeping rank do not wake it. So it polls so often until they have changed
// to another channel; that takes a round trip, or longer if the peer computes. 0.1 % of a core.
constexpr uint64_t kNap_ns = 1'000'000;

using Step = wire::RdmaChange::Step;

constexpr size_t kRingEntryBytes = 4096;  // 64 KB for 16 entries: Takagi et al. 2015, Table 4
constexpr size_t kSpareRings = 64;        // kept registered for the next change: 4 MiB at the default ring
// A ring that was found empty so often in a row is looked at in every eighth poll only. With all 63 senders of one
// busy rank taking turns there are some ten polls between two frames of a ring, so such rings do not get there.
constexpr uint32_t kQuietPolls = 64, kQuietInterval = 8;
constexpr uint32_t kFramesOfARing = 16;  // taken in one poll: a whole ring; then the next peer's

}  // namespace

ChannelSwitches::ChannelSwitches(RdmaAdapter& adapter, RdmaPeers& peers, RdmaConnections& connections,
                                 MessageStreams& streams, const Tunables& tunables)
    : adapter_(adapter),
      peers_(peers),
      streams_(streams),
      ring_entries_(uint32_t(tunables.rdma_ring_entries)),
      entry_bytes_(std::min(kRingEntryBytes, adapter.slot_bytes)),
      ordered_writes_(adapter.hca->capabilities().ordered_writes && tunables.rdma_ordered_writes != 0),
      pairs_(adapter, connections, tunables) {}

void ChannelSwitches::begin(RdmaPeer& peer) {
  OfPeer& its = peer.switching;
  its = {};
  its.kind = its.next_kind = its.out_next = base_;
  ++counts_[size_t(base_)];
}

void ChannelSwitches::set_kind(RdmaPeer& peer, ChannelKind kind) {
  OfPeer& its = peer.switching;
  TERN_DEBUG_ASSERT(counts_[size_t(its.kind)] != 0);
  --counts_[size_t(its.kind)];
  ++counts_[size_t(kind)];
  its.kind = kind;
  if (adapter_.options.channel_changed) adapter_.options.channel_changed(peer.id, channel_name(kind));
}

void ChannelSwitches::forgive(RdmaPeer& peer) { peer.switching.refused = false; }

// J1.
bool ChannelSwitches::request(RdmaPeer& peer, ChannelKind kind) {
  OfPeer& its = peer.switching;
  if (peer.state != RdmaPeer::State::ready || its.changing || its.kind == kind) return false;
  const bool pair_needed = pairs_.needs_pair(kind);
  if (its.refused && (pair_needed || kind == ChannelKind::rc_rdma)) return false;
  if (kind != base_ && !has_ring(kind) && !pair_needed && !(kind == ChannelKind::ud && ud_)) return false;
  wire::RdmaChange offer;
  offer.step = Step::offer;
  offer.kind = uint8_t(kind);
  offer.epoch = uint8_t(peer.stream.in_epoch + 1);
  offer.entries = adapter_.window;
  if (pair_needed) {
    if (!take_pair(peer)) return false;
    if (pairs_.make(peer)) {
      its.refused = true;  // the adapter has no more; the stream continues on its channel
      return false;
    }
    offer.has_pair = true;
    offer.pair = std::bit_cast<wire::RdmaAddress>(peer.connection.pair->address());
  }
  if (has_ring(kind)) {
    if (!(its.next_ring = take_ring())) return false;
    offer.entries = its.next_ring->entries();
    offer.entry_bytes = uint32_t(its.next_ring->entry_bytes());
    offer.key = its.next_ring->remote_key();
    offer.address = its.next_ring->address();
  }
  its.next_kind = kind;
  its.changing = true;
  tell(peer, offer);
  return true;
}

bool ChannelSwitches::arm() {
  if (polled_.empty()) return true;
  for (const RdmaPeer* peer : polled_) {
    const std::byte* frame = nullptr;
    size_t bytes = 0;
    if (peer->state == RdmaPeer::State::ready && peer->switching.ring->front(frame, bytes)) return false;
  }
  if (adapter_.hca->capabilities().polled_wakes) return true;
  for (RdmaPeer* peer : polled_) request(*peer, base_);
  napping_until_ns_ = adapter_.clock.now_ns() + kNap_ns;
  return true;
}

void ChannelSwitches::on_change(RdmaPeer& peer, const wire::RdmaFrame& frame) {
  OfPeer& its = peer.switching;
  wire::RdmaChange change;
  if (!wire::parse_rdma_change(frame.payload, frame.payload_bytes, change)) {
    peers_.break_peer(peer, "the peer sent what is no change of channels");
    return;
  }
  const bool of_theirs = its.changing && change.epoch == uint8_t(peer.stream.in_epoch + 1);
  const bool of_ours = its.leaving && change.epoch == uint8_t(peer.stream.out_epoch + 1);
  switch (change.step) {
    case Step::offer: on_offer(peer, change); return;
    case Step::accept:
      if (of_theirs) on_accept(peer, change);
      return;
    case Step::ready:
      if (!of_ours) return;
      its.may_leave = true;
      pump(peer);
      return;
    case Step::refuse:
      if (!of_theirs) return;
      its.refused = true;
      give_up_change(peer);
      if (base_ == ChannelKind::dc && change.kind == uint8_t(ChannelKind::rc_rdma)) request(peer, ChannelKind::dc_rdma);
      return;
    case Step::cancel:
      if (!of_ours) return;
      its.leaving = its.may_leave = false;
      its.out_next_channel.reset();
      return;
    case Step::retire:
    case Step::retired:
    case Step::keep: on_retirement(peer, change.step); return;
    case Step::join: on_join(peer, change); return;
    case Step::joined:
    case Step::unable: on_joined(peer, change); return;
  }
}

// J2.
void ChannelSwitches::on_offer(RdmaPeer& peer, const wire::RdmaChange& offer) {
  OfPeer& its = peer.switching;
  if (its.leaving || offer.epoch != uint8_t(peer.stream.out_epoch + 1)) {
    peers_.break_peer(peer, "the peer's changes of channels are out of step");
    return;
  }
  its.out_next = ChannelKind(offer.kind);
  its.out_next_window = offer.entries;
  its.leaving = true;
  its.out_next_channel.reset();
  if (its.out_next != base_ && !make_carrier(peer, offer)) {
    its.leaving = false;
    refuse(peer, offer);
    return;
  }
  if (offer.has_pair) {
    wire::RdmaChange answer = offer;
    answer.step = Step::accept;
    answer.pair = std::bit_cast<wire::RdmaAddress>(peer.connection.pair->address());
    tell(peer, answer);
  } else {
    its.may_leave = true;
    pump(peer);
  }
}

// The offered channel; false: it is not available.
bool ChannelSwitches::make_carrier(RdmaPeer& peer, const wire::RdmaChange& offer) {
  OfPeer& its = peer.switching;
  if (offer.kind >= kChannelKinds || has_ring(its.out_next) != (offer.entry_bytes != 0)) return false;
  if (its.out_next == ChannelKind::ud) {
    if (!ud_ || !peer.connection.card.datagrams) return false;
    its.out_next_channel = ud_->make_channel(peer);
    return true;
  }
  if (pairs_.needs_pair(its.out_next)) {
    if (!offer.has_pair || !take_pair(peer) || pairs_.make(peer) || pairs_.connect(peer, offer.pair)) return false;
    pairs_.channel(peer);
  }
  if (its.out_next == ChannelKind::rc) {
    if (!pairs_.needs_pair(its.out_next)) return false;
    its.out_next_channel =
        std::make_unique<ConnectedChannel>(adapter_, *peer.connection.pair, peer.connection.frame_bytes);
    return true;
  }
  Channel* carrier = peer.stream.base.get();
  std::unique_ptr<Channel> own_carrier;
  if (pairs_.needs_pair(its.out_next)) {
    carrier = its.connected.get();
  } else if (its.out_next == ChannelKind::dc_rdma && dc_) {
    own_carrier = std::make_unique<DcChannel>(*dc_, peer.id, true, *peer.connection.address_handle,
                                              peer.connection.base, adapter_.slot_bytes);
    carrier = own_carrier.get();
  } else if (its.out_next != ChannelKind::rc_rdma) {
    return false;
  }
  const RingChannel::Remote ring{offer.address, offer.key, offer.entries, offer.entry_bytes};
  its.out_next_channel = std::make_unique<RingChannel>(its.out_next, *carrier, std::move(own_carrier), ring,
                                                       adapter_.slot_bytes, ordered_writes_);
  return true;
}

void ChannelSwitches::refuse(RdmaPeer& peer, const wire::RdmaChange& offer) {
  wire::RdmaChange answer = offer;
  answer.step = Step::refuse;
  tell(peer, answer);
}

// J3.
void ChannelSwitches::on_accept(RdmaPeer& peer, const wire::RdmaChange& change) {
  OfPeer& its = peer.switching;
  wire::RdmaChange answer = change;
  if (!peer.connection.pair || pairs_.connect(peer, change.pair)) {
    answer.step = Step::cancel;
    its.refused = true;
    tell(peer, answer);
    give_up_change(peer);
    return;
  }
  answer.step = Step::ready;
  tell(peer, answer);
}

void ChannelSwitches::give_up_change(RdmaPeer& peer) {
  OfPeer& its = peer.switching;
  its.changing = false;
  its.next_kind = its.kind;
  if (its.next_ring) keep_ring(std::move(its.next_ring));
}

// J4. The old channel stays until nothing can be outstanding on it: it owns only its place in the ring.
void ChannelSwitches::leave(RdmaPeer& peer) {
  OfPeer& its = peer.switching;
  if (!streams_.post_last(peer)) return;
  its.leaving = its.may_leave = false;
  its.out = std::move(its.out_next_channel);
  streams_.change_out(peer, its.out ? *its.out : *peer.stream.base, its.out_next_window);
}

// J5.
void ChannelSwitches::on_last(RdmaPeer& peer) {
  OfPeer& its = peer.switching;
  if (!its.changing) {
    peers_.break_peer(peer, "the peer left a channel unasked");
    return;
  }
  its.changing = false;
  ++switches_;
  TERN_DEBUG_ASSERT(!its.next_ring || has_ring(its.next_kind));
  if (its.ring) {
    keep_ring(std::move(its.ring));
    if (!its.next_ring) std::erase(polled_, &peer);
  } else if (its.next_ring) {
    TERN_DEBUG_ASSERT(std::find(polled_.begin(), polled_.end(), &peer) == polled_.end());
    polled_.push_back(&peer);
  }
  its.ring = std::move(its.next_ring);
  its.empty_polls = 0;
  set_kind(peer, its.next_kind);
  streams_.change_in(peer, its.ring ? its.ring->entries() : adapter_.window);
}

void ChannelSwitches::pump(RdmaPeer& peer) {
  const OfPeer& its = peer.switching;
  if (its.may_leave || !its.outbox.empty()) [[unlikely]]
    pump_slow(peer);
}

void ChannelSwitches::pump_slow(RdmaPeer& peer) {
  OfPeer& its = peer.switching;
  while (!its.outbox.empty()) {
    if (!streams_.post_change(peer, its.outbox.front())) {
      adapter_.block(peer);
      return;
    }
    its.outbox.erase(its.outbox.begin());
  }
  if (its.may_leave) leave(peer);
}

void ChannelSwitches::tell(RdmaPeer& peer, const wire::RdmaChange& change) {
  peer.switching.outbox.push_back(change);
  pump_slow(peer);
}

int ChannelSwitches::poll(Counters& counters) {
  adapter_.hca->observe();
  int taken = 0;
  ++polls_;
  for (size_t i = 0; i < polled_.size(); ++i) {
    RdmaPeer& peer = *polled_[i];
    uint32_t& quiet = peer.switching.empty_polls;
    if (quiet >= kQuietPolls && (polls_ + i) % kQuietInterval != 0) continue;
    Ring* ring = peer.switching.ring.get();
    TERN_DEBUG_ASSERT(ring);
    const std::byte* frame = nullptr;
    size_t bytes = 0;
    if (peer.state != RdmaPeer::State::ready || !ring->front(frame, bytes)) {
      adapter_.charge(adapter_.options.ring_poll_ns);
      ++counters.rdma_empty_polls;
      ++quiet;
      continue;
    }
    quiet = 0;
    for (uint32_t frames = 0; frames < kFramesOfARing && ring->front(frame, bytes); ++frames) {
      ++taken;
      ring->pop();
      streams_.on_ring_frame(peer, frame, bytes);
      if (peer.state != RdmaPeer::State::ready || peer.switching.ring.get() != ring) break;
    }
  }
  return taken;
}

// Its rings are destroyed, not reused: over DC the peer may still write there.
void ChannelSwitches::forget(RdmaPeer& peer) {
  OfPeer& its = peer.switching;
  for (const auto* ring : {its.ring.get(), its.next_ring.get()}) {
    TERN_DEBUG_ASSERT(!ring || ring_bytes_ >= ring->memory_bytes());
    if (ring) ring_bytes_ -= ring->memory_bytes();
  }
  std::erase(polled_, &peer);
  pairs_.forget(peer);
  TERN_DEBUG_ASSERT(!peer.stream.base || counts_[size_t(its.kind)] != 0);
  if (peer.stream.base) --counts_[size_t(its.kind)];
  its = {};
}

std::unique_ptr<Ring> ChannelSwitches::take_ring() {
  if (!spare_rings_.empty()) {
    std::unique_ptr<Ring> ring = std::move(spare_rings_.back());
    spare_rings_.pop_back();
    return ring;
  }
  Error error;
  std::unique_ptr<Ring> ring = Ring::make(*adapter_.hca, ring_entries_, entry_bytes_, error);
  if (ring) ring_bytes_ += ring->memory_bytes();
  return ring;
}

void ChannelSwitches::keep_ring(std::unique_ptr<Ring> ring) {
  if (spare_rings_.size() >= kSpareRings) {
    ring_bytes_ -= ring->memory_bytes();
    return;
  }
  ring->clear();
  spare_rings_.push_back(std::move(ring));
  TERN_DEBUG_ASSERT(spare_rings_.size() <= kSpareRings);
}

}  // namespace tern
