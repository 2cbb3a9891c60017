// MPI_Allgather(v), MPI_Alltoall(v,w): their operands.
// Source: MPI 5.0 sections 6.7, 6.8, 6.12, 6.13. The send side's type is null with MPI_IN_PLACE.
#include "capi/coll_operands.h"
#include "impl.gen.h"

namespace tern::capi {
namespace {

// o.receive is there.
Error allgather_operands(Call& call, const void* sendbuf, Count sendcount, Datatype* sendtype, Communicator& comm,
                         Operands& o) {
  o.in_place = in_place(sendbuf);
  if (o.in_place) return {};
  o.send = uniform(sendbuf, sendcount, sendtype);
  if (!call.checking() || comm.is_inter()) return {};
  return check_sides(o.send, 1, o.receive, comm.size(), comm.rank());
}

// Both sides are there.
Error check_alltoall(Call& call, Communicator& comm, const Operands& o) {
  if (o.in_place || !call.checking()) return {};
  const int n = peer_count(comm);
  return check_sides(o.send, n, o.receive, n, comm.is_inter() ? -1 : comm.rank());
}

}  // namespace

namespace operands {

Error Allgather(Call& call, const void* sendbuf, Count sendcount, Datatype* sendtype, void* recvbuf, Count recvcount,
                Datatype& recvtype, Communicator& comm, CallOperands& o) {
  o.receive = uniform(recvbuf, recvcount, &recvtype);
  return allgather_operands(call, sendbuf, sendcount, sendtype, comm, o);
}

Error Allgatherv(Call& call, const void* sendbuf, Count sendcount, Datatype* sendtype, void* recvbuf,
                 IntArray recvcounts, IntArray displs, Datatype& recvtype, Communicator& comm, CallOperands& o) {
  o.receive = vector(recvbuf, recvcounts, displs, &recvtype);
  return allgather_operands(call, sendbuf, sendcount, sendtype, comm, o);
}

Error Alltoall(Call& call, const void* sendbuf, Count sendcount, Datatype* sendtype, void* recvbuf, Count recvcount,
               Datatype& recvtype, Communicator& comm, CallOperands& o) {
  o.receive = uniform(recvbuf, recvcount, &recvtype);
  o.in_place = in_place(sendbuf);
  if (!o.in_place) o.send = uniform(sendbuf, sendcount, sendtype);
  return check_alltoall(call, comm, o);
}

Error Alltoallv(Call& call, const void* sendbuf, IntArray sendcounts, IntArray sdispls, Datatype* sendtype,
                void* recvbuf, IntArray recvcounts, IntArray rdispls, Datatype& recvtype, Communicator& comm,
                CallOperands& o) {
  o.receive = vector(recvbuf, recvcounts, rdispls, &recvtype);
  o.in_place = in_place(sendbuf);
  if (!o.in_place) o.send = vector(sendbuf, sendcounts, sdispls, sendtype);
  return check_alltoall(call, comm, o);
}

Error Alltoallw(Call& call, const void* sendbuf, IntArray sendcounts, IntArray sdispls, TypeArray sendtypes,
                void* recvbuf, IntArray recvcounts, IntArray rdispls, TypeArray recvtypes, Communicator& comm,
                CallOperands& o) {
  const int n = peer_count(comm);
  o.receive_types = types_of(recvtypes, n);
  o.receive = general(recvbuf, recvcounts, rdispls, o.receive_types);
  o.in_place = in_place(sendbuf);
  if (!o.in_place) {
    o.send_types = types_of(sendtypes, n);
    o.send = general(sendbuf, sendcounts, sdispls, o.send_types);
  }
  return check_alltoall(call, comm, o);
}

}  // namespace operands
}  // namespace tern::capi
