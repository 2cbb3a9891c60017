// The out-of-line parts of bridge.h.
#include "fortran/bridge.h"

#include <algorithm>
#include <cstring>

namespace tern::fortran {

void put_string(const char* from, char* to, size_t length) {
  size_t n = std::min(std::strlen(from), length);
  std::memcpy(to, from, n);
  std::memset(to + n, ' ', length - n);
}

int peers(int comm_number) {
  MPI_Comm comm = from_int<MPI_Comm>(comm_number);
  int inter = 0, size = 0;
  if (PMPI_Comm_test_inter(comm, &inter) != MPI_SUCCESS) return 0;
  if (inter) {
    PMPI_Comm_remote_size(comm, &size);
  } else {
    PMPI_Comm_size(comm, &size);
  }
  return size;
}

namespace {

void neighbors(MPI_Comm comm, int& in, int& out) {
  int topology = MPI_UNDEFINED, n = 0, weighted = 0;
  in = out = 0;
  if (PMPI_Topo_test(comm, &topology) != MPI_SUCCESS) return;
  if (topology == MPI_CART) {
    PMPI_Cartdim_get(comm, &n);
    in = out = 2 * n;
  } else if (topology == MPI_GRAPH) {
    int rank = 0;
    PMPI_Comm_rank(comm, &rank);
    PMPI_Graph_neighbors_count(comm, rank, &n);
    in = out = n;
  } else if (topology == MPI_DIST_GRAPH) {
    PMPI_Dist_graph_neighbors_count(comm, &in, &out, &weighted);
  }
}

}  // namespace

int incoming(int comm) {
  int in, out;
  neighbors(from_int<MPI_Comm>(comm), in, out);
  return in;
}
int outgoing(int comm) {
  int in, out;
  neighbors(from_int<MPI_Comm>(comm), in, out);
  return out;
}

int64_t contained_types(int type) {
  MPI_Count integers = 0, addresses = 0, large = 0, types = 0;
  int combiner = MPI_COMBINER_NAMED;
  PMPI_Type_get_envelope_c(from_int<MPI_Datatype>(type), &integers, &addresses, &large, &types, &combiner);
  return types;
}

int report(MPI_Comm comm, int error) {
  PMPI_Comm_call_errhandler(comm, error);
  return error;
}
int report(MPI_Win win, int error) {
  PMPI_Win_call_errhandler(win, error);
  return error;
}
int report(MPI_File file, int error) {
  PMPI_File_call_errhandler(file, error);
  return error;
}
int report(MPI_Session session, int error) {
  PMPI_Session_call_errhandler(session, error);
  return error;
}

}  // namespace tern::fortran
