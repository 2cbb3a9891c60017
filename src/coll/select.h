// Which algorithm a collective uses: one table of records (select.cc), and the tunable `coll` that overrides
// it.
// Everything the choice looks at is equal on all processes of the communicator, so all choose the same.
// Thread rule: the table is constant; a Selection is a value.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "coll/operands.h"

namespace tern {

class Builder;

/// A way to carry out an operation on an intracommunicator.
struct Algorithm {
  /// What must hold for the result to be right.
  enum Needs : uint8_t {
    kNothing = 0,
    kCommutative = 1,
    kPowerOfTwo = 2,  ///< the number of ranks is
    kNodeMemory = 4,  ///< a NodeTeam, a blocking call, data that it takes
  };
  Operation operation;
  const char* name;
  void (*build)(Builder&, const Operands&);
  uint8_t needs;
  size_t from_bytes, to_bytes;  ///< where it is the default: from <= bytes < to
  int from_ranks, to_ranks;     ///< from <= ranks <= to
  const char* why;
};

/// What the choice looks at. Bytes: the whole vector of bcast and reductions; one process's block of the
/// other
/// operations (the mean block of allgatherv; 0 where the processes do not know each other's counts).
struct Situation {
  Operation operation;
  size_t bytes = 0;
  int ranks = 1;
  bool commutative = true;
  bool node_memory = false;
};

std::span<const Algorithm> algorithms();
/// Whether the algorithm gives the right result there.
bool applies(const Algorithm& algorithm, const Situation& situation);

/// The choice of one communicator.
class Selection {
 public:
  /// Reads the tunable: comma-separated operation=algorithm[:bytes][@ranks], the algorithm to use from that
  /// many bytes
  /// and that many ranks on; of several the one with the most bytes, then ranks. Where a forced algorithm
  /// does not apply, the table decides. Error: an unknown name (with the list), a bad number.
  Error parse(std::string_view text);
  const Algorithm& choose(const Situation& situation) const;
  void force(const Algorithm& algorithm, size_t from_bytes = 0, int from_ranks = 0) {
    forced_.push_back({&algorithm, from_bytes, from_ranks});
  }

 private:
  struct Forced {
    const Algorithm* algorithm;
    size_t from_bytes;
    int from_ranks;
  };
  std::vector<Forced> forced_;
};

}  // namespace tern
