// The run-time of code that is compiled with -fsanitize=thread, in place of ThreadSanitizer's: every access to memory
// that an execution shares goes to the explorer. And what stands between that code and the kernel: membarrier, futexes,
// mutexes, the doorbells' writes, and giving the core away (linked with --wrap).
#include <linux/futex.h>
#include <linux/membarrier.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "tests/explore/explorer.h"
#include "tests/explore/hooks.h"

namespace explore = tern::explore;
using explore::Change;
using explore::Order;

namespace {

// The upper bits of an order are hints.
Order order_of(int order) { return Order(order & 0xff); }

// How an explored failure leaves: the order of a failed exchange is never stronger than its success.
template <typename Word>
bool compare_exchange(uintptr_t place, volatile Word* address, Word* expected, Word desired, int order) {
  if (!explore::is_explored(address))
    return __atomic_compare_exchange_n(address, expected, desired, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
  const auto before =
      Word(explore::on_compare_exchange(place, address, sizeof(Word), *expected, desired, order_of(order)));
  const bool same = before == *expected;
  *expected = before;
  return same;
}

}  // namespace

#define PLACE reinterpret_cast<uintptr_t>(__builtin_return_address(0))
#define TERN_CHANGE(bits, Word, name, change)                                                        \
  Word __tsan_atomic##bits##_##name(volatile Word* address, Word operand, int order) {               \
    if (!explore::is_explored(address)) return __atomic_##name##_n_of(address, operand);             \
    return Word(explore::on_change(PLACE, address, sizeof(Word), change, operand, order_of(order))); \
  }
#define __atomic_exchange_n_of(address, operand) __atomic_exchange_n(address, operand, __ATOMIC_SEQ_CST)
#define __atomic_fetch_add_n_of(address, operand) __atomic_fetch_add(address, operand, __ATOMIC_SEQ_CST)
#define __atomic_fetch_sub_n_of(address, operand) __atomic_fetch_sub(address, operand, __ATOMIC_SEQ_CST)
#define __atomic_fetch_and_n_of(address, operand) __atomic_fetch_and(address, operand, __ATOMIC_SEQ_CST)
#define __atomic_fetch_or_n_of(address, operand) __atomic_fetch_or(address, operand, __ATOMIC_SEQ_CST)
#define __atomic_fetch_xor_n_of(address, operand) __atomic_fetch_xor(address, operand, __ATOMIC_SEQ_CST)
#define TERN_WORD(bits, Word)                                                                                         \
  Word __tsan_atomic##bits##_load(const volatile Word* address, int order) {                                          \
    if (!explore::is_explored(address)) return __atomic_load_n(address, __ATOMIC_SEQ_CST);                            \
    return Word(explore::on_load(PLACE, address, sizeof(Word), order_of(order)));                                     \
  }                                                                                                                   \
  void __tsan_atomic##bits##_store(volatile Word* address, Word value, int order) {                                   \
    if (!explore::is_explored(address)) return __atomic_store_n(address, value, __ATOMIC_SEQ_CST);                    \
    explore::on_store(PLACE, address, sizeof(Word), value, order_of(order));                                          \
  }                                                                                                                   \
  TERN_CHANGE(bits, Word, exchange, Change::exchange)                                                                 \
  TERN_CHANGE(bits, Word, fetch_add, Change::add)                                                                     \
  TERN_CHANGE(bits, Word, fetch_sub, Change::sub)                                                                     \
  TERN_CHANGE(bits, Word, fetch_and, Change::bit_and)                                                                 \
  TERN_CHANGE(bits, Word, fetch_or, Change::bit_or)                                                                   \
  TERN_CHANGE(bits, Word, fetch_xor, Change::bit_xor)                                                                 \
  bool __tsan_atomic##bits##_compare_exchange_strong(volatile Word* address, Word* expected, Word desired, int order, \
                                                     int) {                                                           \
    return compare_exchange(PLACE, address, expected, desired, order);                                                \
  }                                                                                                                   \
  bool __tsan_atomic##bits##_compare_exchange_weak(volatile Word* address, Word* expected, Word desired, int order,   \
                                                   int) {                                                             \
    return compare_exchange(PLACE, address, expected, desired, order);                                                \
  }
#define TERN_PLAIN(bytes)                                                                        \
  void __tsan_read##bytes(void* address) { explore::on_plain(address, bytes, false); }           \
  void __tsan_write##bytes(void* address) { explore::on_plain(address, bytes, true); }           \
  void __tsan_unaligned_read##bytes(void* address) { explore::on_plain(address, bytes, false); } \
  void __tsan_unaligned_write##bytes(void* address) { explore::on_plain(address, bytes, true); }

extern "C" {

void __tsan_init() {}
void __tsan_func_entry(void*) {}
void __tsan_func_exit() {}
void __tsan_vptr_update(void**, void*) {}
void __tsan_vptr_read(void**) {}
void __tsan_read_range(void* address, unsigned long bytes) { explore::on_plain(address, bytes, false); }
void __tsan_write_range(void* address, unsigned long bytes) { explore::on_plain(address, bytes, true); }
TERN_PLAIN(1)
TERN_PLAIN(2)
TERN_PLAIN(4)
TERN_PLAIN(8)
TERN_PLAIN(16)
TERN_WORD(8, uint8_t)
TERN_WORD(16, uint16_t)
TERN_WORD(32, uint32_t)
TERN_WORD(64, uint64_t)
void __tsan_atomic_thread_fence(int order) { explore::on_fence(PLACE, order_of(order)); }
// The compiler's order only: the model executes in program order.
void __tsan_atomic_signal_fence(int) {}

void* __real_memcpy(void* to, const void* from, size_t bytes);
void* __wrap_memcpy(void* to, const void* from, size_t bytes) {
  explore::on_plain(from, bytes, false);
  explore::on_plain(to, bytes, true);
  return __real_memcpy(to, from, bytes);
}

void* __real_memset(void* to, int value, size_t bytes);
void* __wrap_memset(void* to, int value, size_t bytes) {
  explore::on_plain(to, bytes, true);
  return __real_memset(to, value, bytes);
}

ssize_t __real_write(int descriptor, const void* data, size_t bytes);
ssize_t __wrap_write(int descriptor, const void* data, size_t bytes) {
  const ssize_t written = __real_write(descriptor, data, bytes);
  explore::note_change();
  return written;
}

long __real_syscall(long number, long a, long b, long c, long d, long e, long f);
long __wrap_syscall(long number, long a, long b, long c, long d, long e, long f) {
  if (number == SYS_membarrier) {
    // Before and after an execution there is one thread, and nothing to do.
    if (a == MEMBARRIER_CMD_GLOBAL_EXPEDITED || a == MEMBARRIER_CMD_PRIVATE_EXPEDITED)
      static_cast<void>(explore::on_barrier_everywhere());
    return 0;
  }
  if (number == SYS_futex && (b & FUTEX_CMD_MASK) == FUTEX_WAIT &&
      explore::on_futex_wait(reinterpret_cast<void*>(a), uint32_t(c)))
    return 0;
  if (number == SYS_futex && (b & FUTEX_CMD_MASK) == FUTEX_WAKE &&
      explore::on_futex_wake(reinterpret_cast<void*>(a), uint64_t(c)))
    return 0;
  return __real_syscall(number, a, b, c, d, e, f);
}

// The other fibers get their turns at each atomic operation. A real one would give the core to other programs, for
// milliseconds on a busy machine; a thread that waits calls it several times in each of many executions.
int __real_sched_yield();
int __wrap_sched_yield() { return explore::running_thread() == SIZE_MAX ? __real_sched_yield() : 0; }

// Mutexes are words, and each fiber is a thread of its own.
int __real_pthread_mutex_trylock(pthread_mutex_t* mutex);
int __wrap_pthread_mutex_trylock(pthread_mutex_t* mutex) {
  if (!explore::is_explored(mutex)) return __real_pthread_mutex_trylock(mutex);
  return explore::on_compare_exchange(PLACE, mutex, sizeof(int), 0, 1, Order::acquire) == 0 ? 0 : EBUSY;
}
int __real_pthread_mutex_lock(pthread_mutex_t* mutex);
int __wrap_pthread_mutex_lock(pthread_mutex_t* mutex) {
  if (!explore::is_explored(mutex)) return __real_pthread_mutex_lock(mutex);
  const uintptr_t place = PLACE;
  explore::wait_for([=] { return explore::on_compare_exchange(place, mutex, sizeof(int), 0, 1, Order::acquire) == 0; });
  return 0;
}
int __real_pthread_mutex_unlock(pthread_mutex_t* mutex);
int __wrap_pthread_mutex_unlock(pthread_mutex_t* mutex) {
  if (!explore::is_explored(mutex)) return __real_pthread_mutex_unlock(mutex);
  explore::on_store(PLACE, mutex, sizeof(int), 0, Order::release);
  return 0;
}
pthread_t __real_pthread_self();
pthread_t __wrap_pthread_self() {
  const size_t thread = explore::running_thread();
  return thread == SIZE_MAX ? __real_pthread_self() : pthread_t(1 + thread);
}

// A failed assertion of the library is a failed execution.
[[noreturn]] void __real__ZN4tern16assertion_failedEPKcS1_i(const char* expression, const char* file, int line);
[[noreturn]] void __wrap__ZN4tern16assertion_failedEPKcS1_i(const char* expression, const char* file, int line) {
  explore::on_failure(expression);
  __real__ZN4tern16assertion_failedEPKcS1_i(expression, file, line);
}

}  // extern "C"
