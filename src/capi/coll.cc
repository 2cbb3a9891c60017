// MPI_Barrier, MPI_Bcast, MPI_Gather(v), MPI_Scatter(v): their operands.
// Source: MPI 5.0 sections 6.3 to 6.6, 6.12, 6.13. A type that is not significant at this process comes as
// null.
#include "capi/coll_operands.h"
#include "capi/leftovers.h"
#include "impl.gen.h"

namespace tern::capi {

Error aliased(const char* read, const char* written) {
  return Error(ErrorClass::buffer, "arguments '" + std::string(read) + "' and '" + written +
                                       "' are the same memory. Pass different buffers, or MPI_IN_PLACE.");
}

Error overlapping(const char* read, const char* written) {
  return Error(ErrorClass::buffer, "arguments '" + std::string(read) + "' and '" + written +
                                       "' overlap. Pass buffers that are apart, or MPI_IN_PLACE.");
}

Error own_block_differs(size_t sent, size_t received) {
  return Error(ErrorClass::count, "this rank sends " + std::to_string(sent) + " bytes to itself, but receives " +
                                      std::to_string(received) +
                                      " from itself. Count and datatype of the send must describe as much data as "
                                      "those of the receive.");
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

// The own block must not be where it is to be copied to (MPI 5.0, 6.5: use MPI_IN_PLACE).
bool own_block_aliased(const Call& call, const Side& whole, const void* own, const Communicator& comm) {
  if (!call.checking() || comm.is_inter() || !whole.type) return false;
  Block block = whole.block(comm.rank());
  return block.bytes() != 0 && same_memory(block.data, own);
}

Error compare_own(const Block& received, const Block& sent) {
  return sent.bytes() == received.bytes() ? Error() : own_block_differs(sent.bytes(), received.bytes());
}

// `blocks` is the root's receive side.
Error gather_operands(Call& call, const void* sendbuf, Count sendcount, Datatype* sendtype, const Side& blocks,
                      int root, Communicator& comm, Operands& o) {
  o.root = root;
  o.in_place = in_place(sendbuf) && blocks.type;
  if (!o.in_place) o.send = uniform(sendbuf, sendcount, sendtype);
  if (!blocks.type) return {};
  o.receive = blocks;
  if (o.in_place || !call.checking() || comm.is_inter()) return {};
  if (own_block_aliased(call, blocks, sendbuf, comm)) return aliased("sendbuf", "recvbuf");
  if (overlap(o.send, 1, blocks, comm.size())) return overlapping("sendbuf", "recvbuf");
  return compare_own(blocks.block(comm.rank()), o.send.block(0));
}

// `blocks` is the root's send side.
Error scatter_operands(Call& call, const Side& blocks, void* recvbuf, Count recvcount, Datatype* recvtype, int root,
                       Communicator& comm, Operands& o) {
  o.root = root;
  o.in_place = in_place(recvbuf) && blocks.type;
  if (!o.in_place) o.receive = uniform(recvbuf, recvcount, recvtype);
  if (!blocks.type) return {};
  o.send = blocks;
  if (o.in_place || !call.checking() || comm.is_inter()) return {};
  if (own_block_aliased(call, blocks, recvbuf, comm)) return aliased("sendbuf", "recvbuf");
  if (overlap(blocks, comm.size(), o.receive, 1)) return overlapping("sendbuf", "recvbuf");
  return compare_own(o.receive.block(0), blocks.block(comm.rank()));
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
  return gather_operands(call, sendbuf, sendcount, sendtype, uniform(recvbuf, recvcount, recvtype), root, comm, o);
}

Error Gatherv(Call& call, const void* sendbuf, Count sendcount, Datatype* sendtype, void* recvbuf, IntArray recvcounts,
              IntArray displs, Datatype* recvtype, int root, Communicator& comm, CallOperands& o) {
  return gather_operands(call, sendbuf, sendcount, sendtype, vector(recvbuf, recvcounts, displs, recvtype), root, comm,
                         o);
}

Error Scatter(Call& call, const void* sendbuf, Count sendcount, Datatype* sendtype, void* recvbuf, Count recvcount,
              Datatype* recvtype, int root, Communicator& comm, CallOperands& o) {
  return scatter_operands(call, uniform(sendbuf, sendcount, sendtype), recvbuf, recvcount, recvtype, root, comm, o);
}

Error Scatterv(Call& call, const void* sendbuf, IntArray sendcounts, IntArray displs, Datatype* sendtype, void* recvbuf,
               Count recvcount, Datatype* recvtype, int root, Communicator& comm, CallOperands& o) {
  return scatter_operands(call, vector(sendbuf, sendcounts, displs, sendtype), recvbuf, recvcount, recvtype, root, comm,
                          o);
}

}  // namespace operands
}  // namespace tern::capi
