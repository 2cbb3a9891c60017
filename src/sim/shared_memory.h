// The memory that the ranks of a simulated node share: the segment of real ranks (fabric/shm), with a port of virtual
// time. So ShmPath and NodeMemory run in the world as they run on a machine; only copies between ranks, the clock and
// wake-ups are the simulator's. While a rank copies, others run: between two pieces of random length.
//
// Units: bytes, nanoseconds. Thread rule: one scheduler.
#pragma once

#include <memory>
#include <vector>

#include "base/descriptor.h"
#include "base/rng.h"
#include "fabric/shm/node.h"
#include "sim/network.h"
#include "sim/scheduler.h"

namespace tern::sim {

struct SharedMemoryModel {
  size_t ring_bytes = 65536;
  uint32_t spill_cells = shm::kSpillCells;
  uint32_t refuse_in_8 = 0;  ///< ranks that no other may attach (parts of 8)
  uint32_t pause_in_8 = 4;   ///< pieces of a copy after which others run (parts of 8)
};

/// One node's.
class SharedMemory {
 public:
  /// `strands`: of the node's ranks; the first is `first`.
  SharedMemory(Network& network, const SharedMemoryModel& model, PeerId first, const std::vector<Strand*>& strands,
               uint64_t seed);
  /// That rank's end; once.
  std::unique_ptr<ShmNode> take(PeerId rank) { return std::move(nodes_[rank - first_]); }
  /// The others see that it has ended.
  void lose(PeerId rank);

 private:
  const PeerId first_;
  std::vector<Strand*> strands_;
  std::vector<Descriptor> life_lines_;
  std::vector<std::unique_ptr<ShmNode>> nodes_;
};

}  // namespace tern::sim
