#include "comm/topology.h"

#include <string>

#include "base/assert.h"

namespace tern {

Cartesian::Cartesian(std::vector<int> dims, std::vector<bool> periods, int rank)
    : Topology(Kind::cartesian), dims_(std::move(dims)), periods_(std::move(periods)), coords_(dims_.size()) {
  TERN_ASSERT(dims_.size() == periods_.size());
  coords_of(rank, ndims(), coords_.data());
}

std::unique_ptr<Topology> Cartesian::clone() const { return std::make_unique<Cartesian>(*this); }

void Cartesian::coords_of(int rank, int count, int* out) const {
  for (int i = ndims() - 1; i >= 0; --i) {
    if (i < count) out[i] = rank % dims_[size_t(i)];
    rank /= dims_[size_t(i)];
  }
}

Error Cartesian::rank_of(const int* coords, int& rank) const {
  int64_t position = 0;
  for (size_t i = 0; i < dims_.size(); ++i) {
    int coordinate = coords[i];
    if (coordinate < 0 || coordinate >= dims_[i]) {
      if (!periods_[i])
        return Error(ErrorClass::arg, "coordinate " + std::to_string(coordinate) + " of dimension " +
                                          std::to_string(i) + " is not in 0.." + std::to_string(dims_[i] - 1) +
                                          ", and the dimension is not periodic");
      coordinate %= dims_[i];
      if (coordinate < 0) coordinate += dims_[i];
    }
    position = position * dims_[i] + coordinate;
  }
  rank = int(position);
  return {};
}

void Cartesian::shift(int rank, int dimension, int displacement, int& source, int& destination) const {
  size_t d = size_t(dimension);
  int64_t step = 1;  // between neighbours in this dimension
  for (size_t i = d + 1; i < dims_.size(); ++i) step *= dims_[i];
  int64_t extent = dims_[d];
  int64_t mine = rank / step % extent;
  auto at = [&](int64_t coordinate) {
    if (coordinate < 0 || coordinate >= extent) {
      if (!periods_[d]) return kProcNull;
      coordinate %= extent;
      if (coordinate < 0) coordinate += extent;
    }
    return int(rank + (coordinate - mine) * step);
  };
  source = at(mine - displacement);
  destination = at(mine + displacement);
}

void Cartesian::neighbors(int rank, std::vector<int>& in, std::vector<int>& out) const {
  in.resize(dims_.size() * 2);
  for (int d = 0; d < ndims(); ++d) shift(rank, d, 1, in[size_t(2 * d)], in[size_t(2 * d + 1)]);
  out = in;
}

Graph::Graph(std::vector<int> index, std::vector<int> edges)
    : Topology(Kind::graph), index_(std::move(index)), edges_(std::move(edges)) {}

std::unique_ptr<Topology> Graph::clone() const { return std::make_unique<Graph>(*this); }

std::span<const int> Graph::neighbors_of(int rank) const {
  int begin = rank == 0 ? 0 : index_[size_t(rank - 1)];
  return std::span<const int>(edges_).subspan(size_t(begin), size_t(index_[size_t(rank)] - begin));
}

void Graph::neighbors(int rank, std::vector<int>& in, std::vector<int>& out) const {
  std::span<const int> mine = neighbors_of(rank);
  in.assign(mine.begin(), mine.end());
  out = in;
}

DistributedGraph::DistributedGraph(Edges in, Edges out, bool weighted)
    : Topology(Kind::distributed_graph), in_(std::move(in)), out_(std::move(out)), weighted_(weighted) {
  TERN_ASSERT(!weighted_ || (in_.weights.size() == in_.ranks.size() && out_.weights.size() == out_.ranks.size()));
}

std::unique_ptr<Topology> DistributedGraph::clone() const { return std::make_unique<DistributedGraph>(*this); }

void DistributedGraph::neighbors(int, std::vector<int>& in, std::vector<int>& out) const {
  in = in_.ranks;
  out = out_.ranks;
}

}  // namespace tern
