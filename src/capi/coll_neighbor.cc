// Neighbourhood collectives: blocking, nonblocking, persistent. Source: MPI 5.0 sections 8.6 to 8.8.
#include "capi/coll_operands.h"
#include "impl.gen.h"

namespace tern::capi {
namespace {

Error neighbor_operands(const Side& send, const Side& receive, Communicator& comm, Operands& o) {
  if (comm.is_inter()) return not_on_intercommunicator();
  if (!comm.topology) return no_topology();
  o.send = send;
  o.receive = receive;
  return {};
}

struct WOperands {
  Operands operands;
  std::vector<const Datatype*> send_types, receive_types;
};

Error neighbor_w_operands(const void* sendbuf, const IntArray& sendcounts, const IntArray& sdispls,
                          const TypeArray& sendtypes, void* recvbuf, const IntArray& recvcounts,
                          const IntArray& rdispls, const TypeArray& recvtypes, Communicator& comm,
                          WOperands& w) {
  w.send_types = types_of(sendtypes, outgoing(comm));
  w.receive_types = types_of(recvtypes, incoming(comm));
  return neighbor_operands(general(sendbuf, sendcounts, sdispls, w.send_types),
                           general(recvbuf, recvcounts, rdispls, w.receive_types), comm, w.operands);
}

}  // namespace

namespace body {

Error Neighbor_allgather(Call& call, const void* sendbuf, Count sendcount, Datatype& sendtype, void* recvbuf,
                         Count recvcount, Datatype& recvtype, Communicator& comm) {
  Operands o;
  if (Error wrong = neighbor_operands(uniform(sendbuf, sendcount, &sendtype),
                                      uniform(recvbuf, recvcount, &recvtype), comm, o))
    return wrong;
  return run(comm, Operation::neighbor_allgather, o);
}

Error Ineighbor_allgather(Call& call, const void* sendbuf, Count sendcount, Datatype& sendtype, void* recvbuf,
                          Count recvcount, Datatype& recvtype, Communicator& comm, Request*& request) {
  Operands o;
  if (Error wrong = neighbor_operands(uniform(sendbuf, sendcount, &sendtype),
                                      uniform(recvbuf, recvcount, &recvtype), comm, o))
    return wrong;
  return begin(comm, Operation::neighbor_allgather, o, request);
}

Error Neighbor_allgather_init(Call& call, const void* sendbuf, Count sendcount, Datatype& sendtype,
                              void* recvbuf, Count recvcount, Datatype& recvtype, Communicator& comm, Info*,
                              Request*& request) {
  Operands o;
  if (Error wrong = neighbor_operands(uniform(sendbuf, sendcount, &sendtype),
                                      uniform(recvbuf, recvcount, &recvtype), comm, o))
    return wrong;
  return prepare(comm, Operation::neighbor_allgather, o, request);
}

Error Neighbor_allgatherv(Call& call, const void* sendbuf, Count sendcount, Datatype& sendtype, void* recvbuf,
                          IntArray recvcounts, IntArray displs, Datatype& recvtype, Communicator& comm) {
  Operands o;
  if (Error wrong = neighbor_operands(uniform(sendbuf, sendcount, &sendtype),
                                      vector(recvbuf, recvcounts, displs, &recvtype), comm, o))
    return wrong;
  return run(comm, Operation::neighbor_allgatherv, o);
}

Error Ineighbor_allgatherv(Call& call, const void* sendbuf, Count sendcount, Datatype& sendtype,
                           void* recvbuf, IntArray recvcounts, IntArray displs, Datatype& recvtype,
                           Communicator& comm, Request*& request) {
  Operands o;
  if (Error wrong = neighbor_operands(uniform(sendbuf, sendcount, &sendtype),
                                      vector(recvbuf, recvcounts, displs, &recvtype), comm, o))
    return wrong;
  return begin(comm, Operation::neighbor_allgatherv, o, request);
}

Error Neighbor_allgatherv_init(Call& call, const void* sendbuf, Count sendcount, Datatype& sendtype,
                               void* recvbuf, IntArray recvcounts, IntArray displs, Datatype& recvtype,
                               Communicator& comm, Info*, Request*& request) {
  Operands o;
  if (Error wrong = neighbor_operands(uniform(sendbuf, sendcount, &sendtype),
                                      vector(recvbuf, recvcounts, displs, &recvtype), comm, o))
    return wrong;
  return prepare(comm, Operation::neighbor_allgatherv, o, request);
}

Error Neighbor_alltoall(Call& call, const void* sendbuf, Count sendcount, Datatype& sendtype, void* recvbuf,
                        Count recvcount, Datatype& recvtype, Communicator& comm) {
  Operands o;
  if (Error wrong = neighbor_operands(uniform(sendbuf, sendcount, &sendtype),
                                      uniform(recvbuf, recvcount, &recvtype), comm, o))
    return wrong;
  return run(comm, Operation::neighbor_alltoall, o);
}

Error Ineighbor_alltoall(Call& call, const void* sendbuf, Count sendcount, Datatype& sendtype, void* recvbuf,
                         Count recvcount, Datatype& recvtype, Communicator& comm, Request*& request) {
  Operands o;
  if (Error wrong = neighbor_operands(uniform(sendbuf, sendcount, &sendtype),
                                      uniform(recvbuf, recvcount, &recvtype), comm, o))
    return wrong;
  return begin(comm, Operation::neighbor_alltoall, o, request);
}

Error Neighbor_alltoall_init(Call& call, const void* sendbuf, Count sendcount, Datatype& sendtype,
                             void* recvbuf, Count recvcount, Datatype& recvtype, Communicator& comm, Info*,
                             Request*& request) {
  Operands o;
  if (Error wrong = neighbor_operands(uniform(sendbuf, sendcount, &sendtype),
                                      uniform(recvbuf, recvcount, &recvtype), comm, o))
    return wrong;
  return prepare(comm, Operation::neighbor_alltoall, o, request);
}

Error Neighbor_alltoallv(Call& call, const void* sendbuf, IntArray sendcounts, IntArray sdispls,
                         Datatype& sendtype, void* recvbuf, IntArray recvcounts, IntArray rdispls,
                         Datatype& recvtype, Communicator& comm) {
  Operands o;
  if (Error wrong = neighbor_operands(vector(sendbuf, sendcounts, sdispls, &sendtype),
                                      vector(recvbuf, recvcounts, rdispls, &recvtype), comm, o))
    return wrong;
  return run(comm, Operation::neighbor_alltoallv, o);
}

Error Ineighbor_alltoallv(Call& call, const void* sendbuf, IntArray sendcounts, IntArray sdispls,
                          Datatype& sendtype, void* recvbuf, IntArray recvcounts, IntArray rdispls,
                          Datatype& recvtype, Communicator& comm, Request*& request) {
  Operands o;
  if (Error wrong = neighbor_operands(vector(sendbuf, sendcounts, sdispls, &sendtype),
                                      vector(recvbuf, recvcounts, rdispls, &recvtype), comm, o))
    return wrong;
  return begin(comm, Operation::neighbor_alltoallv, o, request);
}

Error Neighbor_alltoallv_init(Call& call, const void* sendbuf, IntArray sendcounts, IntArray sdispls,
                              Datatype& sendtype, void* recvbuf, IntArray recvcounts, IntArray rdispls,
                              Datatype& recvtype, Communicator& comm, Info*, Request*& request) {
  Operands o;
  if (Error wrong = neighbor_operands(vector(sendbuf, sendcounts, sdispls, &sendtype),
                                      vector(recvbuf, recvcounts, rdispls, &recvtype), comm, o))
    return wrong;
  return prepare(comm, Operation::neighbor_alltoallv, o, request);
}

Error Neighbor_alltoallw(Call& call, const void* sendbuf, IntArray sendcounts, IntArray sdispls,
                         TypeArray sendtypes, void* recvbuf, IntArray recvcounts, IntArray rdispls,
                         TypeArray recvtypes, Communicator& comm) {
  WOperands w;
  if (Error wrong = neighbor_w_operands(sendbuf, sendcounts, sdispls, sendtypes, recvbuf, recvcounts, rdispls,
                                        recvtypes, comm, w))
    return wrong;
  return run(comm, Operation::neighbor_alltoallw, w.operands);
}

Error Ineighbor_alltoallw(Call& call, const void* sendbuf, IntArray sendcounts, IntArray sdispls,
                          TypeArray sendtypes, void* recvbuf, IntArray recvcounts, IntArray rdispls,
                          TypeArray recvtypes, Communicator& comm, Request*& request) {
  WOperands w;
  if (Error wrong = neighbor_w_operands(sendbuf, sendcounts, sdispls, sendtypes, recvbuf, recvcounts, rdispls,
                                        recvtypes, comm, w))
    return wrong;
  return begin(comm, Operation::neighbor_alltoallw, w.operands, request);
}

Error Neighbor_alltoallw_init(Call& call, const void* sendbuf, IntArray sendcounts, IntArray sdispls,
                              TypeArray sendtypes, void* recvbuf, IntArray recvcounts, IntArray rdispls,
                              TypeArray recvtypes, Communicator& comm, Info*, Request*& request) {
  WOperands w;
  if (Error wrong = neighbor_w_operands(sendbuf, sendcounts, sdispls, sendtypes, recvbuf, recvcounts, rdispls,
                                        recvtypes, comm, w))
    return wrong;
  return prepare(comm, Operation::neighbor_alltoallw, w.operands, request);
}
}  // namespace body
}  // namespace tern::capi
