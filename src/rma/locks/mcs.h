// The MCS queue lock (Mellor-Crummey and Scott 1991; Jiang et al. 2004, section 5.2), with readers: who wants the lock
// puts itself at the end of a queue by one swap, and waits on a word of its own memory until the one before it hands
// the turn over by one write.
//
//   target   last:     0 free | readers-only | broken | rank + 1 of the last in the queue
//            readers:  how many readers hold the lock
//   origin   next:     rank + 1 of the one behind it          flag: go | go, there may be readers | broken | taken
//
//   turn     previous = swap(last, me); nobody before: go. Else write(previous.next, me), watch flag
//   writer   has the turn and, if there may be readers, has read readers == 0: holds the lock; keeps the turn
//   reader   has the turn: fetch_add(readers, 1) holds the lock; passes the turn on at once
//   pass on  next is 0: compare_swap(last, me -> 0, or readers-only); if that fails: watch next. write(next.flag, go)
//   join     (lock_mode.h) readers is not 0: compare_swap(readers, + 1) holds the lock, outside the queue. It is 0, and
//            nobody is in the queue: takes the turn by compare_swap(last). Else tries both again after a pause.
//   release  a writer passes the turn on; a reader: fetch_add(readers, -1)
//
// Where ranks share cores (`takes_back`; word memory whose atomics exclude each other), the one that is handed the turn
// often does not run. So it takes its turn by compare_swap(flag, go -> taken), and until then the writer that has
// handed it over may take it back, if it wants the lock again: compare_swap(that flag, go -> 0), at most kMaxInARow
// times, then it queues. A strict order costs a switch of tasks for each turn (see docs/window-locks.md for what that
// means).
//
// Promised: everybody gets the lock in the order of the swaps; readers that follow one another hold it together. So a
// writer waits only for those before it, and for readers that join; a reader waits for those before it. Not promised:
// that who joins gets a turn while writers come without end. Only the writer at the head of the queue, behind
// readers, looks at the target's memory more than once. Without a native swap it is a loop of compare_swap, which a
// crowd makes long (Jiang et al., figure 4). With `takes_back` each rank before it in the queue may take the lock
// kMaxInARow times instead of once.
//
// When a rank has died, nobody knows whether it stood in the queue: a free lock can still be had, but a rank that waits
// fails, and hands on "broken" instead of the turn; the last one writes it to the target, so that ranks that come later
// fail, too.
#pragma once

#include "rma/locks/lock_machine.h"

namespace tern::rma {

class McsLock : public LockMachine {
 public:
  static constexpr uint64_t kReadersOnly = ~uint64_t{0}, kBroken = ~uint64_t{0} - 1;

  /// Turns of 0.2 us that take as long as a wake-up on another core, some 30 us.
  static constexpr uint32_t kMaxInARow = 64;

  /// `takes_back`: the same at all ranks.
  McsLock(uint32_t me, uint32_t target, bool native_swap, bool takes_back = false)
      : LockMachine(me, target), native_swap_(native_swap), takes_back_(takes_back) {}
  void acquire(LockMode mode) override;
  void release() override;
  void completed(uint64_t result) override;
  void watched(uint64_t value) override;
  void paused() override;
  void fail() override;
  bool is_hopeless_without(uint32_t) const override { return true; }
  bool looks_behind() const override { return wants_ == Wants::watch && step_ == Step::behind; }
  void abandon() override;
  void lost() override;
  void write_state(std::vector<uint64_t>& out) const override;
  /// It holds the lock, whose turn it has taken back.
  bool has_taken_back() const { return taken_back_; }

 private:
  enum class Step : uint8_t {
    take_back,
    clear_next,
    clear_flag,
    look,        ///< who joins: at the readers,
    join,        ///< at more of them by one,
    look_queue,  ///< or at the queue
    queue,       ///< the swap
    link,        ///< previous.next
    turn,        ///< watches flag
    claim,       ///< takes the turn
    readers,     ///< a writer looks at the readers
    count,       ///< a reader counts itself
    peek,        ///< looks whether somebody is behind
    unlink,      ///< the compare_swap of the last one
    behind,      ///< watches next
    hand_on,
    uncount,
  };
  enum Flag : uint64_t { kWait = 0, kGo = 1, kGoReaders = 2, kGoBroken = 3, kTaken = 4 };

  uint64_t mine() const { return uint64_t{me_} + 1; }
  void begin();
  void enqueue(uint64_t guess);
  void look_at(Step step, uint32_t word);
  void on_readers(uint64_t readers);
  void on_queue(uint64_t last);
  void on_previous(uint64_t previous);
  void on_turn(bool readers);
  void hold();
  void pass_on(Flag flag);
  void hand_to(uint64_t next);
  void passed_on();

  const bool native_swap_, takes_back_;
  Step step_ = Step::queue;
  Flag handing_ = kGo;           ///< what the next one is told
  bool release_wanted_ = false;  ///< a reader's, while it still passes the turn on
  bool failing_ = false;
  bool queued_ = false;  ///< or has the turn
  bool taken_back_ = false;
  uint64_t handed_to_ = 0;  ///< whom this writer has handed its last turn, rank + 1; 0: nobody
  uint32_t in_a_row_ = 0;   ///< how often it was taken back since
};

}  // namespace tern::rma
