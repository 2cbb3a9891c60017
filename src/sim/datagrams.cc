#include "sim/datagrams.h"

#include <algorithm>

#include "base/assert.h"

namespace tern::sim {
namespace {

constexpr size_t kHistory = 64;  // datagrams kept for replays: more than a window of TERN_UDP_PAPER_WINDOW

}  // namespace

SimDatagramPort::SimDatagramPort(Network& network, Strand& strand, const DatagramModel& model,
                                 const DatagramFaults& faults, uint64_t seed)
    : network_(network), strand_(strand), model_(model), faults_(faults), rng_(seed) {
  network_.attach(strand_.rank(), this);
}

SimDatagramPort::~SimDatagramPort() { network_.attach(strand_.rank(), nullptr); }

// The network finds ranks by their numbers; the cards are empty, as many as a real port with these channels has.
void SimDatagramPort::describe(wire::DatagramCard& card) const {
  card.channels.resize(wire::kMaxCardChannels - (card.protocol == 2 ? 1 : 0));
}

size_t SimDatagramPort::send(PeerId peer, int, const iovec* datagrams, size_t count) {
  const NetworkModel& costs = network_.model();
  if (rng_.chance(faults_.refuse_in_1024, 1024)) count = size_t(rng_.below(count));
  if (count != 0) strand_.charge_ns(costs.datagram_send_ns != 0 ? costs.datagram_send_ns : costs.send_ns);
  for (size_t i = 0; i < count; ++i) {
    const auto* data = static_cast<const std::byte*>(datagrams[i].iov_base);
    const size_t bytes = datagrams[i].iov_len;
    strand_.charge_ns(costs.socket_copy_ns(bytes));
    if (faults_.replay_in_1024 != 0 && rng_.chance(1, 8)) {
      if (history_.size() == kHistory) history_.erase(history_.begin());
      history_.emplace_back(peer, Bytes(data, data + bytes));
    }
    if (!rng_.chance(faults_.drop_in_1024, 1024)) {
      Bytes copy(data, data + bytes);
      if (rng_.chance(faults_.corrupt_in_1024, 1024)) copy[size_t(rng_.below(bytes))] ^= std::byte(1 << rng_.below(8));
      launch(peer, copy.data(), bytes, lateness());
    }
    if (rng_.chance(faults_.duplicate_in_1024, 1024)) launch(peer, data, bytes, lateness());
    if (history_.empty()) continue;
    const auto& [old_peer, old] = history_[size_t(rng_.below(history_.size()))];
    if (rng_.chance(faults_.replay_in_1024, 1024)) launch(old_peer, old.data(), old.size(), lateness());
    if (rng_.chance(faults_.forge_in_1024, 1024)) {
      Bytes forged = old;
      for (uint64_t n = 1 + rng_.below(4); n != 0; --n)
        forged[size_t(rng_.below(forged.size()))] = std::byte(rng_.below(256));
      if (rng_.chance(1, 4)) forged.resize(size_t(rng_.below(forged.size() + 1)));
      launch(PeerId(rng_.below(network_.ranks())), forged.data(), forged.size(), lateness());
    }
  }
  return count;
}

// As IP fragments it: a piece is one packet of the network.
void SimDatagramPort::launch(PeerId to, const std::byte* data, size_t bytes, uint64_t delay_ns) {
  if (bytes > faults_.largest_bytes) return;
  const uint64_t flow = next_flow_++;
  size_t offset = 0;
  do {
    const size_t part = std::min(bytes - offset, model_.datagram_bytes);
    auto packet = std::make_unique<Packet>();
    packet->kind = Packet::Kind::datagram;
    packet->from = strand_.rank();
    packet->to = to;
    packet->flow = flow;
    packet->message_bytes = bytes;
    packet->offset = offset;
    packet->payload.assign(data + offset, data + offset + part);
    offset += part;
    network_.send(strand_.now_ns() + delay_ns, std::move(packet));
  } while (offset < bytes);
}

void SimDatagramPort::on_packet(std::unique_ptr<Packet> packet) {
  TERN_ASSERT(packet->kind == Packet::Kind::datagram);
  strand_.interrupt(network_.model().interrupt_ns);
  Bytes whole = std::move(packet->payload);
  if (whole.size() != packet->message_bytes) {
    const uint64_t name = uint64_t(packet->from) << 40 | packet->flow;
    auto& [bytes, there] = partial_[name];
    bytes.resize(packet->message_bytes);
    std::copy(whole.begin(), whole.end(), bytes.begin() + ptrdiff_t(packet->offset));
    there += whole.size();
    if (there != bytes.size()) return;
    whole = std::move(bytes);
    partial_.erase(name);
  }
  if (buffered_ + whole.size() + network_.model().kHeaderBytes > model_.buffer_bytes) return;
  buffered_ += whole.size() + network_.model().kHeaderBytes;
  inbox_.push_back(std::move(whole));
  strand_.wake(0);
}

size_t SimDatagramPort::receive(Arrival* out) {
  const NetworkModel& costs = network_.model();
  strand_.charge_ns((costs.poll_ns + model_.call_ns) * poll_cost_.times());
  strand_.catch_up();
  taken_.clear();
  poll_cost_.polled(!inbox_.empty());
  if (inbox_.empty()) return 0;
  // One datagram per call; segmentation offload at the receiver is not modelled.
  taken_.push_back(std::move(inbox_.front()));
  inbox_.pop_front();
  Bytes& bytes = taken_.back();
  buffered_ -= bytes.size() + network_.model().kHeaderBytes;
  const uint64_t taking_ns = costs.datagram_receive_ns != 0 ? costs.datagram_receive_ns : costs.receive_ns;
  strand_.charge_ns(taking_ns + costs.socket_copy_ns(bytes.size()));
  out[0] = {bytes.data(), bytes.size(), 0};
  return 1;
}

void SimDatagramPort::ask_life(PeerId peer) { asked_ns_[peer] = strand_.now_ns(); }

DatagramPort::Life SimDatagramPort::life(PeerId peer) {
  auto asked = asked_ns_.find(peer);
  if (asked == asked_ns_.end()) return Life::unknown;
  if (strand_.now_ns() < asked->second + 2 * network_.model().latency_ns) return Life::asked;
  const bool lost = network_.is_lost(peer);
  if (lost && faults_.dead_hosts) return Life::asked;
  asked_ns_.erase(asked);
  return lost ? Life::gone : Life::lives;
}

}  // namespace tern::sim
