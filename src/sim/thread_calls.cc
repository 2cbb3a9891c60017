// What the library's locks and sleeps ask of the C library, while a simulated rank with threads runs (threads.h): which
// thread this is, to give the core away, futexes. Executables with a world are linked with --wrap of these functions.
#include <linux/futex.h>
#include <pthread.h>
#include <sys/syscall.h>

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <ctime>

#include "sim/scheduler.h"

using tern::sim::Threads;

namespace {

bool is_futex(long number, long operation, int command) {
  return number == SYS_futex && (operation & FUTEX_CMD_MASK) == command;
}

}  // namespace

extern "C" {

// A thread that asks who it is takes a lock, most of the time: another one may be quicker.
pthread_t __real_pthread_self();
pthread_t __wrap_pthread_self() {
  Threads* threads = Threads::running();
  if (!threads) return __real_pthread_self();
  threads->may_pass();
  const Threads::Thread* const self = threads->self();
  return self ? reinterpret_cast<pthread_t>(self) : __real_pthread_self();
}

// Where the stack ends: of the one thread of the operating system.
int __real_pthread_getattr_np(pthread_t thread, pthread_attr_t* attributes);
int __wrap_pthread_getattr_np(pthread_t thread, pthread_attr_t* attributes) {
  return __real_pthread_getattr_np(Threads::running() ? __real_pthread_self() : thread, attributes);
}

int __real_sched_yield();
int __wrap_sched_yield() {
  Threads* threads = Threads::running();
  if (!threads) return __real_sched_yield();
  threads->pass();
  return 0;
}

long __real_syscall(long number, long a, long b, long c, long d, long e, long f);
long __wrap_syscall(long number, long a, long b, long c, long d, long e, long f) {
  Threads* threads = Threads::running();
  if (threads && is_futex(number, b, FUTEX_WAKE)) return threads->wake(reinterpret_cast<void*>(a), uint32_t(c));
  if (!threads || !is_futex(number, b, FUTEX_WAIT)) return __real_syscall(number, a, b, c, d, e, f);
  const auto* word = reinterpret_cast<std::atomic<uint32_t>*>(a);
  if (word->load(std::memory_order_relaxed) == uint32_t(c)) {
    const auto* left = reinterpret_cast<const timespec*>(d);
    const uint64_t left_ns = left ? uint64_t(left->tv_sec) * 1'000'000'000 + uint64_t(left->tv_nsec) : 0;
    if (threads->wait(word, left ? tern::sim::Strand::running()->now_ns() + left_ns : tern::kNever_ns)) return 0;
    errno = ETIMEDOUT;
  } else {
    errno = EAGAIN;
  }
  return -1;
}

}  // extern "C"
