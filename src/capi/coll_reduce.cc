// MPI_Reduce, MPI_Allreduce, MPI_Reduce_scatter(_block), MPI_Scan, MPI_Exscan: blocking, nonblocking,
// persistent.
// Source: MPI 5.0 sections 6.9 to 6.13. Operators and types are checked against each other by generated code.
#include "capi/coll_operands.h"
#include "impl.gen.h"

namespace tern::capi {
namespace {

// Types and operator are null at the bystanders of an intercommunicator.
Error reduction_operands(Call& call, const void* sendbuf, const void* recvbuf, Count count,
                         const Side& result, const Op* op, Operands& o) {
  o.receive = result;
  o.op = op;
  o.in_place = in_place(sendbuf);
  if (o.in_place) return {};
  o.send = uniform(sendbuf, count, result.type);
  if (call.checking() && count != 0 && same_memory(sendbuf, recvbuf)) return aliased("sendbuf", "recvbuf");
  return {};
}

Error reduce_operands(Call& call, const void* sendbuf, void* recvbuf, Count count, Datatype* datatype, Op* op,
                      int root, Communicator& comm, Operands& o) {
  o.root = root;
  bool result_here = !comm.is_inter() && root == comm.rank();
  return reduction_operands(call, sendbuf, result_here ? recvbuf : nullptr, count,
                            uniform(recvbuf, count, datatype), op, o);
}

Error allreduce_operands(Call& call, const void* sendbuf, void* recvbuf, Count count, Datatype& datatype,
                         Op& op, Communicator&, Operands& o) {
  return reduction_operands(call, sendbuf, recvbuf, count, uniform(recvbuf, count, &datatype), &op, o);
}

Error reduce_scatter_operands(Call& call, const void* sendbuf, void* recvbuf, const IntArray& recvcounts,
                              Datatype& datatype, Op& op, Communicator& comm, Operands& o) {
  Count total = 0;
  for (int i = 0; i < comm.size(); ++i) total += recvcounts[size_t(i)];
  return reduction_operands(call, sendbuf, recvbuf, total, vector(recvbuf, recvcounts, IntArray(), &datatype),
                            &op, o);
}

Error reduce_scatter_block_operands(Call& call, const void* sendbuf, void* recvbuf, Count recvcount,
                                    Datatype& datatype, Op& op, Communicator& comm, Operands& o) {
  return reduction_operands(call, sendbuf, recvbuf, recvcount * comm.size(),
                            uniform(recvbuf, recvcount, &datatype), &op, o);
}

Error scan_operands(Call& call, const void* sendbuf, void* recvbuf, Count count, Datatype& datatype, Op& op,
                    Communicator& comm, Operands& o) {
  if (comm.is_inter()) return not_on_intercommunicator();
  return reduction_operands(call, sendbuf, recvbuf, count, uniform(recvbuf, count, &datatype), &op, o);
}

}  // namespace

namespace body {

Error Reduce(Call& call, const void* sendbuf, void* recvbuf, Count count, Datatype* datatype, Op* op,
             int root, Communicator& comm) {
  Operands o;
  if (Error wrong = reduce_operands(call, sendbuf, recvbuf, count, datatype, op, root, comm, o)) return wrong;
  return run(comm, Operation::reduce, o);
}

Error Ireduce(Call& call, const void* sendbuf, void* recvbuf, Count count, Datatype* datatype, Op* op,
              int root, Communicator& comm, Request*& request) {
  Operands o;
  if (Error wrong = reduce_operands(call, sendbuf, recvbuf, count, datatype, op, root, comm, o)) return wrong;
  return begin(comm, Operation::reduce, o, request);
}

Error Reduce_init(Call& call, const void* sendbuf, void* recvbuf, Count count, Datatype* datatype, Op* op,
                  int root, Communicator& comm, Info*, Request*& request) {
  Operands o;
  if (Error wrong = reduce_operands(call, sendbuf, recvbuf, count, datatype, op, root, comm, o)) return wrong;
  return prepare(comm, Operation::reduce, o, request);
}

Error Allreduce(Call& call, const void* sendbuf, void* recvbuf, Count count, Datatype& datatype, Op& op,
                Communicator& comm) {
  Operands o;
  if (Error wrong = allreduce_operands(call, sendbuf, recvbuf, count, datatype, op, comm, o)) return wrong;
  return run(comm, Operation::allreduce, o);
}

Error Iallreduce(Call& call, const void* sendbuf, void* recvbuf, Count count, Datatype& datatype, Op& op,
                 Communicator& comm, Request*& request) {
  Operands o;
  if (Error wrong = allreduce_operands(call, sendbuf, recvbuf, count, datatype, op, comm, o)) return wrong;
  return begin(comm, Operation::allreduce, o, request);
}

Error Allreduce_init(Call& call, const void* sendbuf, void* recvbuf, Count count, Datatype& datatype, Op& op,
                     Communicator& comm, Info*, Request*& request) {
  Operands o;
  if (Error wrong = allreduce_operands(call, sendbuf, recvbuf, count, datatype, op, comm, o)) return wrong;
  return prepare(comm, Operation::allreduce, o, request);
}

Error Reduce_scatter(Call& call, const void* sendbuf, void* recvbuf, IntArray recvcounts, Datatype& datatype,
                     Op& op, Communicator& comm) {
  Operands o;
  if (Error wrong = reduce_scatter_operands(call, sendbuf, recvbuf, recvcounts, datatype, op, comm, o))
    return wrong;
  return run(comm, Operation::reduce_scatter, o);
}

Error Ireduce_scatter(Call& call, const void* sendbuf, void* recvbuf, IntArray recvcounts, Datatype& datatype,
                      Op& op, Communicator& comm, Request*& request) {
  Operands o;
  if (Error wrong = reduce_scatter_operands(call, sendbuf, recvbuf, recvcounts, datatype, op, comm, o))
    return wrong;
  return begin(comm, Operation::reduce_scatter, o, request);
}

Error Reduce_scatter_init(Call& call, const void* sendbuf, void* recvbuf, IntArray recvcounts,
                          Datatype& datatype, Op& op, Communicator& comm, Info*, Request*& request) {
  Operands o;
  if (Error wrong = reduce_scatter_operands(call, sendbuf, recvbuf, recvcounts, datatype, op, comm, o))
    return wrong;
  return prepare(comm, Operation::reduce_scatter, o, request);
}

Error Reduce_scatter_block(Call& call, const void* sendbuf, void* recvbuf, Count recvcount,
                           Datatype& datatype, Op& op, Communicator& comm) {
  Operands o;
  if (Error wrong = reduce_scatter_block_operands(call, sendbuf, recvbuf, recvcount, datatype, op, comm, o))
    return wrong;
  return run(comm, Operation::reduce_scatter_block, o);
}

Error Ireduce_scatter_block(Call& call, const void* sendbuf, void* recvbuf, Count recvcount,
                            Datatype& datatype, Op& op, Communicator& comm, Request*& request) {
  Operands o;
  if (Error wrong = reduce_scatter_block_operands(call, sendbuf, recvbuf, recvcount, datatype, op, comm, o))
    return wrong;
  return begin(comm, Operation::reduce_scatter_block, o, request);
}

Error Reduce_scatter_block_init(Call& call, const void* sendbuf, void* recvbuf, Count recvcount,
                                Datatype& datatype, Op& op, Communicator& comm, Info*, Request*& request) {
  Operands o;
  if (Error wrong = reduce_scatter_block_operands(call, sendbuf, recvbuf, recvcount, datatype, op, comm, o))
    return wrong;
  return prepare(comm, Operation::reduce_scatter_block, o, request);
}

Error Scan(Call& call, const void* sendbuf, void* recvbuf, Count count, Datatype& datatype, Op& op,
           Communicator& comm) {
  Operands o;
  if (Error wrong = scan_operands(call, sendbuf, recvbuf, count, datatype, op, comm, o)) return wrong;
  return run(comm, Operation::scan, o);
}

Error Iscan(Call& call, const void* sendbuf, void* recvbuf, Count count, Datatype& datatype, Op& op,
            Communicator& comm, Request*& request) {
  Operands o;
  if (Error wrong = scan_operands(call, sendbuf, recvbuf, count, datatype, op, comm, o)) return wrong;
  return begin(comm, Operation::scan, o, request);
}

Error Scan_init(Call& call, const void* sendbuf, void* recvbuf, Count count, Datatype& datatype, Op& op,
                Communicator& comm, Info*, Request*& request) {
  Operands o;
  if (Error wrong = scan_operands(call, sendbuf, recvbuf, count, datatype, op, comm, o)) return wrong;
  return prepare(comm, Operation::scan, o, request);
}

Error Exscan(Call& call, const void* sendbuf, void* recvbuf, Count count, Datatype& datatype, Op& op,
             Communicator& comm) {
  Operands o;
  if (Error wrong = scan_operands(call, sendbuf, recvbuf, count, datatype, op, comm, o)) return wrong;
  return run(comm, Operation::exscan, o);
}

Error Iexscan(Call& call, const void* sendbuf, void* recvbuf, Count count, Datatype& datatype, Op& op,
              Communicator& comm, Request*& request) {
  Operands o;
  if (Error wrong = scan_operands(call, sendbuf, recvbuf, count, datatype, op, comm, o)) return wrong;
  return begin(comm, Operation::exscan, o, request);
}

Error Exscan_init(Call& call, const void* sendbuf, void* recvbuf, Count count, Datatype& datatype, Op& op,
                  Communicator& comm, Info*, Request*& request) {
  Operands o;
  if (Error wrong = scan_operands(call, sendbuf, recvbuf, count, datatype, op, comm, o)) return wrong;
  return prepare(comm, Operation::exscan, o, request);
}
}  // namespace body
}  // namespace tern::capi
