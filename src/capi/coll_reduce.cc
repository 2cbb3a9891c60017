// MPI_Reduce, MPI_Allreduce, MPI_Reduce_scatter(_block), MPI_Scan, MPI_Exscan: their operands.
// Source: MPI 5.0 sections 6.9 to 6.13. Operators and types are checked against each other by generated code.
#include "capi/coll_operands.h"
#include "impl.gen.h"

namespace tern::capi {
namespace {

// Types and operator are null at the bystanders of an intercommunicator.
Error reduction_operands(Call& call, const void* sendbuf, const void* recvbuf, Count count, const Side& result,
                         const Op* op, Operands& o) {
  o.receive = result;
  o.op = op;
  o.in_place = in_place(sendbuf);
  if (o.in_place) return {};
  o.send = uniform(sendbuf, count, result.type);
  if (!call.checking() || count == 0) return {};
  if (same_memory(sendbuf, recvbuf)) return aliased("sendbuf", "recvbuf");
  // Without a result here (not the root) there is no second buffer.
  return recvbuf && overlap(o.send, 1, result, 1) ? overlapping("sendbuf", "recvbuf") : Error();
}

Error scan_operands(Call& call, const void* sendbuf, void* recvbuf, Count count, Datatype& datatype, Op& op,
                    Communicator& comm, Operands& o) {
  if (comm.is_inter()) return not_on_intercommunicator();
  return reduction_operands(call, sendbuf, recvbuf, count, uniform(recvbuf, count, &datatype), &op, o);
}

}  // namespace

namespace operands {

Error Reduce(Call& call, const void* sendbuf, void* recvbuf, Count count, Datatype* datatype, Op* op, int root,
             Communicator& comm, CallOperands& o) {
  o.root = root;
  const bool result_here = !comm.is_inter() && root == comm.rank();
  return reduction_operands(call, sendbuf, result_here ? recvbuf : nullptr, count, uniform(recvbuf, count, datatype),
                            op, o);
}

Error Allreduce(Call& call, const void* sendbuf, void* recvbuf, Count count, Datatype& datatype, Op& op,
                Communicator& comm, CallOperands& o) {
  return reduction_operands(call, sendbuf, recvbuf, count, uniform(recvbuf, count, &datatype), &op, o);
}

Error Reduce_scatter(Call& call, const void* sendbuf, void* recvbuf, IntArray recvcounts, Datatype& datatype, Op& op,
                     Communicator& comm, CallOperands& o) {
  Count total = 0;
  for (int i = 0; i < comm.size(); ++i) total += recvcounts[size_t(i)];
  return reduction_operands(call, sendbuf, recvbuf, total, vector(recvbuf, recvcounts, IntArray(), &datatype), &op, o);
}

Error Reduce_scatter_block(Call& call, const void* sendbuf, void* recvbuf, Count recvcount, Datatype& datatype, Op& op,
                           Communicator& comm, CallOperands& o) {
  return reduction_operands(call, sendbuf, recvbuf, recvcount * comm.size(), uniform(recvbuf, recvcount, &datatype),
                            &op, o);
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
