// SimPath, sending: the window, the queue of each peer. See path.h.
#include <algorithm>
#include <utility>

#include "base/assert.h"
#include "sim/path.h"

namespace tern::sim {

SimPath::SimPath(Network& network, Strand& strand, Sink& sink, uint64_t seed, Reach reach)
    : network_(network),
      model_(network.model()),
      strand_(strand),
      sink_(sink),
      rank_(strand.rank()),
      reach_(reach),
      rng_(seed),
      waker_(strand),
      memory_(network, strand, waker_, rng_) {
  TERN_ASSERT(model_.window_bytes >= cost(1) && model_.packet_bytes > 0);
  properties_.name = "sim";
  properties_.eager_bytes = model_.eager_bytes;
  properties_.announce_from_bytes = model_.eager_bytes + 1;
  properties_.hybrid_bytes = model_.hybrid_bytes;
  properties_.needs_cpu = !memory_.remote_properties().autonomous;
  if (model_.socket_bytes_per_us != 0) properties_.part_bytes = kSocketPartBytes;
  network_.attach(rank_, this);
}

SimPath::~SimPath() { network_.attach(rank_, nullptr); }

void SimPath::launch(PeerId to, Peer& peer, const wire::Header& header, size_t message_bytes, size_t offset,
                     std::vector<std::byte> payload) {
  strand_.charge_ns(model_.send_ns);
  strand_.charge_ns(model_.socket_copy_ns(payload.size()));
  peer.in_flight += cost(payload.size());
  if (offset == 0) {
    strand_.charge_ns(model_.message_ns);
    last_sent_ = {to, header, message_bytes};
    strand_.scheduler().trace(strand_.now_ns(), EventKind::send, rank_, (uint64_t(header.kind) << 32) | to,
                              (uint64_t(uint32_t(header.tag)) << 32) ^ message_bytes);
  }
  auto packet = std::make_unique<Packet>();
  packet->from = rank_;
  packet->to = to;
  packet->header = header;
  packet->message_bytes = message_bytes;
  packet->offset = offset;
  packet->last = offset + payload.size() == message_bytes;
  packet->payload = std::move(payload);
  network_.send(strand_.now_ns(), std::move(packet));
}

bool SimPath::try_send(Lane& lane, const wire::Header& header, const void* payload, size_t bytes) {
  TERN_ASSERT(bytes <= std::max(model_.eager_bytes, kAlwaysWholeBytes));
  auto& peer = static_cast<Peer&>(lane);
  size_t packets = std::max<size_t>(1, (bytes + model_.packet_bytes - 1) / model_.packet_bytes);
  size_t wanted = bytes + packets * NetworkModel::kHeaderBytes;
  if (peer.lost || !peer.queue.empty() || peer.in_flight + wanted > model_.window_bytes) return false;
  auto* data = static_cast<const std::byte*>(payload);
  size_t offset = 0;
  do {
    size_t part = std::min(bytes - offset, model_.packet_bytes);
    launch(lane.id, peer, header, bytes, offset,
           part ? std::vector<std::byte>(data + offset, data + offset + part) : std::vector<std::byte>());
    offset += part;
  } while (offset < bytes);
  return true;
}

void SimPath::enqueue(SendOperation& operation) {
  TERN_ASSERT(reaches(operation.lane->id) && !operation.linked());
  auto& peer = static_cast<Peer&>(*operation.lane);
  operation.total_bytes = operation.payload.remaining();
  operation.header_sent = false;
  if (peer.lost) {
    unsendable_.push_back(&operation);
    return;
  }
  peer.queue.push_back(&operation);
  ++queued_;
  pump(operation.lane->id, peer);
}

// Sends from the queue what the window allows. A small part of a long message is not worth a packet unless the way is
// empty.
void SimPath::pump(PeerId to, Peer& peer) {
  while (SendOperation* operation = peer.queue.front()) {
    size_t left = operation->payload.remaining();
    size_t room = model_.window_bytes - std::min(peer.in_flight, model_.window_bytes);
    if (room < cost(left ? 1 : 0)) return;
    size_t part = std::min({left, model_.packet_bytes, room - NetworkModel::kHeaderBytes});
    if (peer.in_flight != 0 && part < std::min(left, model_.packet_bytes) / 2) return;
    std::vector<std::byte> payload(part);
    size_t packed = operation->payload.pack(payload.data(), part);
    TERN_ASSERT(packed == part);
    launch(to, peer, operation->header, operation->total_bytes, operation->total_bytes - left, std::move(payload));
    operation->header_sent = true;
    if (part < left) continue;
    IntrusiveList<SendOperation>::remove(operation);
    --queued_;
    sent_.push_back(operation);
  }
}

bool SimPath::withdraw(SendOperation& operation) {
  if (operation.header_sent || !operation.linked()) return false;
  auto& peer = static_cast<Peer&>(*operation.lane);
  if (peer.lost) return false;  // it will complete with an error
  IntrusiveList<SendOperation>::remove(&operation);
  --queued_;
  pump(operation.lane->id, peer);
  return true;
}

}  // namespace tern::sim
