// MPI_Reduce, MPI_Allreduce, MPI_Reduce_scatter(_block), MPI_Scan, MPI_Exscan: their operands.
// Source: MPI 5.0 sections 6.9 to 6.13. Operators and types are checked against each other by generated code.
#include "capi/coll_operands.h"
#include "impl.gen.h"

namespace tern::capi {
namespace {

// o.receive is there. Types and operator are null at the bystanders of an intercommunicator.
Error reduction_operands(Call& call, const void* sendbuf, Count count, const Op* op, Operands& o,
                         bool result_here = true) {
  o.op = op;
  o.in_place = in_place(sendbuf);
  if (o.in_place) return {};
  o.send = uniform(sendbuf, count, o.receive.type);
  // Without a result here (not the root) there is no second buffer.
  if (!call.checking() || count == 0 || !o.send.type || !result_here) return {};
  if (!may_overlap(o.send, 1, o.receive, 1)) [[likely]]
    return {};
  if (same_memory(sendbuf, o.receive.buffer)) return aliased("sendbuf", "recvbuf");
  return overlap(o.send, 1, o.receive, 1) ? overlapping("sendbuf", "recvbuf") : Error();
}

Error scan_operands(Call& call, const void* sendbuf, void* recvbuf, Count count, Datatype& datatype, Op& op,
                    Communicator& comm, Operands& o) {
  if (comm.is_inter()) return not_on_intercommunicator();
  o.receive = uniform(recvbuf, count, &datatype);
  return reduction_operands(call, sendbuf, count, &op, o);
}

}  // namespace

namespace operands {

Error Reduce(Call& call, const void* sendbuf, void* recvbuf, Count count, Datatype* datatype, Op* op, int root,
             Communicator& comm, CallOperands& o) {
  o.root = root;
  const bool result_here = !comm.is_inter() && root == comm.rank();
  o.receive = uniform(recvbuf, count, datatype);
  return reduction_operands(call, sendbuf, count, op, o, result_here);
}

Error Allreduce(Call& call, const void* sendbuf, void* recvbuf, Count count, Datatype& datatype, Op& op,
                Communicator& comm, CallOperands& o) {
  o.receive = uniform(recvbuf, count, &datatype);
  return reduction_operands(call, sendbuf, count, &op, o);
}

Error Reduce_scatter(Call& call, const void* sendbuf, void* recvbuf, IntArray recvcounts, Datatype& datatype, Op& op,
                     Communicator& comm, CallOperands& o) {
  Count total = 0;
  for (int i = 0; i < comm.size(); ++i) total += recvcounts[size_t(i)];
  o.receive = vector(recvbuf, recvcounts, IntArray(), &datatype);
  return reduction_operands(call, sendbuf, total, &op, o);
}

Error Reduce_scatter_block(Call& call, const void* sendbuf, void* recvbuf, Count recvcount, Datatype& datatype, Op& op,
                           Communicator& comm, CallOperands& o) {
  o.receive = uniform(recvbuf, recvcount, &datatype);
  return reduction_operands(call, sendbuf, recvcount * comm.size(), &op, o);
}

Error Scan(Call& call, const void* sendbuf, void* recvbuf, Count count, Datatype& datatype, Op& op, Communicator& comm,
           CallOperands& o) {
  return scan_operands(call, sendbuf, recvbuf, count, datatype, op, comm, o);
}

Error Exscan(Call& call, const void* sendbuf, void* recvbuf, Count count, Datatype& datatype, Op& op,
             Communicator& comm, CallOperands& o) {
  return scan_operands(call, sendbuf, recvbuf, count, datatype, op, comm, o);
}

}  // namespace operands
}  // namespace tern::capi
