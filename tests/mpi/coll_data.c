// ranks: 1 2 3 4 8
/* Moving data: every operation, contiguous and strided, in place, the variants with counts for each, the three ways to
 * call, large-count variants, many outstanding at once. */
#include "check.h"

static int rank, size;
enum { BLOCKING, NONBLOCKING, PERSISTENT };
#define CALL(name, small, ...)                           \
  do {                                                   \
    MPI_Request q;                                       \
    if (mode == BLOCKING) MPI_##name(__VA_ARGS__);       \
    else if (mode == NONBLOCKING) {                      \
      MPI_I##small(__VA_ARGS__, &q);                     \
      MPI_Wait(&q, MPI_STATUS_IGNORE);                   \
    } else {                                             \
      MPI_##name##_init(__VA_ARGS__, MPI_INFO_NULL, &q); \
      MPI_Start(&q);                                     \
      MPI_Wait(&q, MPI_STATUS_IGNORE);                   \
      MPI_Request_free(&q);                              \
    }                                                    \
  } while (0)

static void uniform(int n, int mode) {
  const size_t all = (size_t)n * (unsigned)size;
  char *one = malloc((size_t)n + 1), *many = malloc(all + 1), *back = malloc(all + 1);
  for (int root = 0; root<size; root += size> 4 ? 3 : 1) {
    fill(one, rank == root ? 5 : 6, n);
    CALL(Bcast, bcast, one, n, MPI_BYTE, root, MPI_COMM_WORLD);
    CHECK(holds(one, 5, n));
    fill(one, 100 + rank, n);
    memset(many, 0, all);
    CALL(Gather, gather, one, n, MPI_BYTE, many, n, MPI_BYTE, root, MPI_COMM_WORLD);
    if (rank == root)
      for (int i = 0; i < size; i++) CHECK(holds(many + (long)i * n, 100 + i, n));
    if (rank == root) {
      memset(many, 0, all);
      fill(many + (long)rank * n, 100 + rank, n);
      CALL(Gather, gather, MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, many, n, MPI_BYTE, root, MPI_COMM_WORLD);
      for (int i = 0; i < size; i++) CHECK(holds(many + (long)i * n, 100 + i, n));
    } else {
      CALL(Gather, gather, one, n, MPI_BYTE, NULL, 0, MPI_DATATYPE_NULL, root, MPI_COMM_WORLD);
    }
    if (rank == root)
      for (int i = 0; i < size; i++) fill(many + (long)i * n, 300 + i, n);
    CALL(Scatter, scatter, many, n, MPI_BYTE, one, n, MPI_BYTE, root, MPI_COMM_WORLD);
    CHECK(holds(one, 300 + rank, n));
  }
  fill(one, 100 + rank, n);
  CALL(Allgather, allgather, one, n, MPI_BYTE, many, n, MPI_BYTE, MPI_COMM_WORLD);
  for (int i = 0; i < size; i++) CHECK(holds(many + (long)i * n, 100 + i, n));
  memset(many, 0, all);
  fill(many + (long)rank * n, 100 + rank, n);
  CALL(Allgather, allgather, MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, many, n, MPI_BYTE, MPI_COMM_WORLD);
  for (int i = 0; i < size; i++) CHECK(holds(many + (long)i * n, 100 + i, n));
  for (int i = 0; i < size; i++) fill(many + (long)i * n, 1000 * rank + i, n);
  CALL(Alltoall, alltoall, many, n, MPI_BYTE, back, n, MPI_BYTE, MPI_COMM_WORLD);
  for (int i = 0; i < size; i++) CHECK(holds(back + (long)i * n, 1000 * i + rank, n));
  CALL(Alltoall, alltoall, MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, many, n, MPI_BYTE, MPI_COMM_WORLD);
  for (int i = 0; i < size; i++) CHECK(holds(many + (long)i * n, 1000 * i + rank, n));
  free(one);
  free(many);
  free(back);
}

/* Rank i has i + 1 units for everybody; blocks lie in reverse order with a gap of one byte. */
static void various(int unit, int mode) {
  int counts[64], displs[64], mine[64], my_displs[64], bytes[64], my_bytes[64], at = 0, my_at = 0;
  MPI_Datatype types[64];
  for (int i = size - 1; i >= 0; i--) {
    types[i] = MPI_BYTE;
    counts[i] = (i + 1) * unit;
    displs[i] = bytes[i] = at;
    at += counts[i] + 1;
    mine[i] = (rank + 1) * unit;
    my_displs[i] = my_bytes[i] = my_at;
    my_at += mine[i] + 1;
  }
  char *one = malloc((size_t)at + 1), *all = malloc((size_t)at + 1), *out = malloc((size_t)my_at + 1);
  int n = mine[0], root = size / 2;
  fill(one, 10 + rank, n);
#define ALL_HOLD()                                      \
  do {                                                  \
    for (int i = 0; i < size; i++) {                    \
      CHECK(holds(all + displs[i], 10 + i, counts[i])); \
      CHECK(all[displs[i] + counts[i]] == 99);          \
    }                                                   \
  } while (0)
  memset(all, 99, (size_t)at + 1);
  CALL(Allgatherv, allgatherv, one, n, MPI_BYTE, all, counts, displs, MPI_BYTE, MPI_COMM_WORLD);
  ALL_HOLD();
  memset(all, 99, (size_t)at + 1);
  CALL(Gatherv, gatherv, one, n, MPI_BYTE, all, counts, displs, MPI_BYTE, root, MPI_COMM_WORLD);
  if (rank == root) ALL_HOLD();
  for (int i = 0; i < size; i++) fill(all + displs[i], 50 + i, counts[i]);
  CALL(Scatterv, scatterv, all, counts, displs, MPI_BYTE, one, n, MPI_BYTE, root, MPI_COMM_WORLD);
  CHECK(holds(one, 50 + rank, n));
  for (int i = 0; i < size; i++) fill(out + my_displs[i], 1000 * rank + i, mine[i]);
  for (int w = 0; w < 2; w++) {
    memset(all, 99, (size_t)at + 1);
    if (w) CALL(Alltoallw, alltoallw, out, mine, my_bytes, types, all, counts, bytes, types, MPI_COMM_WORLD);
    else CALL(Alltoallv, alltoallv, out, mine, my_displs, MPI_BYTE, all, counts, displs, MPI_BYTE, MPI_COMM_WORLD);
    for (int i = 0; i < size; i++) {
      CHECK(holds(all + displs[i], 1000 * i + rank, counts[i]));
      CHECK(all[displs[i] + counts[i]] == 99);
    }
  }
  free(one);
  free(all);
  free(out);
}

/* Columns of a matrix go out, rows come in: a transposition. */
static void strided(void) {
  enum { SIDE = 40 };
  int *in = malloc(sizeof(int) * SIDE * (size_t)size), *out = malloc(sizeof(int) * SIDE * (size_t)size);
  MPI_Datatype column, packed;
  MPI_Type_vector(SIDE, 1, size, MPI_INT, &column);
  MPI_Type_create_resized(column, 0, sizeof(int), &packed);
  MPI_Type_commit(&packed);
  for (int r = 0; r < SIDE; r++)
    for (int c = 0; c < size; c++) in[r * size + c] = rank * 100000 + c * 1000 + r;
  MPI_Alltoall(in, 1, packed, out, SIDE, MPI_INT, MPI_COMM_WORLD);
  for (int c = 0; c < size; c++)
    for (int r = 0; r < SIDE; r++) CHECK(out[c * SIDE + r] == c * 100000 + rank * 1000 + r);
  MPI_Bcast_c(in, (MPI_Count)size, packed, 0, MPI_COMM_WORLD);
  for (int r = 0; r < SIDE; r++)
    for (int c = 0; c < size; c++) CHECK(in[r * size + c] == c * 1000 + r);
  MPI_Type_free(&column);
  MPI_Type_free(&packed);
  free(in);
  free(out);
}

static void outstanding(void) {
  enum { MANY = 60 };
  MPI_Request q[MANY];
  int in[MANY], out[MANY][64];
  for (int i = 0; i < MANY; i++) {
    in[i] = rank * 1000 + i;
    if (i % 3 == 0) MPI_Iallgather(&in[i], 1, MPI_INT, out[i], 1, MPI_INT, MPI_COMM_WORLD, &q[i]);
    else if (i % 3 == 1) MPI_Iallreduce(&in[i], out[i], 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &q[i]);
    else MPI_Ibarrier(MPI_COMM_WORLD, &q[i]);
  }
  int sum = 0;
  MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  CHECK(sum == size * (size - 1) / 2);
  MPI_Waitall(MANY, q, MPI_STATUSES_IGNORE);
  for (int i = 0; i < MANY; i++) {
    if (i % 3 == 0)
      for (int r = 0; r < size; r++) CHECK(out[i][r] == r * 1000 + i);
    if (i % 3 == 1) CHECK(out[i][0] == 1000 * sum + i * size);
  }
}

int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  static const int lengths[] = {0, 1, 8, 300, 3000, 20000, 150000};
  for (int mode = BLOCKING; mode <= PERSISTENT; mode++) {
    for (int i = 0; i < 7; i++) uniform(lengths[i], mode);
    various(1, mode);
    various(1234, mode);
  }
  char *large = malloc(3000000);
  fill(large, rank == 0 ? 1 : 2, 3000000);
  MPI_Bcast(large, 3000000, MPI_CHAR, 0, MPI_COMM_WORLD);
  CHECK(holds(large, 1, 3000000));
  free(large);
  strided();
  outstanding();
  done();
  return 0;
}
