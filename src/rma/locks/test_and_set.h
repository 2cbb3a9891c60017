// The Test-and-Set lock (Jiang et al. 2004, section 5.1): one word at the target, tried again after pauses that grow.
//
//   the word:  readers 22 bits | owner 22 bits (rank + 1) | announced writers 20 bits
//
//   writer   compare_swap(0 -> owner). Fails because of readers: fetch_add(announced, 1), once; then again with what
//            was found. Taking the lock takes the announcement back.
//   reader   fetch_add(readers, 1); fails if there is an owner or an announced writer: fetch_add(readers, -1), then
//            looks at the word after each pause, and tries again when it may succeed. Who joins (lock_mode.h) does not
//            mind announced writers.
//   release  fetch_add(-owner), or fetch_add(readers, -1): nobody waits for its end
//
// Promised: a writer that has found readers waits only for those readers that were there when it announced itself, for
// those that join them, and for other writers. Not promised: an order among writers, and that readers get a turn while
// writers come without end. A free lock costs one atomic operation, and one to give it back. Words: fetch_add and
// compare_swap only.
#pragma once

#include "rma/locks/lock_machine.h"

namespace tern::rma {

class TestAndSet : public LockMachine {
 public:
  static constexpr uint32_t kMaxRanks = (1u << 20) - 1;

  TestAndSet(uint32_t me, uint32_t target) : LockMachine(me, target) {}
  void acquire(LockMode mode) override;
  void release() override;
  void completed(uint64_t result) override;
  void paused() override;
  void fail() override;
  void lost() override;
  void write_state(std::vector<uint64_t>& out) const override;

  static constexpr uint64_t kReader = 1, kOwnerUnit = uint64_t{1} << 22, kAnnounced = uint64_t{1} << 44;
  static constexpr uint64_t readers(uint64_t word) { return word & (kOwnerUnit - 1); }
  static constexpr uint64_t owner(uint64_t word) { return word >> 22 & (kOwnerUnit - 1); }
  static constexpr uint64_t announced(uint64_t word) { return word >> 44; }

 private:
  enum class Step : uint8_t { take, announce, enter, leave, look, give_back, withdraw };

  uint64_t mine() const { return (uint64_t{me_} + 1) * kOwnerUnit; }
  void add(Step step, uint64_t amount);
  void take(uint64_t expected);
  void on_take(uint64_t found);
  void in_vain(uint64_t found);
  void got_it();
  bool open_to_reader(uint64_t word) const {
    return owner(word) == 0 && (announced(word) == 0 || mode_ == LockMode::joining);
  }

  Step step_ = Step::take;
  bool has_announced_ = false;
  bool failing_ = false;
  uint64_t seen_ = 0;  ///< of the word, when last looked at
};

}  // namespace tern::rma
