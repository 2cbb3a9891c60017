/* Heat in a plate: the 2-D heat equation by Jacobi iteration, on any number of ranks.
 *
 *   mpicc heat.c -o heat -lm && mpiexec -n 4 ./heat [--size N] [--steps N] [--picture FILE.png]
 *
 * The plate (N x N points) is cut into blocks, one per rank of a Cartesian grid. In every step each rank sends the
 * edges of its block to its four neighbours and receives theirs (the halo) while it computes the inside; rows are
 * contiguous, columns are a strided datatype. The top edge is held at 100 degrees, the others at 0. At the end rank 0
 * gathers the blocks and writes a picture (picture.h), in colours, with a line at every ten degrees.
 */
#include <math.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "picture.h"

typedef struct {
  int rows, columns; /* of this rank's block, without halo */
  int first_row, first_column;
  int stride;         /* columns + 2 */
  double *now, *next; /* (rows + 2) x stride */
} Block;

static int share(int n, int parts, int index, int *first) {
  int base = n / parts, extra = n % parts;
  *first = index * base + (index < extra ? index : extra);
  return base + (index < extra);
}

static double step(const Block *b, int row_from, int row_to, int column_from, int column_to) {
  double change = 0;
  for (int i = row_from; i <= row_to; i++) {
    const double *up = b->now + (size_t)(i - 1) * b->stride, *mid = up + b->stride, *down = mid + b->stride;
    double *out = b->next + (size_t)i * b->stride;
    for (int j = column_from; j <= column_to; j++) {
      out[j] = 0.25 * (up[j] + down[j] + mid[j - 1] + mid[j + 1]);
      change = fmax(change, fabs(out[j] - mid[j]));
    }
  }
  return change;
}

int main(int argc, char **argv) {
  int n = 128, steps = 10000; /* so many that the warmth has spread: about n * n of them */
  const char *picture = NULL;
  MPI_Init(&argc, &argv);
  for (int i = 1; i + 1 < argc; i += 2) {
    if (!strcmp(argv[i], "--size")) n = atoi(argv[i + 1]);
    else if (!strcmp(argv[i], "--steps")) steps = atoi(argv[i + 1]);
    else if (!strcmp(argv[i], "--picture")) picture = argv[i + 1];
  }

  int size, rank, dims[2] = {0, 0}, periodic[2] = {0, 0}, where[2];
  MPI_Comm grid;
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  MPI_Dims_create(size, 2, dims);
  MPI_Cart_create(MPI_COMM_WORLD, 2, dims, periodic, 1, &grid);
  MPI_Comm_rank(grid, &rank);
  MPI_Cart_coords(grid, rank, 2, where);
  int up, down, left, right;
  MPI_Cart_shift(grid, 0, 1, &up, &down);
  MPI_Cart_shift(grid, 1, 1, &left, &right);
  if (rank == 0) printf("heat: %d x %d points on %d ranks (%d x %d), %d steps\n", n, n, size, dims[0], dims[1], steps);

  Block b;
  b.rows = share(n, dims[0], where[0], &b.first_row);
  b.columns = share(n, dims[1], where[1], &b.first_column);
  b.stride = b.columns + 2;
  b.now = calloc((size_t)(b.rows + 2) * b.stride, sizeof(double));
  b.next = calloc((size_t)(b.rows + 2) * b.stride, sizeof(double));
  if (!b.now || !b.next) MPI_Abort(MPI_COMM_WORLD, 1);
  if (where[0] == 0) {
    for (int j = 0; j < b.stride; j++) b.now[j] = b.next[j] = 100;
  }

  MPI_Datatype column;
  MPI_Type_vector(b.rows, 1, b.stride, MPI_DOUBLE, &column);
  MPI_Type_commit(&column);

  double began = MPI_Wtime(), change = 0;
  for (int s = 1; s <= steps; s++) {
    double *a = b.now;
    size_t last = (size_t)b.rows * b.stride;
    MPI_Request halo[8];
    MPI_Irecv(a + 1, b.columns, MPI_DOUBLE, up, 0, grid, &halo[0]);
    MPI_Irecv(a + last + b.stride + 1, b.columns, MPI_DOUBLE, down, 1, grid, &halo[1]);
    MPI_Irecv(a + b.stride, 1, column, left, 2, grid, &halo[2]);
    MPI_Irecv(a + b.stride + b.columns + 1, 1, column, right, 3, grid, &halo[3]);
    MPI_Isend(a + last + 1, b.columns, MPI_DOUBLE, down, 0, grid, &halo[4]);
    MPI_Isend(a + b.stride + 1, b.columns, MPI_DOUBLE, up, 1, grid, &halo[5]);
    MPI_Isend(a + b.stride + b.columns, 1, column, right, 2, grid, &halo[6]);
    MPI_Isend(a + b.stride + 1, 1, column, left, 3, grid, &halo[7]);
    change = step(&b, 2, b.rows - 1, 2, b.columns - 1); /* the inside needs no neighbour */
    MPI_Waitall(8, halo, MPI_STATUSES_IGNORE);
    change = fmax(change, step(&b, 1, 1, 1, b.columns));
    if (b.rows > 1) change = fmax(change, step(&b, b.rows, b.rows, 1, b.columns));
    change = fmax(change, step(&b, 2, b.rows - 1, 1, 1));
    if (b.columns > 1) change = fmax(change, step(&b, 2, b.rows - 1, b.columns, b.columns));
    b.now = b.next;
    b.next = a;
    if (s % (steps / 10 > 0 ? steps / 10 : 1) == 0) {
      MPI_Allreduce(MPI_IN_PLACE, &change, 1, MPI_DOUBLE, MPI_MAX, grid);
      if (rank == 0) printf("step %5d of %d: largest change %.6f, %.2f s\n", s, steps, change, MPI_Wtime() - began);
      fflush(stdout);
    }
  }

  /* Blocks travel to rank 0, which lays them out as a subarray of the whole plate. */
  double sum = 0, total = 0;
  for (int i = 1; i <= b.rows; i++) {
    for (int j = 1; j <= b.columns; j++) sum += b.now[(size_t)i * b.stride + j];
  }
  MPI_Reduce(&sum, &total, 1, MPI_DOUBLE, MPI_SUM, 0, grid);
  MPI_Datatype inside;
  int whole[2] = {b.rows + 2, b.stride}, part[2] = {b.rows, b.columns}, at[2] = {1, 1};
  MPI_Type_create_subarray(2, whole, part, at, MPI_ORDER_C, MPI_DOUBLE, &inside);
  MPI_Type_commit(&inside);
  MPI_Request sent;
  MPI_Isend(b.now, 1, inside, 0, 9, grid, &sent);
  if (rank == 0) {
    double *plate = malloc(sizeof(double) * n * n), check = 0;
    if (!plate) MPI_Abort(MPI_COMM_WORLD, 1);
    for (int r = 0; r < size; r++) {
      int place[2], plate_size[2] = {n, n}, block[2], corner[2];
      MPI_Cart_coords(grid, r, 2, place);
      block[0] = share(n, dims[0], place[0], &corner[0]);
      block[1] = share(n, dims[1], place[1], &corner[1]);
      MPI_Datatype tile;
      MPI_Type_create_subarray(2, plate_size, block, corner, MPI_ORDER_C, MPI_DOUBLE, &tile);
      MPI_Type_commit(&tile);
      MPI_Recv(plate, 1, tile, r, 9, grid, MPI_STATUS_IGNORE);
      MPI_Type_free(&tile);
    }
    for (size_t i = 0; i < (size_t)n * n; i++) check += plate[i];
    printf("mean temperature %.4f; took %.2f s\n", total / n / n, MPI_Wtime() - began);
    if (fabs(check - total) > 1e-6 * fabs(total)) {
      fprintf(stderr, "heat: the gathered plate does not add up: %.9g, not %.9g\n", check, total);
      MPI_Abort(MPI_COMM_WORLD, 1);
    }
    if (picture && write_picture(picture, plate, n, 100) != 0) {
      fprintf(stderr, "heat: cannot write %s\n", picture);
      MPI_Abort(MPI_COMM_WORLD, 1);
    }
    if (picture) printf("picture: %s\n", picture);
    free(plate);
  }
  MPI_Wait(&sent, MPI_STATUS_IGNORE);
  MPI_Type_free(&inside);
  MPI_Type_free(&column);
  MPI_Comm_free(&grid);
  free(b.now);
  free(b.next);
  MPI_Finalize();
  return 0;
}
