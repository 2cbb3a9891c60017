#include "sim/stream_hosts.h"

#include <algorithm>
#include <cerrno>

#include "base/assert.h"

namespace tern::sim {
namespace {

// Flows of streams beside those of the RDMA adapters.
constexpr uint64_t kStreamFlows = uint64_t{1} << 63;

}  // namespace

StreamHosts::StreamHosts(Scheduler& scheduler, Network& network, const StreamModel& model, const StreamFaults& faults,
                         uint64_t seed)
    : scheduler_(scheduler),
      network_(network),
      model_(model),
      faults_(faults),
      rng_(seed),
      processes_(network.ranks()),
      dead_(network.nodes()) {
  totals_.segments.resize(model.networks + 1);
  network_.attach_streams(this);
}

StreamHosts::~StreamHosts() = default;

void StreamHosts::end(uint32_t rank) {
  for (StreamProcess* process : std::exchange(processes_[rank], {})) process->on_death(scheduler_.now_ns());
}

void StreamHosts::kill(uint32_t rank) {
  if (faults_.dead_hosts) dead_[network_.node_of(rank)] = true;
  end(rank);
}

bool StreamHosts::works(uint32_t node, uint32_t network) const {
  const auto down = down_until_.find({node, network});
  return !dead_[node] && (down == down_until_.end() || down->second <= scheduler_.now_ns());
}

// --- Listening, calling.

uint16_t StreamHosts::free_port(uint32_t node) {
  for (;;) {
    const uint16_t port = next_port_++;
    if (next_port_ < 32768) next_port_ = 32768;
    const bool taken = std::any_of(listeners_.begin(), listeners_.end(), [&](const auto& listener) {
      return listener.first.node == node && listener.first.port == port;
    });
    if (!taken) return port;
  }
}

StreamListener* StreamHosts::listen(StreamProcess& process, StreamAddress address) {
  if (address.port == 0) address.port = free_port(address.node);
  auto& slot = listeners_[address];
  if (slot) return nullptr;
  slot = std::make_unique<StreamListener>();
  slot->process = &process;
  slot->address = address;
  return slot.get();
}

void StreamHosts::close(uint64_t now, StreamListener& listener) {
  for (StreamEnd* end : listener.queue) {
    end->waits_in_queue = false;
    end->close(now);
  }
  listeners_.erase(listener.address);
}

bool StreamHosts::enter_queue(StreamEnd& end) {
  const auto found = listeners_.find(end.own);
  if (found == listeners_.end()) return false;
  StreamListener& listener = *found->second;
  if (listener.queue.size() >= model_.backlog) {
    ++totals_.queue_full;
    return false;
  }
  end.waits_in_queue = true;
  listener.queue.push_back(&end);
  listener.process->on_caller(listener);
  return true;
}

StreamEnd& StreamHosts::add(StreamAddress own, StreamAddress peer, bool called) {
  const uint64_t id = next_id_++;
  auto& end = ends_[id] = std::make_unique<StreamEnd>(*this, id, own, peer, called);
  by_address_[{own, peer}] = end.get();
  return *end;
}

StreamEnd& StreamHosts::call(uint64_t now, StreamOwner& owner, uint32_t node, StreamAddress target) {
  StreamEnd& end = add({node, target.network, free_port(node)}, target, false);
  end.owner = &owner;
  end.call(now);
  return end;
}

StreamEnd* StreamHosts::find(const Key& key) const {
  const auto found = by_address_.find(key);
  return found == by_address_.end() ? nullptr : found->second;
}

void StreamHosts::purge() {
  for (const uint64_t id : forgotten_) {
    const auto found = ends_.find(id);
    if (found == ends_.end()) continue;
    by_address_.erase({found->second->own, found->second->peer});
    ends_.erase(found);
  }
  forgotten_.clear();
}

std::string StreamHosts::describe() const {
  std::string out;
  for (const auto& [id, end] : ends_) out += end->describe() + "\n";
  return out;
}

// --- The way of a segment.

void StreamHosts::transmit(uint64_t now, std::unique_ptr<StreamSegment> segment) {
  const StreamAddress from = segment->source, to = segment->target;
  segment->kind = Packet::Kind::stream;
  segment->from = network_.first_rank_of(from.node);
  segment->to = network_.first_rank_of(to.node);
  uint64_t& flow = flows_[{from, to}];
  if (flow == 0) flow = kStreamFlows | flows_.size();
  segment->flow = flow;
  segment->message_bytes = segment->payload.size();
  if (from.network != 0) {
    fault(now, *segment);
    if (!works(from.node, from.network) || rng_.chance(faults_.drop_in_1024, 1024)) {
      ++totals_.dropped;
      return;
    }
  }
  ++totals_.segments[from.network];
  network_.send(now, std::move(segment));
}

// Other faults at this segment; each is an event of its own, since a function of an end is running now.
void StreamHosts::fault(uint64_t now, StreamSegment& segment) {
  const uint32_t node = segment.source.node;
  if (rng_.chance(faults_.corrupt_in_65536, 65536) && !segment.payload.empty())
    segment.payload[size_t(rng_.below(segment.payload.size()))] ^= std::byte(1 << rng_.below(8));
  if (rng_.chance(faults_.reset_in_65536, 65536)) {
    if (const StreamEnd* end = find({segment.source, segment.target})) later(now, What::reset, end->id, node);
  }
  if (rng_.chance(faults_.outage_in_65536, 65536))
    later(now, What::outage, rng_.below(network_.nodes()) * model_.networks + rng_.below(model_.networks), node);
  if (rng_.chance(faults_.stranger_in_65536, 65536)) later(now, What::stranger, rng_.below(network_.nodes()), node);
}

void StreamHosts::later(uint64_t now, What what, uint64_t datum, uint32_t node) {
  scheduler_.at(now, *this, EventKind::timer, network_.first_rank_of(node), uint64_t(what) << kWhatShift | datum);
}

void StreamHosts::on_packet(std::unique_ptr<Packet> packet) {
  purge();
  auto& segment = static_cast<StreamSegment&>(*packet);
  const uint64_t now = scheduler_.now_ns();
  if (!works(segment.target.node, segment.target.network)) {
    ++totals_.dropped;
    return;
  }
  if (StreamEnd* end = find({segment.target, segment.source})) {
    if (end->owner && segment.target.network != 0) end->owner->on_interrupt();
    return end->on_segment(now, segment);
  }
  if (segment.reset) return;
  const auto listener = listeners_.find(segment.target);
  if (segment.syn && !segment.ack && listener != listeners_.end()) {
    if (listener->second->queue.size() >= model_.backlog) {
      ++totals_.queue_full;
      return;
    }
    return add(segment.target, segment.source, true).on_segment(now, segment);
  }
  auto refusal = std::make_unique<StreamSegment>();
  refusal->source = segment.target;
  refusal->target = segment.source;
  refusal->reset = true;
  transmit(now, std::move(refusal));
}

uint64_t StreamHosts::set_timer(StreamEnd& end, uint64_t at_ns) {
  const uint64_t at = std::max(at_ns, scheduler_.now_ns());
  if (at != kNever_ns) later(at, What::timer, end.id, end.own.node);
  return at;
}

void StreamHosts::on_event(EventKind, uint64_t datum) {
  purge();
  const auto what = What(datum >> kWhatShift);
  const uint64_t rest = datum & ((uint64_t{1} << kWhatShift) - 1), now = scheduler_.now_ns();
  const auto found = what == What::timer || what == What::reset ? ends_.find(rest) : ends_.end();
  switch (what) {
    case What::timer:
      if (found != ends_.end()) found->second->on_timer(now);
      return;
    case What::reset:
      if (found == ends_.end()) return;
      ++totals_.resets;
      if (StreamEnd* other = find({found->second->peer, found->second->own})) other->die(now, ECONNRESET);
      found->second->die(now, ECONNRESET);
      return;
    case What::outage:
      return cut(uint32_t(rest / model_.networks), 1 + uint32_t(rest % model_.networks), rng_.below(faults_.outage_ns));
    case What::planned: return cut(planned_[rest].node, planned_[rest].network, planned_[rest].for_ns);
    case What::stranger: return call_as_stranger(uint32_t(rest));
  }
}

// --- Faults.

void StreamHosts::plan(const Outage& outage) {
  planned_.push_back(outage);
  later(outage.at_ns, What::planned, planned_.size() - 1, outage.node);
}

void StreamHosts::cut(uint32_t node, uint32_t network, uint64_t for_ns) {
  const bool worked = works(node, network);
  uint64_t& until = down_until_[{node, network}];
  until = std::max(until, scheduler_.now_ns() + for_ns);
  if (!worked) return;
  ++totals_.outages;
  for (uint32_t rank = 0; rank < processes_.size(); ++rank) {
    if (network_.node_of(rank) != node) continue;
    for (StreamProcess* process : processes_[rank]) process->on_interface_down(network);
  }
}

void StreamHosts::call_as_stranger(uint32_t node) {
  std::vector<StreamAddress> open;
  for (const auto& [address, listener] : listeners_) {
    if (address.node == node) open.push_back(address);
  }
  if (open.empty()) return;
  ++totals_.strangers;
  strangers_.push_back(std::make_unique<Stranger>());
  strangers_.back()->hosts = this;
  strangers_.back()->talks = rng_.chance(1, 2);
  const StreamAddress target = open[size_t(rng_.below(open.size()))];
  const uint32_t from = target.network == 0 ? node : uint32_t(rng_.below(network_.nodes()));
  call(scheduler_.now_ns(), *strangers_.back(), from, target);
}

void StreamHosts::Stranger::on_change(StreamEnd& end) {
  const uint64_t now = hosts->scheduler_.now_ns();
  if (end.state() == StreamEnd::State::open && std::exchange(talks, false)) {
    std::byte junk[300];
    for (std::byte& byte : junk) byte = std::byte(hosts->rng_.below(256));
    (void)end.send(now, junk, 1 + size_t(hosts->rng_.below(sizeof junk)));
    end.cork(now, false);
  }
  if (end.readable(1)) end.close(now);
}

}  // namespace tern::sim
