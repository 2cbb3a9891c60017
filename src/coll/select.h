// Which algorithm a collective uses: one table of records (select.cc), and the tunable `coll` that overrides it. All
// inputs of the choice are equal on all processes of the communicator, so all choose the same.
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
class NodeTeam;

/// A way to carry out an operation on an intracommunicator.
struct Algorithm {
  /// Conditions for the result to be correct.
  enum Needs : uint8_t {
    kNothing = 0,
    kCommutative = 1,
    kPowerOfTwo = 2,  ///< the number of ranks is
    kNodeMemory = 4,  ///< a NodeTeam, a blocking call, data that it takes
    kLevels = 8,      ///< several nodes, one of them with several members (levels.h)
    /// No such condition: it is the default only where members share cores. What all of them do together counts there,
    /// not what each does; and each time that a member waits for another, a core changes hands.
    kSharedCores = 16,
  };
  /// Writes the steps of a schedule; or does it all at once, through a team's memory.
  using Build = void (*)(Builder&, const Operands&);
  using AtOnce = Error (*)(NodeTeam&, const Operands&);

  constexpr Algorithm(Operation o, const char* n, Build b, uint8_t what, size_t from, size_t to, int few, int many,
                      const char* reason)
      : operation(o),
        name(n),
        build(b),
        needs(what),
        from_bytes(from),
        to_bytes(to),
        from_ranks(few),
        to_ranks(many),
        why(reason) {}
  constexpr Algorithm(Operation o, const char* n, AtOnce a, size_t from, size_t to, int few, int many,
                      const char* reason)
      : operation(o),
        name(n),
        at_once(a),
        needs(kNodeMemory),
        from_bytes(from),
        to_bytes(to),
        from_ranks(few),
        to_ranks(many),
        why(reason) {}

  Operation operation;
  const char* name;
  Build build = nullptr;  ///< one of the two
  AtOnce at_once = nullptr;
  uint8_t needs;
  size_t from_bytes, to_bytes;  ///< where it is the default: from <= bytes < to
  int from_ranks, to_ranks;     ///< from <= ranks <= to
  const char* why;
};

/// Inputs of the choice. Bytes: the whole vector of bcast and reductions; one process's block of the other
/// operations (the mean block of allgatherv; 0 if the processes do not know each other's counts).
struct Situation {
  Operation operation;
  size_t bytes = 0;
  int ranks = 1;
  bool commutative = true;
  bool node_memory = false;
  /// That the communicator knows of. As node_memory, unset where results must not depend on the place of ranks.
  int nodes = 1;
  bool shares_cores = false;  ///< all on one node with more ranks than cores; likewise

  /// Several nodes, one of them with several members.
  bool has_levels() const { return 1 < nodes && nodes < ranks; }
};

/// Without what the communicator knows of its nodes.
Situation situation_of(Operation operation, const Operands& operands, int ranks);
/// Whether this call can use node memory, which takes contributions of a bounded size; equal at all processes.
bool suits_node(const Situation& situation, const Operands& operands);
/// Whether the result depends on the order in which contributions are combined.
bool combines(Operation operation);

std::span<const Algorithm> algorithms();
/// Whether the algorithm gives the correct result there.
bool applies(const Algorithm& algorithm, const Situation& situation);

/// The choice of one communicator.
class Selection {
 public:
  /// Reads the tunable: comma-separated operation=algorithm[:bytes][@ranks[xnodes]], the algorithm to use from that
  /// many bytes, ranks and nodes on; of several the one with the most nodes, then bytes, then ranks. Where a forced
  /// algorithm does not apply, the table decides. Error: an unknown name (with the list), a bad number.
  Error parse(std::string_view text);
  const Algorithm& choose(const Situation& situation) const;
  /// The choice of `forced` alone; null: nothing is forced there.
  const Algorithm* forced_choice(const Situation& situation) const;
  struct Forced {
    const Algorithm* algorithm;
    size_t from_bytes = 0;
    int from_ranks = 0, from_nodes = 1;
  };
  void force(const Forced& forced) { forced_.push_back(forced); }
  std::span<const Forced> forced() const { return forced_; }

 private:
  std::vector<Forced> forced_;
};

}  // namespace tern
