// SimPath, sending: the window, the queue per peer, gets. See path.h.
#include <algorithm>
#include <utility>

#include "base/assert.h"
#include "sim/path.h"

namespace tern::sim {

namespace {
constexpr size_t kStreamBytes = 20'000;  ///< shorter messages are faster as streams, when both ranks are there to copy
}  // namespace

SimPath::SimPath(Network& network, Strand& strand, Sink& sink, uint64_t seed, Reach reach)
    : network_(network),
      model_(network.model()),
      strand_(strand),
      sink_(sink),
      rank_(strand.rank()),
      reach_(reach),
      rng_(seed) {
  TERN_ASSERT(model_.window_bytes >= cost(1) && model_.packet_bytes > 0);
  properties_.name = "sim";
  properties_.eager_bytes = model_.eager_bytes;
  properties_.announce_from_bytes = model_.eager_bytes + 1;
  properties_.hybrid_bytes = model_.hybrid_bytes;
  const bool by_cpu = model_.get == NetworkModel::Get::cpu;
  remote_properties_.get = model_.get != NetworkModel::Get::none;
  remote_properties_.autonomous = model_.get == NetworkModel::Get::adapter;
  properties_.needs_cpu = !remote_properties_.autonomous;
  remote_properties_.put = remote_properties_.get && model_.put;
  remote_properties_.ordered_writes = remote_properties_.put && remote_properties_.autonomous && model_.ordered_writes;
  remote_properties_.puts_before_messages = remote_properties_.ordered_writes;
  arbiter_properties_.copy_locks = by_cpu;
  if (by_cpu) {
    arbiter_properties_.piece_bytes = model_.piece_bytes;
    arbiter_properties_.first_piece_bytes = model_.piece_bytes / 4;
  }
  arbiter_properties_.idle_polls = 4;
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

RemoteKey SimPath::expose(const void* address, size_t bytes, RemoteAccess) {
  if (model_.get == NetworkModel::Get::none) return {};
  uint64_t key = next_key_++;
  exposures_[key] = {reinterpret_cast<uintptr_t>(address), bytes};
  return {{key, rank_}};
}

constexpr uint64_t kLocked = uint64_t{1} << 63;  // of RemoteKey::words[1]; the rank is below

bool SimPath::add_copy_lock(RemoteKey& key) {
  exposures_[key.words[0]].lock_open = true;
  key.words[1] |= kLocked;
  return true;
}

bool SimPath::try_lock_copy(Lane* owner, const RemoteKey& key) {
  if (!(key.words[1] & kLocked)) return true;
  if (!owner) return take_copy_lock(key.words[0]);
  NetworkPort* port = network_.port(owner->id);
  return !port || network_.is_lost(owner->id) || port->take_copy_lock(key.words[0]);
}

bool SimPath::take_copy_lock(uint64_t key) {
  auto found = exposures_.find(key);
  return found != exposures_.end() && std::exchange(found->second.lock_open, false);
}

void SimPath::conceal(const RemoteKey& key) {
  if (key.words[0] == 0 && key.words[1] == 0) return;
  TERN_ASSERT(exposures_.erase(key.words[0]) == 1);
}

bool SimPath::can_get(Lane& lane) {
  if (model_.get == NetworkModel::Get::cpu) return network_.same_node(rank_, lane.id);
  return model_.get == NetworkModel::Get::adapter;
}

// Null: that memory is not exposed under this key (any more).
const std::byte* SimPath::exposed(uint64_t key, uint64_t address, size_t bytes) const {
  auto found = exposures_.find(key);
  if (found == exposures_.end()) return nullptr;
  const Exposure& exposed = found->second;
  if (address < exposed.address || address - exposed.address > exposed.bytes ||
      bytes > exposed.bytes - (address - exposed.address)) {
    return nullptr;
  }
  return reinterpret_cast<const std::byte*>(uintptr_t(address));
}

bool SimPath::read_memory(uint64_t key, uint64_t address, std::byte* out, size_t bytes) {
  const std::byte* memory = exposed(key, address, bytes);
  if (memory && bytes != 0) std::memcpy(out, memory, bytes);
  return memory != nullptr;
}

bool SimPath::write_memory(uint64_t key, uint64_t address, const std::byte* in, size_t bytes) {
  auto* memory = const_cast<std::byte*>(exposed(key, address, bytes));
  if (memory && bytes != 0) std::memcpy(memory, in, bytes);
  landed_ = true;
  wake();
  return memory != nullptr;
}

bool SimPath::attending(uint64_t now_ns) const {
  return strand_.blocked_in() != nullptr || strand_.now_ns() <= now_ns + 500;
}

// As over shared memory, where it depends on the length.
bool SimPath::stream_is_faster(Lane&, size_t bytes) { return !remote_properties_.autonomous && bytes < kStreamBytes; }

bool SimPath::peer_is_polling(Lane& lane, bool) {
  const NetworkPort* port = network_.port(lane.id);
  return port && !network_.is_lost(lane.id) && port->attending(strand_.now_ns());
}

void SimPath::get(TransferOperation& operation) {
  TERN_ASSERT(can_get(*operation.lane) && !operation.linked() && operation.bytes <= operation.local.remaining());
  strand_.scheduler().trace(strand_.now_ns(), EventKind::get, rank_, operation.lane->id, operation.bytes);
  if (peer_at(operation.lane->id).lost) {
    ungettable_.push_back(&operation);
  } else if (model_.get == NetworkModel::Get::cpu) {
    get_by_cpu(operation);
  } else {
    get_by_adapter(operation);
  }
}

void SimPath::put(TransferOperation& operation) {
  TERN_ASSERT(can_put(*operation.lane) && !operation.linked() && operation.bytes <= operation.local.remaining());
  strand_.scheduler().trace(strand_.now_ns(), EventKind::get, rank_, operation.lane->id, operation.bytes);
  if (peer_at(operation.lane->id).lost) {
    ungettable_.push_back(&operation);
  } else if (model_.get == NetworkModel::Get::cpu) {
    put_by_cpu(operation);
  } else {
    put_by_adapter(operation);
  }
}

void SimPath::put_by_cpu(TransferOperation& operation) {
  strand_.charge_ns(model_.get_ns);
  charge_copy(operation.bytes);
  NetworkPort* owner = network_.port(operation.lane->id);
  std::vector<std::byte> staging(operation.bytes);
  operation.local.pack(staging.data(), staging.size());
  if (network_.is_lost(operation.lane->id)) {
    ungettable_.push_back(&operation);
    return;
  }
  if (!owner ||
      !owner->write_memory(operation.key.words[0], operation.remote_address, staging.data(), operation.bytes)) {
    strand_.scheduler().fail("rank " + std::to_string(rank_) + " puts into memory of rank " +
                             std::to_string(operation.lane->id) + " that is not exposed (any more)");
    ungettable_.push_back(&operation);
    return;
  }
  if (rng_.chance(1, 2)) {
    operation.done(operation, Error());
  } else {
    got_.push_back(&operation);
  }
}

void SimPath::put_by_adapter(TransferOperation& operation) {
  strand_.charge_ns(model_.send_ns);
  peer_at(operation.lane->id).puts.push_back(&operation);
  size_t offset = 0;
  do {
    size_t part = std::min(operation.bytes - offset, model_.packet_bytes);
    auto packet = std::make_unique<Packet>();
    packet->kind = Packet::Kind::put;
    packet->from = rank_;
    packet->to = operation.lane->id;
    packet->message_bytes = operation.bytes;
    packet->offset = offset;
    packet->payload.resize(part);
    packet->get_address = operation.remote_address + offset;
    packet->get_key = operation.key.words[0];
    packet->put_operation = &operation;
    if (!model_.ordered_writes) packet->astray_ns = 1 + rng_.below(model_.put_astray_ns + 1);
    offset += part;
    packet->last = offset == operation.bytes;
    network_.send(strand_.now_ns(), std::move(packet));
  } while (offset < operation.bytes);
}

bool SimPath::read_put(const Packet& packet, std::byte* out) {
  IntrusiveList<TransferOperation>& puts = peer_at(packet.to).puts;
  for (TransferOperation* put = puts.front(); put; put = puts.next(put)) {
    if (put != packet.put_operation) continue;
    Cursor from = put->local;
    from.skip(packet.offset);
    from.pack(out, packet.payload.size());
    return true;
  }
  return false;
}

// The adapter at the memory's owner. The sender is told of each packet, and counts.
void SimPath::land_put(const Packet& packet) {
  std::vector<std::byte> data(packet.payload.size());
  NetworkPort* from = network_.port(packet.from);
  if (!from || !from->read_put(packet, data.data())) return;  // it has given this rank up, or is lost
  if (!write_memory(packet.get_key, packet.get_address, data.data(), data.size())) {
    strand_.scheduler().fail("rank " + std::to_string(packet.from) + " puts into memory of rank " +
                             std::to_string(rank_) + " that is not exposed (any more)");
    return;
  }
  auto reply = std::make_unique<Packet>();
  reply->kind = Packet::Kind::put_done;
  reply->from = rank_;
  reply->to = packet.from;
  reply->message_bytes = data.size();
  reply->put_operation = packet.put_operation;
  network_.send(strand_.scheduler().now_ns(), std::move(reply));
}

// Synchronous, as cross-memory attach is; `done` is called at once or from the next poll, both being allowed.
void SimPath::get_by_cpu(TransferOperation& operation) {
  strand_.charge_ns(model_.get_ns);
  charge_copy(operation.bytes);
  NetworkPort* owner = network_.port(operation.lane->id);
  std::vector<std::byte> staging(operation.bytes);
  if (!owner ||
      !owner->read_memory(operation.key.words[0], operation.remote_address, staging.data(), operation.bytes)) {
    strand_.scheduler().fail("rank " + std::to_string(rank_) + " gets memory of rank " +
                             std::to_string(operation.lane->id) + " that is not exposed (any more)");
    ungettable_.push_back(&operation);
    return;
  }
  operation.local.unpack(staging.data(), staging.size());
  if (rng_.chance(1, 2)) {
    operation.done(operation, Error());
  } else {
    got_.push_back(&operation);
  }
}

void SimPath::get_by_adapter(TransferOperation& operation) {
  strand_.charge_ns(model_.send_ns);
  peer_at(operation.lane->id).gets.push_back(&operation);
  auto request = std::make_unique<Packet>();
  request->kind = Packet::Kind::get_request;
  request->from = rank_;
  request->to = operation.lane->id;
  request->message_bytes = operation.bytes;
  request->get_address = operation.remote_address;
  request->get_key = operation.key.words[0];
  network_.send(strand_.now_ns(), std::move(request));
}

// The adapter at the memory's owner, when the request arrives; its CPU is not involved.
void SimPath::answer_get(const Packet& request) {
  size_t offset = 0;
  do {
    size_t part = std::min(request.message_bytes - offset, model_.packet_bytes);
    auto reply = std::make_unique<Packet>();
    reply->kind = Packet::Kind::get_reply;
    reply->from = rank_;
    reply->to = request.from;
    reply->message_bytes = request.message_bytes;
    reply->offset = offset;
    reply->payload.resize(part);
    if (!read_memory(request.get_key, request.get_address + offset, reply->payload.data(), part)) {
      strand_.scheduler().fail("rank " + std::to_string(request.from) + " gets memory of rank " +
                               std::to_string(rank_) + " that is not exposed (any more)");
      return;
    }
    offset += part;
    reply->last = offset == request.message_bytes;
    network_.send(strand_.scheduler().now_ns(), std::move(reply));
  } while (offset < request.message_bytes);
}

}  // namespace tern::sim
