// Atomics and flush on the memory of peers (RemoteMemory::atomic, flush), by the adapter's own atomics. They stand in
// one queue with gets and puts, and one connection carries them all, so an atomic takes effect after the puts that were
// begun before it (InfiniBand Architecture 1.4, table 79), and a flush is over when what was begun before it has come
// back. See rdma_path.h. Source: Jiang et al. 2004, section 2.
#include <algorithm>

#include "base/assert.h"
#include "fabric/rdma/rdma_path.h"

namespace tern {
namespace {

constexpr size_t kAnswers = 256;  // atomics of a rank on their way at one time; more wait

rdma::Verb verb_of(AtomicOperation::Kind kind) {
  switch (kind) {
    case AtomicOperation::Kind::fetch_add: return rdma::Verb::fetch_add;
    case AtomicOperation::Kind::compare_swap: return rdma::Verb::compare_swap;
    case AtomicOperation::Kind::swap: break;
  }
  return rdma::Verb::swap;
}

}  // namespace

// The words that answers land in: registered when the first atomic comes.
Error RdmaPath::make_answers() {
  if (answer_region_) return {};
  answers_ = std::make_unique<uint64_t[]>(kAnswers);
  if (Error error = hca_->register_memory(answers_.get(), kAnswers * sizeof(uint64_t), {}, answer_region_))
    return std::move(error).context("registering the words that answers of atomics land in");
  for (uint32_t i = kAnswers; i-- > 0;) free_answers_.push_back(i);
  return {};
}

Error RdmaPath::check(const AtomicOperation& operation) const {
  if (!remote_properties_.atomics ||
      (operation.kind == AtomicOperation::Kind::swap && !remote_properties_.atomic_swap)) {
    return Error(ErrorClass::unsupported_operation,
                 "the adapter " + hca_->capabilities().device + " has no such atomic operation");
  }
  if (!is_exposed(operation.key)) return Error(ErrorClass::other, "the peer's memory is not exposed");
  if (operation.remote_address % sizeof(uint64_t) != 0)
    return Error(ErrorClass::other, "an atomic operation on a word that is not aligned to 8 bytes");
  return {};
}

void RdmaPath::atomic(AtomicOperation& operation) {
  auto& peer = static_cast<Peer&>(*operation.lane);
  TERN_ASSERT(!operation.linked());
  Error error = peer.state == PeerState::lost ? reason(peer) : check(operation);
  if (!error) error = make_answers();
  if (error) {
    operation.done(operation, std::move(error));
    return;
  }
  Transfer* transfer = transfer_pool_.create();
  transfer->lane = &peer;
  transfer->atomic = &operation;
  begin(peer, *transfer);
}

void RdmaPath::flush(FlushOperation& operation) {
  auto& peer = static_cast<Peer&>(*operation.lane);
  if (peer.state == PeerState::lost) {
    operation.done(operation, reason(peer));
  } else if (peer.transfers.empty() && peer.posted_transfers.empty()) {
    operation.done(operation, Error());
  } else {
    Transfer* transfer = transfer_pool_.create();
    transfer->lane = &peer;
    transfer->flush = &operation;
    transfer->all_posted = true;  // there is nothing to post
    (peer.transfers.empty() ? peer.posted_transfers : peer.transfers).push_back(transfer);
  }
}

// False: no room in the send queue, or no word for the answer.
bool RdmaPath::post_atomic(Peer& peer, Transfer& transfer) {
  if (free_answers_.empty() || !room(peer)) return false;
  AtomicOperation& operation = *transfer.atomic;
  transfer.answer = free_answers_.back();
  rdma::Piece piece{reinterpret_cast<uint64_t>(&answers_[transfer.answer]), sizeof(uint64_t),
                    answer_region_->local_key()};
  rdma::WorkRequest work;
  work.id = reinterpret_cast<uintptr_t>(&transfer) | uint64_t(Tag::transfer);
  work.verb = verb_of(operation.kind);
  work.pieces = &piece;
  work.piece_count = 1;
  work.remote_address = operation.remote_address;
  work.remote_key = uint32_t(operation.key.words[0]);
  work.operand = operation.operand;
  work.compare = operation.compare;
  if (!post(peer, work)) return false;
  free_answers_.pop_back();
  transfer.all_posted = true;
  ++transfer.outstanding;
  return true;
}

// `failed`: the lane is being lost, or the adapter is.
void RdmaPath::finish_atomic(Transfer& transfer) {
  AtomicOperation& operation = *transfer.atomic;
  auto& peer = static_cast<Peer&>(*transfer.lane);
  const bool failed = transfer.failed;
  if (transfer.all_posted) {  // the adapter is done with the word, or has failed
    operation.result = answers_[transfer.answer];
    free_answers_.push_back(transfer.answer);
  }
  transfer_pool_.destroy(&transfer);
  operation.done(operation, failed ? reason(peer) : Error());
}

// The oldest transfers of a peer that are flushes: nothing before them is on its way.
void RdmaPath::finish_flushes(Peer& peer, bool failed) {
  while (Transfer* first = peer.posted_transfers.front()) {
    if (!first->flush) return;
    FlushOperation& operation = *first->flush;
    peer.posted_transfers.pop_front();
    transfer_pool_.destroy(first);
    operation.done(operation, failed ? reason(peer) : Error());
  }
}

}  // namespace tern
