// Atomics and flush on the memory of peers (RemoteMemory::atomic, flush), by the adapter's own atomics. They use the
// same queue as gets and puts, and a peer's puts and atomics go by the same channel. So an atomic takes effect after
// the puts that were begun before it (InfiniBand Architecture 1.4, table 79), and a flush is over when what was begun
// before it has come back. See rdma_transfers.h. Source: Jiang et al. 2004, section 2.
#include "base/assert.h"
#include "fabric/rdma/rdma_peer.h"

namespace tern {
namespace {

constexpr size_t kAnswers = 256;  // atomics of a rank in flight (2 KiB of words); more of them wait

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
Error RdmaTransfers::make_answers() {
  if (answer_region_) return {};
  answers_ = std::make_unique<uint64_t[]>(kAnswers);
  if (Error error = adapter_.hca->register_memory(answers_.get(), kAnswers * sizeof(uint64_t), {}, answer_region_))
    return std::move(error).context("registering the words that answers of atomics land in");
  TERN_DEBUG_ASSERT(free_answers_.empty());
  for (uint32_t i = kAnswers; i-- > 0;) free_answers_.push_back(i);
  return {};
}

Error RdmaTransfers::check(const AtomicOperation& operation) const {
  const rdma::Capabilities& able = adapter_.hca->capabilities();
  if (!able.atomics || (operation.kind == AtomicOperation::Kind::swap && !able.atomic_swap)) {
    return Error(ErrorClass::unsupported_operation, "the adapter " + able.device + " has no such atomic operation");
  }
  if (!is_exposed(operation.key)) return Error(ErrorClass::other, "the peer's memory is not exposed");
  if (operation.remote_address % sizeof(uint64_t) != 0)
    return Error(ErrorClass::other, "an atomic operation on a word that is not aligned to 8 bytes");
  return {};
}

void RdmaTransfers::begin(AtomicOperation& operation) {
  TERN_ASSERT(!operation.linked());
  Error error = check(operation);
  if (!error) error = make_answers();
  if (error) {
    operation.done(operation, std::move(error));
    return;
  }
  auto& peer = static_cast<RdmaPeer&>(*operation.lane);
  Transfer* transfer = pool_.create(peer);
  transfer->atomic = &operation;
  peer.transfers.waiting.push_back(transfer);
  pump(peer);
}

void RdmaTransfers::begin(FlushOperation& operation) {
  auto& peer = static_cast<RdmaPeer&>(*operation.lane);
  OfPeer& lists = peer.transfers;
  if (lists.waiting.empty() && lists.posted.empty()) {
    operation.done(operation, Error());
    return;
  }
  Transfer* transfer = pool_.create(peer);
  transfer->flush = &operation;
  (lists.waiting.empty() ? lists.posted : lists.waiting).push_back(transfer);
}

// False: no room in the send queue, or no word for the answer.
bool RdmaTransfers::post_atomic(Transfer& transfer, Channel& channel) {
  if (free_answers_.empty()) return false;
  AtomicOperation& operation = *transfer.atomic;
  transfer.answer = free_answers_.back();
  TERN_DEBUG_ASSERT(transfer.answer < kAnswers && transfer.outstanding == 0);
  rdma::Piece piece{reinterpret_cast<uint64_t>(&answers_[transfer.answer]), sizeof(uint64_t),
                    answer_region_->local_key()};
  rdma::WorkRequest work;
  work.id = RdmaAdapter::id_of(RdmaTag::transfer, &transfer);
  work.verb = verb_of(operation.kind);
  work.pieces = &piece;
  work.piece_count = 1;
  work.remote_address = operation.remote_address;
  work.remote_key = uint32_t(operation.key.words[0]);
  work.operand = operation.operand;
  work.compare = operation.compare;
  if (!channel.post(transfer.peer, work)) return false;
  free_answers_.pop_back();
  ++transfer.outstanding;
  return true;
}

// Called after posting: the adapter no longer uses the word, or has failed.
void RdmaTransfers::finish_atomic(Transfer& transfer) {
  AtomicOperation& operation = *transfer.atomic;
  RdmaPeer& peer = transfer.peer;
  const bool failed = transfer.failed;
  if (transfer.all_posted) {
    operation.result = answers_[transfer.answer];
    free_answers_.push_back(transfer.answer);
    TERN_DEBUG_ASSERT(free_answers_.size() <= kAnswers);
  }
  pool_.destroy(&transfer);
  operation.done(operation, failed ? peers_.reason(peer) : Error());
}

void RdmaTransfers::finish_flush(Transfer& transfer) {
  FlushOperation& operation = *transfer.flush;
  RdmaPeer& peer = transfer.peer;
  const bool failed = transfer.failed;
  pool_.destroy(&transfer);
  operation.done(operation, failed ? peers_.reason(peer) : Error());
}

// The oldest transfers of a peer that are flushes: nothing before them is on its way.
void RdmaTransfers::finish_flushes(RdmaPeer& peer, bool failed) {
  while (Transfer* first = peer.transfers.posted.front()) {
    if (!first->flush) return;
    IntrusiveList<Transfer>::remove(first);
    first->failed = failed;
    TERN_DEBUG_ASSERT(first->outstanding == 0);
    finish_flush(*first);
  }
}

}  // namespace tern
