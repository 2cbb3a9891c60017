#include "fabric/rdma/rdma_connections.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "base/assert.h"
#include "fabric/rdma/channels/dc_endpoint.h"
#include "fabric/rdma/channels/ud_endpoint.h"
#include "fabric/rdma/channels/xrc_endpoint.h"
#include "fabric/rdma/rdma_peer.h"

namespace tern {
namespace {

using Greeting = wire::RdmaGreeting::Kind;
using State = RdmaPeer::State;

constexpr uint64_t kLongestRetry_ns = 1'000'000'000;  // between two greetings: a computing peer costs one a second

}  // namespace

RdmaConnections::RdmaConnections(RdmaAdapter& adapter, RdmaPeers& peers, const Tunables& tunables, Lookup lookup)
    : adapter_(adapter),
      peers_(peers),
      lookup_(std::move(lookup)),
      connect_timeout_ns_(uint64_t(tunables.rdma_connect_timeout_s) * 1'000'000'000),
      keepalive_ns_(uint64_t(tunables.rdma_keepalive_ms) * 1'000'000),
      greeting_ns_(uint64_t(tunables.rdma_greeting_ms) * 1'000'000) {}

Error RdmaConnections::start(ChannelKind base, const DcEndpoint* dc, const UdEndpoint* ud, XrcEndpoint* xrc) {
  base_ = base;
  dc_ = dc;
  ud_ = ud;
  xrc_ = xrc;
  rdma::QueuePairOptions options;
  options.kind = rdma::QueuePairKind::ud;
  options.sends = options.receives = &adapter_.completions();
  options.send_depth = options.receive_depth = kRdmaGreetingSlots;
  // Keeps stray datagrams of strangers out; a greeting is accepted by its signature.
  std::memcpy(&options.key, adapter_.options.key.data(), 4);
  options.key &= 0x7fffffff;  // the upper half is for privileged consumers
  if (Error error = adapter_.hca->make_queue_pair(options, datagrams_)) return error;
  for (uint32_t i = 0; i < kRdmaGreetingSlots; ++i) {
    post_greeting_receive(adapter_.slots.greeting_in(i));
    free_greetings_.push_back(adapter_.slots.greeting_out(i));
    TERN_DEBUG_ASSERT(free_greetings_.size() <= kRdmaGreetingSlots);
  }
  wire::RdmaCard card;
  card.greetings = std::bit_cast<wire::RdmaAddress>(datagrams_->address());
  if (ud_) ud_->describe(card);
  if (xrc_) xrc_->describe(card);
  card_ = wire::build_rdma_card(card);
  return {};
}

void RdmaConnections::post_greeting_receive(uint32_t slot) {
  rdma::Piece piece = adapter_.slots.piece(slot, adapter_.slot_bytes);
  rdma::ReceiveRequest receive{RdmaAdapter::id_of(RdmaTag::greeting_in, slot), &piece, 1};
  datagrams_->post_receives({&receive, 1});
}

void RdmaConnections::contact(RdmaPeer& peer) {
  TERN_ASSERT(peer.state == State::fresh);
  const bool to_self = peer.id == adapter_.options.peers->me();
  if (Error error = to_self ? connect_to_self(peer) : prepare(peer)) {
    peers_.break_peer(peer, std::string(error.text()));
    return;
  }
  if (to_self) return;
  peer.state = State::greeting;
  repeat_hellos(peer);
  greet(peer, Greeting::hello);
}

// The address of the base channel, as the peer shall use it. False: it cannot be told yet.
bool RdmaConnections::base_address(RdmaPeer& peer, Greeting kind, rdma::QueuePairAddress& address) {
  switch (base_) {
    case ChannelKind::dc: address = dc_->target_for(peer.id); return true;
    case ChannelKind::ud: address = ud_->address(); return true;
    case ChannelKind::xrc:
      if (kind == Greeting::hello) return xrc_->hello(peer, address);
      address = peer.xrc.target;
      return true;
    default: address = peer.connection.pair->address(); return true;
  }
}

// A queue pair connected to itself (or the way to this rank's own DC target): there is nobody to greet.
Error RdmaConnections::connect_to_self(RdmaPeer& peer) {
  if (adapter_.failed()) return Error(ErrorClass::other, "the adapter has failed");
  OfPeer& its = peer.connection;
  if (base_ == ChannelKind::dc) {
    its.base = dc_->target_for(peer.id);
    if (Error error = adapter_.hca->make_address_handle(its.base.port, its.address_handle)) return error;
  } else {
    if (Error error = make_pair(peer)) return error;
    its.base = its.pair->address();
    if (Error error = connect_pair(peer, its.base)) return error;
  }
  TERN_DEBUG_ASSERT(!its.connected);
  its.connected = true;
  its.call = peer.id;
  its.frame_bytes = uint32_t(adapter_.slot_bytes);
  peers_.on_connected(peer, 0);
  become_ready(peer, false);
  return {};
}

// Repeated until the connection is known to be up on both sides. A hello is answered in every state.
void RdmaConnections::repeat_hellos(RdmaPeer& peer) {
  OfPeer& its = peer.connection;
  if (std::exchange(its.greeted, true)) return;
  TERN_DEBUG_ASSERT(std::find(greeted_.begin(), greeted_.end(), &peer) == greeted_.end());
  greeted_.push_back(&peer);
  uint64_t now = adapter_.clock.now_ns();
  its.retry_wait_ns = greeting_ns_;
  its.retry_ns = now + its.retry_wait_ns;
  its.give_up_ns = now + connect_timeout_ns_;
}

void RdmaConnections::stop_greeting(RdmaPeer& peer) {
  peer.connection.greeted = false;
  std::erase(greeted_, &peer);
}

// The way to the peer's datagrams, and our queue pair for it.
Error RdmaConnections::prepare(RdmaPeer& peer) {
  if (adapter_.failed()) return Error(ErrorClass::other, "the adapter has failed");
  OfPeer& its = peer.connection;
  if (!its.address_handle) {
    std::string card;
    if (Error error = lookup_(peer.id, card)) return error;
    if (Error error = wire::parse_rdma_card(card, its.card)) return error;
    if (base_ == ChannelKind::ud && !its.card.datagrams)
      return Error(ErrorClass::arg, "it takes no messages by datagrams: set TERN_RDMA_CHANNELS for all ranks");
    const auto address = std::bit_cast<rdma::QueuePairAddress>(its.card.greetings);
    if (Error error = adapter_.hca->make_address_handle(address.port, its.address_handle)) return error;
  }
  return base_ == ChannelKind::rc ? make_pair(peer) : Error();
}

Error RdmaConnections::make_pair(RdmaPeer& peer) {
  if (peer.connection.pair) return {};
  if (!spare_pairs_.empty()) {
    peer.connection.pair = std::move(spare_pairs_.back());
    spare_pairs_.pop_back();
  } else if (Error error = adapter_.hca->make_queue_pair(adapter_.connected_options(), peer.connection.pair)) {
    return error;
  }
  ++pairs_;
  return {};
}

Error RdmaConnections::connect_pair(RdmaPeer& peer, const rdma::QueuePairAddress& remote) {
  OfPeer& its = peer.connection;
  its.remote = remote;
  if (Error error = its.pair->connect(remote)) return error;
  TERN_DEBUG_ASSERT(!by_number_.contains(its.pair->number()));
  by_number_[its.pair->number()] = &peer;
  return {};
}

void RdmaConnections::keep_pair(RdmaPeer& peer) {
  std::unique_ptr<rdma::QueuePair> pair = std::move(peer.connection.pair);
  by_number_.erase(pair->number());
  TERN_DEBUG_ASSERT(pairs_ != 0);
  --pairs_;
  if (!pair->reset()) spare_pairs_.push_back(std::move(pair));
}

// A greeting for which there is no room is not sent; the other side (or this side's timer) repeats.
void RdmaConnections::greet(RdmaPeer& peer, Greeting kind) {
  if (free_greetings_.empty() || datagrams_failed_) return;
  rdma::QueuePairAddress base;
  if (!base_address(peer, kind, base)) return;
  uint32_t slot = free_greetings_.back();
  TERN_DEBUG_ASSERT(peer.connection.address_handle);
  wire::RdmaGreeting greeting;
  greeting.kind = kind;
  greeting.from = adapter_.options.peers->my_name();
  greeting.to = adapter_.options.peers->name(peer.id);
  greeting.call = peer.id;
  greeting.base = uint8_t(base_);
  greeting.address = std::bit_cast<wire::RdmaAddress>(base);
  greeting.frame_bytes = uint32_t(adapter_.slot_bytes);
  greeting.window = adapter_.window;
  greeting.incarnation = peer.incarnation;
  wire::build_rdma_greeting(greeting, adapter_.options.key.data(), adapter_.slots.memory(slot));
  rdma::Piece piece = adapter_.slots.piece(slot, wire::kRdmaGreetingBytes);
  rdma::WorkRequest work;
  work.id = RdmaAdapter::id_of(RdmaTag::greeting_out, slot);
  work.verb = rdma::Verb::send;
  work.pieces = &piece;
  work.piece_count = 1;
  work.address_handle = peer.connection.address_handle.get();
  const auto to = std::bit_cast<rdma::QueuePairAddress>(peer.connection.card.greetings);
  work.remote_number = to.number;
  work.remote_key_of_queue = to.key;
  if (datagrams_->post({&work, 1}) == 1) free_greetings_.pop_back();
}

void RdmaConnections::on_greeting_in(const rdma::Completion& completion) {
  const uint32_t slot = uint32_t(RdmaAdapter::value_of(completion.id));
  if (completion.status == rdma::Status::success && completion.bytes >= rdma::kUdHeaderBytes) {
    on_greeting(adapter_.slots.memory(slot) + rdma::kUdHeaderBytes, completion.bytes - rdma::kUdHeaderBytes);
  }
  if (completion.status == rdma::Status::success && !datagrams_failed_) {
    post_greeting_receive(slot);
  } else {
    flushed_receives_.push_back(slot);
    TERN_DEBUG_ASSERT(flushed_receives_.size() <= kRdmaGreetingSlots);
    on_greeting_flushed();
  }
}

void RdmaConnections::on_greeting_out(const rdma::Completion& completion) {
  free_greetings_.push_back(uint32_t(RdmaAdapter::value_of(completion.id)));
  TERN_DEBUG_ASSERT(free_greetings_.size() <= kRdmaGreetingSlots);
  if (completion.status != rdma::Status::success || datagrams_failed_) on_greeting_flushed();
}

// The greeting itself is lost, and repeated.
void RdmaConnections::on_greeting_flushed() {
  if (!std::exchange(datagrams_failed_, true)) datagrams_->fail();
  if (flushed_receives_.size() < kRdmaGreetingSlots || free_greetings_.size() < kRdmaGreetingSlots) return;
  if (Error error = datagrams_->reset()) return;  // no connections can be made any more: as without the adapter
  datagrams_failed_ = false;
  for (uint32_t slot : std::exchange(flushed_receives_, {})) post_greeting_receive(slot);
}

void RdmaConnections::on_greeting(const std::byte* data, size_t bytes) {
  wire::RdmaGreeting greeting;
  if (!wire::parse_rdma_greeting(data, bytes, adapter_.options.key.data(), greeting)) return;
  if (greeting.to != adapter_.options.peers->my_name()) return;
  RdmaPeer* peer = peers_.find(adapter_.options.peers->find(greeting.from));
  if (!peer || peer->state == State::broken || peer->state == State::lost) return;
  if (greeting.incarnation != peer->incarnation) return;  // of a lane that both have given up
  peer->heard = true;
  if (greeting.kind == Greeting::hello) {
    on_hello(*peer, greeting);
    return;
  }
  // A welcome: the peer's queue pair is connected to ours.
  if (peer->state == State::greeting && !connect(*peer, greeting)) return;
  if (xrc_ && !connect_node(*peer, greeting)) return;
  if (peer->state == State::greeting || peer->state == State::answered) {
    become_ready(*peer, true);
  }
}

void RdmaConnections::on_hello(RdmaPeer& peer, const wire::RdmaGreeting& greeting) {
  if (Error error = prepare(peer)) {
    peers_.break_peer(peer, std::string(error.text()));
    return;
  }
  if (xrc_) {
    if (Error error = xrc_->on_hello(peer, std::bit_cast<rdma::QueuePairAddress>(greeting.address))) {
      peers_.break_peer(peer, std::string(error.text()));
      return;
    }
  }
  if (!peer.connection.connected) {
    if (!connect(peer, greeting)) return;
    peer.state = State::answered;
    TERN_DEBUG_ASSERT(peer.connection.connected);
    repeat_hellos(peer);                     // the peer may die now
    if (xrc_) greet(peer, Greeting::hello);  // our direction needs a welcome of its own
  } else if (!xrc_ && !(peer.connection.base == std::bit_cast<rdma::QueuePairAddress>(greeting.address))) {
    return;  // not the connection that we have
  }
  greet(peer, Greeting::welcome);
}

bool RdmaConnections::connect(RdmaPeer& peer, const wire::RdmaGreeting& greeting) {
  OfPeer& its = peer.connection;
  if (greeting.base != uint8_t(base_)) {
    const std::string its_base = greeting.base < kChannelKinds ? channel_name(ChannelKind(greeting.base)) : "another";
    peers_.break_peer(peer, "its messages begin by the channel " + its_base + ", ours by " + channel_name(base_) +
                                " (TERN_RDMA_CHANNELS, or an adapter lacks one)");
    return false;
  }
  its.base = std::bit_cast<rdma::QueuePairAddress>(greeting.address);
  if (base_ == ChannelKind::rc) {
    if (Error error = connect_pair(peer, its.base)) {
      peers_.break_peer(peer, std::string(error.text()));
      return false;
    }
  }
  TERN_DEBUG_ASSERT(!its.connected && std::find(connected_.begin(), connected_.end(), &peer) == connected_.end());
  its.connected = true;
  its.call = greeting.call;
  its.frame_bytes = uint32_t(std::min<size_t>(adapter_.slot_bytes, greeting.frame_bytes));
  connected_.push_back(&peer);
  peers_.on_connected(peer, greeting.window);
  if (keepalive_ns_ != 0 && keepalive_due_ns_ == ~uint64_t{0})
    keepalive_due_ns_ = adapter_.clock.now_ns() + keepalive_ns_;
  return true;
}

// The peer's target for our queue pair of its node, where that has none yet; then the greetings that waited for it
// leave.
bool RdmaConnections::connect_node(RdmaPeer& peer, const wire::RdmaGreeting& welcome) {
  if (peer.state != State::greeting && peer.state != State::answered) return false;
  bool news = false;
  if (Error error = xrc_->on_welcome(peer, std::bit_cast<rdma::QueuePairAddress>(welcome.address), news)) {
    peers_.break_peer(peer, std::string(error.text()));
    return false;
  }
  if (!news) return true;
  for (RdmaPeer* other : std::vector<RdmaPeer*>(greeted_)) {
    if (other != &peer && other->xrc.node == peer.xrc.node) greet(*other, Greeting::hello);
  }
  return true;
}

void RdmaConnections::answered_is_ready(RdmaPeer& peer) {
  if (peer.state == State::answered && !xrc_) become_ready(peer, false);
}

void RdmaConnections::become_ready(RdmaPeer& peer, bool tell) {
  TERN_DEBUG_ASSERT(peer.connection.connected && peer.state != State::lost && peer.state != State::broken);
  peer.state = State::ready;
  stop_greeting(peer);
  peers_.on_ready(peer, tell);
}

void RdmaConnections::close(RdmaPeer& peer) {
  OfPeer& its = peer.connection;
  if (its.pair) {
    by_number_.erase(its.pair->number());
    TERN_DEBUG_ASSERT(pairs_ != 0);
    --pairs_;
  }
  its.pair.reset();
  its.address_handle.reset();
  if (its.connected) std::erase(connected_, &peer);
  its.connected = false;
}

void RdmaConnections::close_all_greetings() {
  for (RdmaPeer* peer : greeted_) peer->connection.greeted = false;
  greeted_.clear();
  keepalive_due_ns_ = ~uint64_t{0};
}

uint64_t RdmaConnections::next_deadline_ns() const {
  uint64_t next = keepalive_due_ns_;
  for (const RdmaPeer* peer : greeted_) next = std::min({next, peer->connection.retry_ns, peer->connection.give_up_ns});
  return next;
}

void RdmaConnections::run_timers(uint64_t now_ns) {
  const std::vector<RdmaPeer*> greeted = greeted_;
  for (RdmaPeer* peer : greeted) {
    OfPeer& its = peer->connection;
    if (now_ns >= its.give_up_ns) {
      peers_.break_peer(*peer, "no answer to greetings for " + std::to_string(connect_timeout_ns_ / 1'000'000'000) +
                                   " s (TERN_RDMA_CONNECT_TIMEOUT_S)");
    } else if (now_ns >= its.retry_ns) {
      its.retry_wait_ns = std::min(2 * its.retry_wait_ns, kLongestRetry_ns);
      its.retry_ns = now_ns + its.retry_wait_ns;
      greet(*peer, Greeting::hello);
    }
  }
  if (now_ns >= keepalive_due_ns_) {
    keepalive_due_ns_ = connected_.empty() ? ~uint64_t{0} : now_ns + keepalive_ns_;
    look_for_the_silent();
  }
}

void RdmaConnections::look_for_the_silent() {
  for (RdmaPeer* peer : connected_) {
    bool silent = peer->state == State::ready && !peer->heard && peer->outstanding == 0;
    peer->heard = false;
    if (silent) peer->stream.base->probe(*peer);
  }
}

}  // namespace tern
