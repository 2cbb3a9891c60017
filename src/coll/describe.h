// What the choice of algorithms (select.h) comes to for a communicator of a shape, as text: tern-info --collectives.
// Thread rule: pure functions.
#pragma once

#include <string>

#include "coll/select.h"

namespace tern {

/// `nodes` of `ranks_per_node` each; one node shares its memory.
struct CommunicatorShape {
  int nodes = 1, ranks_per_node = 1;
  int cores = 0;  ///< of a node; 0: as many as ranks
  int ranks() const { return nodes * ranks_per_node; }
};

/// "4x24" (nodes x ranks on each) or "24" (one node), perhaps with "/8": of 8 cores each. False: it is neither, or more
/// than INT_MAX ranks.
bool parse_shape(std::string_view text, CommunicatorShape& shape);

/// For each operation the rows that blocking calls with commutative operators and plain datatypes use, by bytes, with
/// their reasons; then the other rows that apply there. `forced`: marks those that the selection forces.
std::string describe_choice(const Selection& selection, const CommunicatorShape& shape);

}  // namespace tern
