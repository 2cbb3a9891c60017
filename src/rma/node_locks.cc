#include "rma/node_locks.h"

#include <algorithm>
#include <bit>

#include "base/assert.h"

namespace tern::rma {

bool NodeLocks::has_turn(const Control& control, const Waiting& one) {
  return control.serving.load(std::memory_order_seq_cst) == one.ticket &&
         (one.mode != LockMode::exclusive || control.readers.load(std::memory_order_seq_cst) == 0);
}

bool NodeLocks::may_join(const Control& control, const Waiting& one) {
  return one.mode == LockMode::joining && !one.joined && control.readers.load(std::memory_order_seq_cst) != 0;
}

// A writer that waits for the readers has not got the lock while there is one.
bool NodeLocks::join(int rank) {
  std::atomic<uint32_t>& readers = control(rank).readers;
  for (uint32_t now = readers.load(std::memory_order_seq_cst); now != 0;) {
    if (!readers.compare_exchange_weak(now, now + 1, std::memory_order_seq_cst)) continue;
    TERN_DEBUG_ASSERT(!holds(rank));
    held_.push_back({rank, false});
    return true;
  }
  return false;
}

void NodeLocks::pass_on(Control& control) {
  TERN_DEBUG_ASSERT(control.serving.load(std::memory_order_relaxed) != control.next.load(std::memory_order_relaxed));
  control.serving.fetch_add(1, std::memory_order_seq_cst);
  wake_waiting(control);
}

bool NodeLocks::take(const Waiting& one) {
  Control& words = control(one.rank);
  if (!has_turn(words, one)) return false;
  const bool exclusive = one.mode == LockMode::exclusive;
  TERN_DEBUG_ASSERT(!holds(one.rank) && !one.joined);
  held_.push_back({one.rank, exclusive});
  if (!exclusive) {
    words.readers.fetch_add(1, std::memory_order_seq_cst);
    pass_on(words);
  }
  return true;
}

void NodeLocks::ask(int rank, LockMode mode) {
  if (mode == LockMode::joining && join(rank)) return told_(rank, Error());
  const Waiting one{rank, mode, control(rank).next.fetch_add(1, std::memory_order_seq_cst)};
  if (take(one)) return told_(rank, Error());
  if (lost_class_ != 0) return told_(rank, Error(lost_class_, std::string(lost_text_)));
  TERN_DEBUG_ASSERT(!holds(rank));
  waiting_.push_back(one);
  hints_.dormant = false;
}

// If nobody has taken a ticket since `serving` was read, no reader has come since `readers` was 0.
bool NodeLocks::take_free(int rank) {
  Control& words = control(rank);
  uint32_t ticket = words.next.load(std::memory_order_relaxed);
  if (words.serving.load(std::memory_order_seq_cst) != ticket || words.readers.load(std::memory_order_seq_cst) != 0 ||
      !words.next.compare_exchange_strong(ticket, ticket + 1, std::memory_order_seq_cst))
    return false;
  TERN_DEBUG_ASSERT(!holds(rank));
  held_.push_back({rank, true});
  return true;
}

int NodeLocks::poll() {
  int taken = 0;
  for (size_t i = 0; i < waiting_.size();) {
    const Waiting one = waiting_[i];
    if (one.joined ? has_turn(control(one.rank), one) : take(one)) {
      waiting_.erase(waiting_.begin() + ptrdiff_t(i));
      if (one.joined) pass_on(control(one.rank));
    } else if (may_join(control(one.rank), one) && join(one.rank)) {
      waiting_[i++].joined = true;
    } else {
      ++i;
      continue;
    }
    ++taken;
    if (!one.joined) told_(one.rank, Error());
  }
  hints_.dormant = waiting_.empty();
  return taken;
}

// The bit first, then a last look: a rank that changes the words looks at the bits after that.
bool NodeLocks::arm() {
  for (const Waiting& one : waiting_) {
    Control& words = control(one.rank);
    words.waiting[me_ / 64].fetch_or(uint64_t{1} << me_ % 64, std::memory_order_seq_cst);
    if (has_turn(words, one) || may_join(words, one)) return false;
  }
  return true;
}

void NodeLocks::release(int rank) {
  const auto found = std::find_if(held_.begin(), held_.end(), [&](auto& one) { return one.first == rank; });
  TERN_ASSERT(found != held_.end());
  const bool exclusive = found->second;
  *found = held_.back();
  held_.pop_back();
  Control& words = control(rank);
  TERN_DEBUG_ASSERT(exclusive || words.readers.load(std::memory_order_relaxed) != 0);
  if (exclusive) words.serving.fetch_add(1, std::memory_order_seq_cst);
  else words.readers.fetch_sub(1, std::memory_order_seq_cst);
  wake_waiting(words);
}

void NodeLocks::lost(int, const Error& error) {
  lost_class_ = error.error_class();
  TERN_DEBUG_ASSERT(lost_class_ != 0);
  lost_text_ = error.text();
  const std::vector<Waiting> waiting = std::move(waiting_);
  waiting_.clear();
  hints_.dormant = true;
  for (const Waiting& one : waiting) {
    if (!one.joined) told_(one.rank, Error(error.error_class(), std::string(error.text())));
  }
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
