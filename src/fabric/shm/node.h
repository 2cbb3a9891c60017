// ShmNode: the ranks of one node that share memory, and how they wake each other.
//
// One memfd for all of them, made by the lowest rank and handed out over abstract Unix sockets after both
// sides have proven the job key; each rank's doorbell (an eventfd) and life line (a pidfd) go the same way.
// Nothing has a name in a file system, so nothing is left behind however a rank dies.
//
// Doorbells. A rank that wants to sleep stores `asleep`, then looks at everything once more; a sender publishes, then
// reads `asleep`. Each side needs its store before its load. The sender must not pay for that on every message, so the
// sleeper pays for both: membarrier(GLOBAL_EXPEDITED) makes every processor that runs a registered process execute a
// full barrier. If the sender's publication is before its barrier, the sleeper's second look finds it; otherwise its
// read of `asleep` comes after the barrier, hence after the sleeper's store. If a rank has no membarrier, senders fence
// (full_fence()).
//
// Thread rule: under the rank's lock, except ring().
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "base/error.h"
#include "base/intrusive_list.h"
#include "base/types.h"
#include "fabric/shm/node_port.h"
#include "fabric/shm/segment_view.h"

namespace tern {

/// A condition on shared memory that a thread waits for (collectives' flags). Asked again before a rank sleeps.
class ShmCondition : public ListHook<ShmCondition> {
 public:
  /// Whether the condition is true. Called under the rank's lock from ShmPath::arm.
  virtual bool ready() = 0;

 protected:
  ~ShmCondition() = default;
};

struct ShmSetup {
  int rank = 0;  ///< this rank, in the world
  /// Ranks said to be on this node, ascending, this one included; the same on all of them.
  std::vector<int> candidates;
  std::array<uint8_t, 32> job_key{};  ///< launcher.h JobKey
  size_t ring_bytes = 0;              ///< tunable shm_ring_bytes
  bool allow_attach = true;           ///< tunable shm_cma: let the other ranks read this rank's memory
  uint32_t engines = 0;               ///< message engines that this rank wants
};

class ShmNode : public shm::SegmentView {
 public:
  /// First half of the start-up: binds a socket named after the job key. Every candidate calls this before a
  /// fence of the job, and join() after it. Null with an error if it is impossible (this rank then uses
  /// other paths).
  static std::unique_ptr<ShmNode> prepare(const ShmSetup& setup, Error& error);
  /// Second half: meets the others. After an error this rank shares memory with no other (the object is of no
  /// further use).
  Error join();
  /// Both halves around the caller's fence. The fence is called even after an error, so that no other rank waits for it
  /// for ever.
  static std::unique_ptr<ShmNode> create(const ShmSetup& setup, const std::function<Error()>& fence, Error& error);

  /// What a node in this OS process has of its own: simulated ranks and tests.
  struct Local {
    uint32_t spill_cells = shm::kSpillCells;
    std::vector<std::shared_ptr<shm::NodePort>> ports = {};  ///< by rank; empty: the kernel's
    /// By rank: becomes readable when it ends; not owned. Empty: none does.
    std::vector<int> life_lines = {};
  };
  /// Nodes for `ranks` members in this OS process, over one mapping.
  static std::vector<std::unique_ptr<ShmNode>> create_local(const std::vector<int>& ranks, size_t ring_bytes,
                                                            const Local& local);
  static std::vector<std::unique_ptr<ShmNode>> create_local(const std::vector<int>& ranks, size_t ring_bytes) {
    return create_local(ranks, ring_bytes, Local{});
  }

  ~ShmNode();
  ShmNode(const ShmNode&) = delete;
  ShmNode& operator=(const ShmNode&) = delete;

  /// The fewest engines that a member wants: as many as all of them have.
  uint32_t engines() const;
  /// World ranks that share this segment, ascending, mine included.
  const std::vector<PeerId>& members() const { return members_; }
  uint32_t my_slot() const { return my_slot_; }
  /// Slot of a world rank; slots() if it is no member.
  uint32_t slot_of(PeerId peer) const;
  PeerId rank_of(uint32_t slot) const { return PeerId(head().rank_of[slot]); }
  bool present(uint32_t slot) const { return block(slot).present.load(std::memory_order_relaxed) != 0; }

  /// The segment's descriptor, which every member has. Its part beyond `segment_bytes` belongs to shm_segments.h.
  int memfd() const;

  // --- Doorbells
  /// Called after publishing something for `slot` (`reason`: kAsleep; after consuming: kWantsSpace): wakes it if it
  /// sleeps.
  void notify(uint32_t slot, uint32_t reason = shm::kAsleep) {
    if (full_fence_) [[unlikely]]
      fence();
    else std::atomic_signal_fence(std::memory_order_seq_cst);
    if (block(slot).asleep.load(std::memory_order_relaxed) & reason) [[unlikely]]
      ring_doorbell(slot);
  }
  /// Declares this rank asleep; whatever is published later than the next look rings the doorbell.
  void declare_asleep(uint32_t reasons);
  /// Awake again; drains the doorbell. True: it was rung.
  bool declare_awake();
  /// Other members that sleep; of those with event threads that is not known, and they do not count.
  int members_asleep() const;
  /// A ring is on its way that `declare_awake` has not drained.
  bool ring_owed() const { return rings_owed_ != 0; }
  int doorbell() const { return doorbells_[my_slot_]; }
  /// Becomes readable when that rank's process ends; -1 if the kernel has no such descriptor.
  int life_line(uint32_t slot) const { return life_lines_[slot]; }
  bool full_fence() const { return full_fence_; }
  shm::NodePort& port() { return *port_; }

  IntrusiveList<ShmCondition>& conditions() { return conditions_; }

 private:
  struct Mapping;
  struct Joining;
  ShmNode() = default;

  static void fence();
  void ring_doorbell(uint32_t slot);
  /// Who uses the mapping. Memory of this process alone is made and given back in less time than a file's, and the
  /// file is for segments only.
  enum class Users { processes, this_process };
  Error map(int memfd, const shm::Layout& layout, Users users);
  void attach(uint32_t slot);
  void settle();
  Error join_as_leader();
  Error join_as_member();

  uint32_t my_slot_ = 0;
  bool full_fence_ = false;
  bool declared_ = false;    ///< this rank has declared itself asleep and not yet awake
  uint64_t rings_owed_ = 0;  ///< doorbell writes announced (asleep was cleared) and not yet drained
  std::vector<PeerId> members_;
  std::vector<int> doorbells_, life_lines_;  ///< by slot; -1: none
  IntrusiveList<ShmCondition> conditions_;
  std::shared_ptr<shm::NodePort> port_ = shm::kernel_port();
  std::shared_ptr<Mapping> mapping_;
  std::unique_ptr<Joining> joining_;   ///< during start-up only
  std::unique_ptr<uint64_t[]> probe_;  ///< the words at RankBlock::probe_address
};

}  // namespace tern
