// Distributed graph topologies (MPI 5.0, 8.5.4 and 8.5.5).
#include <algorithm>

#include "capi/comm_common.h"
#include "capi/topology.h"
#include "impl.gen.h"

namespace tern::capi::body {

namespace {

Error check_nodes(const Communicator& comm, int n, const int* nodes, const char* name) {
  if (Error error = check_array(n, nodes, name)) return error;
  for (int i = 0; i < n; ++i)
    if (nodes[i] < 0 || nodes[i] >= comm.size())
      return Error(ErrorClass::rank, "argument '" + std::string(name) + "'[" + std::to_string(i) + "] is " +
                                         std::to_string(nodes[i]) + ", but the communicator has ranks 0.." +
                                         std::to_string(comm.size() - 1) + ". Pass a rank in range.");
  return {};
}

Error check_length(int n, const char* name) {
  if (n >= 0) return {};
  return Error(ErrorClass::arg, "argument '" + std::string(name) + "' is " + std::to_string(n) + ". Pass 0 or more.");
}

/// Weights of `n` edges; not for MPI_UNWEIGHTED.
Error check_weights(int n, const int* weights, const char* name) {
  if (n == 0) return {};
  if (weights == MPI_WEIGHTS_EMPTY)
    return Error(ErrorClass::arg, "argument '" + std::string(name) + "' is MPI_WEIGHTS_EMPTY, but there are edges");
  if (Error error = check_array(n, weights, name)) return error;
  for (int i = 0; i < n; ++i)
    if (weights[i] < 0)
      return Error(ErrorClass::arg, "argument '" + std::string(name) + "'[" + std::to_string(i) + "] is " +
                                        std::to_string(weights[i]) + ". A weight is 0 or more.");
  return {};
}

DistributedGraph::Edges edges_from(int n, const int* ranks, const int* weights, bool weighted) {
  DistributedGraph::Edges edges;
  edges.ranks.assign(ranks, ranks + n);
  if (weighted && n > 0) edges.weights.assign(weights, weights + n);
  return edges;
}

/// The new communicator: all members in the same order, and the topology.
Error create_with(Call& call, Communicator& comm, std::unique_ptr<Topology> topology, Communicator*& result) {
  Ref<Communicator> fresh;
  if (Error error = create::create(maker_of(call), comm, comm.group(), fresh)) return error;
  fresh->topology = std::move(topology);
  result = hand_out(comm, fresh);
  return {};
}

Error find(const Communicator& comm, const DistributedGraph*& graph) {
  if (!comm.topology || comm.topology->kind() != Topology::Kind::distributed_graph)
    return no_topology(comm, "distributed graph");
  graph = static_cast<const DistributedGraph*>(comm.topology.get());
  return {};
}

/// An edge as it travels to one of its ends: which end, the other end, the weight.
enum End : uint64_t { kIncoming, kOutgoing };
constexpr size_t kEdgeWords = 3;  // End, the other end, weight

}  // namespace

Error Dist_graph_create_adjacent(Call& call, Communicator& comm_old, int indegree, const int* sources,
                                 const int* sourceweights, int outdegree, const int* destinations,
                                 const int* destweights, Info* info, bool reorder, Communicator*& comm_dist_graph) {
  if (Error error = intra_only(comm_old)) return error;
  if (Error error = check_length(indegree, "indegree")) return error;
  if (Error error = check_length(outdegree, "outdegree")) return error;
  if (Error error = check_nodes(comm_old, indegree, sources, "sources")) return error;
  if (Error error = check_nodes(comm_old, outdegree, destinations, "destinations")) return error;
  // Where there are no edges any array will do: the side that has some tells.
  bool in_weighted = sourceweights != MPI_UNWEIGHTED, out_weighted = destweights != MPI_UNWEIGHTED;
  if (indegree > 0 && outdegree > 0 && in_weighted != out_weighted)
    return Error(ErrorClass::arg,
                 "one of 'sourceweights' and 'destweights' is MPI_UNWEIGHTED. Pass it for both or for none.");
  bool weighted = indegree > 0 ? in_weighted : outdegree > 0 ? out_weighted : in_weighted && out_weighted;
  if (weighted) {
    if (Error error = check_weights(indegree, sourceweights, "sourceweights")) return error;
    if (Error error = check_weights(outdegree, destweights, "destweights")) return error;
  }
  auto graph = std::make_unique<DistributedGraph>(edges_from(indegree, sources, sourceweights, weighted),
                                                  edges_from(outdegree, destinations, destweights, weighted), weighted);
  return create_with(call, comm_old, std::move(graph), comm_dist_graph);
}

// Each edge travels to both of its ends. Rows are read in the order of the ranks that gave them, and within a
// row as given, at both ends: so the i-th edge from a to b is the same edge at a and at b.
Error Dist_graph_create(Call& call, Communicator& comm_old, int n, const int* sources, const int* degrees,
                        const int* destinations, const int* weights, Info* info, bool reorder,
                        Communicator*& comm_dist_graph) {
  if (Error error = intra_only(comm_old)) return error;
  if (Error error = check_length(n, "n")) return error;
  if (Error error = check_nodes(comm_old, n, sources, "sources")) return error;
  if (Error error = check_array(n, degrees, "degrees")) return error;
  int edge_count = 0;
  for (int i = 0; i < n; ++i) {
    if (Error error = check_length(degrees[i], "degrees")) return error;
    edge_count += degrees[i];
  }
  if (Error error = check_nodes(comm_old, edge_count, destinations, "destinations")) return error;
  bool weighted = weights != MPI_UNWEIGHTED;
  if (weighted)
    if (Error error = check_weights(edge_count, weights, "weights")) return error;

  std::vector<create::Words> outgoing(size_t(comm_old.size())), incoming;
  auto tell = [&](int whom, End end, int other, int weight) {
    for (uint64_t word : {uint64_t(end), uint64_t(other), uint64_t(weight)}) outgoing[size_t(whom)].push_back(word);
  };
  int edge = 0;
  for (int i = 0; i < n; ++i) {
    for (int end = edge + degrees[i]; edge < end; ++edge) {
      int weight = weighted ? weights[edge] : 0;
      tell(sources[i], kOutgoing, destinations[edge], weight);
      tell(destinations[edge], kIncoming, sources[i], weight);
    }
  }
  if (Error error = create::exchange_all(maker_of(call), comm_old, outgoing, incoming)) return error;
  DistributedGraph::Edges in, out;
  for (const create::Words& row : incoming) {
    for (size_t at = 0; at + kEdgeWords <= row.size(); at += kEdgeWords) {
      DistributedGraph::Edges& edges = row[at] == kIncoming ? in : out;
      edges.ranks.push_back(int(row[at + 1]));
      if (weighted) edges.weights.push_back(int(row[at + 2]));
    }
  }
  return create_with(call, comm_old, std::make_unique<DistributedGraph>(std::move(in), std::move(out), weighted),
                     comm_dist_graph);
}

Error Dist_graph_neighbors_count(Call& call, Communicator& comm, int& indegree, int& outdegree, int& weighted) {
  const DistributedGraph* graph = nullptr;
  if (Error error = find(comm, graph)) return error;
  indegree = int(graph->in().ranks.size());
  outdegree = int(graph->out().ranks.size());
  weighted = graph->weighted();
  return {};
}

Error Dist_graph_neighbors(Call& call, Communicator& comm, int maxindegree, int* sources, int* sourceweights,
                           int maxoutdegree, int* destinations, int* destweights) {
  const DistributedGraph* graph = nullptr;
  if (Error error = find(comm, graph)) return error;
  auto give = [&](const DistributedGraph::Edges& edges, int most, int* ranks, int* weights, const char* name) -> Error {
    int count = std::min(most, int(edges.ranks.size()));
    if (Error error = check_array(count, ranks, name)) return error;
    bool wanted = graph->weighted() && weights && weights != MPI_UNWEIGHTED && weights != MPI_WEIGHTS_EMPTY;
    for (int i = 0; i < count; ++i) {
      ranks[i] = edges.ranks[size_t(i)];
      if (wanted) weights[i] = edges.weights[size_t(i)];
    }
    return {};
  };
  if (Error error = give(graph->in(), maxindegree, sources, sourceweights, "sources")) return error;
  return give(graph->out(), maxoutdegree, destinations, destweights, "destinations");
}

}  // namespace tern::capi::body
