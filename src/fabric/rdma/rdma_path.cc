// The way of operations down and of completions up. See rdma_path.h.
#include "fabric/rdma/rdma_path.h"

#include <utility>

#include "base/assert.h"
#include "fabric/rdma/channels/connected_channel.h"

namespace tern {
namespace {

constexpr uint32_t kTimerPolls = 64;  // the clock is read on every so-manieth poll

}  // namespace

std::unique_ptr<RdmaPath> RdmaPath::create(const RdmaOptions& options, const Tunables& tunables,
                                           std::unique_ptr<rdma::Hca> hca, Clock& clock, Sink& sink, Lookup lookup,
                                           Error& error) {
  std::unique_ptr<RdmaPath> path(new RdmaPath(options, tunables, std::move(hca), clock, sink, std::move(lookup)));
  error = path->start();
  if (error) path.reset();
  return path;
}

RdmaPath::RdmaPath(const RdmaOptions& options, const Tunables& tunables, std::unique_ptr<rdma::Hca> hca, Clock& clock,
                   Sink& sink, Lookup lookup)
    : sink_(sink),
      adapter_(options, tunables, std::move(hca), clock),
      transfers_(adapter_, *this, tunables),
      connections_(adapter_, *this, tunables, std::move(lookup)),
      streams_(adapter_, *this, sink),
      tunables_(tunables) {
  const rdma::Capabilities& able = adapter_.hca->capabilities();
  properties_.name = "rdma";
  properties_.eager_bytes = adapter_.slot_bytes - wire::kRdmaMaxHeadBytes;
  properties_.needs_cpu = !able.autonomous;
  properties_.announce_from_bytes = properties_.eager_bytes + 1;
  properties_.hybrid_bytes = size_t(tunables.rdma_hybrid_bytes);
  remote_properties_.get = remote_properties_.put = true;
  remote_properties_.get_from_bytes = properties_.eager_bytes;
  remote_properties_.autonomous = able.autonomous;
  // A queue pair delivers in the order of posting, and no message is posted before an earlier put.
  remote_properties_.puts_before_messages = true;
  remote_properties_.ordered_writes = able.ordered_writes;
}

Error RdmaPath::start() {
  if (Error error = adapter_.start()) return error;
  return connections_.start();
}

TupleQueues* RdmaPath::tuple_queues() {
  if (tuples_ || !hca().capabilities().xrc || adapter_.failed()) return tuples_.get();
  Error error;  // of resources: messages go the traditional way
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

RdmaPeer& RdmaPath::peer_at(PeerId id) {
  TERN_DEBUG_ASSERT(reaches(id));
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
  if (peer.state == RdmaPeer::State::fresh) connections_.contact(peer);
  streams_.enqueue(peer, operation);
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
    untransferable_.push_back(&operation);
    return;
  }
  if (peer.state == RdmaPeer::State::fresh) connections_.contact(peer);
  transfers_.begin(operation, is_put);
  count_registrations();
}

void RdmaPath::count_registrations() {
  counters().rdma_registration_hits = transfers_.registrations().hits();
  counters().rdma_registration_misses = transfers_.registrations().misses();
}

int RdmaPath::poll() {
  bool timers = ++polls_ % kTimerPolls == 0;
  if (adapter_.drain_events()) {
    timers = true;
    take_events();
  }
  int handled = take_completions();
  if (tuples_ && !adapter_.failed()) handled += tuples_->poll();
  adapter_.repost();
  if (anything_to_complete()) handled += complete_finished();
  if (adapter_.any_blocked()) pump_blocked();
  if (!broken_.empty()) handled += bury_broken();
  if (timers && connections_.timers()) connections_.run_timers(adapter_.clock.now_ns());
  return handled;
}

int RdmaPath::take_completions() {
  size_t count = adapter_.take(batch_);
  for (size_t i = 0; i < count; ++i) handle(batch_[i]);
  return int(count);
}

void RdmaPath::handle(const rdma::Completion& completion) {
  const uint64_t value = RdmaAdapter::value_of(completion.id);
  const bool ok = completion.status == rdma::Status::success;
  auto returned = [&](RdmaPeer& peer) {
    adapter_.returned(peer);
    if (!ok) break_peer(peer, rdma::status_name(completion.status));
  };
  switch (RdmaAdapter::tag_of(completion.id)) {
    case RdmaTag::receive:
      if (ok) on_receive(completion);
      adapter_.receive_taken(uint32_t(value));
      return;
    case RdmaTag::slot:
      returned(*peers_[adapter_.slots.use(value).peer]);
      adapter_.slots.give_back(uint32_t(value));
      return;
    case RdmaTag::inlined: returned(*peers_[value]); return;
    case RdmaTag::part: {
      RdmaPeer& peer = *peers_[adapter_.slots.use(value).peer];
      returned(peer);
      transfers_.on_part(peer, uint32_t(value), ok);
      return;
    }
    case RdmaTag::transfer: {
      auto& transfer = *static_cast<RdmaTransfers::Transfer*>(RdmaAdapter::address_of(completion.id));
      returned(static_cast<RdmaPeer&>(*transfer.operation->lane));
      transfers_.on_transfer(transfer, ok);
      return;
    }
    case RdmaTag::greeting_in: connections_.on_greeting_in(completion); return;
    case RdmaTag::greeting_out: connections_.on_greeting_out(uint32_t(value)); return;
  }
}

void RdmaPath::on_receive(const rdma::Completion& completion) {
  RdmaPeer* peer = connections_.by_number(completion.queue_pair);
  if (!peer) return;
  peer->heard = true;
  // A put that wakes: what it means is seen in the memory it has filled, by whoever waits for that.
  const bool written = completion.kind == rdma::CompletionKind::receive_write;
  if (!written) adapter_.charge(adapter_.options.receive_ns);
  connections_.answered_is_ready(*peer);
  if (written) {
    streams_.on_written(*peer);
  } else {
    streams_.on_frame(*peer, adapter_.slots.memory(RdmaAdapter::value_of(completion.id)), completion.bytes);
  }
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

void RdmaPath::on_connected(RdmaPeer& peer, uint32_t window, size_t frame_bytes) {
  peer.stream.channel = std::make_unique<ConnectedChannel>(adapter_, *peer.connection.pair, frame_bytes);
  peer.stream.credits = window;
  peer.stream.window = adapter_.window;
}

void RdmaPath::on_ready(RdmaPeer& peer, bool tell) {
  transfers_.pump(peer);
  streams_.pump(peer);
  if (tell) streams_.give_credit(peer, true);
}

bool RdmaPath::arm() {
  const bool nothing = adapter_.arm();
  if (!adapter_.failed()) take_events();
  if (tuples_ && !adapter_.failed() && !tuples_->arm()) return false;
  if (!nothing || anything_to_complete()) return false;
  for (const RdmaPeer* peer : broken_) {
    if (peer->outstanding == 0) return false;
  }
  return true;
}

}  // namespace tern
