#include "sim/path_memory.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "base/assert.h"

namespace tern::sim {

namespace {
constexpr size_t kStreamBytes = 20'000;  ///< shorter messages are faster as streams, when both ranks are there to copy
}  // namespace

Error lost_error(PeerId peer) {
  return Error(ErrorClass::proc_aborted, "rank " + std::to_string(peer) + " cannot be reached any more");
}

SimMemory::SimMemory(Network& network, Strand& strand, SimWaker& waker, Rng& rng)
    : network_(network), model_(network.model()), strand_(strand), waker_(waker), rng_(rng), rank_(strand.rank()) {
  const bool by_cpu = model_.get == NetworkModel::Get::cpu;
  remote_properties_.get = model_.get != NetworkModel::Get::none;
  remote_properties_.autonomous = model_.get == NetworkModel::Get::adapter;
  remote_properties_.put = remote_properties_.get && model_.put;
  remote_properties_.ordered_writes = remote_properties_.put && remote_properties_.autonomous && model_.ordered_writes;
  remote_properties_.puts_before_messages = remote_properties_.ordered_writes;
  arbiter_properties_.copy_locks = by_cpu;
  if (by_cpu) {
    arbiter_properties_.piece_bytes = model_.piece_bytes;
    arbiter_properties_.first_piece_bytes = model_.piece_bytes / 4;
  }
  arbiter_properties_.idle_polls = 4;
}

RemoteKey SimMemory::expose(const void* address, size_t bytes, RemoteAccess) {
  if (model_.get == NetworkModel::Get::none) return {};
  uint64_t key = next_key_++;
  exposures_[key] = {reinterpret_cast<uintptr_t>(address), bytes};
  return {{key, rank_}};
}

constexpr uint64_t kLocked = uint64_t{1} << 63;  // of RemoteKey::words[1]; the rank is below

bool SimMemory::add_copy_lock(RemoteKey& key) {
  exposures_[key.words[0]].lock_open = true;
  key.words[1] |= kLocked;
  return true;
}

bool SimMemory::try_lock_copy(Lane* owner, const RemoteKey& key) {
  if (!(key.words[1] & kLocked)) return true;
  if (!owner) return take_copy_lock(key.words[0]);
  NetworkMemory* memory = network_.memory_of(owner->id);
  return !memory || network_.is_lost(owner->id) || memory->take_copy_lock(key.words[0]);
}

bool SimMemory::take_copy_lock(uint64_t key) {
  auto found = exposures_.find(key);
  return found != exposures_.end() && std::exchange(found->second.lock_open, false);
}

void SimMemory::conceal(const RemoteKey& key) {
  if (key.words[0] == 0 && key.words[1] == 0) return;
  TERN_ASSERT(exposures_.erase(key.words[0]) == 1);
}

bool SimMemory::can_get(Lane& lane) {
  if (model_.get == NetworkModel::Get::cpu) return network_.same_node(rank_, lane.id);
  return model_.get == NetworkModel::Get::adapter;
}

// Null: that memory is not exposed under this key (any more).
const std::byte* SimMemory::find(uint64_t key, uint64_t address, size_t bytes) const {
  auto found = exposures_.find(key);
  if (found == exposures_.end()) return nullptr;
  const Exposure& exposed = found->second;
  if (address < exposed.address || address - exposed.address > exposed.bytes ||
      bytes > exposed.bytes - (address - exposed.address)) {
    return nullptr;
  }
  return reinterpret_cast<const std::byte*>(uintptr_t(address));
}

bool SimMemory::read(uint64_t key, uint64_t address, std::byte* out, size_t bytes) {
  const std::byte* memory = find(key, address, bytes);
  if (memory && bytes != 0) std::memcpy(out, memory, bytes);
  return memory != nullptr;
}

bool SimMemory::write(uint64_t key, uint64_t address, const std::byte* in, size_t bytes) {
  auto* memory = const_cast<std::byte*>(find(key, address, bytes));
  if (memory && bytes != 0) std::memcpy(memory, in, bytes);
  landed_ = true;
  waker_.wake();
  return memory != nullptr;
}

bool SimMemory::attending(uint64_t now_ns) const {
  return strand_.blocked_in() != nullptr || strand_.now_ns() <= now_ns + 500;
}

// As over shared memory, where it depends on the length. A stream keeps both CPUs busy, a get one: two gets at once
// take as long as one stream.
bool SimMemory::stream_is_faster(Lane&, size_t bytes, Traffic traffic) {
  return !remote_properties_.autonomous && traffic == Traffic::one_way && bytes < kStreamBytes;
}

bool SimMemory::peer_is_polling(Lane& lane, bool) {
  const NetworkMemory* memory = network_.memory_of(lane.id);
  return memory && !network_.is_lost(lane.id) && memory->attending(strand_.now_ns());
}

void SimMemory::fail_run(PeerId who, const char* does, PeerId whose) {
  strand_.scheduler().fail("rank " + std::to_string(who) + does + " memory of rank " + std::to_string(whose) +
                           " that is not exposed (any more)");
}

void SimMemory::begin(TransferOperation& operation, bool is_put) {
  TERN_ASSERT(is_put ? can_put(*operation.lane) : can_get(*operation.lane));
  TERN_ASSERT(!operation.linked() && operation.bytes <= operation.local.remaining());
  strand_.scheduler().trace(strand_.now_ns(), EventKind::get, rank_, operation.lane->id, operation.bytes);
  if (peers_[operation.lane->id].lost) failed_.push_back(&operation);
  else if (model_.get == NetworkModel::Get::cpu) copy_by_cpu(operation, is_put);
  else if (is_put) put_by_adapter(operation);
  else get_by_adapter(operation);
}

// Synchronous, as cross-memory attach is; `done` is called at once or from the next poll, both being allowed.
void SimMemory::copy_by_cpu(TransferOperation& operation, bool is_put) {
  strand_.charge_ns(model_.get_ns);
  strand_.charge_ns(model_.copy_ns(operation.bytes));
  const PeerId peer = operation.lane->id;
  NetworkMemory* owner = network_.memory_of(peer);
  std::vector<std::byte> staging(operation.bytes);
  bool exposed = false;
  if (is_put) {
    operation.local.pack(staging.data(), staging.size());
    if (network_.is_lost(peer)) {
      failed_.push_back(&operation);
      return;
    }
    exposed = owner && owner->write(operation.key.words[0], operation.remote_address, staging.data(), staging.size());
  } else {
    exposed = owner && owner->read(operation.key.words[0], operation.remote_address, staging.data(), staging.size());
  }
  if (!exposed) {
    fail_run(rank_, is_put ? " puts into" : " gets", peer);
    failed_.push_back(&operation);
    return;
  }
  if (!is_put) operation.local.unpack(staging.data(), staging.size());
  if (rng_.chance(1, 2)) {
    operation.done(operation, Error());
  } else {
    over_.push_back(&operation);
  }
}

std::unique_ptr<Packet> SimMemory::packet_to(PeerId to, Packet::Kind kind, size_t message_bytes) const {
  auto packet = std::make_unique<Packet>();
  packet->kind = kind;
  packet->from = rank_;
  packet->to = to;
  packet->message_bytes = message_bytes;
  return packet;
}

void SimMemory::put_by_adapter(TransferOperation& operation) {
  strand_.charge_ns(model_.send_ns);
  peers_[operation.lane->id].puts.push_back(&operation);
  size_t offset = 0;
  do {
    size_t part = std::min(operation.bytes - offset, model_.packet_bytes);
    auto packet = packet_to(operation.lane->id, Packet::Kind::put, operation.bytes);
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

bool SimMemory::read_put(const Packet& packet, std::byte* out) {
  IntrusiveList<TransferOperation>& puts = peers_[packet.to].puts;
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
void SimMemory::land_put(const Packet& packet) {
  std::vector<std::byte> data(packet.payload.size());
  NetworkMemory* from = network_.memory_of(packet.from);
  if (!from || !from->read_put(packet, data.data())) return;  // it has given this rank up, or is lost
  if (!write(packet.get_key, packet.get_address, data.data(), data.size())) {
    fail_run(packet.from, " puts into", rank_);
    return;
  }
  auto reply = packet_to(packet.from, Packet::Kind::put_done, data.size());
  reply->put_operation = packet.put_operation;
  network_.send(strand_.scheduler().now_ns(), std::move(reply));
}

void SimMemory::get_by_adapter(TransferOperation& operation) {
  strand_.charge_ns(model_.send_ns);
  peers_[operation.lane->id].gets.push_back(&operation);
  auto request = packet_to(operation.lane->id, Packet::Kind::get_request, operation.bytes);
  request->get_address = operation.remote_address;
  request->get_key = operation.key.words[0];
  network_.send(strand_.now_ns(), std::move(request));
}

// The adapter at the memory's owner, when the request arrives; its CPU is not involved.
void SimMemory::answer_get(const Packet& request) {
  size_t offset = 0;
  do {
    size_t part = std::min(request.message_bytes - offset, model_.packet_bytes);
    auto reply = packet_to(request.from, Packet::Kind::get_reply, request.message_bytes);
    reply->offset = offset;
    reply->payload.resize(part);
    if (!read(request.get_key, request.get_address + offset, reply->payload.data(), part)) {
      fail_run(request.from, " gets", rank_);
      return;
    }
    offset += part;
    reply->last = offset == request.message_bytes;
    network_.send(strand_.scheduler().now_ns(), std::move(reply));
  } while (offset < request.message_bytes);
}

void SimMemory::on_request(const Packet& packet) {
  if (packet.kind == Packet::Kind::get_request) answer_get(packet);
  else land_put(packet);
}

void SimMemory::on_reply(const Packet& packet) {
  Peer& peer = peers_[packet.from];
  if (packet.kind == Packet::Kind::put_done) {
    confirm_put(peer, packet);
    return;
  }
  TransferOperation* operation = peer.gets.front();
  if (!operation) return;  // the peer was lost meanwhile
  operation->local.unpack(packet.payload.data(), packet.payload.size());
  if (!packet.last) return;
  IntrusiveList<TransferOperation>::remove(operation);
  operation->done(*operation, Error());
}

void SimMemory::confirm_put(Peer& peer, const Packet& packet) {
  for (TransferOperation* put = peer.puts.front(); put; put = peer.puts.next(put)) {
    if (put != packet.put_operation) continue;
    size_t& landed = put_landed_[put];
    landed += packet.message_bytes;
    if (landed < put->bytes) return;
    put_landed_.erase(put);
    IntrusiveList<TransferOperation>::remove(put);
    put->done(*put, Error());
    return;
  }
}

int SimMemory::finish() {
  int handled = 0;
  while (TransferOperation* operation = over_.pop_front()) {
    ++handled;
    operation->done(*operation, Error());
  }
  while (TransferOperation* operation = failed_.pop_front()) {
    ++handled;
    operation->done(*operation, lost_error(operation->lane->id));
  }
  return handled;
}

void SimMemory::lose(PeerId id) {
  Peer& peer = peers_[id];
  peer.lost = true;
  while (TransferOperation* operation = peer.gets.pop_front()) operation->done(*operation, lost_error(id));
  while (TransferOperation* operation = peer.puts.pop_front()) {
    put_landed_.erase(operation);
    operation->done(*operation, lost_error(id));
  }
}

}  // namespace tern::sim
