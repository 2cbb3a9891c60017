// Operations on their way down, completions on their way up. See rdma_path.h.
#include "fabric/rdma/rdma_path.h"

#include <algorithm>
#include <utility>

#include "base/assert.h"
#include "fabric/poll_bounds.h"
#include "fabric/rdma/channels/send_channels.h"

namespace tern {
namespace {

// Peers that still write into the rings of a sleeping rank do not wake it. So it polls so often until they have changed
// to another channel; that takes a round trip, or longer if the peer computes. 0.1 % of a core.
constexpr uint64_t kNap_ns = 1'000'000;

// A sleep counts as this number of polls towards the next look at the timers, since it may have lasted long: a deadline
// that ended it is seen after at most four further attempts to sleep.
constexpr uint32_t kPollsOfASleep = kTimerPolls / 4;

}  // namespace

std::unique_ptr<RdmaPath> RdmaPath::create(const RdmaOptions& options, const Tunables& tunables,
                                           std::unique_ptr<rdma::Hca> hca, Clock& clock, Sink& sink, Lookup lookup,
                                           Error& error) {
  Tunables used = tunables;
  used.rdma_channels = channels_in_use(tunables, hca->capabilities(), uint32_t(options.peers->size()), options.nodes);
  std::unique_ptr<RdmaPath> path(new RdmaPath(options, used, std::move(hca), clock, sink, std::move(lookup)));
  error = path->start(used);
  if (error) path.reset();
  return path;
}

RdmaPath::RdmaPath(const RdmaOptions& options, const Tunables& tunables, std::unique_ptr<rdma::Hca> hca, Clock& clock,
                   Sink& sink, Lookup lookup)
    : sink_(sink),
      adapter_(options, tunables, std::move(hca), clock),
      transfers_(adapter_, *this, tunables),
      connections_(adapter_, *this, tunables, std::move(lookup)),
      streams_(adapter_, *this, switches_, sink),
      switches_(adapter_, *this, connections_, streams_, tunables),
      policy_(tunables, adapter_.hca->capabilities(), adapter_.options.peers->size()),
      tunables_(tunables) {
  const rdma::Capabilities& able = adapter_.hca->capabilities();
  properties_.name = "rdma";
  properties_.eager_bytes = adapter_.slot_bytes - wire::kRdmaMaxHeadBytes;
  // Datagrams are acknowledged by the library.
  properties_.needs_cpu = !able.autonomous || policy_.base() == ChannelKind::ud;
  properties_.announce_from_bytes = properties_.eager_bytes + 1;
  properties_.hybrid_bytes = size_t(tunables.rdma_hybrid_bytes);
  remote_properties_.get = remote_properties_.put = true;
  remote_properties_.autonomous = able.autonomous;
  remote_properties_.atomics = able.atomics;
  remote_properties_.atomic_swap = able.atomic_swap;
  remote_properties_.atomics_with_cpu = able.atomics_with_cpu;
  remote_properties_.ordered_atomics = able.atomics;
  // A queue pair delivers in the order of posting, and no message is posted before an earlier put.
  remote_properties_.puts_before_messages = true;
  remote_properties_.ordered_writes = able.ordered_writes && tunables.rdma_ordered_writes != 0;
}

void RdmaPath::share_adapter(std::vector<AdapterUse*> all, AdapterUse& mine) {
  // FNV-1a of its name; never 0.
  uint64_t number = 0xcbf29ce484222325u;
  for (const char c : hca().capabilities().device) number = (number ^ uint8_t(c)) * 0x100000001b3u;
  adapter_.share.join(std::move(all), mine, number | 1);
}

Error RdmaPath::start(const Tunables& tunables) {
  if (Error error = policy_.check()) return error;
  if (adapter_.options.peers->size() > wire::kRdmaMaxRanks) {
    return Error(ErrorClass::unsupported_operation,
                 "the rdma path numbers ranks up to " + std::to_string(wire::kRdmaMaxRanks));
  }
  if (Error error = adapter_.start()) return error;
  if (policy_.base() == ChannelKind::dc) {
    dc_ = std::make_unique<DcEndpoint>(adapter_, static_cast<RdmaPeers&>(*this));
    if (Error error = dc_->start(uint32_t(tunables.rdma_dc_initiators))) return error;
  }
  if (policy_.datagrams()) {
    ud_ = std::make_unique<UdEndpoint>(adapter_, static_cast<RdmaPeers&>(*this), tunables);
    if (Error error = ud_->start()) return error;
  }
  if (policy_.base() == ChannelKind::xrc)
    xrc_ = std::make_unique<XrcEndpoint>(adapter_, static_cast<RdmaPeers&>(*this));
  // One more for greetings. Targets and the queue pairs of others cost this adapter's cache nothing until they are
  // used.
  adapter_.share.set_fixed(1 + (dc_ ? uint32_t(tunables.rdma_dc_initiators) : 0) + (ud_ ? 1 : 0));
  switches_.set_base(policy_.base(), policy_.on_demand(), dc_.get(), ud_.get());
  return connections_.start(policy_.base(), dc_.get(), ud_.get(), xrc_.get());
}

TupleQueues* RdmaPath::tuple_queues() {
  if (tuples_ || !hca().capabilities().xrc || adapter_.failed()) return tuples_.get();
  Error error;  // of resources: messages use the traditional protocols
  tuples_ = rdma::RdmaTuples::create(
      adapter_, transfers_.registration_cache(), tunables_,
      [this](PeerId peer, const char* trouble) { break_peer(peer_at(peer), trouble); }, error);
  return tuples_.get();
}

RdmaPath::~RdmaPath() {
  tuples_.reset();
  for (auto& peer : peers_) {
    if (peer) connections_.close(*peer);
  }
}

Lane* RdmaPath::own_lane() { return &peer_at(adapter_.options.peers->me()); }

RdmaPeer& RdmaPath::peer_at(PeerId id) {
  TERN_DEBUG_ASSERT(id < adapter_.options.peers->size());
  if (peers_.size() <= id) peers_.resize(adapter_.options.peers->size());
  if (!peers_[id]) peers_[id] = std::make_unique<RdmaPeer>(id);
  return *peers_[id];
}

void RdmaPath::enqueue(SendOperation& operation) {
  auto& peer = static_cast<RdmaPeer&>(*operation.lane);
  if (peer.state == RdmaPeer::State::lost) {
    operation.total_bytes = operation.payload.remaining();
    operation.header_sent = false;
    unsendable_.push_back(&operation);
    return;
  }
  TERN_DEBUG_ASSERT(!operation.linked());
  if (peer.state == RdmaPeer::State::fresh) connections_.contact(peer);
  streams_.enqueue(peer, operation);
  if (ud_) hints_.holding = ud_->holding();
}

bool RdmaPath::withdraw(SendOperation& operation) {
  if (static_cast<RdmaPeer&>(*operation.lane).state == RdmaPeer::State::lost) return false;
  return streams_.withdraw(operation);
}

RemoteKey RdmaPath::expose(const void* address, size_t bytes, RemoteAccess access) {
  RemoteKey key = transfers_.expose(address, bytes, access);
  count_registrations();
  return key;
}

void RdmaPath::transfer(TransferOperation& operation, bool is_put) {
  auto& peer = static_cast<RdmaPeer&>(*operation.lane);
  if (peer.state == RdmaPeer::State::lost) {
    TERN_DEBUG_ASSERT(!operation.linked());
    untransferable_.push_back(&operation);
    return;
  }
  if (peer.state == RdmaPeer::State::fresh) connections_.contact(peer);
  transfers_.begin(operation, is_put);
  count_registrations();
}

// Of an atomic or a flush.
template <typename Operation>
void RdmaPath::begin(Operation& operation) {
  auto& peer = static_cast<RdmaPeer&>(*operation.lane);
  if (peer.state == RdmaPeer::State::lost) {
    operation.done(operation, reason(peer));
    return;
  }
  transfers_.begin(operation);
  if (peer.state == RdmaPeer::State::fresh && transfers_.waiting(peer)) connections_.contact(peer);
}
template void RdmaPath::begin(AtomicOperation&);
template void RdmaPath::begin(FlushOperation&);

void RdmaPath::count_registrations() {
  counters().rdma_registration_hits = transfers_.registrations().hits();
  counters().rdma_registration_misses = transfers_.registrations().misses();
}

int RdmaPath::poll() {
  ++polls_;
  if (adapter_.drain_events()) {
    polls_ += kPollsOfASleep;
    napping_until_ns_ = ~uint64_t{0};
    take_events();
  }
  int handled = take_completions();
  if (tuples_ && !adapter_.failed()) handled += tuples_->poll();
  if (switches_.any_ring()) handled += switches_.poll(counters());
  adapter_.repost();
  if (anything_to_complete()) handled += complete_finished();
  if (adapter_.any_blocked()) pump_blocked();
  if (!broken_.empty()) handled += bury_broken();
  if (ud_) {
    if (ud_->busy()) ud_->advance(false);
    hints_.holding = ud_->holding();
  }
  // Timers read the clock: better while there is nothing else to do.
  if (polls_ >= kTimerPolls && (handled == 0 || polls_ >= 2 * kTimerPolls)) {
    polls_ = 0;
    publish_counters();
    if (connections_.timers() || policy_.adapts()) run_timers();
  }
  return handled;
}

void RdmaPath::run_timers() {
  const uint64_t now_ns = adapter_.clock.now_ns();
  if (connections_.timers()) connections_.run_timers(now_ns);
  if (now_ns >= policy_.due_ns()) apply_policy(now_ns);
}

// Counts what came in the last second, for the statistics.
void RdmaPath::apply_policy(uint64_t now_ns) {
  for (const auto& peer : peers_) {
    if (!peer || peer->state != RdmaPeer::State::ready || is_me(*peer)) continue;
    switches_.end_of_unit(*peer);
    policy_.count(peer->id, peer->stream.received, switches_.sends_connected(*peer));
  }
  policy_.limit_connected(switches_.update_share());
  const ChannelPolicy::Mapping* mapping = policy_.end_of_unit(now_ns);
  if (mapping) {
    for (const auto& peer : peers_) {
      if (!peer || peer->state != RdmaPeer::State::ready || is_me(*peer)) continue;
      auto found = mapping->find(peer->id);
      if (policy_.changed()) switches_.forgive(*peer);
      const ChannelKind now = peer->switching.kind;
      const ChannelKind wanted = found != mapping->end() ? found->second : policy_.stays(now) ? now : policy_.base();
      // A ring without a connected queue pair, where there is none left.
      if (!switches_.request(*peer, wanted) && wanted == ChannelKind::rc_rdma && dc_ &&
          peer->switching.kind != wanted && !peer->switching.changing)
        switches_.request(*peer, ChannelKind::dc_rdma);
    }
  }
}

void RdmaPath::publish_counters() {
  Counters& to = counters();
  to.rdma_channels_rc = switches_.count(ChannelKind::rc);
  to.rdma_channels_dc = switches_.count(ChannelKind::dc);
  to.rdma_channels_ud = switches_.count(ChannelKind::ud);
  to.rdma_channels_xrc = switches_.count(ChannelKind::xrc);
  to.rdma_channels_rc_rdma = switches_.count(ChannelKind::rc_rdma);
  to.rdma_channels_dc_rdma = switches_.count(ChannelKind::dc_rdma);
  to.rdma_switches = switches_.switches();
  to.rdma_credits = streams_.credit_frames();
  if (ud_) {
    to.rdma_datagrams = ud_->datagrams();
    to.rdma_datagrams_repeated = ud_->repeated();
  }
  to.rdma_node_queue_pairs = adapter_.share.queue_pairs();
  to.rdma_node_rings = adapter_.share.rings();
  to.rdma_bytes = adapter_.slots.memory_bytes() + switches_.ring_bytes();
}

uint64_t RdmaPath::next_deadline_ns() const {
  const uint64_t datagrams = ud_ ? ud_->next_deadline_ns() : ~uint64_t{0};
  return std::min({connections_.next_deadline_ns(), policy_.due_ns(), napping_until_ns_, datagrams});
}

int RdmaPath::take_completions() {
  size_t count = adapter_.take(batch_);
  for (size_t i = 0; i < count; ++i) handle(batch_[i]);
  return int(count);
}

// False: the request is not over, although it has completed.
bool RdmaPath::returned(RdmaPeer& peer, const rdma::Completion& completion) {
  if (dc_ && !dc_->on_completion(peer, completion)) return false;
  TERN_DEBUG_ASSERT(peer.outstanding != 0);
  adapter_.returned(peer);
  if (xrc_) xrc_->on_completion(completion);
  if (completion.status != rdma::Status::success) break_peer(peer, rdma::status_name(completion.status));
  return true;
}

void RdmaPath::handle(const rdma::Completion& completion) {
  const uint64_t value = RdmaAdapter::value_of(completion.id);
  const bool ok = completion.status == rdma::Status::success;
  switch (RdmaAdapter::tag_of(completion.id)) {
    case RdmaTag::receive:
      if (ok) on_receive(completion);
      adapter_.receive_taken(uint32_t(value));
      return;
    case RdmaTag::slot:
      if (returned(*peers_[adapter_.slots.use(value).peer], completion)) adapter_.slots.give_back(uint32_t(value));
      return;
    case RdmaTag::inlined: returned(*peers_[value], completion); return;
    case RdmaTag::part: {
      RdmaPeer& peer = *peers_[adapter_.slots.use(value).peer];
      if (returned(peer, completion)) transfers_.on_part(uint32_t(value), ok);
      return;
    }
    case RdmaTag::transfer: {
      auto& transfer = *static_cast<RdmaTransfers::Transfer*>(RdmaAdapter::address_of(completion.id));
      if (returned(transfer.peer, completion)) transfers_.on_transfer(transfer, ok);
      return;
    }
    case RdmaTag::datagram: ud_->on_sent(completion); return;
    case RdmaTag::greeting_in: connections_.on_greeting_in(completion); return;
    case RdmaTag::greeting_out: connections_.on_greeting_out(completion); return;
  }
}

void RdmaPath::on_receive(const rdma::Completion& completion) {
  const uint32_t slot = uint32_t(RdmaAdapter::value_of(completion.id));
  if (ud_ && completion.queue_pair == ud_->number()) {
    if (completion.bytes > rdma::kUdHeaderBytes)
      ud_->on_arrival(adapter_.slots.memory(slot) + rdma::kUdHeaderBytes, completion.bytes - rdma::kUdHeaderBytes);
    return;
  }
  // A put that wakes: the rank that waits for it finds it in the memory it has filled.
  const bool written = completion.kind == rdma::CompletionKind::receive_write;
  wire::RdmaFrame frame;
  if (!written && !wire::parse_rdma_frame(adapter_.slots.memory(slot), completion.bytes, frame)) {
    if (RdmaPeer* peer = connections_.by_number(completion.queue_pair))
      break_peer(*peer, "the peer sent what is no frame");
    return;
  }
  const uint32_t source = written ? wire::rdma_immediate_source(completion.immediate) : frame.source;
  RdmaPeer* peer = source < peers_.size() ? peers_[source].get() : nullptr;
  if (!peer || is_me(*peer)) return;                                         // no messages come that way
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
bool RdmaPath::hears(RdmaPeer& peer) {
  if (peer.state != RdmaPeer::State::ready && peer.state != RdmaPeer::State::answered) return false;
  peer.heard = true;
  TERN_DEBUG_ASSERT(peer.state != RdmaPeer::State::lost && peer.state != RdmaPeer::State::broken);
  connections_.answered_is_ready(peer);
  return true;
}

void RdmaPath::on_stream_frame(RdmaPeer& peer, const std::byte* data, size_t bytes) {
  wire::RdmaFrame frame;
  if (!hears(peer)) return;
  if (!wire::parse_rdma_frame(data, bytes, frame) || frame.source != peer.id) {
    break_peer(peer, "the peer's datagrams bring what is no frame");
    return;
  }
  adapter_.charge(adapter_.options.receive_ns);
  streams_.on_shared_frame(peer, frame, data, bytes);
}

int RdmaPath::complete_finished() {
  int handled = streams_.complete();
  while (SendOperation* operation = unsendable_.pop_front()) {
    ++handled;
    operation->done(*operation, reason(static_cast<RdmaPeer&>(*operation->lane)));
  }
  while (TransferOperation* operation = untransferable_.pop_front()) {
    ++handled;
    operation->done(*operation, reason(static_cast<RdmaPeer&>(*operation->lane)));
  }
  return handled;
}

void RdmaPath::pump_blocked() {
  for (RdmaPeer* peer : adapter_.take_blocked()) {
    streams_.give_credit(*peer);
    transfers_.pump(*peer);
    streams_.pump(*peer);
  }
}

void RdmaPath::on_connected(RdmaPeer& peer, uint32_t window) {
  RdmaConnections::OfPeer& its = peer.connection;
  std::unique_ptr<Channel> base;
  if (dc_) {
    base = std::make_unique<DcChannel>(*dc_, peer.id, false, *its.address_handle, its.base, its.frame_bytes);
  } else if (its.pair) {
    base = std::make_unique<ConnectedChannel>(adapter_, *its.pair, its.frame_bytes);
  } else if (xrc_) {
    base = xrc_->make_channel(peer);
  } else {
    base = ud_->make_channel(peer);
  }
  TERN_DEBUG_ASSERT(base && peer.connection.connected);
  switches_.begin(peer);
  streams_.begin(peer, std::move(base), window);
}

void RdmaPath::on_ready(RdmaPeer& peer, bool tell) {
  if (policy_.adapts() && policy_.due_ns() == ~uint64_t{0}) policy_.begin(adapter_.clock.now_ns());
  transfers_.pump(peer);
  if (is_me(peer)) return;
  streams_.pump(peer);
  if (tell) streams_.give_credit(peer, true);
  publish_counters();
}

bool RdmaPath::arm() {
  if (ud_ && ud_->busy() && !adapter_.failed()) ud_->advance(true);
  const bool nothing = adapter_.arm();
  if (!adapter_.failed()) take_events();
  if (tuples_ && !adapter_.failed() && !tuples_->arm()) return false;
  if (!nothing || anything_to_complete()) return false;
  for (const RdmaPeer* peer : broken_) {
    if (peer->outstanding == 0) return false;
  }
  return !switches_.any_ring() || arm_rings();
}

// If writes into rings do not wake a sleeping rank, it gives its rings up before it sleeps.
bool RdmaPath::arm_rings() {
  if (switches_.anything()) return false;
  if (adapter_.hca->capabilities().polled_wakes) return true;
  switches_.give_rings_up();
  napping_until_ns_ = adapter_.clock.now_ns() + kNap_ns;
  return true;
}

}  // namespace tern
