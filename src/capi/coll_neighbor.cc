// The operands of neighbourhood collectives. Source: MPI 5.0 sections 8.6 to 8.8.
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

}  // namespace

namespace operands {

Error Neighbor_allgather(Call& call, const void* sendbuf, Count sendcount, Datatype& sendtype, void* recvbuf,
                         Count recvcount, Datatype& recvtype, Communicator& comm, CallOperands& o) {
  return neighbor_operands(uniform(sendbuf, sendcount, &sendtype), uniform(recvbuf, recvcount, &recvtype), comm, o);
}

Error Neighbor_allgatherv(Call& call, const void* sendbuf, Count sendcount, Datatype& sendtype, void* recvbuf,
                          IntArray recvcounts, IntArray displs, Datatype& recvtype, Communicator& comm,
                          CallOperands& o) {
  return neighbor_operands(uniform(sendbuf, sendcount, &sendtype), vector(recvbuf, recvcounts, displs, &recvtype), comm,
                           o);
}

Error Neighbor_alltoall(Call& call, const void* sendbuf, Count sendcount, Datatype& sendtype, void* recvbuf,
                        Count recvcount, Datatype& recvtype, Communicator& comm, CallOperands& o) {
  return neighbor_operands(uniform(sendbuf, sendcount, &sendtype), uniform(recvbuf, recvcount, &recvtype), comm, o);
}

Error Neighbor_alltoallv(Call& call, const void* sendbuf, IntArray sendcounts, IntArray sdispls, Datatype& sendtype,
                         void* recvbuf, IntArray recvcounts, IntArray rdispls, Datatype& recvtype, Communicator& comm,
                         CallOperands& o) {
  return neighbor_operands(vector(sendbuf, sendcounts, sdispls, &sendtype),
                           vector(recvbuf, recvcounts, rdispls, &recvtype), comm, o);
}

Error Neighbor_alltoallw(Call& call, const void* sendbuf, IntArray sendcounts, IntArray sdispls, TypeArray sendtypes,
                         void* recvbuf, IntArray recvcounts, IntArray rdispls, TypeArray recvtypes, Communicator& comm,
                         CallOperands& o) {
  o.send_types = types_of(sendtypes, outgoing(comm));
  o.receive_types = types_of(recvtypes, incoming(comm));
  return neighbor_operands(general(sendbuf, sendcounts, sdispls, o.send_types),
                           general(recvbuf, recvcounts, rdispls, o.receive_types), comm, o);
}

}  // namespace operands
}  // namespace tern::capi
