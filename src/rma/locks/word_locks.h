// WordLocks: drives the lock machines of one window, its words in memory that every rank of the window has exposed
// (RemoteMemory::expose with atomic access) and reaches by one path's atomics.
//
// A word that several ranks change (lock, readers) is changed by the path's atomics only, also by the rank whose memory
// it lies in, unless the CPU's atomics exclude the adapter's. `next` and `flag` are written by others' puts of 8 bytes,
// and read by their owner's loads.
//
// Pauses begin at about the time of one attempt and double up to a limit; each is drawn between half and all of it, so
// that contenders spread. The writes that hand a turn over wake a rank that sleeps.
//
// When a rank of the window is lost (`on_lost`, which the path's on_peer_lost leads to), each rank that waits for a
// lock that it may hold gets an error. A rank that waits long reads a word of the rank that it waits for, or of all in
// turn, so that the path notices its death.
//
// Units: nanoseconds. Thread rule: under the rank's lock.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "base/clock.h"
#include "base/pool.h"
#include "base/rng.h"
#include "fabric/pollable.h"
#include "fabric/remote_memory.h"
#include "rma/locks/lock_machine.h"

namespace tern::rma {

enum class WordDesign : uint8_t { test_and_set, mcs };

/// How the machines use their words.
struct LockManners {
  uint64_t first_pause_ns, longest_pause_ns;  ///< after a failed attempt: the first; it doubles up to the longest
  bool takes_back = false;                    ///< MCS's (mcs.h)
};

/// One rank's words, as the others name them.
struct WordsOfRank {
  Lane* lane = nullptr;  ///< null: this rank itself, by its CPU
  uint64_t address = 0;
  RemoteKey key;
};

class WordLocks final : public Pollable {
 public:
  /// Called when the lock of `target` is held (no error), or cannot be had.
  using Told = std::function<void(uint32_t target, Error error)>;
  struct Counts {
    uint64_t messages = 0;  ///< operations that went to other ranks
    uint64_t tries = 0;     ///< failed attempts
  };

  /// Nothing is owned; the caller adds it to the engine. `ranks`: by rank of the window; `mine`: this rank's words,
  /// exposed by the caller, zero when the others begin. All of it, and this, lives until nothing is `under_way`.
  WordLocks(WordDesign design, uint32_t me, std::vector<WordsOfRank> ranks, uint64_t* mine, RemoteMemory& memory,
            Clock& clock, uint64_t seed, Told told, const LockManners& manners = kOfAdapters);
  static const LockManners kOfAdapters;

  ~WordLocks() override;
  WordLocks(const WordLocks&) = delete;
  WordLocks& operator=(const WordLocks&) = delete;

  /// Begins; returns at once. The lock of that target is neither held nor wanted.
  void acquire(uint32_t target, LockMode mode);
  bool held(uint32_t target) const;
  /// Begins; nobody waits for its end. What was put under the lock has arrived, or goes by the path whose atomics keep
  /// behind puts.
  void release(uint32_t target);
  /// A rank of the window has been lost.
  void on_lost(uint32_t rank);
  /// Nothing is on its way and nothing is left to be done.
  bool quiet() const { return active_.empty() && !under_way(); }
  /// The adapter has operations that it will tell of here. Without polls none are added.
  bool under_way() const { return operations_ != 0; }
  const Counts& counts() const { return counts_; }

  int poll() override;
  const PollHints& hints() const override { return hints_; }
  bool arm() override;
  uint64_t next_deadline_ns() const override;

 private:
  struct Lock {
    std::unique_ptr<LockMachine> machine;
    bool on_its_way = false;  ///< its operation
    bool wanted_again = false;
    LockMode mode = LockMode::shared;
    bool told = true;
    uint64_t resume_ns = 0, pause_ns = 0;
    struct Atomic : AtomicOperation {
      Lock* lock = nullptr;
    } atomic;
    struct Transfer : TransferOperation {
      Lock* lock = nullptr;
    } transfer;
    uint64_t buffer = 0;
    Transfer probe;  ///< reads a word of the rank that is waited for
    uint64_t probed = 0, probe_ns = 0;
    uint32_t probed_rank = 0;
    bool probing = false;
    WordLocks* owner = nullptr;
    uint32_t target = 0;
    bool active = false;
  };

  /// An atomic that nobody waits for.
  struct Detached final : AtomicOperation {
    WordLocks* owner = nullptr;
  };

  Lock& lock(uint32_t target);
  void fill(AtomicOperation& atomic, const WordOperation& operation) const;
  void start(Lock& lock);
  int drive(Lock& lock);
  void issue(Lock& lock);
  void do_here(Lock& lock, const WordOperation& operation);
  void done(Lock& lock, uint64_t result, const Error& error);
  void tell(Lock& lock);
  void wake(Lock& lock);
  void note_lost(uint32_t rank);
  bool check_lost(Lock& lock);
  void look_for_life(Lock& lock, uint64_t now_ns);
  uint64_t load(uint32_t word) const;

  const WordDesign design_;
  const uint32_t me_;
  const std::vector<WordsOfRank> ranks_;
  uint64_t* const mine_;
  RemoteMemory& memory_;
  Clock& clock_;
  Rng rng_;
  const Told told_;
  const LockManners manners_;
  std::vector<std::unique_ptr<Lock>> locks_;  ///< by target; null: never asked for
  std::vector<Lock*> active_;                 ///< that want a turn
  Pool<Detached, 8> pool_;
  size_t operations_ = 0;  ///< on their way, of all kinds
  std::vector<uint32_t> lost_;
  uint32_t next_probed_ = 0;
  PollHints hints_{.dormant = true};
  Counts counts_;
};

}  // namespace tern::rma
