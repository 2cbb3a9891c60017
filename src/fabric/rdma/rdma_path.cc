// Operations on their way down, completions on their way up. See rdma_path.h.
#include "fabric/rdma/rdma_path.h"

#include <algorithm>
#include <utility>

#include "base/assert.h"
#include "fabric/poll_bounds.h"
#include "fabric/rdma/channels/channel_adaptation.h"
#include "fabric/rdma/channels/send_channels.h"

namespace tern {
namespace {

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
      table_(*adapter_.options.peers),
      memory_(adapter_.hca->capabilities(), tunables, table_, *this, connections_, transfers_, counters()),
      completions_(adapter_, table_, *this, connections_, transfers_, streams_),
      policy_(tunables, adapter_.hca->capabilities(), adapter_.options.peers->size()),
      tunables_(tunables) {
  const rdma::Capabilities& able = adapter_.hca->capabilities();
  properties_.name = "rdma";
  properties_.eager_bytes = adapter_.slot_bytes - wire::kRdmaMaxHeadBytes;
  // Datagrams are acknowledged by the library.
  properties_.needs_cpu = !able.autonomous || policy_.base() == ChannelKind::ud;
  properties_.announce_from_bytes = properties_.eager_bytes + 1;
  properties_.hybrid_bytes = size_t(tunables.rdma_hybrid_bytes);
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
    dc_ = std::make_unique<DcEndpoint>(adapter_, static_cast<RdmaPeers&>(*this), completions_);
    if (Error error = dc_->start(uint32_t(tunables.rdma_dc_initiators))) return error;
  }
  if (policy_.datagrams()) {
    ud_ = std::make_unique<UdEndpoint>(adapter_, static_cast<RdmaPeers&>(*this), completions_, tunables);
    if (Error error = ud_->start()) return error;
  }
  if (policy_.base() == ChannelKind::xrc)
    xrc_ = std::make_unique<XrcEndpoint>(adapter_, static_cast<RdmaPeers&>(*this));
  // One more for greetings. Targets and the queue pairs of others cost this adapter's cache nothing until they are
  // used.
  adapter_.share.set_fixed(1 + (dc_ ? uint32_t(tunables.rdma_dc_initiators) : 0) + (ud_ ? 1 : 0));
  switches_.set_base(policy_.base(), policy_.on_demand(), dc_.get(), ud_.get());
  completions_.set_endpoints({dc_.get(), ud_.get(), xrc_.get()});
  return connections_.start(policy_.base(), dc_.get(), ud_.get(), xrc_.get());
}

TupleQueues* RdmaPath::tuple_queues() {
  if (tuples_ || !hca().capabilities().xrc || adapter_.failed()) return tuples_.get();
  Error error;  // of resources: messages use the traditional protocols
  tuples_ = rdma::RdmaTuples::create(
      adapter_, transfers_.registration_cache(), tunables_,
      [this](PeerId peer, const char* trouble) { break_peer(table_.at(peer), trouble); }, error);
  return tuples_.get();
}

RdmaPath::~RdmaPath() {
  tuples_.reset();
  table_.each([this](RdmaPeer& peer) { connections_.close(peer); });
}

void RdmaPath::enqueue(SendOperation& operation) {
  auto& peer = static_cast<RdmaPeer&>(*operation.lane);
  TERN_DEBUG_ASSERT(!operation.linked());
  if (peer.state == RdmaPeer::State::fresh) connections_.contact(peer);
  streams_.enqueue(peer, operation);
  if (ud_) hints_.holding = ud_->holding();
}

bool RdmaPath::withdraw(SendOperation& operation) {
  if (static_cast<RdmaPeer&>(*operation.lane).state == RdmaPeer::State::lost) return false;
  return streams_.withdraw(operation);
}

int RdmaPath::poll() {
  ++polls_;
  if (adapter_.drain_events()) {
    polls_ += kPollsOfASleep;
    switches_.end_nap();
    take_events();
  }
  int handled = completions_.take();
  if (tuples_ && !adapter_.failed()) handled += tuples_->poll();
  if (switches_.any_ring()) handled += switches_.poll(counters());
  adapter_.repost();
  if (streams_.anything_to_complete()) handled += streams_.complete();
  if (memory_.anything_to_complete()) handled += memory_.complete();
  pump();
  if (!broken_.empty()) handled += bury_broken();
  // Timers read the clock: better while there is nothing else to do.
  if (polls_ >= kTimerPolls && (handled == 0 || polls_ >= 2 * kTimerPolls)) {
    polls_ = 0;
    publish_counters();
    const bool timers = connections_.timers() || policy_.adapts();
    const uint64_t now_ns = timers ? adapter_.clock.now_ns() : 0;
    if (connections_.timers()) connections_.run_timers(now_ns);
    if (timers && now_ns >= policy_.due_ns()) adapt_channels(policy_, table_, switches_, dc_ != nullptr, now_ns);
  }
  return handled;
}

// No greeting, no loss of a peer, no end of an operation, no event of the adapter, no timer.
int RdmaPath::poll_shortly() {
  if (adapter_.failed() || !broken_.empty() || tuples_) return -1;
  const int taken = completions_.take_shortly();
  const int written = switches_.any_ring() ? switches_.poll(counters()) : 0;
  adapter_.repost();
  pump();
  return taken >= 0 && broken_.empty() ? taken + written : -1;
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
  if (!adapter_.options.of_engine) {
    to.rdma_node_queue_pairs = adapter_.share.queue_pairs();
    to.rdma_node_rings = adapter_.share.rings();
  }
  to.rdma_bytes = adapter_.slots.memory_bytes() + switches_.ring_bytes();
}

uint64_t RdmaPath::next_deadline_ns() const {
  const uint64_t datagrams = ud_ ? ud_->next_deadline_ns() : ~uint64_t{0};
  return std::min({connections_.next_deadline_ns(), policy_.due_ns(), switches_.next_deadline_ns(), datagrams});
}

// What has waited for room, or for its time.
void RdmaPath::pump() {
  if (adapter_.any_blocked()) {
    for (RdmaPeer* peer : adapter_.take_blocked()) {
      streams_.give_credit(*peer);
      transfers_.pump(*peer);
      streams_.pump(*peer);
    }
  }
  if (!ud_) return;
  if (ud_->busy()) ud_->advance(false);
  hints_.holding = ud_->holding();
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
  if (table_.is_me(peer)) return;
  streams_.pump(peer);
  if (tell) streams_.give_credit(peer, true);
  publish_counters();
}

bool RdmaPath::arm() {
  if (ud_ && ud_->busy() && !adapter_.failed()) ud_->advance(true);
  const bool nothing = adapter_.arm();
  if (!adapter_.failed()) take_events();
  if (tuples_ && !adapter_.failed() && !tuples_->arm()) return false;
  if (!nothing || streams_.anything_to_complete() || memory_.anything_to_complete()) return false;
  for (const RdmaPeer* peer : broken_) {
    if (peer->outstanding == 0) return false;
  }
  return switches_.arm();
}

}  // namespace tern
