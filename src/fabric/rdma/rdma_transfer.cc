// Get and put: RDMA read and write between the peer's exposed memory and ours. Contiguous local memory is registered
// and moved at once; other memory goes part by part through slots. See rdma_path.h.
#include <algorithm>

#include "base/assert.h"
#include "fabric/rdma/rdma_path.h"

namespace tern {
namespace {

// Of RemoteKey::words[0]; the adapter's remote key is below.
constexpr uint64_t kExposed = uint64_t{1} << 63;

}  // namespace

bool RdmaPath::is_exposed(const RemoteKey& key) { return key.words[0] & kExposed; }

RemoteKey RdmaPath::expose(const void* address, size_t bytes, RemoteAccess access) {
  if (bytes == 0) return {};
  rdma::Registration* registration = registrations_->acquire(address, bytes, true);
  // Constant data, for example, cannot be registered for writing.
  if (!registration && !access.atomic) registration = registrations_->acquire(address, bytes, false);
  count_registrations();
  if (!registration) return {};
  return {{registration->region->remote_key() | kExposed, reinterpret_cast<uintptr_t>(registration)}};
}

void RdmaPath::conceal(const RemoteKey& key) {
  if (is_exposed(key)) registrations_->release(*reinterpret_cast<rdma::Registration*>(key.words[1]));
}

void RdmaPath::transfer(TransferOperation& operation, bool is_put) {
  auto& peer = static_cast<Peer&>(*operation.lane);
  TERN_ASSERT(!operation.linked() && operation.bytes <= operation.local.remaining());
  if (peer.state == PeerState::lost) {
    untransferable_.push_back(&operation);
    return;
  }
  if (!is_exposed(operation.key) && operation.bytes != 0) {
    operation.done(operation, Error(ErrorClass::other, "the peer's memory is not exposed"));
    return;
  }
  Transfer* transfer = transfer_pool_.create();
  transfer->lane = &peer;
  transfer->operation = &operation;
  transfer->is_put = is_put;
  if (operation.local.is_contiguous() && operation.bytes != 0) {
    transfer->registration = registrations_->acquire(operation.local.contiguous_data(), operation.bytes, !is_put);
    count_registrations();
  }
  begin(peer, *transfer);
}

void RdmaPath::begin(Peer& peer, Transfer& transfer) {
  peer.transfers.push_back(&transfer);
  if (peer.state == PeerState::fresh) contact(peer);
  pump_transfers(peer);
}

void RdmaPath::pump_transfers(Peer& peer) {
  if (peer.state != PeerState::ready) return;
  while (Transfer* transfer = peer.transfers.front()) {
    const bool posted =
        transfer->flush || (transfer->atomic ? post_atomic(peer, *transfer) : post_part(peer, *transfer));
    if (!posted) {
      block(peer);
      return;
    }
    if (transfer->operation && transfer->posted < transfer->operation->bytes) continue;
    IntrusiveList<Transfer>::remove(transfer);
    transfer->all_posted = true;
    peer.posted_transfers.push_back(transfer);
  }
}

bool RdmaPath::post_part(Peer& peer, Transfer& transfer) {
  TransferOperation& operation = *transfer.operation;
  // Adapters report a write to the rank they write to only if it takes one of that rank's receives, as a frame does.
  if (operation.wakes && peer.credits == 0) return false;
  size_t left = operation.bytes - transfer.posted;
  rdma::Piece piece;
  rdma::WorkRequest work;
  uint32_t slot = 0;
  if (transfer.registration || left == 0) {
    size_t part = std::min<size_t>(left, hca_->capabilities().max_message_bytes);
    work.id = reinterpret_cast<uintptr_t>(&transfer) | uint64_t(Tag::transfer);
    if (left != 0) {
      piece = {reinterpret_cast<uint64_t>(operation.local.contiguous_data()) + transfer.posted, uint32_t(part),
               transfer.registration->region->local_key()};
    }
  } else {
    if (free_slots_.empty() || !room(peer)) return false;
    slot = free_slots_.back();
    piece = slot_piece(slot, std::min(left, slot_bytes_));
    work.id = id_of(Tag::slot, slot);
    if (transfer.is_put) {
      operation.local.pack(slot_memory(slot), piece.bytes);
      charge_copy(piece.bytes);
    }
  }
  work.verb = transfer.is_put ? rdma::Verb::write : rdma::Verb::read;
  const bool wakes = operation.wakes && transfer.posted + piece.bytes == operation.bytes;
  if (wakes) work.verb = rdma::Verb::write_immediate;
  work.pieces = &piece;
  work.piece_count = left != 0 ? 1 : 0;
  work.remote_address = operation.remote_address + transfer.posted;
  work.remote_key = uint32_t(operation.key.words[0]);
  bool posted = post(peer, work);
  if (!posted) {
    TERN_ASSERT(transfer.registration || left == 0);
    return false;
  }
  if (!transfer.registration && left != 0) {
    free_slots_.pop_back();
    slots_[slot] = {peer.id, &transfer, piece.bytes};
  }
  if (wakes) --peer.credits;
  transfer.posted += piece.bytes;
  ++transfer.outstanding;
  return true;
}

// Parts come back in the order of posting, so what is read through slots is unpacked in order.
void RdmaPath::part_done(Peer& peer, Transfer& transfer, Slot* slot, bool ok) {
  --transfer.outstanding;
  transfer.failed |= !ok;
  if (slot && ok && !transfer.is_put) {
    transfer.operation->local.unpack(slot_memory(size_t(slot - slots_.data())), slot->bytes);
    charge_copy(slot->bytes);
  }
  if (slot) slot->transfer = nullptr;
  if (transfer.outstanding == 0 && transfer.all_posted) finish(transfer);
}

void RdmaPath::finish(Transfer& transfer) {
  auto& peer = static_cast<Peer&>(*transfer.lane);
  const bool failed = transfer.failed;
  if (transfer.flush) {  // here only when its peer is lost
    FlushOperation& operation = *transfer.flush;
    transfer_pool_.destroy(&transfer);
    operation.done(operation, reason(peer));
    return;
  }
  if (transfer.linked()) transfer.unlink();
  if (transfer.atomic) {
    finish_atomic(transfer);
  } else {
    TransferOperation& operation = *transfer.operation;
    if (transfer.registration) registrations_->release(*transfer.registration);
    transfer_pool_.destroy(&transfer);
    operation.done(operation, failed ? reason(peer) : Error());
  }
  finish_flushes(peer, failed);
}

}  // namespace tern
