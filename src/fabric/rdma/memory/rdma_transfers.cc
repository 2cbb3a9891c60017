#include "fabric/rdma/memory/rdma_transfers.h"

#include <algorithm>

#include "base/assert.h"
#include "fabric/rdma/rdma_peer.h"

namespace tern {
namespace {

// Of RemoteKey::words[0]; the adapter's remote key is below.
constexpr uint64_t kExposed = uint64_t{1} << 63;

RdmaPeer& peer_of(const TransferOperation& operation) { return static_cast<RdmaPeer&>(*operation.lane); }

}  // namespace

RdmaTransfers::RdmaTransfers(RdmaAdapter& adapter, RdmaPeers& peers, const Tunables& tunables)
    : adapter_(adapter), peers_(peers), registrar_(*adapter.hca) {
  registrations_ =
      RegistrationCache::create(registrar_, adapter.options.keep, uint64_t(tunables.rdma_registration_bytes));
}

bool RdmaTransfers::is_exposed(const RemoteKey& key) { return key.words[0] & kExposed; }

RemoteKey RdmaTransfers::expose(const void* address, size_t bytes, RemoteAccess access) {
  if (bytes == 0) return {};
  MemoryRights wanted;
  wanted.local_write = access.write || access.atomic;  // verbs require that in addition to the peers' right
  wanted.remote_read = access.read;
  wanted.remote_write = access.write;
  wanted.remote_atomic = access.atomic;
  Registration* registration = registrations_->acquire(address, bytes, wanted);
  if (!registration) return {};
  return {{rdma::region_of(*registration).remote_key() | kExposed, reinterpret_cast<uintptr_t>(registration)}};
}

void RdmaTransfers::conceal(const RemoteKey& key) {
  if (is_exposed(key)) registrations_->release(*reinterpret_cast<Registration*>(key.words[1]));
}

bool RdmaTransfers::waiting(const RdmaPeer& peer) const { return !peer.transfers.waiting.empty(); }

void RdmaTransfers::begin(TransferOperation& operation, bool is_put) {
  RdmaPeer& peer = peer_of(operation);
  TERN_ASSERT(!operation.linked() && operation.bytes <= operation.local.remaining());
  if (!is_exposed(operation.key) && operation.bytes != 0) {
    operation.done(operation, Error(ErrorClass::other, "the peer's memory is not exposed"));
    return;
  }
  Transfer* transfer = pool_.create(peer);
  transfer->operation = &operation;
  transfer->is_put = is_put;
  peer.transfers.puts += is_put;
  if (operation.local.is_contiguous() && operation.bytes != 0)
    transfer->registration =
        registrations_->acquire(operation.local.contiguous_data(), operation.bytes, {.local_write = !is_put});
  TERN_DEBUG_ASSERT(transfer->posted == 0 && transfer->outstanding == 0);
  peer.transfers.waiting.push_back(transfer);
  pump(peer);
}

void RdmaTransfers::pump(RdmaPeer& peer) {
  if (peer.state != RdmaPeer::State::ready) return;
  while (Transfer* transfer = peer.transfers.waiting.front()) {
    if (!transfer->flush) {
      Channel* channel = peers_.transfer_channel(peer);
      if (!channel || !(transfer->atomic ? post_atomic(*transfer, *channel) : post_part(peer, *transfer, *channel))) {
        adapter_.block(peer);
        return;
      }
    }
    if (transfer->operation && transfer->posted < transfer->operation->bytes) continue;
    IntrusiveList<Transfer>::remove(transfer);
    TERN_DEBUG_ASSERT(!transfer->all_posted);
    transfer->all_posted = true;
    peer.transfers.posted.push_back(transfer);
  }
}

bool RdmaTransfers::post_part(RdmaPeer& peer, Transfer& transfer, Channel& channel) {
  TransferOperation& operation = *transfer.operation;
  // Adapters report a write to the rank they write to only if it takes one of that rank's receives, as a frame does.
  if (operation.wakes && !peer.stream.has_credit()) return false;
  RdmaSlots& slots = adapter_.slots;
  const size_t left = operation.bytes - transfer.posted;
  const bool through_slot = !transfer.registration && left != 0;
  rdma::Piece piece;
  rdma::WorkRequest work;
  if (through_slot) {
    if (!slots.any() || !channel.room(peer, 1)) return false;
    piece = slots.piece(slots.next(), std::min(left, adapter_.slot_bytes));
    work.id = RdmaAdapter::id_of(RdmaTag::part, slots.next());
    if (transfer.is_put) {
      operation.local.pack(slots.memory(slots.next()), piece.bytes);
      adapter_.clock.charge_copy(piece.bytes);
    }
  } else {
    size_t part = std::min<size_t>(left, adapter_.hca->capabilities().max_message_bytes);
    work.id = RdmaAdapter::id_of(RdmaTag::transfer, &transfer);
    if (left != 0) {
      piece = {reinterpret_cast<uint64_t>(operation.local.contiguous_data()) + transfer.posted, uint32_t(part),
               rdma::region_of(*transfer.registration).local_key()};
    }
  }
  work.verb = transfer.is_put ? rdma::Verb::write : rdma::Verb::read;
  const bool wakes = operation.wakes && transfer.posted + piece.bytes == operation.bytes;
  if (wakes) {
    work.verb = rdma::Verb::write_immediate;
    work.immediate = wire::rdma_immediate(peer.connection.call, peer.stream.out_epoch);
  }
  work.pieces = &piece;
  work.piece_count = left != 0 ? 1 : 0;
  work.remote_address = operation.remote_address + transfer.posted;
  work.remote_key = uint32_t(operation.key.words[0]);
  if (!channel.post(peer, work)) {
    TERN_ASSERT(!through_slot);
    return false;
  }
  if (through_slot) slots.take({peer.id, &transfer, piece.bytes});
  TERN_DEBUG_ASSERT(!wakes || peer.stream.has_credit());
  if (wakes) peer.stream.use_credit();
  transfer.posted += piece.bytes;
  TERN_DEBUG_ASSERT(transfer.posted <= operation.bytes);
  ++transfer.outstanding;
  return true;
}

// Parts come back in the order of posting, so what is read through slots is unpacked in order.
void RdmaTransfers::on_part(uint32_t slot, bool ok) {
  const RdmaSlots::Use use = adapter_.slots.use(slot);
  auto& transfer = *static_cast<Transfer*>(use.owner);
  TERN_DEBUG_ASSERT(use.owner && transfer.outstanding != 0);
  if (ok && !transfer.is_put) {
    transfer.operation->local.unpack(adapter_.slots.memory(slot), use.bytes);
    adapter_.clock.charge_copy(use.bytes);
  }
  adapter_.slots.give_back(slot);
  part_done(transfer, ok);
}

void RdmaTransfers::on_transfer(Transfer& transfer, bool ok) { part_done(transfer, ok); }

void RdmaTransfers::part_done(Transfer& transfer, bool ok) {
  TERN_DEBUG_ASSERT(transfer.outstanding != 0);
  --transfer.outstanding;
  transfer.failed |= !ok;
  if (transfer.outstanding == 0 && transfer.all_posted) finish(transfer);
}

void RdmaTransfers::finish(Transfer& transfer) {
  RdmaPeer& peer = transfer.peer;
  const bool failed = transfer.failed;
  TERN_DEBUG_ASSERT(failed || transfer.outstanding == 0);
  if (transfer.linked()) transfer.unlink();
  if (transfer.flush) return finish_flush(transfer);
  transfer.atomic ? finish_atomic(transfer) : finish_transfer(transfer);
  finish_flushes(peer, failed);
}

void RdmaTransfers::finish_transfer(Transfer& transfer) {
  TransferOperation& operation = *transfer.operation;
  RdmaPeer& peer = transfer.peer;
  const bool failed = transfer.failed;
  TERN_DEBUG_ASSERT(!transfer.is_put || peer.transfers.puts != 0);
  peer.transfers.puts -= transfer.is_put;
  if (transfer.registration) registrations_->release(*transfer.registration);
  pool_.destroy(&transfer);
  operation.done(operation, failed ? peers_.reason(peer) : Error());
}

// Posted transfers are still here only if the adapter itself has failed: else they have come back.
void RdmaTransfers::fail_all(RdmaPeer& peer) {
  for (auto* list : {&peer.transfers.waiting, &peer.transfers.posted}) {
    while (Transfer* transfer = list->pop_front()) {
      transfer->failed = true;
      finish(*transfer);
    }
  }
}

}  // namespace tern
