// Cross-memory attach: reading and writing another process's memory in one copy (process_vm_readv, _writev), if the
// kernel allows it. It does not between user namespaces, for another user, under some seccomp filters and for
// undumpable processes, so both directions are tested by a copy first. Units: bytes. Thread rule: stateless.
#pragma once

#include <sys/types.h>

#include "base/error.h"
#include "datatype/cursor.h"
#include "fabric/shm/segment.h"

namespace tern::shm {

/// The process id, as this process sees it, of the rank that owns `block`, after a trial read of its first probe
/// word and a trial write of its second (`writable`: that worked); 0 if attaching does not work. `life_line`: its
/// pidfd, or -1; needed when it lives in another pid namespace.
pid_t probe_cross_memory(const RankBlock& block, int life_line, bool& writable);

/// Reads `bytes` from `address` of `pid` into `local`, which advances.
Error read_cross_memory(pid_t pid, Cursor& local, uint64_t address, size_t bytes);
/// Writes `bytes` of `local`, which advances, to `address` of `pid`.
Error write_cross_memory(pid_t pid, Cursor& local, uint64_t address, size_t bytes);

}  // namespace tern::shm
