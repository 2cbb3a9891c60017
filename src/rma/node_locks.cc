#include "rma/node_locks.h"

#include <bit>

#include "rma/target.h"

namespace tern::rma {

Control& NodeLocks::control(const Target& target) const { return memory_.control(memory_.place_of(target.rank)); }

void NodeLocks::ask(Target& target) {
  target.ticket = control(target).next.fetch_add(1, std::memory_order_seq_cst);
  target.lock = LockState::asked;
}

bool NodeLocks::held(Target& target) {
  if (target.lock == LockState::held) return true;
  Control& words = control(target);
  const auto turn = [&] {
    return words.serving.load(std::memory_order_seq_cst) == target.ticket &&
           (!target.exclusive || words.readers.load(std::memory_order_seq_cst) == 0);
  };
  if (!turn()) {
    // The bit first, then a last look: whoever changes the words looks at the bits after that.
    const uint64_t bit = uint64_t{1} << me_ % 64;
    std::atomic<uint64_t>& waiting = words.waiting[me_ / 64];
    if (!(waiting.load(std::memory_order_seq_cst) & bit)) waiting.fetch_or(bit, std::memory_order_seq_cst);
    if (!turn()) return false;
  }
  target.lock = LockState::held;
  if (!target.exclusive) {
    words.readers.fetch_add(1, std::memory_order_seq_cst);
    words.serving.fetch_add(1, std::memory_order_seq_cst);
    wake_waiting(words);
  }
  return true;
}

void NodeLocks::release(Target& target) {
  Control& words = control(target);
  if (target.exclusive) words.serving.fetch_add(1, std::memory_order_seq_cst);
  else words.readers.fetch_sub(1, std::memory_order_seq_cst);
  wake_waiting(words);
}

void NodeLocks::wake_waiting(Control& control) {
  for (int word = 0; word < Control::kWaitWords; ++word) {
    if (control.waiting[word].load(std::memory_order_seq_cst) == 0) continue;
    uint64_t bits = control.waiting[word].exchange(0, std::memory_order_seq_cst);
    for (; bits != 0; bits &= bits - 1) {
      const int place = word * 64 + std::countr_zero(bits);
      if (place != me_ && place < int(memory_.ranks().size())) wake_(memory_.ranks()[size_t(place)]);
    }
  }
}

}  // namespace tern::rma
