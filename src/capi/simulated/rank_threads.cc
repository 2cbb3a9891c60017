#include "capi/simulated/rank_threads.h"

#include <pthread.h>
#include <semaphore.h>

#include <algorithm>
#include <cerrno>
#include <ctime>

#include "capi/simulated/rank_libc.h"
#include "capi/simulated/rank_process.h"
#include "sim/scheduler.h"

namespace tern::sim {
namespace {

RankProcess& here() { return RankProcess::here(); }
Threads& threads() { return Strand::running()->threads(); }
RankThreads& state() { return here().threads(); }
const Threads::Thread* thread_of(pthread_t id) { return reinterpret_cast<const Threads::Thread*>(id); }

/// What the rank has computed until now has passed; what it computes afterwards is this thread's.
template <typename Wait>
auto while_waiting(Wait&& wait) {
  here().host().pause();
  const auto result = wait();
  here().host().resume();
  return result;
}
size_t me() {
  const Threads* all = Strand::running()->threads_if_any();
  return all ? all->number() : 0;
}
void wake_at(const void* place, uint32_t most) {
  if (Threads* all = Strand::running()->threads_if_any()) all->wake(place, most);
}
bool wait_at(const void* place, uint64_t deadline_ns = kNever_ns) {
  return while_waiting([&] { return threads().wait(place, deadline_ns); });
}
void pass_now_and_then() {
  Threads* const all = Strand::running()->threads_if_any();
  if (!all) return;
  while_waiting([all] {
    all->may_pass();
    return true;
  });
}

// --- Threads.

int thread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*function)(void*), void* argument) {
  threads().set_on_switch([process = &here()](size_t from, size_t to) { process->switch_thread(from, to); });
  int how = PTHREAD_CREATE_JOINABLE;
  if (attributes) pthread_attr_getdetachstate(attributes, &how);
  const Threads::Thread& made = threads().start([function, argument]() -> void* {
    here().host().resume();
    void* const result = function(argument);
    here().host().pause();
    return result;
  });
  *thread = reinterpret_cast<pthread_t>(&made);
  if (how == PTHREAD_CREATE_DETACHED) threads().detach(&made);
  pass_now_and_then();
  return 0;
}
int thread_join(pthread_t thread, void** result) {
  void* ended_with = nullptr;
  const bool joined = while_waiting([&] { return threads().join(thread_of(thread), ended_with); });
  if (joined && result) *result = ended_with;
  return joined ? 0 : ESRCH;
}
int thread_detach(pthread_t thread) { return threads().detach(thread_of(thread)) ? 0 : ESRCH; }
void thread_exit(void* result) {
  here().host().pause();
  if (threads().self()) threads().end(result);
  threads().await_others();
  here().host().resume();
  here().exit(0);
}
pthread_t thread_self() {
  const Threads::Thread* const self = threads().self();
  return self ? reinterpret_cast<pthread_t>(self) : ::pthread_self();
}
int thread_yield() {
  while_waiting([] {
    threads().pass();
    return true;
  });
  return 0;
}

// --- Mutexes. What POSIX calls normal, and others where only the owner may go on.

int mutex_kind(const pthread_mutex_t* mutex) { return mutex->__data.__kind & 3; }

int mutex_trylock(pthread_mutex_t* mutex) {
  RankThreads::Mutex& mine = state().mutexes[mutex];
  const size_t mine_is = me();
  if (mine.depth == 0) {
    mine = {mine_is, 1};
    return 0;
  }
  if (mine.owner != mine_is || mutex_kind(mutex) != PTHREAD_MUTEX_RECURSIVE) return EBUSY;
  ++mine.depth;
  return 0;
}
int mutex_lock(pthread_mutex_t* mutex) {
  pass_now_and_then();
  while (mutex_trylock(mutex) != 0) {
    const RankThreads::Mutex& held = state().mutexes[mutex];
    if (held.owner == me() && mutex_kind(mutex) == PTHREAD_MUTEX_ERRORCHECK) return EDEADLK;
    wait_at(mutex);
  }
  return 0;
}
int mutex_unlock(pthread_mutex_t* mutex) {
  RankThreads::Mutex& mine = state().mutexes[mutex];
  if (mine.depth == 0 || mine.owner != me()) return EPERM;
  if (--mine.depth == 0) {
    state().mutexes.erase(mutex);
    wake_at(mutex, 1);
  }
  pass_now_and_then();
  return 0;
}
int mutex_destroy(pthread_mutex_t* mutex) {
  const auto found = state().mutexes.find(mutex);
  if (found == state().mutexes.end()) return 0;
  if (found->second.depth != 0) return EBUSY;
  state().mutexes.erase(found);
  return 0;
}

int spin_lock(pthread_spinlock_t* lock) {
  pass_now_and_then();
  while (pthread_spin_trylock(lock) != 0) thread_yield();
  return 0;
}

// --- Conditions.

uint64_t from_now_ns(const timespec* until) {
  const uint64_t until_ns = uint64_t(until->tv_sec) * 1'000'000'000 + uint64_t(until->tv_nsec);
  const uint64_t now_ns = time_of_day_ns();
  return until_ns - std::min(until_ns, now_ns);
}
int condition_timedwait(pthread_cond_t* condition, pthread_mutex_t* mutex, const timespec* until) {
  const uint64_t deadline_ns = until ? Strand::running()->now_ns() + from_now_ns(until) : kNever_ns;
  const size_t mine_is = me();
  RankThreads::Mutex& mine = state().mutexes[mutex];
  if (mine.depth == 0 || mine.owner != mine_is) return EPERM;
  const uint32_t depth = mine.depth;
  state().mutexes.erase(mutex);
  wake_at(mutex, 1);
  const bool called = wait_at(condition, deadline_ns);
  while (state().mutexes[mutex].depth != 0) wait_at(mutex);
  state().mutexes[mutex] = {mine_is, depth};
  return called ? 0 : ETIMEDOUT;
}
int condition_wait(pthread_cond_t* condition, pthread_mutex_t* mutex) {
  return condition_timedwait(condition, mutex, nullptr);
}
int condition_signal(pthread_cond_t* condition) {
  wake_at(condition, 1);
  pass_now_and_then();
  return 0;
}
int condition_broadcast(pthread_cond_t* condition) {
  wake_at(condition, ~uint32_t{0});
  pass_now_and_then();
  return 0;
}

// --- Barriers and semaphores.

int barrier_init(pthread_barrier_t* barrier, const pthread_barrierattr_t*, unsigned count) {
  if (count == 0) return EINVAL;
  state().barriers[barrier] = {count, 0, 0};
  return 0;
}
int barrier_destroy(pthread_barrier_t* barrier) { return state().barriers.erase(barrier) != 0 ? 0 : EINVAL; }
int barrier_wait(pthread_barrier_t* barrier) {
  const auto found = state().barriers.find(barrier);
  if (found == state().barriers.end()) return EINVAL;
  RankThreads::Barrier& all = found->second;
  if (++all.there == all.count) {
    all.there = 0;
    ++all.round;
    wake_at(barrier, ~uint32_t{0});
    pass_now_and_then();
    return PTHREAD_BARRIER_SERIAL_THREAD;
  }
  for (const uint64_t round = all.round; all.round == round;) wait_at(barrier);
  return 0;
}

int semaphore_wait(sem_t* semaphore) {
  pass_now_and_then();
  while (sem_trywait(semaphore) != 0) wait_at(semaphore);
  return 0;
}
int semaphore_post(sem_t* semaphore) {
  const int result = sem_post(semaphore);
  wake_at(semaphore, 1);
  pass_now_and_then();
  return result;
}

int refuse_thread() {
  here().host().cannot(
      "starts a thread with thrd_create, which the simulator does not know. Use pthread_create, or run the program "
      "with "
      "one thread for each rank");
  return 1;  // thrd_error or thrd_nomem
}

template <typename Function>
const void* address(Function* function) {
  return reinterpret_cast<const void*>(function);
}

}  // namespace

std::span<const ReplacedFunction> thread_functions() {
  static const ReplacedFunction functions[] = {{"pthread_create", address(thread_create)},
                                               {"pthread_join", address(thread_join)},
                                               {"pthread_detach", address(thread_detach)},
                                               {"pthread_exit", address(thread_exit)},
                                               {"pthread_self", address(thread_self)},
                                               {"thrd_create", address(refuse_thread)},
                                               {"sched_yield", address(thread_yield)},
                                               {"pthread_yield", address(thread_yield)},
                                               {"pthread_mutex_lock", address(mutex_lock)},
                                               {"pthread_mutex_trylock", address(mutex_trylock)},
                                               {"pthread_mutex_unlock", address(mutex_unlock)},
                                               {"pthread_mutex_destroy", address(mutex_destroy)},
                                               {"pthread_spin_lock", address(spin_lock)},
                                               {"pthread_cond_wait", address(condition_wait)},
                                               {"pthread_cond_timedwait", address(condition_timedwait)},
                                               {"pthread_cond_signal", address(condition_signal)},
                                               {"pthread_cond_broadcast", address(condition_broadcast)},
                                               {"pthread_barrier_init", address(barrier_init)},
                                               {"pthread_barrier_destroy", address(barrier_destroy)},
                                               {"pthread_barrier_wait", address(barrier_wait)},
                                               {"sem_wait", address(semaphore_wait)},
                                               {"sem_post", address(semaphore_post)}};
  return functions;
}

}  // namespace tern::sim
