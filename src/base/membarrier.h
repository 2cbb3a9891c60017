// Linux's membarrier: one thread pays so that others need no fence. Every running thread of the process passes a full
// memory barrier before `barrier_everywhere` returns, so what another one does is either before it, and seen by the
// caller afterwards, or after it, and sees what the caller has stored before (Dekker's pattern, with plain stores and a
// std::atomic_signal_fence on the side that is frequent).
// Source: membarrier(2), MEMBARRIER_CMD_PRIVATE_EXPEDITED. Some 12 us, in which other cores are interrupted.
// Thread rule: any thread.
#pragma once

#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/assert.h"

namespace tern {

/// Before the first barrier_everywhere. False: the kernel has no such barrier, or a checker cannot see it.
inline bool register_barrier_everywhere() {
#if defined(__SANITIZE_THREAD__)
  return false;
#else
  return syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0) == 0;
#endif
}

inline void barrier_everywhere() {
  [[maybe_unused]] const long result = syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0);
  TERN_ASSERT(result == 0);
}

}  // namespace tern
