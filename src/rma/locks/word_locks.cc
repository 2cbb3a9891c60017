#include "rma/locks/word_locks.h"

#include <algorithm>
#include <atomic>

#include "base/assert.h"
#include "rma/locks/mcs.h"
#include "rma/locks/test_and_set.h"

namespace tern::rma {
namespace {

using WordKind = WordOperation::Kind;
using Wants = LockMachine::Wants;

// A holder that is silent so long is asked whether it lives.
constexpr uint64_t kProbe_ns = 100'000'000;

}  // namespace

// A first pause of about the time of an atomic; the last so that eight ranks at one lock spend a tenth of an adapter's
// atomics (some 10 us each on the slowest machine that is modelled) on asking.
const LockManners WordLocks::kOfAdapters{.first_pause_ns = 4'000, .longest_pause_ns = 256'000};

WordLocks::WordLocks(WordDesign design, uint32_t me, std::vector<WordsOfRank> ranks, uint64_t* mine,
                     RemoteMemory& memory, Clock& clock, uint64_t seed, Told told, const LockManners& manners)
    : design_(design),
      me_(me),
      ranks_(std::move(ranks)),
      mine_(mine),
      memory_(memory),
      clock_(clock),
      rng_(seed),
      told_(std::move(told)),
      manners_(manners),
      locks_(ranks_.size()) {}

WordLocks::~WordLocks() { TERN_ASSERT(!under_way()); }

WordLocks::Lock& WordLocks::lock(uint32_t target) {
  TERN_DEBUG_ASSERT(target < locks_.size());
  if (!locks_[target]) {
    auto made = std::make_unique<Lock>();
    const bool swap = memory_.remote_properties().atomic_swap;
    if (design_ == WordDesign::mcs) made->machine = std::make_unique<McsLock>(me_, target, swap, manners_.takes_back);
    else made->machine = std::make_unique<TestAndSet>(me_, target);
    made->owner = this;
    made->atomic.lock = made->transfer.lock = made->probe.lock = made.get();
    made->target = target;
    locks_[target] = std::move(made);
  }
  return *locks_[target];
}

bool WordLocks::held(uint32_t target) const { return locks_[target] && locks_[target]->machine->held(); }

void WordLocks::wake(Lock& lock) {
  if (!lock.active) {
    TERN_DEBUG_ASSERT(std::find(active_.begin(), active_.end(), &lock) == active_.end());
    lock.active = true;
    active_.push_back(&lock);
  }
  hints_.dormant = false;
}

void WordLocks::acquire(uint32_t target, LockMode mode) {
  Lock& lock = this->lock(target);
  TERN_ASSERT(lock.told && !lock.wanted_again && !lock.machine->held() && !lock.machine->waiting());
  lock.mode = mode;
  lock.told = false;
  // What is left of the last time comes first.
  lock.wanted_again = true;
  start(lock);
  drive(lock);
}

void WordLocks::start(Lock& lock) {
  if (!lock.wanted_again || !(lock.machine->idle() || lock.machine->failed())) return;
  lock.wanted_again = false;
  lock.pause_ns = lock.resume_ns = lock.probe_ns = 0;
  TERN_DEBUG_ASSERT(!lock.told && !lock.on_its_way);
  lock.machine->acquire(lock.mode);
}

void WordLocks::release(uint32_t target) {
  Lock& lock = this->lock(target);
  TERN_DEBUG_ASSERT(lock.told);
  lock.machine->release();
  drive(lock);
}

// Those that wait see it at their next turn.
void WordLocks::note_lost(uint32_t rank) {
  TERN_DEBUG_ASSERT(rank < ranks_.size());
  if (std::find(lost_.begin(), lost_.end(), rank) == lost_.end()) lost_.push_back(rank);
}

void WordLocks::on_lost(uint32_t rank) {
  note_lost(rank);
  for (auto& lock : locks_) {
    if (lock) drive(*lock);
  }
}

int WordLocks::poll() {
  int handled = 0;
  for (size_t i = 0; i < active_.size(); ++i) handled += drive(*active_[i]);
  std::erase_if(active_, [](Lock* lock) {
    const bool over = lock->machine->wants() == Wants::nothing && !lock->wanted_again;
    if (over) lock->active = false;
    return over;
  });
  hints_.dormant = active_.empty();
  return handled;
}

bool WordLocks::arm() {
  for (const Lock* lock : active_) {
    const LockMachine& machine = *lock->machine;
    if (lock->on_its_way) continue;
    if (machine.wants() == Wants::operation || lock->wanted_again) return false;
    if (machine.wants() == Wants::watch && load(machine.watch_word()) != 0) return false;
  }
  return true;
}

uint64_t WordLocks::next_deadline_ns() const {
  uint64_t next = ~uint64_t{0};
  for (const Lock* lock : active_) {
    if (lock->on_its_way) continue;
    if (lock->machine->wants() == Wants::pause && lock->resume_ns != 0) next = std::min(next, lock->resume_ns);
    if (lock->machine->wants() == Wants::watch && lock->probe_ns != 0 && !lock->probing)
      next = std::min(next, lock->probe_ns);
  }
  return next;
}

// True: the machine has been told of a death.
bool WordLocks::check_lost(Lock& lock) {
  LockMachine& machine = *lock.machine;
  if (lost_.empty()) return false;
  if (machine.looks_behind()) {
    machine.abandon();
    return true;
  }
  if (!machine.waiting()) return false;
  for (uint32_t rank : lost_) {
    if (!machine.is_hopeless_without(rank)) continue;
    const Wants wanted = machine.wants();
    machine.fail();
    return machine.wants() != wanted || !machine.waiting();
  }
  return false;
}

// Of the rank that must act before this lock goes on; of one after the other where that is not known. Its death is a
// loss like those that the path reports.
void WordLocks::look_for_life(Lock& lock, uint64_t now_ns) {
  if (!lock.machine->waiting()) return;
  if (lock.probe_ns == 0) lock.probe_ns = now_ns + kProbe_ns;
  if (now_ns < lock.probe_ns || lock.probing) return;
  lock.probe_ns = now_ns + kProbe_ns;
  uint32_t rank = lock.machine->blocker();
  if (rank == LockMachine::kNobody) rank = next_probed_++ % uint32_t(ranks_.size());
  if (rank == me_) return;
  TERN_DEBUG_ASSERT(!lock.probing && rank < ranks_.size());
  lock.probing = true;
  lock.probed_rank = rank;
  Lock::Transfer& probe = lock.probe;
  const WordsOfRank& at = ranks_[rank];
  if (!at.lane) {
    lock.probing = false;
    return;
  }
  probe.lane = at.lane;
  probe.local = Cursor::bytes(&lock.probed, sizeof lock.probed);
  probe.remote_address = at.address;
  probe.key = at.key;
  probe.bytes = sizeof lock.probed;
  probe.done = [](TransferOperation& self, Error error) {
    Lock& its = *static_cast<Lock::Transfer&>(self).lock;
    TERN_DEBUG_ASSERT(its.probing && its.owner->operations_ != 0);
    its.probing = false;
    --its.owner->operations_;
    if (error) its.owner->note_lost(its.probed_rank);
  };
  ++counts_.messages;
  ++operations_;
  memory_.get(probe);
}

// Goes on as far as it can without waiting; returns how many steps that were.
int WordLocks::drive(Lock& lock) {
  LockMachine& machine = *lock.machine;
  for (int steps = 0;; ++steps) {
    if (lock.on_its_way) return steps;
    start(lock);
    tell(lock);
    switch (machine.wants()) {
      case Wants::nothing:
        if (!lock.wanted_again) return steps;
        continue;  // told, and asked for again from there
      case Wants::operation:
        wake(lock);
        issue(lock);
        continue;
      case Wants::watch: {
        wake(lock);
        const uint64_t value = load(machine.watch_word());
        if (value != 0) {
          machine.watched(value);
        } else if (!check_lost(lock)) {
          look_for_life(lock, clock_.now_ns());
          return steps;
        }
        continue;
      }
      case Wants::pause: {
        wake(lock);
        if (check_lost(lock)) continue;
        const uint64_t now = clock_.now_ns();
        if (lock.resume_ns == 0) {
          ++counts_.tries;
          lock.pause_ns =
              lock.pause_ns == 0 ? manners_.first_pause_ns : std::min(2 * lock.pause_ns, manners_.longest_pause_ns);
          lock.resume_ns = now + lock.pause_ns / 2 + rng_.below(lock.pause_ns / 2);
        }
        look_for_life(lock, now);
        if (now < lock.resume_ns) return steps;
        lock.resume_ns = 0;
        machine.paused();
        continue;
      }
    }
  }
}

void WordLocks::tell(Lock& lock) {
  if (lock.told) return;
  if (lock.machine->held()) {
    lock.told = true;
    told_(lock.target, Error());
  } else if (lock.machine->failed() && !lock.wanted_again) {
    lock.told = true;
    const uint32_t blocker = lock.machine->blocker();
    told_(lock.target,
          Error(ErrorClass::proc_aborted, "the lock of rank " + std::to_string(lock.target) +
                                              " of a window cannot be had any more: " +
                                              (blocker == LockMachine::kNobody ? std::string("a rank that may hold it")
                                                                               : "rank " + std::to_string(blocker)) +
                                              " has been lost"));
  }
}

uint64_t WordLocks::load(uint32_t word) const {
  return std::atomic_ref<uint64_t>(mine_[word]).load(std::memory_order_acquire);
}

// On this rank's own words, where the CPU may.
void WordLocks::do_here(Lock& lock, const WordOperation& o) {
  TERN_DEBUG_ASSERT(o.rank == me_ && o.word < LockWord::count(uint32_t(ranks_.size())));
  std::atomic_ref<uint64_t> word(mine_[o.word]);
  uint64_t result = 0;
  switch (o.kind) {
    case WordKind::read: result = word.load(std::memory_order_acquire); break;
    case WordKind::write: word.store(o.operand, std::memory_order_release); break;
    case WordKind::swap: result = word.exchange(o.operand); break;
    case WordKind::fetch_add: result = word.fetch_add(o.operand); break;
    case WordKind::compare_swap:
      result = o.compare;
      word.compare_exchange_strong(result, o.operand);
      break;
  }
  lock.machine->completed(result);
}

void WordLocks::issue(Lock& lock) {
  const WordOperation& o = lock.machine->operation();
  TERN_DEBUG_ASSERT(!lock.on_its_way && o.rank < ranks_.size());
  const WordsOfRank& at = ranks_[o.rank];
  const bool of_many = o.word == LockWord::kLock || o.word == LockWord::kReaders;
  if (o.rank == me_ && (!of_many || !at.lane)) {
    do_here(lock, o);
    return;
  }
  ++counts_.messages;
  ++operations_;
  lock.on_its_way = true;
  const uint64_t address = at.address + o.word * sizeof(uint64_t);
  if (o.kind == WordKind::read || o.kind == WordKind::write) {
    Lock::Transfer& transfer = lock.transfer;
    lock.buffer = o.operand;
    transfer.lane = at.lane;
    transfer.local = Cursor::bytes(&lock.buffer, sizeof lock.buffer);
    transfer.remote_address = address;
    transfer.key = at.key;
    transfer.bytes = sizeof lock.buffer;
    transfer.wakes = o.kind == WordKind::write;
    transfer.done = [](TransferOperation& self, Error error) {
      Lock& its = *static_cast<Lock::Transfer&>(self).lock;
      its.owner->done(its, its.buffer, error);
    };
    o.kind == WordKind::read ? memory_.get(transfer) : memory_.put(transfer);
    return;
  }
  if (lock.machine->is_detached()) {
    lock.on_its_way = false;
    Detached* atomic = pool_.create();
    atomic->owner = this;
    fill(*atomic, o);
    atomic->done = [](AtomicOperation& self, Error) {  // an error: the target is lost, and its lock with it
      WordLocks& its = *static_cast<Detached&>(self).owner;
      --its.operations_;
      its.pool_.destroy(static_cast<Detached*>(&self));
    };
    lock.machine->completed(0);
    memory_.atomic(*atomic);
    return;
  }
  fill(lock.atomic, o);
  lock.atomic.done = [](AtomicOperation& self, Error error) {
    Lock& its = *static_cast<Lock::Atomic&>(self).lock;
    its.owner->done(its, self.result, error);
  };
  memory_.atomic(lock.atomic);
}

void WordLocks::fill(AtomicOperation& atomic, const WordOperation& o) const {
  const WordsOfRank& at = ranks_[o.rank];
  atomic.lane = at.lane;
  atomic.kind = o.kind == WordKind::swap        ? AtomicOperation::Kind::swap
                : o.kind == WordKind::fetch_add ? AtomicOperation::Kind::fetch_add
                                                : AtomicOperation::Kind::compare_swap;
  atomic.remote_address = at.address + o.word * sizeof(uint64_t);
  atomic.key = at.key;
  atomic.operand = o.operand;
  atomic.compare = o.compare;
}

void WordLocks::done(Lock& lock, uint64_t result, const Error& error) {
  TERN_DEBUG_ASSERT(lock.on_its_way && operations_ != 0 && lock.machine->wants() == Wants::operation);
  lock.on_its_way = false;
  --operations_;
  if (error) lock.machine->lost();
  else lock.machine->completed(result);
  wake(lock);  // goes on at its next turn
}

}  // namespace tern::rma
