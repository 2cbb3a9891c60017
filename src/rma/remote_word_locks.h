// RemoteWordLocks: test-and-set and MCS locks (locks/) for a window whose ranks reach each other by one path's atomics
// (RemotePart::atomics), without the target's processor. Each rank exposes its words when the window is made.
//
// A rank changes its own lock word by the adapter, too, unless the CPU's atomics exclude the adapter's. Writes that
// hand a turn over wake a rank that sleeps.
// Thread rule: under the rank's lock.
#pragma once

#include <vector>

#include "rma/lock_design.h"
#include "rma/locks/word_locks.h"

namespace tern::rma {

/// The lock words of this rank, exposed while it lives.
class LockWords {
 public:
  /// `memory`: outlives this.
  LockWords(uint32_t ranks, RemoteMemory& memory);
  ~LockWords() { memory_.conceal(key_); }
  LockWords(const LockWords&) = delete;
  LockWords& operator=(const LockWords&) = delete;
  /// Empty: the path could not expose them.
  const RemoteKey& key() const { return key_; }
  uint64_t* data() { return words_.data(); }
  RemoteMemory& memory() const { return memory_; }

 private:
  std::vector<uint64_t> words_;
  RemoteMemory& memory_;
  RemoteKey key_;
};

class RemoteWordLocks final : public LockDesign {
 public:
  /// `ranks`: by rank of the window, `words` those of this rank `me` among them.
  RemoteWordLocks(WordDesign kind, int me, std::vector<WordsOfRank> ranks, std::unique_ptr<LockWords> words,
                  Counters& counters, Clock& clock, uint64_t seed, Told told);
  void ask(int rank, LockMode mode) override;
  void release(int rank) override;
  void lost(int rank, const Error&) override { locks_.on_lost(uint32_t(rank)); }
  bool quiet() const override { return locks_.quiet(); }
  bool under_way() const override { return locks_.under_way(); }

  int poll() override;
  const PollHints& hints() const override { return locks_.hints(); }
  bool arm() override { return locks_.arm(); }
  uint64_t next_deadline_ns() const override { return locks_.next_deadline_ns(); }

 private:
  void count();

  const std::unique_ptr<LockWords> words_;
  Counters& counters_;
  WordLocks locks_;
  uint64_t counted_ = 0;
};

}  // namespace tern::rma
