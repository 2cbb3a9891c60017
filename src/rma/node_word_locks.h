// NodeWordLocks: test-and-set and MCS locks (locks/) for a window all of whose ranks share one node, their words in the
// memory that the node shares (SharedPart).
//
// A rank that waits for a word of its own to be written, or for a pause to end, may sleep. It says so in a word; the
// rank that writes there sends it a message then.
// Thread rule: under the rank's lock.
#pragma once

#include "rma/lock_design.h"
#include "rma/locks/word_locks.h"
#include "rma/shared_part.h"

namespace tern::rma {

/// Memory that this rank has mapped, as RemoteMemory: loads, stores and the CPU's atomics. Keys: {1, the owner's
/// place}.
class MappedWords final : public RemoteMemory {
 public:
  MappedWords(SharedPart& memory, std::function<void(int rank)> wake);
  RemoteKey expose(const void*, size_t, RemoteAccess) override { return {}; }
  void conceal(const RemoteKey&) override {}
  bool can_get(Lane&) override { return true; }
  void get(TransferOperation& operation) override;
  bool can_put(Lane&) override { return true; }
  void put(TransferOperation& operation) override;
  void atomic(AtomicOperation& operation) override;
  /// One for all owners: the key names them.
  Lane& lane() { return lane_; }

 private:
  struct EveryLane final : Lane {
    EveryLane() : Lane(kNoPeer) {}
  } lane_;
  SharedPart& memory_;
  const std::function<void(int rank)> wake_;
};

class NodeWordLocks final : public LockDesign {
 public:
  /// `me`: this rank's place, which is its rank in the window. The memory has words for every member. `shares_cores`:
  /// some members do; the same at all of them.
  NodeWordLocks(WordDesign kind, SharedPart& memory, int me, Counters& counters, Clock& clock, uint64_t seed,
                bool shares_cores, std::function<void(int rank)> wake, Told told);
  void ask(int rank, LockMode mode) override;
  void release(int rank) override;
  void lost(int rank, const Error& error) override;
  bool quiet() const override { return locks_.quiet(); }
  bool under_way() const override { return locks_.under_way(); }

  int poll() override;
  const PollHints& hints() const override { return locks_.hints(); }
  bool arm() override;
  void disarm() override;
  uint64_t next_deadline_ns() const override { return locks_.next_deadline_ns(); }

 private:
  void count();

  SharedPart& memory_;
  const int me_;
  Counters& counters_;
  MappedWords words_;
  WordLocks locks_;
  uint64_t counted_ = 0;
  bool armed_ = false;
};

}  // namespace tern::rma
