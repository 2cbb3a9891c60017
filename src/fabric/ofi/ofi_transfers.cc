#include "fabric/ofi/ofi_transfers.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/assert.h"
#include "fabric/ofi/ofi_peer.h"

namespace tern {
namespace {

// RemoteKey::words[1] of memory that peers name by its addresses. (No memory begins there.)
constexpr uint64_t kByAddress = ~uint64_t{0};
// Of an atomic's buffer: the operands (of a compare_swap the compared value follows), then the answer.
constexpr size_t kWordBytes = sizeof(uint64_t);
size_t answer_at(size_t words) { return std::max<size_t>(words, 2) * kWordBytes; }
// Parts of one transfer that are under way through buffers: 32 of 16 KiB keep 100 Gbit/s busy for a round trip of 40
// us. More would take the buffers from other peers, and a provider that loses what comes too fast (udp;ofi_rxd) repeats
// 256 parts for minutes.
constexpr uint32_t kWindow = 32;

uint64_t remote_of(uint64_t address, const RemoteKey& key) {
  return key.words[1] == kByAddress ? address : address - key.words[1];
}

}  // namespace

OfiTransfers::OfiTransfers(OfiAdapter& adapter, OfiStreams& streams, OfiPeers& peers)
    : adapter_(adapter), streams_(streams), peers_(peers) {
  const ofi::Capabilities& able = adapter_.able();
  remote_properties_.get = able.rma;
  // Without delivery-complete nobody at this side learns when a put has reached its place.
  remote_properties_.put = able.rma && able.delivery_complete;
  remote_properties_.autonomous = able.automatic_progress;
  remote_properties_.puts_before_messages = remote_properties_.put && able.send_after_write;
  remote_properties_.atomics = able.rma && able.atomics && !able.takes_core;
  remote_properties_.atomic_swap = remote_properties_.atomics && able.atomic_swap;
  // The frames of messages need no answer, and one frame takes several short puts along.
  if (able.copied_by_target) remote_properties_.least_bytes = adapter.frame_bytes / 2;
  if (able.takes_core) remote_properties_.least_bytes = adapter.frame_bytes;
  // Operands and answers of an operation share a buffer.
  remote_properties_.atomic_words =
      std::max<size_t>(std::min(able.atomic_words, adapter.frame_bytes / 2 / kWordBytes), 1);
}

// The CPU's atomics do not exclude the adapter's.
Lane* OfiTransfers::own_lane() { return &peers_.own(); }

RemoteKey OfiTransfers::expose(const void* address, size_t bytes, RemoteAccess access) {
  if (bytes == 0) return {};
  Registration* registration = adapter_.registrations->acquire(
      address, bytes, {access.write || access.atomic, access.read, access.write, access.atomic});
  if (!registration) return {};
  const uint64_t key = OfiAdapter::region_of(*registration).key();
  exposed_.emplace(key, registration);
  return {{key, adapter_.able().virtual_addresses ? kByAddress : registration->begin}};
}

void OfiTransfers::conceal(const RemoteKey& key) {
  const auto found = exposed_.find(key.words[0]);
  if (key.empty() || found == exposed_.end()) return;
  adapter_.registrations->release(*found->second);
  exposed_.erase(found);
}

void OfiTransfers::start(OfiPeer& peer, Transfer& transfer) {
  transfer.order = ++peer.transfers.calls;
  peer.transfers.waiting.push_back(&transfer);
  peer.transfers.waiting_puts += transfer.is_put;
  if (!peer.met && !peers_.meet(peer)) return;
  if (!pump(peer)) peers_.keep_busy(peer);
}

namespace {
Error not_exposed() { return Error(ErrorClass::other, "the peer's memory is not exposed"); }
}  // namespace

void OfiTransfers::begin(TransferOperation& operation, bool is_put) {
  auto& peer = static_cast<OfiPeer&>(*operation.lane);
  TERN_ASSERT(operation.bytes <= operation.local.remaining());
  if (peer.lost || peer.doomed) return operation.done(operation, peers_.reason(peer));
  if (operation.bytes == 0) return operation.done(operation, Error());
  if (operation.key.empty()) return operation.done(operation, not_exposed());
  Transfer& transfer = *pool_.create(peer);
  transfer.operation = &operation;
  transfer.is_put = is_put;
  transfer.begin = operation.local.position();
  choose_place(transfer);
  start(peer, transfer);
}

// In place, or through buffers.
void OfiTransfers::choose_place(Transfer& transfer) {
  const TransferOperation& operation = *transfer.operation;
  if (!operation.local.is_contiguous()) return;
  if (adapter_.able().needs_local) {
    if (operation.bytes <= adapter_.frame_bytes) return;  // a copy costs less than registering
    transfer.registration = adapter_.hold(operation.local.contiguous_data(), operation.bytes, !transfer.is_put);
    if (!transfer.registration) return;
  }
  transfer.in_place = true;
}

void OfiTransfers::atomic(AtomicOperation& operation) {
  auto& peer = static_cast<OfiPeer&>(*operation.lane);
  if (peer.lost || peer.doomed) return operation.done(operation, peers_.reason(peer));
  const ofi::Capabilities& able = adapter_.able();
  if (operation.kind == AtomicOperation::Kind::swap ? !remote_properties_.atomic_swap : !remote_properties_.atomics) {
    return operation.done(operation, Error(ErrorClass::unsupported_operation,
                                           "provider " + able.provider + " has no such atomic operation"));
  }
  if (operation.key.empty()) return operation.done(operation, not_exposed());
  TERN_ASSERT(operation.words == 1 || (operation.words <= remote_properties_.atomic_words &&
                                       operation.kind != AtomicOperation::Kind::compare_swap));
  Transfer& transfer = *pool_.create(peer);
  transfer.atomic = &operation;
  start(peer, transfer);
}

void OfiTransfers::flush(FlushOperation& operation) {
  auto& peer = static_cast<OfiPeer&>(*operation.lane);
  if (peer.lost || peer.doomed) return operation.done(operation, peers_.reason(peer));
  Flush* flush = flushes_.create();
  flush->operation = &operation;
  flush->order = peer.transfers.calls;
  peer.transfers.flushes.push_back(flush);
  finish_flushes(peer);
}

bool OfiTransfers::pump(OfiPeer& peer) {
  const bool posted = post_waiting(peer);
  return send_wake(peer) && posted;
}

// Nothing at the target tells of a write that its adapter, or a thread of its provider, has carried out: a rank that
// sleeps until the write is there would sleep on.
bool OfiTransfers::send_wake(OfiPeer& peer) {
  bool& due = peer.transfers.wake_due;
  if (due && streams_.send_sign(peer, wire::OfiFrameType::wake)) due = false;
  return !due;
}

bool OfiTransfers::post_waiting(OfiPeer& peer) {
  while (Transfer* transfer = peer.transfers.waiting.front()) {
    if (window_is_full(*transfer)) return true;  // its next part that comes back brings us here again
    if (!post_some(*transfer)) return window_is_full(*transfer);
    transfer->unlink();
    peer.transfers.posted.push_back(transfer);
    peer.transfers.waiting_puts -= transfer->is_put;
    transfer->all_posted = true;
    if (transfer->parts.empty()) finish(*transfer);
  }
  return true;
}

bool OfiTransfers::window_is_full(const Transfer& transfer) {
  return !transfer.in_place && transfer.under_way == kWindow;
}

// Posts what is left of one, or all that the port does not refuse. False: there is no room, or the window is full.
bool OfiTransfers::post_some(Transfer& transfer) {
  const size_t all = transfer.operation ? transfer.operation->bytes : 1;
  while (transfer.posted < all && transfer.error == 0) {
    if (window_is_full(transfer)) return false;
    OfiBuffer* buffer = transfer.in_place ? nullptr : adapter_.take_buffer();
    if (!transfer.in_place && !buffer) return false;
    Part& part = *parts_.take();
    part.transfer = &transfer;
    part.buffer = buffer;
    const int result = transfer.atomic ? post_atomic(transfer, part) : post_part(transfer, part);
    if (result != 0) {
      recycle(part);
      if (result == ofi::kAgain) return false;
      transfer.error = -result;
      return true;
    }
    transfer.peer.spoken = true;
    transfer.parts.push_back(&part);
    ++transfer.under_way;
    ++adapter_.outstanding;
    transfer.posted += part.bytes;
  }
  return true;
}

void OfiTransfers::recycle(Part& part) {
  if (part.buffer) adapter_.give_back(*part.buffer);
  parts_.give_back(&part);
}

int OfiTransfers::post_part(Transfer& transfer, Part& part) {
  TransferOperation& operation = *transfer.operation;
  part.offset = transfer.posted;
  part.bytes = std::min(operation.bytes - transfer.posted, adapter_.able().max_bytes);
  ofi::Piece piece;
  if (transfer.in_place) {
    piece = {operation.local.contiguous_data() + part.offset, part.bytes,
             transfer.registration ? &OfiAdapter::region_of(*transfer.registration) : nullptr};
  } else {
    part.bytes = std::min(part.bytes, adapter_.frame_bytes);
    piece = adapter_.piece_of(*part.buffer, part.bytes);
    if (transfer.is_put) {
      operation.local.seek(transfer.begin + part.offset);
      operation.local.pack(part.buffer->memory, part.bytes);
      adapter_.clock.charge_copy(part.bytes);
    }
  }
  const uint64_t remote = remote_of(operation.remote_address + part.offset, operation.key);
  ofi::Port& port = *adapter_.port;
  return transfer.is_put ? port.write(transfer.peer.address, piece, remote, operation.key.words[0], part)
                         : port.read(transfer.peer.address, piece, remote, operation.key.words[0], part);
}

int OfiTransfers::post_atomic(Transfer& transfer, Part& part) {
  const AtomicOperation& operation = *transfer.atomic;
  const uint64_t pair[2] = {operation.operand, operation.compare};
  const size_t bytes = operation.words * kWordBytes, operand_bytes = operation.words == 1 ? sizeof pair : bytes;
  std::memcpy(part.buffer->memory, operation.words == 1 ? pair : operation.many, operand_bytes);
  part.offset = 0;
  part.bytes = 1;  // one of one
  return adapter_.port->atomic(transfer.peer.address, operation.kind, adapter_.piece_of(*part.buffer, operand_bytes),
                               adapter_.piece_of(*part.buffer, bytes, answer_at(operation.words)),
                               remote_of(operation.remote_address, operation.key), operation.key.words[0], part);
}

// What came into a buffer.
void OfiTransfers::take_answer(Transfer& transfer, const Part& part) {
  if (AtomicOperation* atomic = transfer.atomic) {
    std::memcpy(atomic->words == 1 ? &atomic->result : atomic->many, part.buffer->memory + answer_at(atomic->words),
                atomic->words * kWordBytes);
  } else if (!transfer.is_put) {
    Cursor place = transfer.operation->local;
    place.seek(transfer.begin + part.offset);
    place.unpack(part.buffer->memory, part.bytes);
    adapter_.clock.charge_copy(part.bytes);
  }
}

void OfiTransfers::on_part(OfiOperation& operation, int error) {
  auto& part = static_cast<Part&>(operation);
  --adapter_.outstanding;
  Transfer* transfer = part.transfer;
  if (transfer) {
    IntrusiveList<Part>::remove(&part);
    if (window_is_full(*transfer)) peers_.keep_busy(transfer->peer);
    --transfer->under_way;
    if (error != 0) transfer->error = error;
    if (error == 0 && part.buffer) take_answer(*transfer, part);
  }
  recycle(part);
  if (transfer && transfer->parts.empty() && transfer->all_posted) finish(*transfer);
}

// It is over. A message may follow a put that has failed: then the peer is lost, too.
void OfiTransfers::finish(Transfer& transfer) {
  OfiPeer& peer = transfer.peer;
  TransferOperation* operation = transfer.operation;
  AtomicOperation* atomic = transfer.atomic;
  Error error;
  if (transfer.error != 0) {
    const char* call = atomic ? "fi_atomicmsg" : transfer.is_put ? "fi_writemsg" : "fi_readmsg";
    std::string text = adapter_.port->explain(call, transfer.error);
    if (transfer.is_put && remote_properties_.puts_before_messages) peers_.doom(peer, text);
    error = peer.lost ? peers_.reason(peer) : Error(ErrorClass::other, std::move(text));
    for (Flush* flush = peer.transfers.flushes.front(); flush; flush = peer.transfers.flushes.next(flush))
      flush->failed = flush->failed || flush->order >= transfer.order;
  }
  transfer.unlink();
  pool_.destroy(&transfer);
  if (operation && operation->wakes && !error && peer.id != adapter_.options.peers->me()) {
    peer.transfers.wake_due = true;
    if (!send_wake(peer)) peers_.keep_busy(peer);
  }
  if (operation) operation->done(*operation, std::move(error));
  else atomic->done(*atomic, std::move(error));
  finish_flushes(peer);
}

void OfiTransfers::finish_flushes(OfiPeer& peer) {
  OfPeer& its = peer.transfers;
  while (Flush* flush = its.flushes.front()) {
    for (auto* list : {&its.waiting, &its.posted}) {
      if (const Transfer* first = list->front(); first && first->order <= flush->order) return;
    }
    FlushOperation* operation = flush->operation;
    Error error;
    if (flush->failed)
      error = peer.lost ? peers_.reason(peer) : Error(ErrorClass::other, "an operation before the flush has failed");
    flush->unlink();
    flushes_.destroy(flush);
    operation->done(*operation, std::move(error));
  }
}

// Parts in buffers are left to the port. Those in place are waited for: the port may still write there.
void OfiTransfers::fail_all(OfiPeer& peer) {
  OfPeer& its = peer.transfers;
  its.wake_due = false;
  IntrusiveList<Transfer> over;
  while (Transfer* transfer = its.waiting.pop_front()) {
    its.waiting_puts -= transfer->is_put;
    transfer->all_posted = true;
    its.posted.push_back(transfer);
  }
  while (Transfer* transfer = its.posted.pop_front()) {
    transfer->error = transfer->error != 0 ? transfer->error : ofi::kCancelled;
    if (!transfer->in_place) {
      while (Part* part = transfer->parts.pop_front()) part->transfer = nullptr;
    }
    for (Part* part = transfer->parts.front(); part; part = transfer->parts.next(part)) adapter_.port->cancel(*part);
    over.push_back(transfer);
  }
  while (Transfer* transfer = over.pop_front()) {
    its.posted.push_back(transfer);
    if (transfer->parts.empty()) finish(*transfer);
  }
}

void OfiTransfers::forget(OfiPeer& peer) {
  OfPeer& its = peer.transfers;
  for (auto* list : {&its.waiting, &its.posted}) {
    while (Transfer* transfer = list->pop_front()) {
      while (transfer->parts.pop_front()) {
      }
      pool_.destroy(transfer);
    }
  }
  while (Flush* flush = its.flushes.pop_front()) flushes_.destroy(flush);
}

}  // namespace tern
