// LockMachine: how one origin gets and gives back the lock of one target by operations on words, without the target's
// processor (Jiang et al. 2004, section 5). A pure automaton: it says what it wants next, and is told what came of it.
// Who drives it (word_locks.h) has the words in the memory of peers, or in memory that a node shares; the unit test has
// them in an array, and takes all steps in all orders.
//
//   acquire()  -> wants operation -> completed(result) -> wants pause -> paused() -> ... -> held()
//                 wants watch     -> watched(value): a word of this rank's own memory, which others write
//
// One operation is on its way at a time. Operations of one origin on the words of one rank take effect in the order of
// their beginning. A machine is copied as it is.
//
// What both designs promise: a writer excludes everybody; a rank that holds the lock gives it back with no word from
// the target; who cannot have the lock any more because a rank has died gets an error (`fail`). What they promise
// beyond that about order stands with each.
// Thread rule: under the rank's lock.
#pragma once

#include <cstdint>
#include <vector>

#include "base/assert.h"
#include "rma/lock_mode.h"

namespace tern::rma {

/// Where the words lie that a window's locks are made of: so many at each rank.
///
///   0  lock     test-and-set: owner, readers, announced writers; MCS: the last of the queue
///   1  readers  MCS
///   2 + 2 t     MCS: `next` of this rank's place in the queue for rank t's lock, and `flag` behind it
struct LockWord {
  static constexpr uint32_t kLock = 0, kReaders = 1;
  static constexpr uint32_t next_of(uint32_t target) { return 2 + 2 * target; }
  static constexpr uint32_t flag_of(uint32_t target) { return 3 + 2 * target; }
  static constexpr uint32_t count(uint32_t ranks) { return 2 + 2 * ranks; }
};

struct WordOperation {
  enum class Kind : uint8_t { read, write, compare_swap, fetch_add, swap };
  Kind kind = Kind::read;
  uint32_t rank = 0;  ///< of the window, whose word it is
  uint32_t word = 0;
  uint64_t operand = 0;
  uint64_t compare = 0;
};

class LockMachine {
 public:
  enum class Wants : uint8_t {
    nothing,    ///< idle, held, or failed
    operation,  ///< `operation` is to be begun, then `completed` to be called
    watch,      ///< `watched` is to be called with the value of the word `watch_word` of this rank, again and again
    pause,      ///< `paused` is to be called some time later
  };
  static constexpr uint32_t kNobody = ~uint32_t{0};

  virtual ~LockMachine() = default;
  virtual void acquire(LockMode mode) = 0;
  /// Only while it is held. Puts must have arrived, where the adapter does not keep them before an atomic.
  virtual void release() = 0;
  virtual void completed(uint64_t result) = 0;
  virtual void watched(uint64_t value) {}
  virtual void paused() {}
  /// While `waiting`: the lock cannot be had, because a rank has died. When it wants nothing any more it has `failed`.
  virtual void fail() = 0;
  /// It waits for a rank behind it, which it does not know, to say who it is. When a rank has died meanwhile, it may be
  /// that one: `abandon` waits no longer.
  virtual bool looks_behind() const { return false; }
  virtual void abandon() {}
  /// Instead of `completed`: the rank that the operation went to is lost.
  virtual void lost() = 0;
  /// All that its next steps depend on; for reports and tests.
  virtual void write_state(std::vector<uint64_t>& out) const = 0;

  Wants wants() const { return wants_; }
  const WordOperation& operation() const { return operation_; }
  /// Nothing depends on what it brings: `completed` may be called, with anything, as soon as it has begun.
  bool is_detached() const { return detached_; }
  uint32_t watch_word() const { return watch_word_; }
  bool held() const { return state_ == State::held; }
  bool waiting() const { return state_ == State::waiting; }
  bool failed() const { return state_ == State::failed && wants_ == Wants::nothing; }
  /// The lock may be asked for: it is neither held nor wanted, and nothing of the last time is left to be done.
  bool idle() const { return state_ == State::idle && wants_ == Wants::nothing; }
  /// While it waits: the rank that must act before it goes on, as far as known; kNobody: readers, not known which.
  uint32_t blocker() const { return blocker_; }
  /// While it waits: that rank has died; the lock may never come.
  virtual bool is_hopeless_without(uint32_t rank) const { return blocker_ == kNobody || blocker_ == rank; }
  bool exclusive() const { return mode_ == LockMode::exclusive; }
  /// Failed attempts since the lock was asked for: pauses grow with it.
  uint32_t tries() const { return tries_; }

 protected:
  enum class State : uint8_t { idle, waiting, held, releasing, failed };

  LockMachine(uint32_t me, uint32_t target) : me_(me), target_(target) {}
  void want(WordOperation::Kind kind, uint32_t rank, uint32_t word, uint64_t operand = 0, uint64_t compare = 0) {
    TERN_DEBUG_ASSERT(wants_ != Wants::operation);
    wants_ = Wants::operation;
    operation_ = {kind, rank, word, operand, compare};
    detached_ = false;
  }
  void want_watch(uint32_t word) {
    TERN_DEBUG_ASSERT(wants_ != Wants::operation);
    wants_ = Wants::watch;
    watch_word_ = word;
  }
  void want_pause() {
    TERN_DEBUG_ASSERT(wants_ != Wants::operation && waiting());
    wants_ = Wants::pause;
    ++tries_;
  }
  void write_common(std::vector<uint64_t>& out) const {
    out.insert(out.end(), {uint64_t(state_) << 8 | uint64_t(wants_) << 4 | uint64_t(mode_), blocker_,
                           wants_ == Wants::watch ? watch_word_ : 0});
    if (wants_ != Wants::operation) return;
    const WordOperation& o = operation_;
    out.insert(out.end(), {uint64_t(o.kind) << 40 | uint64_t{o.rank} << 20 | o.word, o.operand, o.compare});
  }
  void want_nothing(State state) {
    wants_ = Wants::nothing;
    state_ = state;
  }

  const uint32_t me_, target_;
  State state_ = State::idle;
  Wants wants_ = Wants::nothing;
  LockMode mode_ = LockMode::shared;
  WordOperation operation_;
  bool detached_ = false;
  uint32_t watch_word_ = 0;
  uint32_t blocker_ = kNobody;
  uint32_t tries_ = 0;
};

}  // namespace tern::rma
