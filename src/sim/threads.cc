#include "sim/threads.h"

#include <algorithm>
#include <utility>

#include "base/assert.h"
#include "sim/scheduler.h"

namespace tern::sim {

struct Threads::Thread {
  static constexpr size_t kStackBytes = 8 << 20;  ///< as Linux gives threads; only what is used takes memory

  State state = State::ready;
  uint64_t deadline_ns = kNever_ns;  ///< of a wait or a sleep
  const void* place = nullptr;       ///< of a wait
  uint64_t order = 0;                ///< of those that wait at the same place
  bool detached = false;
  uint32_t number = 0;
  // Not of the first.
  Entry entry;
  void* result = nullptr;
  std::unique_ptr<StackArena> stack;
  std::unique_ptr<Fiber> fiber;

  bool may_run(uint64_t now_ns) const {
    return state == State::ready || (state != State::ended && deadline_ns <= now_ns);
  }
};

Threads::Threads(Strand& strand, uint64_t seed) : strand_(strand), rng_(seed) {
  threads_.push_back(std::make_unique<Thread>());
  current_ = threads_[0].get();
}

// What a thread that has not ended keeps on its stack stays there, as in a process that ends.
Threads::~Threads() {
  for (const auto& thread : threads_) {
    if (thread->stack) thread->stack->abandon();
  }
}

Threads* Threads::running() {
  Strand* strand = Strand::running();
  return strand ? strand->threads_if_any() : nullptr;
}

size_t Threads::number() const { return current_->number; }

Threads::Thread* Threads::find(const Thread* thread) {
  for (size_t i = 1; i < threads_.size(); ++i) {
    if (threads_[i].get() == thread) return threads_[i].get();
  }
  return nullptr;
}

Threads::Thread& Threads::start(Entry entry) {
  auto made = std::make_unique<Thread>();
  Thread& thread = *made;
  thread.number = ++started_;
  thread.entry = std::move(entry);
  thread.stack = std::make_unique<StackArena>(1, Thread::kStackBytes);
  thread.fiber = std::make_unique<Fiber>(
      thread.stack->bottom(0), thread.stack->usable_bytes(),
      [](void* self) {
        auto& mine = *static_cast<Thread*>(self);
        mine.result = mine.entry();
        mine.state = State::ended;
      },
      &thread);
  threads_.push_back(std::move(made));
  return thread;
}

bool Threads::join(const Thread* thread, void*& result) {
  while (true) {
    Thread* const found = find(thread);
    if (!found || found->detached) return false;
    if (found->state == State::ended) break;
    wait(found);
  }
  result = find(thread)->result;
  forget(thread);
  return true;
}

bool Threads::detach(const Thread* thread) {
  Thread* const found = find(thread);
  if (!found || found->detached) return false;
  found->detached = true;
  if (found->state == State::ended) forget(thread);
  return true;
}

void Threads::forget(const Thread* thread) {
  std::erase_if(threads_, [&](const std::unique_ptr<Thread>& one) { return one.get() == thread; });
}

void Threads::end(void* result) {
  TERN_ASSERT(!is_first());
  current_->result = result;
  give_up(State::ended, kNever_ns);
  __builtin_unreachable();
}

void Threads::await_others() {
  const auto ended = [](const std::unique_ptr<Thread>& one) { return one->state == State::ended; };
  while (!std::all_of(threads_.begin() + 1, threads_.end(), ended)) wait(&threads_);
}

void Threads::leave_by(std::function<void()> function) {
  if (is_first()) {
    function();
  } else {
    last_words_ = std::move(function);
    give_up(State::ended, kNever_ns);
  }
  __builtin_unreachable();
}

void Threads::pass() { give_up(State::ready, kNever_ns); }

bool Threads::wait(const void* place, uint64_t deadline_ns) {
  current_->place = place;
  current_->order = ++waits_;
  give_up(State::waits, deadline_ns);
  return std::exchange(current_->place, nullptr) == nullptr;
}

uint32_t Threads::wake(const void* place, uint32_t most) {
  uint32_t woken = 0;
  for (; woken < most; ++woken) {
    Thread* first = nullptr;
    for (const auto& one : threads_) {
      if (one->state == State::waits && one->place == place && (!first || one->order < first->order)) first = one.get();
    }
    if (!first) break;
    first->place = nullptr;
    first->state = State::ready;
  }
  return woken;
}

void Threads::sleep(uint64_t deadline_ns, const char* why) {
  why_ = why;
  give_up(State::sleeps, deadline_ns);
}

void Threads::rouse(uint64_t time_ns) {
  for (const auto& one : threads_) {
    if (one->state == State::sleeps) one->deadline_ns = std::min(one->deadline_ns, time_ns);
  }
}

void Threads::leave_core() {
  if (is_first()) return strand_.suspend();
  core_left_ = true;
  current_->fiber->suspend();
}

void Threads::give_up(State state, uint64_t deadline_ns) {
  current_->state = state;
  current_->deadline_ns = deadline_ns;
  if (is_first()) take_turns();
  else current_->fiber->suspend();
  TERN_DEBUG_ASSERT(current_->state == State::ready);
}

// On the strand's fiber, until its own thread is drawn.
void Threads::take_turns() {
  Thread* const first = threads_[0].get();
  size_t last = first->number;
  while (true) {
    Thread* const next = draw();
    if (!next) {
      current_ = first;
      idle();
      continue;
    }
    if (next->number != last) change(last, next->number);
    last = next->number;
    current_ = next;
    next->state = State::ready;
    if (next == first) return;
    run(*next);
  }
}

void Threads::change(size_t from, size_t to) {
  current_ = threads_[0].get();
  strand_.charge_ns(kSwitch_ns);
  strand_.catch_up();
  if (on_switch_) on_switch_(from, to);
}

void Threads::run(Thread& thread) {
  do {
    core_left_ = false;
    thread.fiber->resume();
    if (core_left_) strand_.suspend();
  } while (core_left_);
  if (last_words_) {
    change(thread.number, 0);
    std::exchange(last_words_, nullptr)();
  }
  if (thread.state != State::ended) return;
  if (thread.fiber->finished()) thread.stack.reset();
  wake(&thread, ~uint32_t{0});
  wake(&threads_, ~uint32_t{0});
  if (thread.detached) forget(&thread);
}

Threads::Thread* Threads::draw() {
  const uint64_t now_ns = strand_.now_ns();
  const auto may_run = [&](const std::unique_ptr<Thread>& one) { return one->may_run(now_ns); };
  const auto ready = uint64_t(std::count_if(threads_.begin(), threads_.end(), may_run));
  if (ready == 0) return nullptr;
  for (uint64_t left = rng_.below(ready); const auto& one : threads_) {
    if (one->may_run(now_ns) && left-- == 0) return one.get();
  }
  return nullptr;
}

// All threads wait.
void Threads::idle() {
  uint64_t earliest_ns = kNever_ns;
  bool sleeps = false;
  for (const auto& one : threads_) {
    if (one->state == State::ended) continue;
    earliest_ns = std::min(earliest_ns, one->deadline_ns);
    sleeps = sleeps || one->state == State::sleeps;
  }
  if (sleeps && strand_.take_notice()) return rouse(strand_.now_ns());
  strand_.block_all(earliest_ns, sleeps ? why_ : kWaitForEachOther);
  if (sleeps) rouse(strand_.now_ns());
}

}  // namespace tern::sim
