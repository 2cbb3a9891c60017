// ranks: 2 3 4 8
/* Collectives between two groups, and along the edges of topologies. */
#include "check.h"

static int rank, size;

static void between_groups(void) {
  int low = rank < (size + 1) / 2, me, mine, theirs;
  MPI_Comm half, inter;
  MPI_Comm_split(MPI_COMM_WORLD, low, rank, &half);
  MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, low ? (size + 1) / 2 : 0, 7, &inter);
  MPI_Comm_rank(inter, &me);
  MPI_Comm_size(inter, &mine);
  MPI_Comm_remote_size(inter, &theirs);
  int first = low ? (size + 1) / 2 : 0; /* world rank of the other group's first */
  int root = !low ? 0 : me == 0 ? MPI_ROOT : MPI_PROC_NULL, value = low && me == 0 ? 42 : 0, all[64], out[64];
  MPI_Barrier(inter);
  MPI_Bcast(&value, 1, MPI_INT, root, inter);
  if (!low) CHECK(value == 42);
  MPI_Allgather(&rank, 1, MPI_INT, all, 1, MPI_INT, inter);
  for (int i = 0; i < theirs; i++) CHECK(all[i] == first + i);
  int sum = -1, want = 0;
  for (int i = 0; i < theirs; i++) want += first + i;
  MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, inter);
  CHECK(sum == want);
  sum = -1;
  MPI_Reduce(&rank, &sum, 1, MPI_INT, MPI_SUM, root, inter);
  CHECK(sum == (root == MPI_ROOT ? want : -1));
  for (int i = 0; i < theirs; i++) out[i] = rank * 100 + first + i;
  MPI_Alltoall(out, 1, MPI_INT, all, 1, MPI_INT, inter);
  for (int i = 0; i < theirs; i++) CHECK(all[i] == (first + i) * 100 + rank);
  MPI_Gather(&rank, 1, MPI_INT, all, 1, MPI_INT, root, inter);
  if (root == MPI_ROOT)
    for (int i = 0; i < theirs; i++) CHECK(all[i] == first + i);
  MPI_Scatter(out, 1, MPI_INT, &value, 1, MPI_INT, root, inter);
  if (!low) CHECK(value == rank);
  for (int i = 0; i < mine * theirs; i++) out[i] = rank * 100 + i;
  MPI_Request q;
  MPI_Ireduce_scatter_block(out, all, theirs, MPI_INT, MPI_SUM, inter, &q);
  MPI_Wait(&q, MPI_STATUS_IGNORE);
  for (int i = 0; i < theirs; i++) CHECK(all[i] == want * 100 + theirs * (me * theirs + i));
  MPI_Comm_free(&inter);
  MPI_Comm_free(&half);
}

/* A ring, periodic: with two processes both neighbours are the same one, and direction decides. */
static void ring(void) {
  int dims = size, periods = 1, left, right;
  MPI_Comm cart;
  MPI_Cart_create(MPI_COMM_WORLD, 1, &dims, &periods, 0, &cart);
  MPI_Cart_shift(cart, 0, 1, &left, &right);
  int out[2] = {rank * 10 + 1, rank * 10 + 2}, in[2] = {-1, -1};
  MPI_Neighbor_alltoall(out, 1, MPI_INT, in, 1, MPI_INT, cart);
  CHECK(in[0] == left * 10 + 2 && in[1] == right * 10 + 1);
  MPI_Neighbor_allgather(&rank, 1, MPI_INT, in, 1, MPI_INT, cart);
  CHECK(in[0] == left && in[1] == right);
  int counts[2] = {1, 1}, displs[2] = {1, 0};
  MPI_Request q;
  MPI_Ineighbor_alltoallv(out, counts, displs, MPI_INT, in, counts, displs, MPI_INT, cart, &q);
  MPI_Wait(&q, MPI_STATUS_IGNORE);
  CHECK(in[1] == left * 10 + 1 && in[0] == right * 10 + 2);
  MPI_Aint bytes[2] = {0, sizeof(int)};
  MPI_Datatype types[2] = {MPI_INT, MPI_INT};
  MPI_Neighbor_alltoallw_init(out, counts, bytes, types, in, counts, bytes, types, cart, MPI_INFO_NULL, &q);
  for (int round = 0; round < 3; round++) {
    out[0] += 1000;
    in[1] = 0;
    MPI_Start(&q);
    MPI_Wait(&q, MPI_STATUS_IGNORE);
    CHECK(in[1] == right * 10 + 1 + 1000 * (round + 1));
  }
  MPI_Request_free(&q);
  MPI_Comm_free(&cart);
}

/* A line: the ends have a neighbour less, whose block is not touched. */
static void line(void) {
  int dims = size, periods = 0;
  MPI_Comm cart;
  MPI_Cart_create(MPI_COMM_WORLD, 1, &dims, &periods, 0, &cart);
  int in[2] = {-5, -5};
  MPI_Neighbor_allgather(&rank, 1, MPI_INT, in, 1, MPI_INT, cart);
  CHECK(in[0] == (rank > 0 ? rank - 1 : -5) && in[1] == (rank + 1 < size ? rank + 1 : -5));
  MPI_Comm_free(&cart);
}

/* Everyone tells rank + 1 twice and rank + 2 once. */
static void graph(void) {
  int out[3] = {(rank + 1) % size, (rank + 1) % size, (rank + 2) % size};
  int in[3] = {(rank - 1 + size) % size, (rank - 2 + size) % size, (rank - 1 + size) % size};
  MPI_Comm dist;
  MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 3, in, MPI_UNWEIGHTED, 3, out, MPI_UNWEIGHTED, MPI_INFO_NULL, 0,
                                 &dist);
  int data[3] = {rank * 10, rank * 10 + 1, rank * 10 + 2}, got[3] = {-1, -1, -1};
  MPI_Neighbor_alltoall(data, 1, MPI_INT, got, 1, MPI_INT, dist);
  if (size > 2) {
    CHECK(got[0] == in[0] * 10 && got[2] == in[2] * 10 + 1 && got[1] == in[1] * 10 + 2);
  }
  MPI_Comm_free(&dist);
}

int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  between_groups();
  ring();
  line();
  graph();
  /* Errors come back, and the communicator works on. */
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  int a = 1, b = 0;
  CHECK(MPI_Allreduce(&a, &a, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD) == MPI_ERR_BUFFER);
  CHECK(MPI_Neighbor_allgather(&a, 1, MPI_INT, &b, 1, MPI_INT, MPI_COMM_WORLD) == MPI_ERR_TOPOLOGY);
  CHECK(MPI_Bcast(&a, 1, MPI_INT, size, MPI_COMM_WORLD) == MPI_ERR_ROOT);
  CHECK(MPI_Allreduce(&a, &b, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD) == MPI_SUCCESS && b == size);
  done();
  return 0;
}
