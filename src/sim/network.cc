#include "sim/network.h"

#include <algorithm>

#include "base/assert.h"

namespace tern::sim {

Network::Network(Scheduler& scheduler, const NetworkModel& model, uint32_t ranks, uint32_t ranks_per_node)
    : scheduler_(scheduler),
      model_(model),
      ranks_per_node_(ranks_per_node),
      ports_(ranks),
      nodes_((ranks + ranks_per_node - 1) / ranks_per_node),
      lost_(ranks),
      attached_(ranks) {}

Network::~Network() {
  while (flying_) land(flying_);
}

void Network::send(uint64_t time_ns, std::unique_ptr<Packet> packet) {
  Packet* flying = packet.release();
  flying->next_flying = flying_;
  if (flying_) flying_->previous_flying = flying;
  flying_ = flying;
  ++packets_;
  forward(time_ns, EventKind::enter, flying);
}

void Network::give_back(uint64_t time_ns, PeerId taker, PeerId sender, size_t bytes) {
  uint32_t slot;
  if (free_give_backs_.empty()) {
    slot = uint32_t(give_backs_.size());
    give_backs_.emplace_back();
  } else {
    slot = free_give_backs_.back();
    free_give_backs_.pop_back();
  }
  give_backs_[slot] = {taker, sender, bytes};
  uint64_t latency = same_node(taker, sender) ? model_.local_latency_ns : model_.latency_ns;
  scheduler_.at(time_ns + latency, *this, EventKind::window, sender, slot);
}

void Network::lose(uint64_t time_ns, PeerId rank, uint64_t notice_ns) {
  // Two events: kind lost with datum rank (it happens), and with datum rank + ranks (it is noticed).
  scheduler_.at(time_ns, *this, EventKind::lost, rank, rank);
  scheduler_.at(time_ns + notice_ns, *this, EventKind::lost, rank, rank + ports_.size());
}

void Network::on_event(EventKind kind, uint64_t datum) {
  auto* packet = reinterpret_cast<Packet*>(datum);
  uint64_t now = scheduler_.now_ns();
  switch (kind) {
    case EventKind::enter: enter(packet); return;
    case EventKind::switch_port: {
      uint64_t busy = duration(packet->payload.size() + model_.kHeaderBytes, model_.port_bytes_per_us);
      uint64_t begin = nodes_[packet->to / ranks_per_node_].port.reserve(now, busy);
      forward(begin + model_.latency_ns - model_.latency_ns / 2 + first_frame_ns(*packet), EventKind::nic, packet);
      return;
    }
    case EventKind::nic: {
      uint64_t busy =
          model_.packet_ns + duration(packet->payload.size() + model_.kHeaderBytes, model_.adapter_bytes_per_us);
      arrive(packet, nodes_[packet->to / ranks_per_node_].in.reserve(now, busy) + busy);
      return;
    }
    case EventKind::deliver: deliver(packet); return;
    case EventKind::window: {
      GiveBack back = give_backs_[datum];
      free_give_backs_.push_back(uint32_t(datum));
      if (!lost_[back.sender] && !lost_[back.taker] && ports_[back.sender]) {
        ports_[back.sender]->on_window(back.taker, back.bytes);
      }
      return;
    }
    case EventKind::lost:
      if (datum < ports_.size()) {
        lost_[datum] = true;
        return;
      }
      for (PeerId rank = 0; rank < ports_.size(); ++rank) {
        if (!lost_[rank] && ports_[rank]) ports_[rank]->on_peer_lost(PeerId(datum - ports_.size()));
      }
      return;
    default: TERN_ASSERT(false);
  }
}

void Network::enter(Packet* packet) {
  uint64_t now = scheduler_.now_ns();
  size_t bytes = packet->payload.size() + model_.kHeaderBytes;
  // One rank's adapter reaches a neighbour's memory as any other (through the switch port here).
  if (packet->kind != Packet::Kind::rdma && same_node(packet->from, packet->to)) {
    Pair& pair = pairs_[(uint64_t(packet->from) << 32) | packet->to];
    uint64_t busy = duration(bytes, model_.local_bytes_per_us);
    arrive(packet, pair.memory.reserve(now, busy) + busy + model_.local_latency_ns);
    return;
  }
  uint64_t busy = model_.packet_ns + duration(bytes, model_.adapter_bytes_per_us);
  uint64_t begin = nodes_[packet->from / ranks_per_node_].out.reserve(now, busy);
  forward(begin + model_.latency_ns / 2 + first_frame_ns(*packet), EventKind::switch_port, packet);
}

// A place that passes on whole frames delays the first one by its length; the others follow it.
uint64_t Network::first_frame_ns(const Packet& packet) const {
  return model_.frame_bytes == 0
             ? 0
             : duration(std::min(packet.payload.size(), model_.frame_bytes), model_.port_bytes_per_us);
}

void Network::arrive(Packet* packet, uint64_t time_ns) {
  if (packet->kind == Packet::Kind::datagram) {
    if (weather_) time_ns += weather_->extra_delay_ns(scheduler_.now_ns(), packet->from, packet->to);
    forward(time_ns, EventKind::deliver, packet);
    return;
  }
  if (packet->flow != 0) {
    if (weather_) {
      time_ns += weather_->extra_delay_ns(scheduler_.now_ns(), packet->from, packet->to);
      uint64_t& last = flow_arrival_ns_[packet->flow];
      last = time_ns = std::max(last, time_ns);
    }
    forward(time_ns, EventKind::deliver, packet);
    return;
  }
  Pair& pair = pairs_[(uint64_t(packet->from) << 32) | packet->to];
  if (weather_) time_ns += weather_->extra_delay_ns(scheduler_.now_ns(), packet->from, packet->to);
  if (packet->astray_ns != 0) {
    forward(time_ns + packet->astray_ns, EventKind::deliver, packet);
    return;
  }
  // Equal times keep the order of scheduling.
  pair.last_arrival_ns = std::max(pair.last_arrival_ns, time_ns);
  forward(pair.last_arrival_ns, EventKind::deliver, packet);
}

std::unique_ptr<Packet> Network::land(Packet* packet) {
  (packet->previous_flying ? packet->previous_flying->next_flying : flying_) = packet->next_flying;
  if (packet->next_flying) packet->next_flying->previous_flying = packet->previous_flying;
  packet->previous_flying = packet->next_flying = nullptr;
  return std::unique_ptr<Packet>(packet);
}

void Network::deliver(Packet* packet) {
  std::unique_ptr<Packet> landed = land(packet);
  if (packet->kind == Packet::Kind::rdma) {
    if (lost_[packet->from] || lost_[packet->to]) {
      nodes_[node_of(packet->from)].adapter->on_dropped(std::move(landed));
    } else {
      nodes_[node_of(packet->to)].adapter->on_packet(std::move(landed));
    }
    return;
  }
  if (packet->kind == Packet::Kind::stream) return streams_->on_packet(std::move(landed));
  if (packet->kind == Packet::Kind::datagram && !ports_[packet->to]) return;
  if (!attached_[packet->to])
    scheduler_.fail("a packet for rank " + std::to_string(packet->to) + ", which is not wired up yet");
  if (lost_[packet->from] || lost_[packet->to] || !ports_[packet->to]) return;
  ports_[packet->to]->on_packet(std::move(landed));
}

}  // namespace tern::sim
