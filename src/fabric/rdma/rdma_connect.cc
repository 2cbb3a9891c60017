// Greetings: how a connection is made, and what is done when time passes. See rdma_path.h.
#include <algorithm>
#include <bit>

#include "base/assert.h"
#include "fabric/rdma/rdma_path.h"

namespace tern {
namespace {

using Greeting = wire::RdmaGreeting::Kind;

constexpr uint64_t kLongestRetryNs = 1'000'000'000;

}  // namespace

// Begins a connection from our side.
void RdmaPath::contact(Peer& peer) {
  TERN_ASSERT(peer.state == PeerState::fresh);
  Error error = prepare(peer);
  if (error) {
    break_peer(peer, std::string(error.text()));
    return;
  }
  peer.state = PeerState::greeting;
  repeat_hellos(peer);
  greet(peer, Greeting::hello);
}

// Until the connection is known to be up on both sides. A hello is answered whatever the state of the one who gets it.
void RdmaPath::repeat_hellos(Peer& peer) {
  if (peer.greeted) return;
  peer.greeted = true;
  greeted_.push_back(&peer);
  uint64_t now = clock_.now_ns();
  peer.retry_wait_ns = greeting_ns_;
  peer.retry_ns = now + peer.retry_wait_ns;
  peer.give_up_ns = now + connect_timeout_ns_;
}

// The way to the peer's datagrams, and our queue pair for it.
Error RdmaPath::prepare(Peer& peer) {
  if (adapter_failed_) return Error(ErrorClass::other, "the adapter has failed");
  if (!peer.route) {
    std::string card;
    if (Error error = lookup_(peer.id, card)) return error;
    wire::RdmaAddress address;
    if (Error error = wire::parse_rdma_card(card, address)) return error;
    peer.datagram = std::bit_cast<rdma::QueuePairAddress>(address);
    if (Error error = hca_->make_route(peer.datagram.port, peer.route)) return error;
  }
  return peer.pair ? Error() : make_pair(peer);
}

Error RdmaPath::make_pair(Peer& peer) {
  rdma::QueuePairOptions options;
  options.kind = rdma::QueuePairKind::rc;
  options.sends = options.receives = completions_.get();
  options.srq = receives_.get();
  options.send_depth = send_depth_;
  options.inline_bytes = uint32_t(inline_bytes_);
  options.rnr_wait_ns = rnr_wait_ns_;
  options.timeout_ns = timeout_ns_;
  options.retries = retries_;
  if (Error error = hca_->make_queue_pair(options, peer.pair)) return error;
  peer.window = window_;
  return {};
}

// A greeting that finds no room is not sent; the other side (or our timer) repeats.
void RdmaPath::greet(Peer& peer, wire::RdmaGreeting::Kind kind) {
  if (free_greetings_.empty()) return;
  uint32_t slot = free_greetings_.back();
  wire::RdmaGreeting greeting;
  greeting.kind = kind;
  greeting.from = table_.my_name();
  greeting.to = table_.name(peer.id);
  greeting.address = std::bit_cast<wire::RdmaAddress>(peer.pair->address());
  greeting.frame_bytes = uint32_t(slot_bytes_);
  greeting.window = window_;
  greeting.incarnation = peer.incarnation;
  wire::build_rdma_greeting(greeting, options_.key.data(), slot_memory(slot));
  rdma::Piece piece = slot_piece(slot, wire::kRdmaGreetingBytes);
  rdma::WorkRequest work;
  work.id = id_of(Tag::greeting_out, slot);
  work.verb = rdma::Verb::send;
  work.pieces = &piece;
  work.piece_count = 1;
  work.route = peer.route.get();
  work.remote_number = peer.datagram.number;
  work.remote_key_of_queue = peer.datagram.key;
  if (datagrams_->post({&work, 1}) == 1) free_greetings_.pop_back();
}

void RdmaPath::on_greeting(const std::byte* data, size_t bytes) {
  wire::RdmaGreeting greeting;
  if (!wire::parse_rdma_greeting(data, bytes, options_.key.data(), greeting)) return;
  const PeerId from = table_.find(greeting.from);
  if (greeting.to != table_.my_name() || from == kNoPeer || !reaches(from)) return;
  Peer& peer = peer_at(from);
  if (peer.state == PeerState::broken || peer.state == PeerState::lost) return;
  if (greeting.incarnation != peer.incarnation) return;  // of a lane that both have given up
  peer.heard = true;
  if (greeting.kind == Greeting::hello) {
    if (Error error = prepare(peer)) {
      break_peer(peer, std::string(error.text()));
      return;
    }
    if (peer.pair->state() == rdma::QueuePair::State::idle) {
      if (!connect(peer, greeting)) return;
      peer.state = PeerState::answered;
      repeat_hellos(peer);  // the peer may die now
    } else if (!(peer.remote == std::bit_cast<rdma::QueuePairAddress>(greeting.address))) {
      return;  // not the connection that we have
    }
    greet(peer, Greeting::welcome);
    return;
  }
  // A welcome: the peer's queue pair is connected to ours.
  if (peer.state == PeerState::greeting && !connect(peer, greeting)) return;
  if (peer.state == PeerState::greeting || peer.state == PeerState::answered) {
    become_ready(peer);
    // The first frame tells the peer that we are connected, too.
    if (!post_frame(peer, wire::RdmaFrameType::credit, {}, 0, nullptr, nullptr, 0)) block(peer);
  }
}

bool RdmaPath::connect(Peer& peer, const wire::RdmaGreeting& greeting) {
  peer.remote = std::bit_cast<rdma::QueuePairAddress>(greeting.address);
  if (Error error = peer.pair->connect(peer.remote)) {
    break_peer(peer, std::string(error.text()));
    return false;
  }
  by_number_[peer.pair->number()] = &peer;
  peer.credits = greeting.window;
  peer.frame_bytes = std::min<size_t>(slot_bytes_, greeting.frame_bytes);
  if (keepalive_ns_ != 0 && keepalive_due_ns_ == ~uint64_t{0}) keepalive_due_ns_ = clock_.now_ns() + keepalive_ns_;
  return true;
}

void RdmaPath::become_ready(Peer& peer) {
  peer.state = PeerState::ready;
  std::erase(greeted_, &peer);
  pump_transfers(peer);
  pump(peer);
}

uint64_t RdmaPath::next_deadline_ns() const {
  uint64_t next = keepalive_due_ns_;
  for (const Peer* peer : greeted_) next = std::min({next, peer->retry_ns, peer->give_up_ns});
  return next;
}

void RdmaPath::run_timers(uint64_t now_ns) {
  std::vector<Peer*> greeted = greeted_;
  for (Peer* peer : greeted) {
    if (now_ns >= peer->give_up_ns) {
      break_peer(*peer, "no answer to greetings for " + std::to_string(connect_timeout_ns_ / 1'000'000'000) +
                            " s (TERN_RDMA_CONNECT_TIMEOUT_S)");
    } else if (now_ns >= peer->retry_ns) {
      peer->retry_wait_ns = std::min(2 * peer->retry_wait_ns, kLongestRetryNs);
      peer->retry_ns = now_ns + peer->retry_wait_ns;
      greet(*peer, Greeting::hello);
    }
  }
  if (now_ns >= keepalive_due_ns_) {
    keepalive_due_ns_ = by_number_.empty() ? ~uint64_t{0} : now_ns + keepalive_ns_;
    look_for_the_silent();
  }
}

// An empty write reaches the peer's adapter and comes back without its CPU: who computes is not taken for dead.
void RdmaPath::look_for_the_silent() {
  for (auto& [number, peer] : by_number_) {
    bool silent = peer->state == PeerState::ready && !peer->heard && peer->outstanding == 0;
    peer->heard = false;
    if (!silent) continue;
    rdma::WorkRequest work;
    work.verb = rdma::Verb::write;
    work.id = id_of(Tag::inlined, peer->id);
    post(*peer, work);
  }
}

}  // namespace tern
