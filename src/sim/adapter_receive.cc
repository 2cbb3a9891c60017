// The simulated adapter's way in: requests of peers, and their answers to ours. See adapter.h.
#include <algorithm>
#include <cstring>
#include <utility>

#include "base/assert.h"
#include "sim/adapter.h"

namespace tern::sim {
namespace {

// The bus transfers an aligned word in one transaction, ordered or not.
constexpr size_t kWholeWordBytes = 8;

using rdma::QueuePairKind;
using rdma::Status;
using rdma::Verb;

bool is_send(Verb verb) { return verb == Verb::send || verb == Verb::send_immediate; }
bool takes_receive(Verb verb) { return is_send(verb) || verb == Verb::write_immediate; }
bool has_immediate(Verb verb) { return verb == Verb::send_immediate || verb == Verb::write_immediate; }

bool is_answer(AdapterPacket::Op op) {
  using Op = AdapterPacket::Op;
  return op == Op::ack || op == Op::rnr || op == Op::error || op == Op::read_answer || op == Op::atomic_answer ||
         op == Op::dc_refused;
}

// A waiting rank in fact polls: it sees what was written to the memory it polls.
void wake_poller(const SimMemoryRegion* written) {
  if (written && written->access.polled) written->hca.strand.wake(0);
}

uint64_t requester_of(uint32_t node, const AdapterPacket& packet) { return (uint64_t(node) << 32) | packet.source; }

}  // namespace

// A packet has passed the link; its effect is visible a little later. Everything in the order of arrival.
void AdapterNode::on_packet(std::unique_ptr<Packet> arrived) {
  std::unique_ptr<AdapterPacket> packet(static_cast<AdapterPacket*>(arrived.release()));
  uint64_t cost = cache.load(packet->target) ? model().cache_miss_ns : 0;
  if (!is_answer(packet->op) && packet->begin == 0) cost += model().receive_message_ns;
  // The target makes its end of a connection, and takes it down.
  if (packet->op == Op::dc_connect || packet->op == Op::dc_disconnect) cost += model().dc_connect_ns;
  receive_free_ns_ = std::max(receive_free_ns_, now_ns()) + cost;
  auto put = [this](std::unique_ptr<AdapterPacket> item) {
    arrivals_.push_back(std::move(item));
    adapters.scheduler.at(receive_free_ns_ + model().receive_latency_ns, *this, EventKind::arrive, index, 0);
  };
  bool write_ends =
      packet->op == Op::data && !is_send(packet->verb) && packet->last && packet->payload.size() > kWholeWordBytes;
  const bool ordered = model().ordered_writes && !adapters.faults.reorders_writes;
  if (!ordered && write_ends && rng_.chance(1, 2)) {
    auto tail = std::make_unique<AdapterPacket>();
    tail->op = Op::early_tail;
    tail->from = packet->from;
    tail->source = packet->source;
    tail->target = packet->target;
    tail->epoch = packet->epoch;
    tail->sequence = packet->sequence;
    tail->remote_key = packet->remote_key;
    tail->remote_address = packet->remote_address;
    tail->total = packet->total;
    size_t bytes = 1 + rng_.below(packet->payload.size() - 1);
    tail->begin = packet->total - uint32_t(bytes);
    tail->operand = packet->begin;
    tail->payload.assign(packet->payload.end() - ptrdiff_t(bytes), packet->payload.end());
    put(std::move(tail));
    receive_free_ns_ += 1 + rng_.below(model().relaxed_ns);
  }
  put(std::move(packet));
}

void AdapterNode::on_dropped(std::unique_ptr<Packet> lost) {
  const auto& packet = static_cast<const AdapterPacket&>(*lost);
  if (is_answer(packet.op)) {
    adapters.node_of(packet.to).dropped(packet.target, packet.epoch, packet.sequence);
  } else {
    dropped(packet.source, packet.epoch, packet.sequence);
  }
}

// That request gets no answer: on a real adapter a timer finds that out, one timer per attempt.
void AdapterNode::dropped(uint32_t number, uint32_t epoch, uint64_t sequence) {
  auto found = pairs.find(number);
  if (found == pairs.end()) return;
  SimQueuePair& pair = *found->second;
  if (!pair.reliable() || pair.epoch_ != epoch || pair.timer_epoch_ == epoch) return;
  if (sequence < pair.first_sequence_ || sequence - pair.first_sequence_ >= pair.sends_.size()) return;
  pair.timer_epoch_ = epoch;
  add_timer(now_ns() + pair.options_.timeout_ns, {TimerKind::timeout, number, epoch, sequence});
}

void AdapterNode::handle(AdapterPacket& packet) {
  auto found = pairs.find(packet.target);
  SimQueuePair* pair = found == pairs.end() ? nullptr : found->second;
  if (is_answer(packet.op)) {
    if (pair) handle_answer(*pair, packet);
    return;
  }
  if (packet.op != Op::atomic_request) memory.settle_word();
  if (pair && pair->options_.kind == QueuePairKind::ud) {
    handle_datagram(*pair, packet);
    return;
  }
  if (pair && pair->state_ == SimQueuePair::State::ready && pair->options_.kind == QueuePairKind::dc_target) {
    if (packet.op == Op::dc_connect) {
      handle_dc_connect(*pair, packet);
      return;
    }
    if (packet.op == Op::dc_disconnect) {
      pair->dc_inbound_.erase(requester_of(adapters.network.node_of(packet.from), packet));
      return;
    }
  }
  Inbound* inbound = pair ? find_inbound(*pair, packet) : nullptr;
  if (!inbound) {
    // A refused DC connection gives no answer here: the refusal is under way.
    bool refused =
        pair && pair->options_.kind == QueuePairKind::dc_target && pair->state_ == SimQueuePair::State::ready;
    if (!refused && packet.op != Op::dc_disconnect && packet.op != Op::early_tail) {
      adapters.node_of(packet.from).dropped(packet.source, packet.epoch, packet.sequence);
    }
    return;
  }
  if (packet.sequence != inbound->expected) return;  // follows one that was not taken
  switch (packet.op) {
    case Op::data:
      if (packet.begin == inbound->progress) handle_data(*pair, *inbound, packet);
      return;
    case Op::early_tail: {
      SimMemoryRegion* region = memory.find(pair->hca_, packet.remote_key, packet.remote_address, packet.total);
      if (packet.operand != inbound->progress || !region || !region->access.remote_write) return;
      AdapterMemory::write(packet.remote_address + packet.begin, packet.payload.data(), packet.payload.size());
      return;
    }
    case Op::read_request: handle_read(*pair, *inbound, packet); return;
    case Op::atomic_request: handle_atomic(*pair, *inbound, packet); return;
    default: TERN_ASSERT(false);
  }
}

AdapterNode::Inbound* AdapterNode::find_inbound(SimQueuePair& pair, const AdapterPacket& packet) {
  if (pair.state_ != SimQueuePair::State::ready) return nullptr;
  uint32_t node = adapters.network.node_of(packet.from);
  switch (pair.options_.kind) {
    case QueuePairKind::rc:
    case QueuePairKind::xrc_target:
      return pair.peer_node_ == node && pair.inbound_.requester == packet.source ? &pair.inbound_ : nullptr;
    case QueuePairKind::dc_target: {
      auto found = pair.dc_inbound_.find(requester_of(node, packet));
      return found == pair.dc_inbound_.end() ? nullptr : &found->second;
    }
    default: return nullptr;
  }
}

void AdapterNode::answer(SimQueuePair& pair, const AdapterPacket& to, Op op, uint64_t delay_ns, Status status) {
  auto packet = std::make_unique<AdapterPacket>();
  packet->op = op;
  packet->from = pair.hca_.strand.rank();
  packet->to = to.from;
  packet->source = pair.number();
  packet->target = to.source;
  packet->epoch = to.epoch;
  packet->sequence = to.sequence;
  packet->status = status;
  packet->wait_ns = pair.options_.rnr_wait_ns;
  packet->remote_key = to.remote_key;
  packet->remote_address = to.remote_address;
  packet->total = to.total;
  packet->operand = to.operand;
  packet->last = true;
  pair.answers_.push_back({std::move(packet), now_ns() + delay_ns, 0});
  if (!pair.answering_) {
    pair.answering_ = true;
    answering_.push_back(&pair);
  }
  wake_engine(now_ns() + delay_ns);
}

// A request that cannot be executed: the requester is told, and this side's connection is over, too.
void AdapterNode::refuse(SimQueuePair& pair, const AdapterPacket& packet, Status told, Status own) {
  answer(pair, packet, Op::error, 0, told);
  Inbound* inbound = find_inbound(pair, packet);
  if (inbound && inbound->has_receive) {
    inbound->has_receive = false;
    complete_receive(pair, packet, inbound->receive, own);
  }
  if (pair.options_.kind == QueuePairKind::dc_target) {
    pair.dc_inbound_.erase(requester_of(adapters.network.node_of(packet.from), packet));
    return;
  }
  to_error(pair);
}

bool AdapterNode::take_receive(SimQueuePair& pair, const AdapterPacket& packet, SimReceive& receive) {
  const uint64_t now = now_ns();
  if (mishaps.storm(now)) return false;
  if (pair.options_.kind == QueuePairKind::xrc_target) return srqs.at(packet.remote_srq)->take(now, receive);
  if (pair.options_.srq) return static_cast<SimSharedReceiveQueue*>(pair.options_.srq)->take(now, receive);
  if (pair.receives_.empty() || pair.receives_.front().ready_ns > now) return false;
  receive = std::move(pair.receives_.front());
  pair.receives_.pop_front();
  return true;
}

void AdapterNode::complete_receive(SimQueuePair& pair, const AdapterPacket& packet, const SimReceive& receive,
                                   Status status) {
  rdma::Completion completion;
  completion.id = receive.id;
  completion.status = status;
  completion.kind =
      packet.verb == Verb::write_immediate ? rdma::CompletionKind::receive_write : rdma::CompletionKind::receive;
  completion.has_immediate = has_immediate(packet.verb);
  completion.immediate = packet.immediate;
  completion.bytes = packet.total;
  completion.queue_pair = pair.number();
  if (pair.options_.kind == QueuePairKind::ud) {
    completion.bytes += rdma::kUdHeaderBytes;
    completion.source_number = packet.source;
  }
  rdma::CompletionQueue* queue = pair.options_.receives;
  if (pair.options_.kind == QueuePairKind::xrc_target) queue = srqs.at(packet.remote_srq)->options.completions;
  static_cast<SimCompletionQueue*>(queue)->push(completion, packet.solicited, nullptr, 0);
}

// The first segment of a message: is it allowed, and is there a receive for it? False: it is not taken (and that is
// told).
bool AdapterNode::begin_data(SimQueuePair& pair, Inbound& inbound, AdapterPacket& packet) {
  if (!is_send(packet.verb) && packet.total != 0) {
    SimMemoryRegion* region = memory.find(pair.hca_, packet.remote_key, packet.remote_address, packet.total);
    if (!region || !region->access.remote_write) {
      refuse(pair, packet, Status::remote_access, Status::local_protection);
      return false;
    }
  }
  if (!takes_receive(packet.verb)) return true;
  bool xrc = pair.options_.kind == QueuePairKind::xrc_target;
  auto addressed = srqs.find(packet.remote_srq);
  if (xrc && (addressed == srqs.end() || !addressed->second->options.addressed)) {
    refuse(pair, packet, Status::remote_invalid_request, Status::local_queue_pair);
    return false;
  }
  if (!take_receive(pair, packet, inbound.receive)) {
    ++rnr_nacks;
    answer(pair, packet, Op::rnr, 0);
    return false;
  }
  inbound.has_receive = true;
  inbound.srq = packet.remote_srq;
  if (!is_send(packet.verb)) return true;
  if (packet.total > inbound.receive.capacity) {
    refuse(pair, packet, Status::remote_invalid_request, Status::local_length);
    return false;
  }
  if (!memory.covers(xrc ? addressed->second->hca : pair.hca_, inbound.receive.pieces, true)) {
    refuse(pair, packet, Status::remote_operation, Status::local_protection);
    return false;
  }
  if (xrc && mishaps.connection_fails()) {
    refuse(pair, packet, Status::remote_operation, Status::flushed);
    return false;
  }
  return true;
}

void AdapterNode::handle_data(SimQueuePair& pair, Inbound& inbound, AdapterPacket& packet) {
  if (packet.begin == 0 && !begin_data(pair, inbound, packet)) return;
  size_t bytes = packet.payload.size();
  if (is_send(packet.verb)) {
    AdapterMemory::write(inbound.receive.pieces, packet.begin, packet.payload.data(), bytes);
  } else if (bytes != 0) {
    // It may have been unregistered while the message came.
    if (!memory.find(pair.hca_, packet.remote_key, packet.remote_address, packet.total)) {
      refuse(pair, packet, Status::remote_access, Status::local_protection);
      return;
    }
    AdapterMemory::write(packet.remote_address + packet.begin, packet.payload.data(), bytes);
  }
  inbound.progress += uint32_t(bytes);
  if (!packet.last) return;
  if (!is_send(packet.verb) && model().polled_wakes)
    wake_poller(memory.find(pair.hca_, packet.remote_key, packet.remote_address, packet.total));
  inbound.progress = 0;
  ++inbound.expected;
  if (inbound.has_receive) {
    inbound.has_receive = false;
    complete_receive(pair, packet, inbound.receive, Status::success);
  }
  if (pair.options_.kind == QueuePairKind::xrc_target && mishaps.connection_fails()) {
    refuse(pair, packet, Status::remote_operation, Status::flushed);  // it has landed all the same
    return;
  }
  answer(pair, packet, Op::ack, 0);
}

void AdapterNode::handle_datagram(SimQueuePair& pair, AdapterPacket& packet) {
  if (pair.state_ != SimQueuePair::State::ready || uint32_t(packet.key) != uint32_t(pair.options_.key)) return;
  const AdapterFaults& faults = adapters.faults;
  if (rng_.chance(faults.datagram_loss_in_1024, 1024)) return;
  if (faults.datagram_late_in_1024 != 0 && rng_.chance(faults.datagram_late_in_1024, 1024)) {
    const uint64_t name = next_timer_;
    late_[name] = std::make_unique<AdapterPacket>(std::move(packet));
    add_timer(now_ns() + 1 + rng_.below(faults.datagram_late_ns + 1), {TimerKind::late, pair.number(), 0, name});
    return;
  }
  deliver_datagram(pair, packet);
  if (faults.datagram_double_in_1024 != 0 && rng_.chance(faults.datagram_double_in_1024, 1024))
    deliver_datagram(pair, packet);
}

void AdapterNode::deliver_datagram(SimQueuePair& pair, const AdapterPacket& packet) {
  SimReceive receive;
  if (!take_receive(pair, packet, receive)) return;
  if (packet.total + rdma::kUdHeaderBytes > receive.capacity || !memory.covers(pair.hca_, receive.pieces, true)) {
    complete_receive(pair, packet, receive, Status::local_length);
    return;
  }
  AdapterMemory::write(receive.pieces, rdma::kUdHeaderBytes, packet.payload.data(), packet.payload.size());
  complete_receive(pair, packet, receive, Status::success);
}

void AdapterNode::handle_read(SimQueuePair& pair, Inbound& inbound, AdapterPacket& packet) {
  SimMemoryRegion* region = memory.find(pair.hca_, packet.remote_key, packet.remote_address, packet.total);
  if (packet.total != 0 && (!region || !region->access.remote_read)) {
    refuse(pair, packet, Status::remote_access, Status::local_protection);
    return;
  }
  ++inbound.expected;
  answer(pair, packet, Op::read_answer, model().read_latency_ns);
}

void AdapterNode::handle_atomic(SimQueuePair& pair, Inbound& inbound, AdapterPacket& packet) {
  SimMemoryRegion* region = memory.find(pair.hca_, packet.remote_key, packet.remote_address, packet.total);
  if (!region || !region->access.remote_atomic) {
    refuse(pair, packet, Status::remote_access, Status::local_protection);
    return;
  }
  if (packet.remote_address % 8 != 0) {
    refuse(pair, packet, Status::remote_invalid_request, Status::local_queue_pair);
    return;
  }
  ++inbound.expected;
  const uint64_t old = memory.load_word(packet.remote_address);
  uint64_t stored = packet.operand;
  if (packet.verb == Verb::fetch_add) stored = old + packet.operand;
  if (packet.verb == Verb::compare_swap && old != packet.compare) stored = old;
  memory.store_word(*region, packet.remote_address, stored);
  if (model().atomics_with_cpu) memory.settle_word();
  else add_timer(now_ns() + model().atomic_ns, {TimerKind::settle, 0, 0, 0});
  packet.operand = old;
  answer(pair, packet, Op::atomic_answer, model().atomic_ns);
}

void AdapterNode::handle_dc_connect(SimQueuePair& pair, const AdapterPacket& packet) {
  if (packet.key != pair.options_.key) {
    answer(pair, packet, Op::error, 0, Status::remote_invalid_request);
    return;
  }
  uint64_t requester = requester_of(adapters.network.node_of(packet.from), packet);
  auto found = pair.dc_inbound_.find(requester);
  if (found == pair.dc_inbound_.end() && pair.dc_inbound_.size() >= model().dc_responders) {
    ++dc_nacks;
    answer(pair, packet, Op::dc_refused, 0);
    return;
  }
  Inbound& inbound = pair.dc_inbound_[requester];
  inbound = Inbound();
  inbound.expected = packet.sequence;
  inbound.requester = packet.source;
}

void AdapterNode::handle_answer(SimQueuePair& pair, AdapterPacket& packet) {
  uint64_t at = packet.sequence - pair.first_sequence_;
  if (pair.state_ != SimQueuePair::State::ready || packet.sequence < pair.first_sequence_ || at >= pair.sends_.size())
    return;
  Request& request = pair.sends_[at];
  if (request.done) return;
  switch (packet.op) {
    case Op::rnr:
      if (packet.epoch != pair.epoch_) return;
      if (pair.rnr_left_ == 0) {
        fail_request(pair, packet.sequence, Status::rnr_retry_exceeded);
        return;
      }
      if (pair.rnr_left_ < 7) --pair.rnr_left_;
      go_back(pair, packet.sequence, packet.wait_ns);
      return;
    case Op::dc_refused:
      if (packet.epoch != pair.epoch_) return;
      pair.dc_connected_ = false;
      go_back(pair, packet.sequence, model().dc_nack_wait_ns / 2 + rng_.below(model().dc_nack_wait_ns + 1));
      return;
    case Op::error: fail_request(pair, packet.sequence, packet.status); return;
    case Op::read_answer:
      AdapterMemory::write(request.pieces, packet.begin, packet.payload.data(), packet.payload.size());
      if (!packet.last) return;
      break;
    case Op::atomic_answer:
      AdapterMemory::write(request.pieces, 0, reinterpret_cast<const std::byte*>(&packet.operand), 8);
      break;
    default: break;
  }
  pair.retries_left_ = pair.options_.retries;
  pair.rnr_left_ = pair.options_.rnr_retries;
  request.finish(Status::success);
  pair.pop_done();
  if (pair.dc_connected_ && pair.sends_.empty()) {
    add_timer(now_ns() + model().dc_idle_ns, {TimerKind::dc_idle, pair.number(), 0, pair.first_sequence_});
  }
  activate(pair, now_ns());
}

// Sends again from that message on, after a pause.
void AdapterNode::go_back(SimQueuePair& pair, uint64_t sequence, uint64_t wait_ns) {
  pair.next_ = size_t(sequence - pair.first_sequence_);
  pair.offset_ = 0;
  ++pair.epoch_;
  pair.stalled_until_ns_ = now_ns() + wait_ns;
  activate(pair, pair.stalled_until_ns_);
}

void AdapterNode::fail_request(SimQueuePair& pair, uint64_t sequence, Status status) {
  size_t at = size_t(sequence - pair.first_sequence_);
  pair.sends_[at].finish(status);
  to_error(pair);
}

// A receive that a message had begun to fill.
void AdapterNode::flush_receive(SimQueuePair& pair, Inbound& inbound) {
  if (!inbound.has_receive) return;
  inbound.has_receive = false;
  AdapterPacket nothing;
  nothing.remote_srq = inbound.srq;
  complete_receive(pair, nothing, inbound.receive, Status::flushed);
}

void AdapterNode::to_error(SimQueuePair& pair) {
  if (pair.state_ == SimQueuePair::State::error) return;
  bool silent = pair.sends_.empty();
  pair.state_ = SimQueuePair::State::error;
  if (pair.active_) {
    std::erase(active_, &pair);
    pair.active_ = false;
  }
  for (Request& request : pair.sends_) {
    if (!request.done) request.finish(Status::flushed);
  }
  pair.pop_done();
  flush_receive(pair, pair.inbound_);
  for (auto& [requester, inbound] : pair.dc_inbound_) flush_receive(pair, inbound);
  AdapterPacket nothing;
  for (const SimReceive& receive : pair.receives_) complete_receive(pair, nothing, receive, Status::flushed);
  pair.receives_.clear();
  rdma::AsyncEvent event;
  event.number = pair.number();
  event.kind = rdma::AsyncEventKind::queue_pair_error;
  if (silent) pair.hca_.raise(event);
  event.kind = rdma::AsyncEventKind::srq_drained;
  if (pair.options_.srq) pair.hca_.raise(event);
}

}  // namespace tern::sim
