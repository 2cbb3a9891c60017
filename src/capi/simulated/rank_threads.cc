#include "capi/simulated/rank_threads.h"

#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <unistd.h>

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
  const Threads* all = Threads::running();
  return all ? all->number() : 0;
}
void wake_at(const void* place, uint32_t most) {
  if (Threads* all = Threads::running()) all->wake(place, most);
}
bool wait_at(const void* place, uint64_t deadline_ns = kNever_ns) {
  return while_waiting([&] { return threads().wait(place, deadline_ns); });
}
void pass_now_and_then() {
  Threads* const all = Threads::running();
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
// The simulator's own calls of these two are led to the threads (sim/thread_calls.cc).
pthread_t thread_self() {
  return while_waiting([] { return ::pthread_self(); });
}
int thread_yield() {
  return while_waiting([] { return ::sched_yield(); });
}

// --- Waiting for what another thread gives back.

/// Until `attempt` succeeds. False: the deadline came first.
template <typename Attempt>
bool await(const void* place, Attempt&& attempt, uint64_t deadline_ns = kNever_ns) {
  pass_now_and_then();
  while (!attempt()) {
    if (!wait_at(place, deadline_ns)) return attempt();
  }
  return true;
}
int give_back(const void* place, uint32_t to_most, int result) {
  wake_at(place, to_most);
  pass_now_and_then();
  return result;
}
constexpr uint32_t kAll = ~uint32_t{0};  // as many threads as wait

uint64_t deadline_of(clockid_t clock, const timespec* until) {
  const uint64_t until_ns = uint64_t(until->tv_sec) * 1'000'000'000 + uint64_t(until->tv_nsec);
  const uint64_t now_ns = clock == CLOCK_REALTIME ? time_of_day_ns() : here().host().now_ns();
  return Strand::running()->now_ns() + until_ns - std::min(until_ns, now_ns);
}

// --- Mutexes. The content of the program's object says its kind only.

int mutex_kind(const pthread_mutex_t* mutex) { return mutex->__data.__kind & 3; }
bool is_mine(const RankThreads::Mutex& mutex) { return mutex.depth != 0 && mutex.owner == me(); }

int mutex_init(pthread_mutex_t* mutex, const pthread_mutexattr_t* attributes) {
  state().mutexes.erase(mutex);
  return pthread_mutex_init(mutex, attributes);
}
int mutex_trylock(pthread_mutex_t* mutex) {
  RankThreads::Mutex& held = state().mutexes[mutex];
  if (held.depth != 0 && !(is_mine(held) && mutex_kind(mutex) == PTHREAD_MUTEX_RECURSIVE)) return EBUSY;
  held.owner = me();
  ++held.depth;
  return 0;
}
int mutex_lock_until(pthread_mutex_t* mutex, uint64_t deadline_ns) {
  if (mutex_kind(mutex) == PTHREAD_MUTEX_ERRORCHECK && is_mine(state().mutexes[mutex])) return EDEADLK;
  return await(
             mutex, [mutex] { return mutex_trylock(mutex) == 0; }, deadline_ns)
             ? 0
             : ETIMEDOUT;
}
int mutex_lock(pthread_mutex_t* mutex) { return mutex_lock_until(mutex, kNever_ns); }
int mutex_timedlock(pthread_mutex_t* mutex, const timespec* until) {
  return mutex_lock_until(mutex, deadline_of(CLOCK_REALTIME, until));
}
int mutex_clocklock(pthread_mutex_t* mutex, clockid_t clock, const timespec* until) {
  return mutex_lock_until(mutex, deadline_of(clock, until));
}
int mutex_unlock(pthread_mutex_t* mutex) {
  const auto found = state().mutexes.find(mutex);
  const bool held = found != state().mutexes.end() && found->second.depth != 0;
  const bool owners_only = mutex_kind(mutex) != PTHREAD_MUTEX_NORMAL;
  if (owners_only && !(held && is_mine(found->second))) return EPERM;
  if (!held || --found->second.depth != 0) return 0;
  state().mutexes.erase(found);
  return give_back(mutex, 1, 0);
}
int mutex_destroy(pthread_mutex_t* mutex) {
  const auto found = state().mutexes.find(mutex);
  if (found == state().mutexes.end()) return 0;
  if (found->second.depth != 0) return EBUSY;
  state().mutexes.erase(found);
  return 0;
}

// --- Other locks and semaphores: the C library's objects, of which it is only asked whether they are free.

int spin_lock(pthread_spinlock_t* lock) {
  while (pthread_spin_trylock(lock) != 0) thread_yield();
  pass_now_and_then();
  return 0;
}
int read_lock(pthread_rwlock_t* lock) {
  await(lock, [lock] { return pthread_rwlock_tryrdlock(lock) == 0; });
  return 0;
}
int write_lock(pthread_rwlock_t* lock) {
  await(lock, [lock] { return pthread_rwlock_trywrlock(lock) == 0; });
  return 0;
}
int rwlock_unlock(pthread_rwlock_t* lock) { return give_back(lock, kAll, pthread_rwlock_unlock(lock)); }

int semaphore_wait(sem_t* semaphore) {
  await(semaphore, [semaphore] { return sem_trywait(semaphore) == 0; });
  return 0;
}
int semaphore_clockwait(sem_t* semaphore, clockid_t clock, const timespec* until) {
  if (await(
          semaphore, [semaphore] { return sem_trywait(semaphore) == 0; }, deadline_of(clock, until)))
    return 0;
  errno = ETIMEDOUT;
  return -1;
}
int semaphore_timedwait(sem_t* semaphore, const timespec* until) {
  return semaphore_clockwait(semaphore, CLOCK_REALTIME, until);
}
int semaphore_post(sem_t* semaphore) { return give_back(semaphore, 1, sem_post(semaphore)); }

// --- Conditions.

int condition_wait_until(pthread_cond_t* condition, pthread_mutex_t* mutex, uint64_t deadline_ns) {
  const RankThreads::Mutex held = state().mutexes[mutex];
  if (!is_mine(held)) return EPERM;
  state().mutexes.erase(mutex);
  wake_at(mutex, 1);
  const bool called = wait_at(condition, deadline_ns);
  await(mutex, [mutex] { return state().mutexes[mutex].depth == 0; });
  state().mutexes[mutex] = held;
  return called ? 0 : ETIMEDOUT;
}
int condition_wait(pthread_cond_t* condition, pthread_mutex_t* mutex) {
  return condition_wait_until(condition, mutex, kNever_ns);
}
int condition_timedwait(pthread_cond_t* condition, pthread_mutex_t* mutex, const timespec* until) {
  return condition_wait_until(condition, mutex, deadline_of(CLOCK_REALTIME, until));
}
int condition_clockwait(pthread_cond_t* condition, pthread_mutex_t* mutex, clockid_t clock, const timespec* until) {
  return condition_wait_until(condition, mutex, deadline_of(clock, until));
}
int condition_signal(pthread_cond_t* condition) { return give_back(condition, 1, 0); }
int condition_broadcast(pthread_cond_t* condition) { return give_back(condition, kAll, 0); }

// --- Barriers.

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
  const uint64_t round = all.round;
  if (++all.there == all.count) {
    all.there = 0;
    ++all.round;
    return give_back(barrier, kAll, PTHREAD_BARRIER_SERIAL_THREAD);
  }
  await(barrier, [&all, round] { return all.round != round; });
  return 0;
}

/// std::atomic's wait, std::counting_semaphore and the like: futexes.
long system_call(long number, long a, long b, long c, long d, long e, long f) {
  return while_waiting([&] { return ::syscall(number, a, b, c, d, e, f); });
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
                                               {"pthread_mutex_init", address(mutex_init)},
                                               {"pthread_mutex_lock", address(mutex_lock)},
                                               {"pthread_mutex_trylock", address(mutex_trylock)},
                                               {"pthread_mutex_timedlock", address(mutex_timedlock)},
                                               {"pthread_mutex_clocklock", address(mutex_clocklock)},
                                               {"pthread_mutex_unlock", address(mutex_unlock)},
                                               {"pthread_mutex_destroy", address(mutex_destroy)},
                                               {"pthread_spin_lock", address(spin_lock)},
                                               {"pthread_rwlock_rdlock", address(read_lock)},
                                               {"pthread_rwlock_wrlock", address(write_lock)},
                                               {"pthread_rwlock_unlock", address(rwlock_unlock)},
                                               {"sem_wait", address(semaphore_wait)},
                                               {"sem_timedwait", address(semaphore_timedwait)},
                                               {"sem_clockwait", address(semaphore_clockwait)},
                                               {"sem_post", address(semaphore_post)},
                                               {"pthread_cond_wait", address(condition_wait)},
                                               {"pthread_cond_timedwait", address(condition_timedwait)},
                                               {"pthread_cond_clockwait", address(condition_clockwait)},
                                               {"pthread_cond_signal", address(condition_signal)},
                                               {"pthread_cond_broadcast", address(condition_broadcast)},
                                               {"pthread_barrier_init", address(barrier_init)},
                                               {"pthread_barrier_destroy", address(barrier_destroy)},
                                               {"pthread_barrier_wait", address(barrier_wait)},
                                               {"syscall", address(system_call)}};
  return functions;
}

}  // namespace tern::sim
