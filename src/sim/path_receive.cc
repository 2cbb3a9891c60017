// SimPath, receiving: arrivals, completions, lost peers. See path.h.
#include <algorithm>

#include "base/assert.h"
#include "sim/path.h"

namespace tern::sim {
void SimPath::on_packet(std::unique_ptr<Packet> packet) {
  if (packet->kind == Packet::Kind::get_request || packet->kind == Packet::Kind::put) {
    memory_.on_request(*packet);
    return;
  }
  inbox_.push_back(std::move(packet));
  waker_.wake();
}

void SimPath::on_window(PeerId id, size_t bytes) {
  Peer& peer = peer_at(id);
  if (peer.lost) return;
  TERN_ASSERT(peer.in_flight >= bytes);
  peer.in_flight -= bytes;
  if (peer.queue.empty() || peer.ready) return;
  peer.ready = true;
  ready_.push_back(id);
  waker_.wake();
}

void SimPath::on_peer_lost(PeerId peer) {
  if (!reaches(peer)) return;
  lost_.push_back(peer);
  waker_.wake();
}

bool SimPath::arm() {
  waker_.armed =
      memory_.idle() && inbox_.empty() && ready_.empty() && lost_.empty() && sent_.empty() && unsendable_.empty();
  return waker_.armed;
}

int SimPath::poll() {
  strand_.charge_ns(model_.poll_ns * poll_cost_.times());
  strand_.catch_up();
  int handled = pump_ready() + memory_.take_landed();
  // Completions before arrivals or after them: the contract allows both.
  bool arrivals_first = rng_.chance(1, 2);
  if (arrivals_first) handled += take_arrivals();
  handled += complete_sends() + memory_.finish();
  if (!arrivals_first) handled += take_arrivals();
  handled += tell_losses();
  poll_cost_.polled(handled != 0);
  return handled;
}

int SimPath::pump_ready() {
  std::vector<PeerId> ready;
  ready.swap(ready_);
  for (PeerId id : ready) {
    Peer& peer = peer_at(id);
    peer.ready = false;
    pump(id, peer);
  }
  return int(ready.size());
}

int SimPath::complete_sends() {
  int handled = 0;
  while (SendOperation* operation = sent_.pop_front()) {
    ++handled;
    operation->done(*operation, Error());
  }
  while (SendOperation* operation = unsendable_.pop_front()) {
    ++handled;
    operation->done(*operation, lost_error(operation->lane->id));
  }
  return handled;
}

int SimPath::take_arrivals() {
  uint32_t limit = model_.arrivals_per_poll ? model_.arrivals_per_poll : ~0u;
  uint32_t taken = 0;
  while (!inbox_.empty() && taken < limit) {
    std::unique_ptr<Packet> packet = std::move(inbox_.front());
    inbox_.pop_front();
    ++taken;
    accept(*packet);
  }
  return int(taken);
}

void SimPath::accept(const Packet& packet) {
  Peer& peer = peer_at(packet.from);
  if (packet.kind == Packet::Kind::get_reply || packet.kind == Packet::Kind::put_done) {
    memory_.on_reply(packet);
    return;
  }
  strand_.charge_ns(model_.receive_ns);
  strand_.charge_ns(model_.socket_copy_ns(packet.payload.size()));
  // Returned first: messages that the sink sends from below must find the window as the peer will.
  network_.give_back(strand_.now_ns(), rank_, packet.from, cost(packet.payload.size()));
  if (packet.offset == 0) {
    strand_.charge_ns(model_.message_ns);
    last_received_ = {packet.from, packet.header, packet.message_bytes};
    strand_.scheduler().trace(strand_.now_ns(), EventKind::receive, rank_,
                              (uint64_t(packet.header.kind) << 32) | packet.from,
                              (uint64_t(uint32_t(packet.header.tag)) << 32) ^ packet.message_bytes);
  }
  if (packet.offset == 0 && packet.last) {
    TERN_ASSERT(!peer.reception.active);
    deliver_whole(packet.from, packet.header, packet.payload.data(), packet.message_bytes);
  } else {
    take_part(peer, packet);
  }
}

void SimPath::deliver_whole(PeerId from, const wire::Header& header, const std::byte* payload, size_t bytes) {
  if (bytes <= kAlwaysWholeBytes || !rng_.chance(model_.announced_in_256, 256)) {
    sink_.on_message(peer_at(from), header, payload, bytes);
    return;
  }
  Landing landing = sink_.on_header(peer_at(from), header, bytes);
  landing.target.unpack(payload, bytes);
  sink_.on_landed(peer_at(from), header, landing, bytes, Error());
}

void SimPath::take_part(Peer& peer, const Packet& packet) {
  Reception& reception = peer.reception;
  TERN_ASSERT(reception.active == (packet.offset != 0));
  if (packet.offset == 0) {
    reception.active = true;
    reception.header = packet.header;
    reception.bytes = packet.message_bytes;
    reception.gathered = packet.message_bytes <= kAlwaysWholeBytes ||
                         (packet.message_bytes <= model_.eager_bytes && rng_.chance(model_.gathered_in_256, 256));
    if (!reception.gathered)
      reception.landing = sink_.on_header(peer_at(packet.from), packet.header, packet.message_bytes);
  }
  if (reception.gathered) {
    reception.gathering.insert(reception.gathering.end(), packet.payload.begin(), packet.payload.end());
  } else {
    reception.landing.target.unpack(packet.payload.data(), packet.payload.size());
  }
  if (!packet.last) return;
  reception.active = false;
  if (reception.gathered) {
    std::vector<std::byte> whole;
    whole.swap(reception.gathering);
    sink_.on_message(peer_at(packet.from), reception.header, whole.data(), whole.size());
  } else {
    sink_.on_landed(peer_at(packet.from), reception.header, reception.landing, reception.bytes, Error());
  }
}

// A loss is told only after everything that had arrived before it.
int SimPath::tell_losses() {
  int handled = 0;
  while (!lost_.empty() && inbox_.empty()) {
    PeerId id = lost_.front();
    lost_.pop_front();
    ++handled;
    lose(id);
  }
  return handled;
}

void SimPath::lose(PeerId id) {
  complete_sends();  // packets that had left count as sent
  Peer& peer = peer_at(id);
  peer.lost = true;
  while (SendOperation* operation = peer.queue.pop_front()) {
    --queued_;
    operation->done(*operation, lost_error(id));
  }
  memory_.lose(id);
  if (peer.reception.active) {
    peer.reception.active = false;
    if (!peer.reception.gathered) {
      sink_.on_landed(peer_at(id), peer.reception.header, peer.reception.landing, peer.reception.bytes, lost_error(id));
    }
  }
  sink_.on_peer_lost(peer_at(id), lost_error(id));
}

const char* kind_name(wire::Kind kind) {
  switch (kind) {
    case wire::Kind::eager: return "eager";
    case wire::Kind::eager_sync: return "eager_sync";
    case wire::Kind::sync_ack: return "sync_ack";
    case wire::Kind::rts: return "rts";
    case wire::Kind::cts: return "cts";
    case wire::Kind::data: return "data";
    case wire::Kind::fin: return "fin";
    case wire::Kind::credit: return "credit";
    case wire::Kind::cancel: return "cancel";
    case wire::Kind::cancel_answer: return "cancel_answer";
    case wire::Kind::ready: return "ready";
    case wire::Kind::direct: return "direct";
    case wire::Kind::filled: return "filled";
    case wire::Kind::withdraw: return "withdraw";
    case wire::Kind::withdrawn: return "withdrawn";
    case wire::Kind::recount: return "recount";
    case wire::Kind::release: return "release";
    case wire::Kind::tuple_ask: return "tuple_ask";
    case wire::Kind::tuple_answer: return "tuple_answer";
    case wire::Kind::tuple_begin: return "tuple_begin";
    case wire::Kind::tuple_stop: return "tuple_stop";
    case wire::Kind::tuple_owed: return "tuple_owed";
    case wire::Kind::tuple_stopped: return "tuple_stopped";
    case wire::Kind::tuple_repair: return "tuple_repair";
    case wire::Kind::tuple_resume: return "tuple_resume";
    case wire::Kind::tuple_lost: return "tuple_lost";
    case wire::Kind::tuple_landed: return "tuple_landed";
    case wire::Kind::tuple_want: return "tuple_want";
    case wire::Kind::tuple_data: return "tuple_data";
    case wire::Kind::moved: return "moved";
  }
  return "unknown";
}

std::string SimPath::describe() const {
  auto seen = [](const LastSeen& last, const char* where) {
    if (last.peer == kNoPeer) return std::string("nothing");
    return std::string(kind_name(last.header.kind)) + where + "rank " + std::to_string(last.peer) + " (tag " +
           std::to_string(last.header.tag) + ", " + std::to_string(last.bytes) + " bytes)";
  };
  std::string text = "last sent " + seen(last_sent_, " to ") + ", last received " + seen(last_received_, " from ");
  for (PeerId id = 0; queued_ != 0 && id < network_.ranks(); ++id) {
    auto found = peers_.find(id);
    if (found == peers_.end() || found->second.queue.empty()) continue;
    text += ", queued to rank " + std::to_string(id) + " (" + std::to_string(found->second.in_flight) +
            " bytes on the way)";
  }
  for (PeerId id = 0; id < network_.ranks(); ++id) {
    auto found = peers_.find(id);
    if (found != peers_.end() && found->second.reception.active)
      text += ", half a message from rank " + std::to_string(id);
  }
  if (exposed() != 0) text += ", " + std::to_string(exposed()) + " buffers exposed";
  return text;
}

}  // namespace tern::sim
