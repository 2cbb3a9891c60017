#include "rma/remote_word_locks.h"
#include "base/assert.h"

namespace tern::rma {

LockWords::LockWords(uint32_t ranks, RemoteMemory& memory) : words_(LockWord::count(ranks)), memory_(memory) {
  key_ = memory.expose(words_.data(), words_.size() * sizeof words_[0], {.read = true, .write = true, .atomic = true});
}

RemoteWordLocks::RemoteWordLocks(WordDesign kind, int me, std::vector<WordsOfRank> ranks,
                                 std::unique_ptr<LockWords> words, Counters& counters, Clock& clock, uint64_t seed,
                                 Told told)
    : words_(std::move(words)),
      counters_(counters),
      locks_(kind, uint32_t(me), std::move(ranks), words_->data(), words_->memory(), clock, seed,
             [told = std::move(told)](uint32_t target, Error error) { told(int(target), std::move(error)); }) {}

void RemoteWordLocks::ask(int rank, LockMode mode) {
  TERN_DEBUG_ASSERT(!locks_.held(uint32_t(rank)));
  locks_.acquire(uint32_t(rank), mode);
  count();
}

void RemoteWordLocks::release(int rank) {
  TERN_DEBUG_ASSERT(locks_.held(uint32_t(rank)));
  locks_.release(uint32_t(rank));
  count();
}

int RemoteWordLocks::poll() {
  const int done = locks_.poll();
  count();
  return done;
}

void RemoteWordLocks::count() {
  counters_.rma_lock_words += locks_.counts().messages - counted_;
  TERN_DEBUG_ASSERT(locks_.counts().messages >= counted_);
  counted_ = locks_.counts().messages;
}

}  // namespace tern::rma
