// ranks: 2 3 4 8
/* Many small collectives in a row with changing roots, sizes and speeds: what goes through the node's shared memory
 * must neither overtake nor be overwritten; on several communicators that come and go. */
#include "check.h"

static unsigned seed = 1;
static int draw(int n) {
  seed = seed * 1103515245u + 12345u;
  return (int)((seed >> 8) % (unsigned)n);
}
static void last_wins(void *in, void *inout, int *n, MPI_Datatype *type) {
  /* Not commutative: keeps the right operand, and counts. */
  int *l = in, *r = inout;
  for (int i = 0; i < *n; i++) r[2 * i] += l[2 * i];
  (void)type;
}

int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  int rank, size;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  MPI_Datatype pair;
  MPI_Type_contiguous(2, MPI_INT, &pair);
  MPI_Type_commit(&pair);
  MPI_Op op;
  MPI_Op_create(last_wins, 0, &op);
  for (int round = 0; round < 6; round++) {
    MPI_Comm comm;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    for (int i = 0; i < 500; i++) {
      int what = draw(5), root = draw(size), n = draw(300), dawdler = draw(40 * size);
      long in[300], out[300];
      if (dawdler == rank)
        for (volatile int spin = 0; spin < 30000; spin++) {
        }
      for (int k = 0; k < n; k++) {
        in[k] = rank * 1000L + i + k;
        out[k] = -1;
      }
      long sum = 1000L * size * (size - 1) / 2;
      if (what == 0) {
        MPI_Barrier(comm);
      } else if (what == 1) {
        MPI_Bcast(in, n, MPI_LONG, root, comm);
        for (int k = 0; k < n; k++) CHECK(in[k] == root * 1000L + i + k);
      } else if (what == 2) {
        MPI_Reduce(in, out, n, MPI_LONG, MPI_SUM, root, comm);
        for (int k = 0; k < n; k++) CHECK(out[k] == (rank == root ? sum + (long)size * (i + k) : -1));
      } else if (what == 3) {
        for (int k = 0; k < n; k++) out[k] = in[k];
        MPI_Allreduce(MPI_IN_PLACE, out, n, MPI_LONG, MPI_SUM, comm);
        for (int k = 0; k < n; k++) CHECK(out[k] == sum + (long)size * (i + k));
      } else {
        int mine[2] = {1, rank}, all[2] = {0, 0};
        MPI_Allreduce(mine, all, 1, pair, op, comm);
        CHECK(all[0] == size && all[1] == size - 1);
      }
    }
    MPI_Comm_free(&comm);
  }
  MPI_Op_free(&op);
  MPI_Type_free(&pair);
  done();
  return 0;
}
