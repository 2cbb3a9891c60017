// ranks: 1 2 3 4 8
/* Reductions: every operation against a loop, sizes across the algorithms' thresholds, in place, an operator that does
 * not commute, value-index pairs, zero counts, the three ways to call. */
#include "check.h"

static int rank, size;

/* x -> a x + b over unsigned integers: composition is associative, not commutative. */
typedef struct {
  unsigned a, b;
} affine;
static void compose(void *in, void *inout, int *n, MPI_Datatype *type) {
  affine *l = in, *r = inout;
  for (int i = 0; i < *n; i++) {
    affine out = {l[i].a * r[i].a, l[i].a * r[i].b + l[i].b};
    r[i] = out;
  }
  (void)type;
}
static affine value(int who, long i) {
  affine v = {(unsigned)(2 * who + 3 + i), (unsigned)(who * 7 + i)};
  return v;
}
static affine folded(int first, int last, long i) {
  affine acc = value(first, i);
  for (int r = first + 1; r <= last; r++) {
    affine next = value(r, i), out = {acc.a * next.a, acc.a * next.b + acc.b};
    acc = out;
  }
  return acc;
}
static int is_folded(const affine *got, int first, int last, long from, long n) {
  for (long i = 0; i < n; i++) {
    affine want = folded(first, last, from + i);
    if (got[i].a != want.a || got[i].b != want.b) return 0;
  }
  return 1;
}

enum { BLOCKING, NONBLOCKING, PERSISTENT };
#define CALL(name, inittail, ...)                        \
  do {                                                   \
    MPI_Request q;                                       \
    if (mode == BLOCKING) MPI_##name(__VA_ARGS__);       \
    else if (mode == NONBLOCKING) {                      \
      MPI_I##inittail(__VA_ARGS__, &q);                  \
      MPI_Wait(&q, MPI_STATUS_IGNORE);                   \
    } else {                                             \
      MPI_##name##_init(__VA_ARGS__, MPI_INFO_NULL, &q); \
      MPI_Start(&q);                                     \
      MPI_Wait(&q, MPI_STATUS_IGNORE);                   \
      CHECK(q != MPI_REQUEST_NULL);                      \
      MPI_Request_free(&q);                              \
    }                                                    \
  } while (0)

static void ordered(long n, int mode, MPI_Datatype type, MPI_Op op) {
  affine *in = malloc(sizeof(affine) * (size_t)(n * size + 1)), *out = malloc(sizeof(affine) * (size_t)(n * size + 1));
  for (int in_place = 0; in_place < 2; in_place++) {
    long total = n * size;
#define FILL(count)                    \
  for (long i = 0; i < (count); i++) { \
    in[i] = value(rank, i);            \
    if (in_place) out[i] = in[i];      \
  }
    const void *from = in_place ? MPI_IN_PLACE : in;
    FILL(n);
    CALL(Allreduce, allreduce, from, out, (int)n, type, op, MPI_COMM_WORLD);
    CHECK(is_folded(out, 0, size - 1, 0, n));
    for (int root = 0; root<size; root += size> 3 ? 3 : 1) {
      FILL(n);
      CALL(Reduce, reduce, rank == root ? from : in, rank == root ? out : NULL, (int)n, type, op, root, MPI_COMM_WORLD);
      if (rank == root) CHECK(is_folded(out, 0, size - 1, 0, n));
    }
    FILL(n);
    CALL(Scan, scan, from, out, (int)n, type, op, MPI_COMM_WORLD);
    CHECK(is_folded(out, 0, rank, 0, n));
    FILL(n);
    CALL(Exscan, exscan, from, out, (int)n, type, op, MPI_COMM_WORLD);
    if (rank > 0) CHECK(is_folded(out, 0, rank - 1, 0, n));
    FILL(total);
    CALL(Reduce_scatter_block, reduce_scatter_block, from, out, (int)n, type, op, MPI_COMM_WORLD);
    CHECK(is_folded(out, 0, size - 1, n * rank, n));
    int counts[64], begin = 0;
    for (int i = 0; i < size; i++) counts[i] = (int)(n * 2 * i / (size > 1 ? size - 1 : 1));
    if (size == 1) counts[0] = (int)n;
    long sum = 0;
    for (int i = 0; i < size; i++) {
      if (i < rank) begin += counts[i];
      sum += counts[i];
    }
    CHECK(sum <= total);
    FILL(sum);
    CALL(Reduce_scatter, reduce_scatter, from, out, counts, type, op, MPI_COMM_WORLD);
    CHECK(is_folded(out, 0, size - 1, begin, counts[rank]));
  }
  free(in);
  free(out);
}

static void sums(long n) {
  double *in = malloc(sizeof(double) * (size_t)n), *out = malloc(sizeof(double) * (size_t)n);
  for (long i = 0; i < n; i++) in[i] = (double)(rank + 1) * (double)(i % 1000);
  MPI_Allreduce(in, out, (int)n, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
  double ranks = (double)size * (size + 1) / 2;
  for (long i = 0; i < n; i++) CHECK(out[i] == ranks * (double)(i % 1000));
  int root = size - 1;
  for (long i = 0; i < n; i++) out[i] = in[i];
  MPI_Reduce_c(rank == root ? MPI_IN_PLACE : in, out, (MPI_Count)n, MPI_DOUBLE, MPI_SUM, root, MPI_COMM_WORLD);
  if (rank == root)
    for (long i = 0; i < n; i++) CHECK(out[i] == ranks * (double)(i % 1000));
  free(in);
  free(out);
}

int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  MPI_Datatype pair;
  MPI_Type_contiguous(2, MPI_UNSIGNED, &pair);
  MPI_Type_commit(&pair);
  MPI_Op op;
  MPI_Op_create(compose, 0, &op);
  for (int mode = BLOCKING; mode <= PERSISTENT; mode++) {
    ordered(0, mode, pair, op);
    ordered(1, mode, pair, op);
    ordered(37, mode, pair, op);
    ordered(3000, mode, pair, op);
  }
  /* The operator and the type may be freed while the operation is under way. */
  MPI_Request q;
  affine mine = value(rank, 0), all;
  MPI_Iallreduce(&mine, &all, 1, pair, op, MPI_COMM_WORLD, &q);
  MPI_Op_free(&op);
  MPI_Type_free(&pair);
  MPI_Wait(&q, MPI_STATUS_IGNORE);
  CHECK(is_folded(&all, 0, size - 1, 0, 1));

  for (long n = 1; n <= 300000; n = n * 7 + 1) sums(n);

  struct {
    double v;
    int i;
  } at = {(double)((rank * 7) % 5), rank}, low;
  MPI_Allreduce(&at, &low, 1, MPI_DOUBLE_INT, MPI_MINLOC, MPI_COMM_WORLD);
  CHECK(low.v == 0 && low.i == 0);
  done();
  return 0;
}
