// ranks: 1 2 4 8
/* Graph and distributed graph topologies. */
#include "check.h"

static int rank, size;

/* Everybody is a neighbour of the next, twice, and of rank 0, once. */
static void test_graph(void) {
  int *index = malloc((size_t)size * sizeof *index), *edges = malloc((size_t)size * 3 * sizeof *edges);
  int nodes, count, status, found[3], mapped;
  MPI_Comm graph, part;
  for (int i = 0; i < size; i++) {
    index[i] = 3 * (i + 1);
    edges[3 * i] = edges[3 * i + 1] = (i + 1) % size;
    edges[3 * i + 2] = 0;
  }
  MPI_Graph_create(MPI_COMM_WORLD, size, index, edges, 1, &graph);
  MPI_Topo_test(graph, &status);
  CHECK(status == MPI_GRAPH);
  MPI_Graphdims_get(graph, &nodes, &count);
  CHECK(nodes == size && count == 3 * size);
  for (int i = 0; i < size; i++) {
    MPI_Graph_neighbors_count(graph, i, &count);
    CHECK(count == 3);
    MPI_Graph_neighbors(graph, i, 3, found);
    CHECK(found[0] == (i + 1) % size && found[1] == found[0] && found[2] == 0);
    found[1] = -1;
    MPI_Graph_neighbors(graph, i, 1, found);
    CHECK(found[1] == -1);
  }
  int *got_index = calloc((size_t)size, sizeof *index), *got_edges = calloc((size_t)size * 3, sizeof *edges);
  MPI_Graph_get(graph, size, 3 * size, got_index, got_edges);
  CHECK(memcmp(index, got_index, (size_t)size * sizeof *index) == 0);
  CHECK(memcmp(edges, got_edges, (size_t)size * 3 * sizeof *edges) == 0);
  MPI_Comm_free(&graph);
  /* The first process alone, and nobody. */
  int one = 1, self = 0;
  MPI_Graph_map(MPI_COMM_WORLD, 1, &one, &self, &mapped);
  CHECK(mapped == (rank == 0 ? 0 : MPI_UNDEFINED));
  MPI_Graph_create(MPI_COMM_WORLD, 1, &one, &self, 0, &part);
  CHECK((part == MPI_COMM_NULL) == (rank != 0));
  if (part != MPI_COMM_NULL) MPI_Comm_free(&part);
  MPI_Graph_create(MPI_COMM_WORLD, 0, NULL, NULL, 0, &part);
  CHECK(part == MPI_COMM_NULL);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  edges[0] = size;
  CHECK(MPI_Graph_create(MPI_COMM_WORLD, size, index, edges, 0, &part) == MPI_ERR_ARG);
  CHECK(MPI_Graph_create(MPI_COMM_WORLD, size + 1, index, edges, 0, &part) == MPI_ERR_ARG);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
  free(index);
  free(edges);
  free(got_index);
  free(got_edges);
}

/* Edges i -> (i + 1) and i -> (i + 2), mod size, with weight 10 i + step. */
static void check_dist(MPI_Comm graph, int weighted) {
  int in, out, flag, sources[2], destinations[2], source_weights[2] = {-1, -1}, weights[2] = {-1, -1}, status;
  MPI_Topo_test(graph, &status);
  CHECK(status == MPI_DIST_GRAPH);
  MPI_Dist_graph_neighbors_count(graph, &in, &out, &flag);
  CHECK(in == 2 && out == 2 && !flag == !weighted);
  MPI_Dist_graph_neighbors(graph, 2, sources, source_weights, 2, destinations, weights);
  int sum = 0, seen[2] = {0, 0};
  for (int i = 0; i < 2; i++) {
    for (int step = 1; step <= 2; step++) {
      int to = (rank + step) % size, from = (rank - step + 2 * size) % size;
      if (destinations[i] == to && (!weighted || weights[i] == 10 * rank + step)) sum |= step;
      if (sources[i] == from && (!weighted || source_weights[i] == 10 * from + step)) seen[step - 1] = 1;
    }
  }
  CHECK(sum == 3 && seen[0] && seen[1]);
  if (!weighted) CHECK(weights[0] == -1 && source_weights[1] == -1);
}

static void test_dist(void) {
  MPI_Comm graph, dup;
  /* Each gives its own edges. */
  int me = rank, degree = 2, to[2] = {(rank + 1) % size, (rank + 2) % size};
  int weights[2] = {10 * rank + 1, 10 * rank + 2};
  MPI_Dist_graph_create(MPI_COMM_WORLD, 1, &me, &degree, to, weights, MPI_INFO_NULL, 0, &graph);
  check_dist(graph, 1);
  MPI_Comm_dup(graph, &dup);
  MPI_Comm_free(&graph);
  check_dist(dup, 1);
  MPI_Comm_free(&dup);
  MPI_Dist_graph_create(MPI_COMM_WORLD, 1, &me, &degree, to, MPI_UNWEIGHTED, MPI_INFO_NULL, 1, &graph);
  check_dist(graph, 0);
  MPI_Comm_free(&graph);
  /* The last rank gives all of them; the others say nothing. */
  int n = rank == size - 1 ? size : 0;
  int *sources = malloc((size_t)size * sizeof *sources), *degrees = malloc((size_t)size * sizeof *degrees);
  int *ends = malloc((size_t)size * 2 * sizeof *ends), *all = malloc((size_t)size * 2 * sizeof *all);
  for (int i = 0; i < size; i++) {
    sources[i] = i;
    degrees[i] = 2;
    for (int step = 1; step <= 2; step++) {
      ends[2 * i + step - 1] = (i + step) % size;
      all[2 * i + step - 1] = 10 * i + step;
    }
  }
  MPI_Dist_graph_create(MPI_COMM_WORLD, n, sources, degrees, ends, n ? all : MPI_WEIGHTS_EMPTY, MPI_INFO_NULL, 0,
                        &graph);
  check_dist(graph, 1);
  MPI_Comm_free(&graph);
  /* Adjacent: both ends known; the order is kept. */
  int from[2] = {(rank - 2 + 2 * size) % size, (rank - 1 + size) % size};
  int from_weights[2] = {10 * from[0] + 2, 10 * from[1] + 1}, in[2], out[2];
  MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 2, from, from_weights, 2, to, weights, MPI_INFO_NULL, 0, &graph);
  check_dist(graph, 1);
  MPI_Dist_graph_neighbors(graph, 2, in, MPI_UNWEIGHTED, 2, out, MPI_UNWEIGHTED);
  CHECK(in[0] == from[0] && in[1] == from[1] && out[0] == to[0] && out[1] == to[1]);
  MPI_Comm_free(&graph);
  /* Nobody knows anybody, with and without weights. */
  int flag, in_count, out_count;
  MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 0, NULL, MPI_WEIGHTS_EMPTY, 0, NULL, MPI_WEIGHTS_EMPTY, MPI_INFO_NULL,
                                 0, &graph);
  MPI_Dist_graph_neighbors_count(graph, &in_count, &out_count, &flag);
  CHECK(in_count == 0 && out_count == 0 && flag);
  MPI_Comm_free(&graph);
  MPI_Dist_graph_create(MPI_COMM_WORLD, 0, NULL, NULL, NULL, MPI_UNWEIGHTED, MPI_INFO_NULL, 0, &graph);
  MPI_Dist_graph_neighbors_count(graph, &in_count, &out_count, &flag);
  CHECK(in_count == 0 && out_count == 0 && !flag);
  MPI_Comm_free(&graph);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  to[0] = size;
  CHECK(MPI_Dist_graph_create(MPI_COMM_WORLD, 1, &me, &degree, to, weights, MPI_INFO_NULL, 0, &graph) == MPI_ERR_RANK);
  to[0] = 0;
  weights[1] = -1;
  CHECK(MPI_Dist_graph_create(MPI_COMM_WORLD, 1, &me, &degree, to, weights, MPI_INFO_NULL, 0, &graph) == MPI_ERR_ARG);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
  free(sources);
  free(degrees);
  free(ends);
  free(all);
}

int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  test_graph();
  test_dist();
  done();
  return 0;
}
