// MPI_Allgather(v), MPI_Alltoall(v,w): their operands.
// Source: MPI 5.0 sections 6.7, 6.8, 6.12, 6.13. The send side's type is null with MPI_IN_PLACE.
#include "capi/coll_operands.h"
#include "impl.gen.h"

namespace tern::capi {
namespace {

Error allgather_operands(Call& call, const void* sendbuf, Count sendcount, Datatype* sendtype, const Side& blocks,
                         Communicator& comm, Operands& o) {
  o.receive = blocks;
  o.in_place = in_place(sendbuf);
  if (o.in_place) return {};
  o.send = uniform(sendbuf, sendcount, sendtype);
  if (!call.checking() || comm.is_inter()) return {};
  Block own = blocks.block(comm.rank());
  if (own.bytes() != 0 && same_memory(own.data, sendbuf)) return aliased("sendbuf", "recvbuf");
  if (overlap(o.send, 1, blocks, comm.size())) return overlapping("sendbuf", "recvbuf");
  const size_t sent = o.send.block(0).bytes();
  return sent == own.bytes() ? Error() : own_block_differs(sent, own.bytes());
}

Error alltoall_operands(Call& call, const Side& send, const Side& receive, Communicator& comm, Operands& o) {
  o.receive = receive;
  o.in_place = in_place(send.buffer);
  if (o.in_place) return {};
  o.send = send;
  if (!call.checking()) return {};
  if (!comm.is_inter()) {
    const size_t sent = send.block(comm.rank()).bytes(), received = receive.block(comm.rank()).bytes();
    if (sent != received) return own_block_differs(sent, received);
  }
  if (!same_memory(send.buffer, receive.buffer)) {
    const int n = peer_count(comm);
    return overlap(send, n, receive, n) ? overlapping("sendbuf", "recvbuf") : Error();
  }
  // The same start is harmless when nothing is moved there.
  for (int i = 0; i < peer_count(comm); ++i) {
    Block out = send.block(i), in = receive.block(i);
    if (out.bytes() != 0 && in.bytes() != 0 && out.data == in.data) return aliased("sendbuf", "recvbuf");
  }
  return {};
}

}  // namespace

namespace operands {

Error Allgather(Call& call, const void* sendbuf, Count sendcount, Datatype* sendtype, void* recvbuf, Count recvcount,
                Datatype& recvtype, Communicator& comm, CallOperands& o) {
  return allgather_operands(call, sendbuf, sendcount, sendtype, uniform(recvbuf, recvcount, &recvtype), comm, o);
}

Error Allgatherv(Call& call, const void* sendbuf, Count sendcount, Datatype* sendtype, void* recvbuf,
                 IntArray recvcounts, IntArray displs, Datatype& recvtype, Communicator& comm, CallOperands& o) {
  return allgather_operands(call, sendbuf, sendcount, sendtype, vector(recvbuf, recvcounts, displs, &recvtype), comm,
                            o);
}

Error Alltoall(Call& call, const void* sendbuf, Count sendcount, Datatype* sendtype, void* recvbuf, Count recvcount,
               Datatype& recvtype, Communicator& comm, CallOperands& o) {
  return alltoall_operands(call, uniform(sendbuf, sendcount, sendtype), uniform(recvbuf, recvcount, &recvtype), comm,
                           o);
}

Error Alltoallv(Call& call, const void* sendbuf, IntArray sendcounts, IntArray sdispls, Datatype* sendtype,
                void* recvbuf, IntArray recvcounts, IntArray rdispls, Datatype& recvtype, Communicator& comm,
                CallOperands& o) {
  return alltoall_operands(call, vector(sendbuf, sendcounts, sdispls, sendtype),
                           vector(recvbuf, recvcounts, rdispls, &recvtype), comm, o);
}

Error Alltoallw(Call& call, const void* sendbuf, IntArray sendcounts, IntArray sdispls, TypeArray sendtypes,
                void* recvbuf, IntArray recvcounts, IntArray rdispls, TypeArray recvtypes, Communicator& comm,
                CallOperands& o) {
  const int n = peer_count(comm);
  o.receive_types = types_of(recvtypes, n);
  Side send = uniform(sendbuf, 0, nullptr);
  if (!in_place(sendbuf)) {
    o.send_types = types_of(sendtypes, n);
    send = general(sendbuf, sendcounts, sdispls, o.send_types);
  }
  return alltoall_operands(call, send, general(recvbuf, recvcounts, rdispls, o.receive_types), comm, o);
}

}  // namespace operands
}  // namespace tern::capi
