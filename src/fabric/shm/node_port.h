// NodePort: what the ranks of a node need beside the memory that they share: copies between their own memories, a clock
// for these copies, and a word to a rank that sleeps. The kernel's is here; the simulator has its own.
//
// The kernel copies by cross-memory attach (process_vm_readv, _writev), if it allows that. It does not between user
// namespaces, for another user, under some seccomp filters and for undumpable processes, so both directions are tested
// by a copy first. Units: bytes, nanoseconds. Thread rule: stateless, or the rank's lock.
#pragma once

#include <sys/types.h>

#include <memory>

#include "base/error.h"
#include "datatype/cursor.h"
#include "fabric/shm/segment.h"

namespace tern::shm {

class NodePort {
 public:
  virtual ~NodePort() = default;
  /// The process id, as this process sees it, of the rank in that slot, which owns `block`, after a trial read of its
  /// first probe word and a trial write of its second (`writable`: that worked); 0 if attaching does not work.
  /// `life_line`: its pidfd, or -1; needed when it lives in another pid namespace.
  virtual pid_t probe(uint32_t slot, const RankBlock& block, int life_line, bool& writable) = 0;
  /// Reads `bytes` from `address` of `pid` into `local`, which advances.
  virtual Error read(pid_t pid, Cursor& local, uint64_t address, size_t bytes) = 0;
  /// Writes `bytes` of `local`, which advances, to `address` of `pid`.
  virtual Error write(pid_t pid, Cursor& local, uint64_t address, size_t bytes) = 0;
  /// Nanoseconds of a clock that all ranks of the node share.
  virtual uint64_t now_ns() = 0;
  /// The doorbell of that rank has been rung: it wakes up.
  virtual void rung(uint32_t slot) {}
};

/// The kernel's.
std::shared_ptr<NodePort> kernel_port();

}  // namespace tern::shm
