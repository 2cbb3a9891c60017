// The simulated adapter's engine: what leaves it, and when; timers. See adapter.h.
#include <algorithm>
#include <cstring>

#include "base/assert.h"
#include "sim/adapter.h"

namespace tern::sim {

SimAdapters::SimAdapters(Scheduler& its_scheduler, Network& its_network, const AdapterModel& its_model,
                         const AdapterFaults& its_faults, uint64_t seed)
    : scheduler(its_scheduler), network(its_network), model(its_model), faults(its_faults) {
  for (uint32_t node = 0; node < network.nodes(); ++node) {
    nodes_.push_back(std::make_unique<AdapterNode>(*this, node, seed + node * 0x9e3779b97f4a7c15u));
    network.attach_adapter(node, nodes_.back().get());
  }
}

SimAdapters::~SimAdapters() = default;

std::unique_ptr<rdma::Hca> SimAdapters::open(Strand& strand) {
  return std::make_unique<SimHca>(node_of(strand.rank()), strand);
}

AdapterNode::AdapterNode(SimAdapters& all, uint32_t its_index, uint64_t seed)
    : index(its_index), adapters(all), mishaps(all.faults, rng_), cache(all.model.queue_pair_cache), rng_(seed) {}

const AdapterModel& AdapterNode::model() const { return adapters.model; }
uint64_t AdapterNode::now_ns() const { return adapters.scheduler.now_ns(); }

void AdapterNode::on_event(EventKind kind, uint64_t datum) {
  switch (kind) {
    case EventKind::engine:
      if (engine_event_ns_ != now_ns()) return;  // an earlier event was scheduled since
      engine_event_ns_ = kNever_ns;
      run_engine();
      return;
    case EventKind::arrive: {
      std::unique_ptr<AdapterPacket> packet = std::move(arrivals_.front());
      arrivals_.pop_front();
      handle(*packet);
      return;
    }
    case EventKind::timer: {
      auto node = timers_.extract(datum);
      if (node) on_timer(node.mapped());
      return;
    }
    default: TERN_ASSERT(false);
  }
}

void AdapterNode::wake_engine(uint64_t time_ns) {
  time_ns = std::max({time_ns, busy_until_ns_, now_ns()});
  if (engine_event_ns_ <= time_ns) return;
  engine_event_ns_ = time_ns;
  adapters.scheduler.at(time_ns, *this, EventKind::engine, index, 0);
}

void AdapterNode::add_timer(uint64_t time_ns, const Timer& timer) {
  timers_[next_timer_] = timer;
  adapters.scheduler.at(time_ns, *this, EventKind::timer, index, next_timer_++);
}

void AdapterNode::on_timer(const Timer& timer) {
  if (timer.kind == TimerKind::settle) return memory.settle_word();
  auto found = pairs.find(timer.pair);
  if (timer.kind == TimerKind::late) {
    auto packet = late_.extract(timer.sequence);
    if (found != pairs.end() && found->second->state_ == SimQueuePair::State::ready)
      deliver_datagram(*found->second, *packet.mapped());
    return;
  }
  if (found == pairs.end()) return;
  SimQueuePair& pair = *found->second;
  switch (timer.kind) {
    case TimerKind::activate: activate(pair, now_ns()); return;
    case TimerKind::timeout:
      if (pair.epoch_ != timer.epoch || pair.state_ != SimQueuePair::State::ready ||
          timer.sequence < pair.first_sequence_)
        return;
      if (pair.retries_left_ == 0) {
        fail_request(pair, timer.sequence, rdma::Status::retry_exceeded);
      } else {
        --pair.retries_left_;
        go_back(pair, timer.sequence, 0);
      }
      return;
    case TimerKind::dc_idle:
      if (pair.dc_connected_ && pair.sends_.empty() && pair.first_sequence_ == timer.sequence)
        busy_until_ns_ = std::max(busy_until_ns_, now_ns()) + dc_disconnect(pair, std::max(busy_until_ns_, now_ns()));
      return;
    case TimerKind::settle:
    case TimerKind::late: return;
  }
}

void AdapterNode::activate(SimQueuePair& pair, uint64_t time_ns) {
  if (pair.active_ || pair.state_ != SimQueuePair::State::ready || pair.next_ >= pair.sends_.size()) return;
  if (time_ns > now_ns()) {
    add_timer(time_ns, {TimerKind::activate, pair.number(), 0, 0});
    return;
  }
  pair.active_ = true;
  active_.push_back(&pair);
  wake_engine(time_ns);
}

void AdapterNode::quiet(SimQueuePair& pair) {
  for (SimQueuePair::Answer& waiting : pair.answers_) {
    adapters.node_of(waiting.packet->to)
        .dropped(waiting.packet->target, waiting.packet->epoch, waiting.packet->sequence);
  }
  if (pair.active_) std::erase(active_, &pair);
  if (pair.answering_) std::erase(answering_, &pair);
  pair.active_ = pair.answering_ = false;
}

void AdapterNode::forget(SimQueuePair& pair) {
  quiet(pair);
  pairs.erase(pair.number());
  cache.drop(pair.number());
}

// Sends one segment or answer, then the next at the time when the adapter's output is free again. Answers and requests
// alternate, and so do queue pairs in each of them.
void AdapterNode::run_engine() {
  uint64_t now = now_ns(), wake_at = kNever_ns, cost = 0;
  if (busy_until_ns_ > now) {
    wake_engine(busy_until_ns_);
    return;
  }
  for (int attempt = 0; attempt < 2 && cost == 0; ++attempt) {
    answers_turn_ = !answers_turn_;
    std::deque<SimQueuePair*>& round = answers_turn_ ? answering_ : active_;
    for (size_t left = round.size(); left > 0 && cost == 0; --left) {
      SimQueuePair* pair = round.front();
      round.pop_front();
      if (answers_turn_) {
        if (pair->answers_.front().ready_ns > now) {
          wake_at = std::min(wake_at, pair->answers_.front().ready_ns);
          round.push_back(pair);
          continue;
        }
        cost = send_answer(*pair);
        pair->answering_ = !pair->answers_.empty();
        if (pair->answering_) round.push_back(pair);
      } else {
        uint64_t ready_at = kNever_ns;
        if (!sendable(*pair, ready_at)) {
          pair->active_ = false;
          if (ready_at != kNever_ns) add_timer(ready_at, {TimerKind::activate, pair->number(), 0, 0});
          continue;
        }
        cost = send_segment(*pair);
        if (pair->active_) round.push_back(pair);
      }
    }
  }
  if (cost != 0) busy_until_ns_ = now + cost;
  if (cost != 0 && !(active_.empty() && answering_.empty())) wake_engine(busy_until_ns_);
  if (cost == 0 && wake_at != kNever_ns) wake_engine(wake_at);
}

// Whether the next segment may go now; if not, from when on (or kNever_ns: the queue pair will be activated again).
bool AdapterNode::sendable(SimQueuePair& pair, uint64_t& wake_at_ns) {
  if (pair.state_ != SimQueuePair::State::ready || pair.next_ >= pair.sends_.size()) return false;
  const Request& request = pair.sends_[pair.next_];
  uint64_t begin = std::max(pair.stalled_until_ns_, request.ready_ns);
  if (begin > now_ns()) {
    wake_at_ns = begin;
    return false;
  }
  if (pair.offset_ != 0) return true;
  if (request.work.fenced || request.is_read()) {
    uint32_t reads = pair.reads_out();
    uint32_t most = pair.options_.reads ? std::min(pair.options_.reads, model().max_reads) : model().max_reads;
    if ((request.work.fenced && reads != 0) || (request.is_read() && reads >= most)) return false;
  }
  if (pair.options_.kind == rdma::QueuePairKind::dc_initiator) {
    bool same = pair.dc_node_ == request.to_node && pair.dc_number_ == request.work.remote_number;
    if (pair.dc_connected_ && !same && pair.next_ != 0) return false;  // everything sent there must be answered first
  }
  return true;
}

uint64_t AdapterNode::transmit(std::unique_ptr<AdapterPacket> packet, uint64_t after_ns, bool is_answer) {
  packet->kind = Packet::Kind::rdma;
  packet->flow = (uint64_t(index + 1) << 33) | (uint64_t(packet->source) << 1) | uint64_t(is_answer);
  uint64_t busy = adapters.network.adapter_busy_ns(packet->payload.size());
  adapters.network.send(now_ns() + after_ns, std::move(packet));
  return busy;
}

std::unique_ptr<AdapterPacket> AdapterNode::make_request(const SimQueuePair& pair, const Request& request) const {
  auto packet = std::make_unique<AdapterPacket>();
  uint32_t node = pair.peer_node_;
  packet->target = pair.peer_.number;
  if (pair.options_.kind == rdma::QueuePairKind::ud || pair.options_.kind == rdma::QueuePairKind::dc_initiator) {
    node = request.to_node;
    packet->target = request.work.remote_number;
    packet->key = request.work.remote_key_of_queue;
  }
  const auto& there = adapters.node(node).pairs;
  auto found = there.find(packet->target);
  packet->from = pair.hca_.strand.rank();
  packet->to = found != there.end() ? found->second->hca_.strand.rank() : adapters.network.first_rank_of(node);
  packet->verb = request.work.verb;
  packet->solicited = request.work.solicited;
  packet->source = pair.number();
  packet->epoch = pair.epoch_;
  packet->sequence = pair.first_sequence_ + pair.next_;
  packet->total = request.total;
  packet->immediate = request.work.immediate;
  packet->remote_key = request.work.remote_key;
  packet->remote_srq = request.work.remote_srq;
  packet->remote_address = request.work.remote_address;
  packet->compare = request.work.compare;
  packet->operand = request.work.operand;
  return packet;
}

uint64_t AdapterNode::send_segment(SimQueuePair& pair) {
  Request& request = pair.sends_[pair.next_];
  uint64_t sequence = pair.first_sequence_ + pair.next_;
  bool datagram = !pair.reliable(), first = pair.offset_ == 0;
  uint64_t cost = cache.load(pair.number()) ? model().cache_miss_ns : 0;
  if (first) {
    cost += model().message_ns;
    rdma::Status wrong = rdma::Status::success;
    if (request.total > (datagram ? model().mtu_bytes : model().max_message_bytes)) {
      wrong = rdma::Status::local_length;
    } else if (request.is_atomic() && (request.total != 8 || !model().atomics ||
                                       (request.work.verb == rdma::Verb::swap && !model().atomic_swap))) {
      wrong = rdma::Status::local_queue_pair;
    } else if (!request.work.inlined && !memory.covers(pair.hca_, request.pieces, request.is_read())) {
      wrong = rdma::Status::local_protection;
    } else if (!datagram && rng_.chance(adapters.faults.error_in_1024, 1024)) {
      wrong = rdma::Status::retry_exceeded;
    } else if (pair.options_.kind == rdma::QueuePairKind::xrc_initiator && !request.tried &&
               mishaps.connection_fails()) {
      wrong = rdma::Status::retry_exceeded;
    }
    request.tried = true;
    if (wrong != rdma::Status::success) {
      fail_request(pair, sequence, wrong);
      return cost + 1;
    }
    if (pair.options_.kind == rdma::QueuePairKind::dc_initiator) dc_turn_to(pair, request, cost);
  }
  auto packet = make_request(pair, request);
  packet->begin = pair.offset_;
  // (A datagram is one packet.)
  const uint32_t longest = datagram ? model().mtu_bytes : model().segment_bytes;
  uint32_t bytes = request.is_read() ? 0 : std::min(request.total - pair.offset_, longest);
  if (request.is_read()) packet->op = request.is_atomic() ? Op::atomic_request : Op::read_request;
  packet->payload.resize(bytes);
  if (request.work.inlined) {
    if (bytes) std::memcpy(packet->payload.data(), request.inlined.data() + pair.offset_, bytes);
  } else {
    AdapterMemory::read(request.pieces, pair.offset_, packet->payload.data(), bytes);
  }
  packet->last = request.is_read() || pair.offset_ + bytes == request.total;
  bool last = packet->last;
  cost += transmit(std::move(packet), cost, false);
  if (!last) {
    pair.offset_ += bytes;
    return cost;
  }
  pair.offset_ = 0;
  ++pair.next_;
  if (datagram) {
    request.finish(rdma::Status::success);
    pair.pop_done();
  }
  return cost;
}

// The connection packets precede the data without waiting for an answer; a refusal makes the initiator start again.
void AdapterNode::dc_turn_to(SimQueuePair& pair, const Request& request, uint64_t& cost_ns) {
  bool same = pair.dc_node_ == request.to_node && pair.dc_number_ == request.work.remote_number;
  if (pair.dc_connected_ && same) return;
  if (pair.dc_connected_) {
    cost_ns += dc_disconnect(pair, now_ns() + cost_ns);
  }
  pair.dc_connected_ = true;
  pair.dc_node_ = request.to_node;
  pair.dc_number_ = request.work.remote_number;
  pair.dc_key_ = request.work.remote_key_of_queue;
  auto packet = make_request(pair, request);
  packet->op = Op::dc_connect;
  ++dc_connects;
  cost_ns += transmit(std::move(packet), cost_ns, false) + model().dc_connect_ns;
}

// How long it occupies the adapter.
uint64_t AdapterNode::dc_disconnect(SimQueuePair& pair, uint64_t time_ns) {
  pair.dc_connected_ = false;
  auto packet = std::make_unique<AdapterPacket>();
  packet->op = Op::dc_disconnect;
  packet->from = pair.hca_.strand.rank();
  packet->source = pair.number();
  packet->target = pair.dc_number_;
  packet->epoch = pair.epoch_;
  const auto& there = adapters.node(pair.dc_node_).pairs;
  auto found = there.find(pair.dc_number_);
  if (found == there.end()) return model().dc_connect_ns;
  packet->to = found->second->hca_.strand.rank();
  return model().dc_connect_ns + transmit(std::move(packet), time_ns - now_ns(), false);
}

// Acknowledgements and the like as they are; the answer to a read in segments, from memory as it is then.
uint64_t AdapterNode::send_answer(SimQueuePair& pair) {
  SimQueuePair::Answer& waiting = pair.answers_.front();
  if (waiting.packet->op != Op::read_answer) {
    std::unique_ptr<AdapterPacket> packet = std::move(waiting.packet);
    pair.answers_.pop_front();
    return transmit(std::move(packet), 0, true);
  }
  const AdapterPacket& whole = *waiting.packet;
  auto packet = std::make_unique<AdapterPacket>();
  packet->op = Op::read_answer;
  packet->from = whole.from;
  packet->to = whole.to;
  packet->source = whole.source;
  packet->target = whole.target;
  packet->epoch = whole.epoch;
  packet->sequence = whole.sequence;
  packet->total = whole.total;
  packet->begin = waiting.at;
  uint32_t bytes = std::min(whole.total - waiting.at, model().segment_bytes);
  if (whole.total != 0 && !memory.find(pair.hca_, whole.remote_key, whole.remote_address, whole.total)) {
    packet->op = Op::error;  // unregistered between question and answer
    packet->status = rdma::Status::remote_access;
    packet->last = true;
  } else {
    packet->payload.resize(bytes);
    AdapterMemory::read(whole.remote_address + waiting.at, packet->payload.data(), bytes);
    waiting.at += bytes;
    packet->last = waiting.at == whole.total;
  }
  if (packet->last) pair.answers_.pop_front();
  return transmit(std::move(packet), 0, true);
}

}  // namespace tern::sim
