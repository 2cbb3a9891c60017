// Linux's futex: a thread sleeps while a word of this process has a value (futex(2)). std::atomic's wait and notify are
// made of it, too, but look some more before they sleep, and count who sleeps in words of their own; here that is the
// caller's.
// Thread rule: any thread.
#pragma once

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>

namespace tern {

/// Returns when it is woken, at once if the word has another value, and sometimes for no reason.
inline void futex_wait(std::atomic<uint32_t>& word, uint32_t value) {
  syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, value, nullptr, nullptr, 0);
}

/// Wakes one thread that sleeps, if there is one. Call it after the word has changed.
inline void futex_wake_one(std::atomic<uint32_t>& word) {
  syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, 1, nullptr, nullptr, 0);
}

}  // namespace tern
