// Neighbourhood collectives (MPI 5.0, 8.6 to 8.8): one message along each edge of the topology, all at once.
//
// Several edges between one pair of processes are distinguished by the order of posting. Graphs: the i-th of the
// out-list matches the i-th of the in-list. Cartesian, with a periodic dimension of 1 or 2: what is sent at -1 is
// received at +1, so the receives of a dimension are posted in reverse order (the advice in 8.6.1).
#include <vector>

#include "coll/algorithms.h"
#include "comm/topology.h"

namespace tern {

void build_neighbor(Builder& b, Operation operation, const Operands& o) {
  const Topology& topology = *b.schedule().communicator().topology;
  std::vector<int> in, out;
  topology.neighbors(b.rank(), in, out);
  bool swapped = topology.kind() == Topology::Kind::cartesian;
  for (size_t i = 0; i < in.size(); ++i) {
    size_t slot = swapped ? i ^ 1 : i;
    if (in[slot] != kProcNull) b.receive(o.receive.block(int(slot)), in[slot]);
  }
  bool same_for_all = operation == Operation::neighbor_allgather || operation == Operation::neighbor_allgatherv;
  for (size_t i = 0; i < out.size(); ++i) {
    if (out[i] == kProcNull) continue;
    if (same_for_all) {
      b.send(o.send.buffer, o.send.count, *o.send.type, out[i]);
    } else {
      b.send(o.send.block(int(i)), out[i]);
    }
  }
}

}  // namespace tern
