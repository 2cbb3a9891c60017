// Virtual topologies: cartesian and graph (MPI 5.0, 8.5); distributed graphs are in topology_dist.cc,
// neighbourhood collectives with the other collectives. `reorder` is permission only: ranks keep their order,
// which our launcher and the others give out node by node.
#include <algorithm>

#include "capi/comm_common.h"
#include "capi/topology.h"
#include "impl.gen.h"

namespace tern::capi {

Error no_topology(const Communicator& comm, const char* kind) {
  return Error(ErrorClass::topology, "argument 'comm' (" + describe(comm) + ") has no " + kind + " topology");
}

Error check_array(int n, const void* array, const char* name) {
  if (n <= 0 || array) return {};
  return Error(ErrorClass::arg, "argument '" + std::string(name) + "' is a null pointer. Pass an array.");
}

namespace body {

namespace {

Error find(const Communicator& comm, const Cartesian*& cartesian) {
  if (!comm.topology || comm.topology->kind() != Topology::Kind::cartesian) return no_topology(comm, "cartesian");
  cartesian = static_cast<const Cartesian*>(comm.topology.get());
  return {};
}

Error find(const Communicator& comm, const Graph*& graph) {
  if (!comm.topology || comm.topology->kind() != Topology::Kind::graph) return no_topology(comm, "graph");
  graph = static_cast<const Graph*>(comm.topology.get());
  return {};
}

Error check_rank(const Communicator& comm, int rank) {
  if (rank >= 0 && rank < comm.size()) return {};
  return Error(ErrorClass::rank, "argument 'rank' is " + std::to_string(rank) + ", but the communicator has ranks 0.." +
                                     std::to_string(comm.size() - 1) + ". Pass a rank in range.");
}

/// How many processes the grid takes.
Error grid_size(const Communicator& comm, int ndims, const int* dims, const int* periods, int& size) {
  if (Error error = intra_only(comm)) return error;
  if (ndims < 0) return Error(ErrorClass::dims, "argument 'ndims' is " + std::to_string(ndims) + ". Pass 0 or more.");
  if (Error error = check_array(ndims, dims, "dims")) return error;
  if (Error error = check_array(ndims, periods, "periods")) return error;
  int64_t product = 1;
  for (int i = 0; i < ndims; ++i) {
    if (dims[i] <= 0)
      return Error(ErrorClass::dims, "argument 'dims'[" + std::to_string(i) + "] is " + std::to_string(dims[i]) +
                                         ". A dimension is 1 or more (MPI_Dims_create chooses).");
    product *= dims[i];
    if (product > comm.size())
      return Error(ErrorClass::dims, "the grid has more places than the communicator has processes (" +
                                         std::to_string(comm.size()) + ")");
  }
  size = int(product);
  return {};
}

Error check_graph(const Communicator& comm, int nnodes, const int* index, const int* edges) {
  if (Error error = intra_only(comm)) return error;
  if (nnodes < 0 || nnodes > comm.size())
    return Error(ErrorClass::arg, "argument 'nnodes' is " + std::to_string(nnodes) +
                                      ". Pass 0 to the communicator's size (" + std::to_string(comm.size()) + ").");
  if (Error error = check_array(nnodes, index, "index")) return error;
  for (int i = 0; i < nnodes; ++i)
    if (index[i] < (i == 0 ? 0 : index[i - 1]))
      return Error(ErrorClass::arg, "argument 'index'[" + std::to_string(i) + "] is " + std::to_string(index[i]) +
                                        ", less than the one before. Pass running totals of neighbours.");
  int edge_count = nnodes == 0 ? 0 : index[nnodes - 1];
  if (Error error = check_array(edge_count, edges, "edges")) return error;
  for (int i = 0; i < edge_count; ++i)
    if (edges[i] < 0 || edges[i] >= nnodes)
      return Error(ErrorClass::arg, "argument 'edges'[" + std::to_string(i) + "] is " + std::to_string(edges[i]) +
                                        ", but nodes are 0.." + std::to_string(nnodes - 1));
  return {};
}

/// A communicator of the first `size` members; null for the others.
Error create_first(Call& call, Communicator& comm, int size, Ref<Communicator>& fresh) {
  Ref<Group> members;
  Group::Range first{0, size - 1, 1};
  if (size == 0) members = Group::empty(comm.group().me());
  else if (Error error = comm.group().include_ranges({&first, 1}, members)) return error;
  return create::create(maker_of(call), comm, *members, fresh);
}

template <typename From>
void copy_first(const From& from, int most, int* to) {
  for (int i = 0; i < most && i < int(from.size()); ++i) to[i] = from[size_t(i)];
}

}  // namespace

Error Topo_test(Call& call, Communicator& comm, int& status) {
  status = MPI_UNDEFINED;
  if (!comm.topology) return {};
  switch (comm.topology->kind()) {
    case Topology::Kind::cartesian: status = MPI_CART; break;
    case Topology::Kind::graph: status = MPI_GRAPH; break;
    case Topology::Kind::distributed_graph: status = MPI_DIST_GRAPH; break;
  }
  return {};
}

Error Dims_create(Call& call, int nnodes, int ndims, int* dims) {
  if (ndims < 0) return Error(ErrorClass::dims, "argument 'ndims' is " + std::to_string(ndims) + ". Pass 0 or more.");
  if (Error error = check_array(ndims, dims, "dims")) return error;
  return dims_create(nnodes, {dims, size_t(ndims)});
}

Error Cart_create(Call& call, Communicator& comm_old, int ndims, const int* dims, const int* periods, bool reorder,
                  Communicator*& comm_cart) {
  int size = 0;
  if (Error error = grid_size(comm_old, ndims, dims, periods, size)) return error;
  Ref<Communicator> fresh;
  if (Error error = create_first(call, comm_old, size, fresh)) return error;
  if (fresh)
    fresh->topology = std::make_unique<Cartesian>(std::vector<int>(dims, dims + ndims),
                                                  std::vector<bool>(periods, periods + ndims), fresh->rank());
  comm_cart = hand_out(comm_old, fresh);
  return {};
}

Error Cart_map(Call& call, Communicator& comm, int ndims, const int* dims, const int* periods, int& newrank) {
  int size = 0;
  if (Error error = grid_size(comm, ndims, dims, periods, size)) return error;
  newrank = comm.rank() < size ? comm.rank() : MPI_UNDEFINED;
  return {};
}

Error Cartdim_get(Call& call, Communicator& comm, int& ndims) {
  const Cartesian* cartesian = nullptr;
  if (Error error = find(comm, cartesian)) return error;
  ndims = cartesian->ndims();
  return {};
}

Error Cart_get(Call& call, Communicator& comm, int maxdims, int* dims, int* periods, int* coords) {
  const Cartesian* cartesian = nullptr;
  if (Error error = find(comm, cartesian)) return error;
  int count = std::min(maxdims, cartesian->ndims());
  if (Error error = check_array(count, dims, "dims")) return error;
  if (Error error = check_array(count, periods, "periods")) return error;
  if (Error error = check_array(count, coords, "coords")) return error;
  copy_first(cartesian->dims(), count, dims);
  copy_first(cartesian->periods(), count, periods);
  copy_first(cartesian->coords(), count, coords);
  return {};
}

Error Cart_rank(Call& call, Communicator& comm, const int* coords, int& rank) {
  const Cartesian* cartesian = nullptr;
  if (Error error = find(comm, cartesian)) return error;
  if (Error error = check_array(cartesian->ndims(), coords, "coords")) return error;
  return cartesian->rank_of(coords, rank);
}

Error Cart_coords(Call& call, Communicator& comm, int rank, int maxdims, int* coords) {
  const Cartesian* cartesian = nullptr;
  if (Error error = find(comm, cartesian)) return error;
  if (Error error = check_rank(comm, rank)) return error;
  int count = std::min(maxdims, cartesian->ndims());
  if (Error error = check_array(count, coords, "coords")) return error;
  cartesian->coords_of(rank, count, coords);
  return {};
}

Error Cart_shift(Call& call, Communicator& comm, int direction, int disp, int& rank_source, int& rank_dest) {
  const Cartesian* cartesian = nullptr;
  if (Error error = find(comm, cartesian)) return error;
  if (direction < 0 || direction >= cartesian->ndims())
    return Error(ErrorClass::arg, "argument 'direction' is " + std::to_string(direction) + ", but the topology has " +
                                      std::to_string(cartesian->ndims()) + " dimensions, counted from 0");
  cartesian->shift(comm.rank(), direction, disp, rank_source, rank_dest);
  return {};
}

// Every rank can compute which ranks share its fixed coordinates: no exchange of colours is needed.
Error Cart_sub(Call& call, Communicator& comm, const int* remain_dims, Communicator*& newcomm) {
  const Cartesian* cartesian = nullptr;
  if (Error error = find(comm, cartesian)) return error;
  if (Error error = check_array(cartesian->ndims(), remain_dims, "remain_dims")) return error;
  std::vector<int> dims, coords(cartesian->dims().size());
  std::vector<bool> periods;
  for (size_t i = 0; i < coords.size(); ++i) {
    if (!remain_dims[i]) continue;
    dims.push_back(cartesian->dims()[i]);
    periods.push_back(cartesian->periods()[i]);
  }
  std::vector<PeerId> members;
  for (int rank = 0; rank < comm.size(); ++rank) {
    cartesian->coords_of(rank, cartesian->ndims(), coords.data());
    bool mine = true;
    for (size_t i = 0; i < coords.size(); ++i) mine = mine && (remain_dims[i] || coords[i] == cartesian->coords()[i]);
    if (mine) members.push_back(comm.group().peer(rank));
  }
  Ref<Group> group = Group::of(comm.group().me(), std::move(members));
  Ref<Communicator> fresh;
  if (Error error = create::create(maker_of(call), comm, *group, fresh)) return error;
  fresh->topology = std::make_unique<Cartesian>(std::move(dims), std::move(periods), fresh->rank());
  newcomm = hand_out(comm, fresh);
  return {};
}

Error Graph_create(Call& call, Communicator& comm_old, int nnodes, const int* index, const int* edges, bool reorder,
                   Communicator*& comm_graph) {
  if (Error error = check_graph(comm_old, nnodes, index, edges)) return error;
  Ref<Communicator> fresh;
  if (Error error = create_first(call, comm_old, nnodes, fresh)) return error;
  if (fresh)
    fresh->topology = std::make_unique<Graph>(std::vector<int>(index, index + nnodes),
                                              std::vector<int>(edges, edges + index[nnodes - 1]));
  comm_graph = hand_out(comm_old, fresh);
  return {};
}

Error Graph_map(Call& call, Communicator& comm, int nnodes, const int* index, const int* edges, int& newrank) {
  if (Error error = check_graph(comm, nnodes, index, edges)) return error;
  newrank = comm.rank() < nnodes ? comm.rank() : MPI_UNDEFINED;
  return {};
}

Error Graphdims_get(Call& call, Communicator& comm, int& nnodes, int& nedges) {
  const Graph* graph = nullptr;
  if (Error error = find(comm, graph)) return error;
  nnodes = int(graph->index().size());
  nedges = int(graph->edges().size());
  return {};
}

Error Graph_get(Call& call, Communicator& comm, int maxindex, int maxedges, int* index, int* edges) {
  const Graph* graph = nullptr;
  if (Error error = find(comm, graph)) return error;
  if (Error error = check_array(maxindex, index, "index")) return error;
  if (Error error = check_array(maxedges, edges, "edges")) return error;
  copy_first(graph->index(), maxindex, index);
  copy_first(graph->edges(), maxedges, edges);
  return {};
}

Error Graph_neighbors_count(Call& call, Communicator& comm, int rank, int& nneighbors) {
  const Graph* graph = nullptr;
  if (Error error = find(comm, graph)) return error;
  if (Error error = check_rank(comm, rank)) return error;
  nneighbors = int(graph->neighbors_of(rank).size());
  return {};
}

Error Graph_neighbors(Call& call, Communicator& comm, int rank, int maxneighbors, int* neighbors) {
  const Graph* graph = nullptr;
  if (Error error = find(comm, graph)) return error;
  if (Error error = check_rank(comm, rank)) return error;
  if (Error error = check_array(maxneighbors, neighbors, "neighbors")) return error;
  copy_first(graph->neighbors_of(rank), maxneighbors, neighbors);
  return {};
}

}  // namespace body
}  // namespace tern::capi
