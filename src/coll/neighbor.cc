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
  bool same_for_all = operation == Operation::neighbor_allgather || operation == Operation::neighbor_allgatherv;
  auto outgoing = [&](size_t i) {
    return same_for_all ? o.send.whole() : o.send.block(int(i));
  };
  // A process knows both sides of what it sends to itself. Empty messages are not sent.
  int to_self = 0, from_self = 0;
  for (size_t i = 0; i < out.size(); ++i) to_self += out[i] == b.rank() && outgoing(i).bytes() != 0;
  for (size_t i = 0; i < in.size(); ++i) from_self += in[i] == b.rank() && o.receive.block(int(i)).bytes() != 0;
  if (to_self != from_self) {
    b.schedule().fail(Error(ErrorClass::arg, "this process is its own neighbour: it sends itself " +
                                                 std::to_string(to_self) + " blocks that have data, and expects " +
                                                 std::to_string(from_self) +
                                                 ". Counts and datatypes of both sides must agree"));
  }
  bool swapped = topology.kind() == Topology::Kind::cartesian;
  for (size_t i = 0; i < in.size(); ++i) {
    size_t slot = swapped ? i ^ 1 : i;
    if (in[slot] != kProcNull) b.receive(o.receive.block(int(slot)), in[slot]);
  }
  for (size_t i = 0; i < out.size(); ++i) {
    if (out[i] != kProcNull) b.send(outgoing(i), out[i]);
  }
}

}  // namespace tern
