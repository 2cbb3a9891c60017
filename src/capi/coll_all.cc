// MPI_Allgather(v), MPI_Alltoall(v,w): blocking, nonblocking, persistent.
// Source: MPI 5.0 sections 6.7, 6.8, 6.12, 6.13. The send side's type is null with MPI_IN_PLACE.
#include "capi/coll_operands.h"
#include "impl.gen.h"

namespace tern::capi {
namespace {

Error allgather_operands(Call& call, const void* sendbuf, Count sendcount, Datatype* sendtype,
                         const Side& blocks, Communicator& comm, Operands& o) {
  o.receive = blocks;
  o.in_place = in_place(sendbuf);
  if (o.in_place) return {};
  o.send = uniform(sendbuf, sendcount, sendtype);
  if (!call.checking() || comm.is_inter()) return {};
  Block own = blocks.block(comm.rank());
  return own.bytes() != 0 && same_memory(own.data, sendbuf) ? aliased("sendbuf", "recvbuf") : Error();
}

Error alltoall_operands(Call& call, const Side& send, const Side& receive, Communicator& comm, Operands& o) {
  o.receive = receive;
  o.in_place = in_place(send.buffer);
  if (o.in_place) return {};
  o.send = send;
  if (!call.checking() || !same_memory(send.buffer, receive.buffer)) return {};
  // The same start is harmless when nothing is moved there.
  for (int i = 0; i < peer_count(comm); ++i) {
    Block out = send.block(i), in = receive.block(i);
    if (out.bytes() != 0 && in.bytes() != 0 && out.data == in.data) return aliased("sendbuf", "recvbuf");
  }
  return {};
}

struct WOperands {
  Operands operands;
  std::vector<const Datatype*> send_types, receive_types;
};

Error alltoallw_operands(Call& call, const void* sendbuf, const IntArray& sendcounts, const IntArray& sdispls,
                         const TypeArray& sendtypes, void* recvbuf, const IntArray& recvcounts,
                         const IntArray& rdispls, const TypeArray& recvtypes, Communicator& comm,
                         WOperands& w) {
  int n = peer_count(comm);
  w.receive_types = types_of(recvtypes, n);
  Side send = uniform(sendbuf, 0, nullptr);
  if (!in_place(sendbuf)) {
    w.send_types = types_of(sendtypes, n);
    send = general(sendbuf, sendcounts, sdispls, w.send_types);
  }
  return alltoall_operands(call, send, general(recvbuf, recvcounts, rdispls, w.receive_types), comm,
                           w.operands);
}

}  // namespace

namespace body {

Error Allgather(Call& call, const void* sendbuf, Count sendcount, Datatype* sendtype, void* recvbuf,
                Count recvcount, Datatype& recvtype, Communicator& comm) {
  Operands o;
  if (Error wrong = allgather_operands(call, sendbuf, sendcount, sendtype,
                                       uniform(recvbuf, recvcount, &recvtype), comm, o))
    return wrong;
  return run(comm, Operation::allgather, o);
}

Error Iallgather(Call& call, const void* sendbuf, Count sendcount, Datatype* sendtype, void* recvbuf,
                 Count recvcount, Datatype& recvtype, Communicator& comm, Request*& request) {
  Operands o;
  if (Error wrong = allgather_operands(call, sendbuf, sendcount, sendtype,
                                       uniform(recvbuf, recvcount, &recvtype), comm, o))
    return wrong;
  return begin(comm, Operation::allgather, o, request);
}

Error Allgather_init(Call& call, const void* sendbuf, Count sendcount, Datatype* sendtype, void* recvbuf,
                     Count recvcount, Datatype& recvtype, Communicator& comm, Info*, Request*& request) {
  Operands o;
  if (Error wrong = allgather_operands(call, sendbuf, sendcount, sendtype,
                                       uniform(recvbuf, recvcount, &recvtype), comm, o))
    return wrong;
  return prepare(comm, Operation::allgather, o, request);
}

Error Allgatherv(Call& call, const void* sendbuf, Count sendcount, Datatype* sendtype, void* recvbuf,
                 IntArray recvcounts, IntArray displs, Datatype& recvtype, Communicator& comm) {
  Operands o;
  if (Error wrong = allgather_operands(call, sendbuf, sendcount, sendtype,
                                       vector(recvbuf, recvcounts, displs, &recvtype), comm, o))
    return wrong;
  return run(comm, Operation::allgatherv, o);
}

Error Iallgatherv(Call& call, const void* sendbuf, Count sendcount, Datatype* sendtype, void* recvbuf,
                  IntArray recvcounts, IntArray displs, Datatype& recvtype, Communicator& comm,
                  Request*& request) {
  Operands o;
  if (Error wrong = allgather_operands(call, sendbuf, sendcount, sendtype,
                                       vector(recvbuf, recvcounts, displs, &recvtype), comm, o))
    return wrong;
  return begin(comm, Operation::allgatherv, o, request);
}

Error Allgatherv_init(Call& call, const void* sendbuf, Count sendcount, Datatype* sendtype, void* recvbuf,
                      IntArray recvcounts, IntArray displs, Datatype& recvtype, Communicator& comm, Info*,
                      Request*& request) {
  Operands o;
  if (Error wrong = allgather_operands(call, sendbuf, sendcount, sendtype,
                                       vector(recvbuf, recvcounts, displs, &recvtype), comm, o))
    return wrong;
  return prepare(comm, Operation::allgatherv, o, request);
}

Error Alltoall(Call& call, const void* sendbuf, Count sendcount, Datatype* sendtype, void* recvbuf,
               Count recvcount, Datatype& recvtype, Communicator& comm) {
  Operands o;
  if (Error wrong = alltoall_operands(call, uniform(sendbuf, sendcount, sendtype),
                                      uniform(recvbuf, recvcount, &recvtype), comm, o))
    return wrong;
  return run(comm, Operation::alltoall, o);
}

Error Ialltoall(Call& call, const void* sendbuf, Count sendcount, Datatype* sendtype, void* recvbuf,
                Count recvcount, Datatype& recvtype, Communicator& comm, Request*& request) {
  Operands o;
  if (Error wrong = alltoall_operands(call, uniform(sendbuf, sendcount, sendtype),
                                      uniform(recvbuf, recvcount, &recvtype), comm, o))
    return wrong;
  return begin(comm, Operation::alltoall, o, request);
}

Error Alltoall_init(Call& call, const void* sendbuf, Count sendcount, Datatype* sendtype, void* recvbuf,
                    Count recvcount, Datatype& recvtype, Communicator& comm, Info*, Request*& request) {
  Operands o;
  if (Error wrong = alltoall_operands(call, uniform(sendbuf, sendcount, sendtype),
                                      uniform(recvbuf, recvcount, &recvtype), comm, o))
    return wrong;
  return prepare(comm, Operation::alltoall, o, request);
}

Error Alltoallv(Call& call, const void* sendbuf, IntArray sendcounts, IntArray sdispls, Datatype* sendtype,
                void* recvbuf, IntArray recvcounts, IntArray rdispls, Datatype& recvtype,
                Communicator& comm) {
  Operands o;
  if (Error wrong = alltoall_operands(call, vector(sendbuf, sendcounts, sdispls, sendtype),
                                      vector(recvbuf, recvcounts, rdispls, &recvtype), comm, o))
    return wrong;
  return run(comm, Operation::alltoallv, o);
}

Error Ialltoallv(Call& call, const void* sendbuf, IntArray sendcounts, IntArray sdispls, Datatype* sendtype,
                 void* recvbuf, IntArray recvcounts, IntArray rdispls, Datatype& recvtype, Communicator& comm,
                 Request*& request) {
  Operands o;
  if (Error wrong = alltoall_operands(call, vector(sendbuf, sendcounts, sdispls, sendtype),
                                      vector(recvbuf, recvcounts, rdispls, &recvtype), comm, o))
    return wrong;
  return begin(comm, Operation::alltoallv, o, request);
}

Error Alltoallv_init(Call& call, const void* sendbuf, IntArray sendcounts, IntArray sdispls,
                     Datatype* sendtype, void* recvbuf, IntArray recvcounts, IntArray rdispls,
                     Datatype& recvtype, Communicator& comm, Info*, Request*& request) {
  Operands o;
  if (Error wrong = alltoall_operands(call, vector(sendbuf, sendcounts, sdispls, sendtype),
                                      vector(recvbuf, recvcounts, rdispls, &recvtype), comm, o))
    return wrong;
  return prepare(comm, Operation::alltoallv, o, request);
}

Error Alltoallw(Call& call, const void* sendbuf, IntArray sendcounts, IntArray sdispls, TypeArray sendtypes,
                void* recvbuf, IntArray recvcounts, IntArray rdispls, TypeArray recvtypes,
                Communicator& comm) {
  WOperands w;
  if (Error wrong = alltoallw_operands(call, sendbuf, sendcounts, sdispls, sendtypes, recvbuf, recvcounts,
                                       rdispls, recvtypes, comm, w))
    return wrong;
  return run(comm, Operation::alltoallw, w.operands);
}

Error Ialltoallw(Call& call, const void* sendbuf, IntArray sendcounts, IntArray sdispls, TypeArray sendtypes,
                 void* recvbuf, IntArray recvcounts, IntArray rdispls, TypeArray recvtypes,
                 Communicator& comm, Request*& request) {
  WOperands w;
  if (Error wrong = alltoallw_operands(call, sendbuf, sendcounts, sdispls, sendtypes, recvbuf, recvcounts,
                                       rdispls, recvtypes, comm, w))
    return wrong;
  return begin(comm, Operation::alltoallw, w.operands, request);
}

Error Alltoallw_init(Call& call, const void* sendbuf, IntArray sendcounts, IntArray sdispls,
                     TypeArray sendtypes, void* recvbuf, IntArray recvcounts, IntArray rdispls,
                     TypeArray recvtypes, Communicator& comm, Info*, Request*& request) {
  WOperands w;
  if (Error wrong = alltoallw_operands(call, sendbuf, sendcounts, sdispls, sendtypes, recvbuf, recvcounts,
                                       rdispls, recvtypes, comm, w))
    return wrong;
  return prepare(comm, Operation::alltoallw, w.operands, request);
}
}  // namespace body
}  // namespace tern::capi
