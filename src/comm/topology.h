// Topologies: the neighbours of each rank in a communicator. Source: MPI 5.0 chapter 8.
// Arithmetic only: no messages, no handles. Ranks are those of the communicator that carries the topology.
// Thread rule: immutable after construction.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "base/error.h"
#include "base/types.h"

namespace tern {

class Topology {
 public:
  /// Values of MPI_GRAPH, MPI_CART, MPI_DIST_GRAPH are the C API's to translate.
  enum class Kind : uint8_t { cartesian, graph, distributed_graph };

  explicit Topology(Kind kind) : kind_(kind) {}
  virtual ~Topology() = default;
  Kind kind() const { return kind_; }
  virtual std::unique_ptr<Topology> clone() const = 0;

  /// The neighbours of `rank` (this process's own rank for a distributed graph, which knows no other) in the
  /// order of the neighbourhood collectives (8.6): `in` are the sources of incoming blocks, `out` the targets
  /// of outgoing ones. Cartesian: for each dimension the neighbour at -1, then the one at +1, kProcNull past
  /// an open end; `in` == `out`.
  ///   Where both are the same rank (a periodic dimension of 1 or 2), the block sent to out[2d] arrives as
  ///   the block from in[2d + 1] there and the other way round: match by direction, not by order.
  /// Graph: the neighbours as given, repeated where given repeatedly; `in` == `out`.
  /// Distributed graph: sources and destinations; of several edges between one pair, the i-th out is the i-th
  /// in.
  virtual void neighbors(int rank, std::vector<int>& in, std::vector<int>& out) const = 0;

 private:
  Kind kind_;
};

class Cartesian final : public Topology {
 public:
  /// `dims` positive; an empty list is the point (one rank, no neighbours). `rank` is this process's.
  Cartesian(std::vector<int> dims, std::vector<bool> periods, int rank);

  std::unique_ptr<Topology> clone() const override;
  void neighbors(int rank, std::vector<int>& in, std::vector<int>& out) const override;

  int ndims() const { return int(dims_.size()); }
  const std::vector<int>& dims() const { return dims_; }
  const std::vector<bool>& periods() const { return periods_; }
  const std::vector<int>& coords() const { return coords_; }
  /// Row-major (8.2): the last dimension varies fastest. `out` has at least `count` places; only these are
  /// written.
  void coords_of(int rank, int count, int* out) const;
  /// Periodic coordinates wrap. Error: out of range in a dimension that is not periodic.
  Error rank_of(const int* coords, int& rank) const;
  /// MPI_Cart_shift for `rank`.
  void shift(int rank, int dimension, int displacement, int& source, int& destination) const;

 private:
  std::vector<int> dims_;
  std::vector<bool> periods_;
  std::vector<int> coords_;
};

class Graph final : public Topology {
 public:
  /// As MPI_Graph_create: index[i] is the end of node i's neighbours in `edges`.
  Graph(std::vector<int> index, std::vector<int> edges);

  std::unique_ptr<Topology> clone() const override;
  void neighbors(int rank, std::vector<int>& in, std::vector<int>& out) const override;

  const std::vector<int>& index() const { return index_; }
  const std::vector<int>& edges() const { return edges_; }
  std::span<const int> neighbors_of(int rank) const;

 private:
  std::vector<int> index_, edges_;
};

class DistributedGraph final : public Topology {
 public:
  struct Edges {
    std::vector<int> ranks;
    std::vector<int> weights;  ///< as long as `ranks`; empty when unweighted
  };
  /// `weighted` also with no edges at all (MPI_WEIGHTS_EMPTY).
  DistributedGraph(Edges in, Edges out, bool weighted);

  std::unique_ptr<Topology> clone() const override;
  void neighbors(int rank, std::vector<int>& in, std::vector<int>& out) const override;

  const Edges& in() const { return in_; }
  const Edges& out() const { return out_; }
  bool weighted() const { return weighted_; }

 private:
  Edges in_, out_;
  bool weighted_;
};

/// MPI_Dims_create: fills the zero entries of `dims` so that their product with the others is `nodes`, as
/// equal as can be, in nonincreasing order. Error (MPI_ERR_DIMS): a negative entry, or `nodes` not a multiple
/// of the given ones.
Error dims_create(int nodes, std::span<int> dims);

}  // namespace tern
