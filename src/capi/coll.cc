// MPI_Barrier, MPI_Bcast, MPI_Gather(v), MPI_Scatter(v): their operands.
// Source: MPI 5.0 sections 6.3 to 6.6, 6.12, 6.13. A type that is not significant at this process comes as null.
#include "capi/coll_operands.h"

#include <fmt/format.h>

#include "capi/leftovers.h"
#include "impl.gen.h"

namespace tern::capi {

Error aliased(const char* read, const char* written) {
  return Error(ErrorClass::buffer, "arguments '" + std::string(read) + "' and '" + written +
                                       "' are the same memory. Pass different buffers, or MPI_IN_PLACE.");
}

bool overlap(const Side& one, int a, const Side& other, int b) {
  const auto plain = [](const Side& side, int blocks) {
    return side.shape == Side::Shape::uniform && side.type && side.type->is_contiguous() && side.buffer &&
           side.stride() * blocks != 0;
  };
  return plain(one, a) && plain(other, b) && may_overlap(one, a, other, b);
}

Error overlapping(const char* read, const char* written) {
  return Error(ErrorClass::buffer, "arguments '" + std::string(read) + "' and '" + written +
                                       "' overlap. Pass buffers that are apart, or MPI_IN_PLACE.");
}

Error check_buffers(const Side& send, int sends, const Side& receive, int receives, int rank) {
  const auto sent = [&](int i) { return send.block(sends == 1 ? 0 : i); };
  const auto received = [&](int i) { return receive.block(receives == 1 ? 0 : i); };
  const auto same = [&](int i) {
    const Block out = sent(i), in = received(i);
    return out.bytes() != 0 && in.bytes() != 0 && same_memory(out.data, in.data);
  };
  // Of as many blocks on both sides the same start is harmless when nothing is moved there.
  const bool pairs = sends == receives, compared = !pairs || same_memory(send.buffer, receive.buffer);
  for (int i = pairs ? 0 : rank; compared && i < (pairs ? sends : rank + 1); ++i)
    if (same(i)) return aliased("sendbuf", "recvbuf");
  if (overlap(send, sends, receive, receives)) return overlapping("sendbuf", "recvbuf");
  if (rank < 0 || sent(rank).bytes() == received(rank).bytes()) return {};
  return Error(ErrorClass::count, fmt::format("this rank sends {} bytes to itself, but receives {} from itself. Count "
                                              "and datatype of the send must describe as much data as those of the "
                                              "receive.",
                                              sent(rank).bytes(), received(rank).bytes()));
}

Error run_among_threads(Call& call, Communicator& comm, Operation operation, const Operands& operands) {
  const InCollective inside(call.world(), comm);
  Request* none = nullptr;
  return collective(comm, operation, operands, Mode::blocking, none);
}

Error not_on_intercommunicator() {
  return Error(ErrorClass::comm, "argument 'comm' is an intercommunicator, on which this operation does not exist");
}

Error no_topology() {
  return Error(ErrorClass::topology,
               "argument 'comm' has no topology, so there are no neighbours. Pass a communicator made by "
               "MPI_Cart_create, "
               "MPI_Graph_create or MPI_Dist_graph_create");
}

namespace {

// o.receive: the root's.
Error gather_operands(Call& call, const void* sendbuf, Count sendcount, Datatype* sendtype, int root,
                      Communicator& comm, Operands& o) {
  o.root = root;
  o.in_place = in_place(sendbuf) && o.receive.type;
  if (o.in_place) return {};
  o.send = uniform(sendbuf, sendcount, sendtype);
  if (!o.receive.type || !call.checking() || comm.is_inter()) return {};
  return check_sides(o.send, 1, o.receive, comm.size(), comm.rank());
}

// o.send: the root's.
Error scatter_operands(Call& call, void* recvbuf, Count recvcount, Datatype* recvtype, int root, Communicator& comm,
                       Operands& o) {
  o.root = root;
  o.in_place = in_place(recvbuf) && o.send.type;
  if (o.in_place) return {};
  o.receive = uniform(recvbuf, recvcount, recvtype);
  if (!o.send.type || !call.checking() || comm.is_inter()) return {};
  return check_sides(o.send, comm.size(), o.receive, 1, comm.rank());
}

}  // namespace

namespace operands {

Error Barrier(Call& call, Communicator& comm, CallOperands& o) { return {}; }

Error Bcast(Call& call, void* buffer, Count count, Datatype* datatype, int root, Communicator& comm, CallOperands& o) {
  o.receive = uniform(buffer, count, datatype);
  o.root = root;
  return {};
}

Error Gather(Call& call, const void* sendbuf, Count sendcount, Datatype* sendtype, void* recvbuf, Count recvcount,
             Datatype* recvtype, int root, Communicator& comm, CallOperands& o) {
  o.receive = uniform(recvbuf, recvcount, recvtype);
  return gather_operands(call, sendbuf, sendcount, sendtype, root, comm, o);
}

Error Gatherv(Call& call, const void* sendbuf, Count sendcount, Datatype* sendtype, void* recvbuf, IntArray recvcounts,
              IntArray displs, Datatype* recvtype, int root, Communicator& comm, CallOperands& o) {
  o.receive = vector(recvbuf, recvcounts, displs, recvtype);
  return gather_operands(call, sendbuf, sendcount, sendtype, root, comm, o);
}

Error Scatter(Call& call, const void* sendbuf, Count sendcount, Datatype* sendtype, void* recvbuf, Count recvcount,
              Datatype* recvtype, int root, Communicator& comm, CallOperands& o) {
  o.send = uniform(sendbuf, sendcount, sendtype);
  return scatter_operands(call, recvbuf, recvcount, recvtype, root, comm, o);
}

Error Scatterv(Call& call, const void* sendbuf, IntArray sendcounts, IntArray displs, Datatype* sendtype, void* recvbuf,
               Count recvcount, Datatype* recvtype, int root, Communicator& comm, CallOperands& o) {
  o.send = vector(sendbuf, sendcounts, displs, sendtype);
  return scatter_operands(call, recvbuf, recvcount, recvtype, root, comm, o);
}

}  // namespace operands
}  // namespace tern::capi
