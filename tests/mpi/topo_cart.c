// ranks: 1 2 4 8
/* Cartesian topologies: dims_create, create (also of part of the processes), coordinates, shifts, sub-grids, errors. */
#include "check.h"

static int rank, size;

static void test_grid(void) {
  int dims[3] = {0, 0, 0}, periods[3] = {1, 0, 1}, got_dims[3], got_periods[3], coords[3], mine[3], n, status, r;
  MPI_Comm grid, dup;
  MPI_Dims_create(size, 3, dims);
  CHECK(dims[0] * dims[1] * dims[2] == size && dims[0] >= dims[1] && dims[1] >= dims[2]);
  MPI_Cart_create(MPI_COMM_WORLD, 3, dims, periods, 1, &grid);
  MPI_Topo_test(grid, &status);
  CHECK(status == MPI_CART);
  MPI_Topo_test(MPI_COMM_WORLD, &status);
  CHECK(status == MPI_UNDEFINED);
  MPI_Comm_dup(grid, &dup); /* takes the topology along */
  MPI_Comm_free(&grid);
  MPI_Topo_test(dup, &status);
  CHECK(status == MPI_CART);
  MPI_Comm_rank(dup, &r);
  MPI_Cartdim_get(dup, &n);
  CHECK(n == 3);
  MPI_Cart_get(dup, 3, got_dims, got_periods, mine);
  for (int i = 0; i < 3; i++) CHECK(got_dims[i] == dims[i] && !got_periods[i] == !periods[i]);
  for (int other = 0; other < size; other++) {
    int back;
    MPI_Cart_coords(dup, other, 3, coords);
    CHECK((coords[0] * dims[1] + coords[1]) * dims[2] + coords[2] == other);
    coords[0] -= dims[0];
    coords[2] += 5 * dims[2];
    MPI_Cart_rank(dup, coords, &back);
    CHECK(back == other);
  }
  MPI_Cart_coords(dup, r, 3, coords);
  CHECK(memcmp(coords, mine, sizeof mine) == 0);
  /* Every shift brings my neighbour's rank. */
  for (int d = 0; d < 3; d++) {
    for (int by = -2; by <= 2; by++) {
      int from, to, value = -7;
      MPI_Cart_shift(dup, d, by, &from, &to);
      MPI_Sendrecv(&r, 1, MPI_INT, to, d, &value, 1, MPI_INT, from, d, dup, MPI_STATUS_IGNORE);
      CHECK(from == MPI_PROC_NULL ? value == -7 : value == from);
      CHECK((to == MPI_PROC_NULL) == (d == 1 && (mine[1] + by < 0 || mine[1] + by >= dims[1])));
    }
  }
  MPI_Comm_free(&dup);
}

static void test_sub(void) {
  int dims[3] = {0, 0, 1}, periods[3] = {1, 0, 0}, keep[3] = {0, 1, 1}, none[3] = {0, 0, 0}, mine[3], n, r;
  int sub_dims[2], sub_periods[2], sub_coords[2];
  MPI_Comm grid, sub, point, again;
  MPI_Dims_create(size, 3, dims);
  MPI_Cart_create(MPI_COMM_WORLD, 3, dims, periods, 0, &grid);
  MPI_Comm_rank(grid, &r);
  CHECK(r == rank);
  MPI_Cart_coords(grid, r, 3, mine);
  MPI_Cart_sub(grid, keep, &sub);
  MPI_Cartdim_get(sub, &n);
  CHECK(n == 2);
  MPI_Comm_size(sub, &n);
  CHECK(n == dims[1] * dims[2]);
  MPI_Cart_get(sub, 2, sub_dims, sub_periods, sub_coords);
  CHECK(sub_dims[0] == dims[1] && sub_dims[1] == 1 && !sub_periods[0]);
  CHECK(sub_coords[0] == mine[1] && sub_coords[1] == mine[2]);
  MPI_Cart_sub(grid, none, &point);
  MPI_Comm_size(point, &n);
  CHECK(n == 1);
  MPI_Cartdim_get(point, &n);
  CHECK(n == 0);
  MPI_Cart_sub(point, NULL, &again);
  MPI_Cartdim_get(again, &n);
  CHECK(n == 0);
  MPI_Cart_rank(again, NULL, &n);
  CHECK(n == 0);
  MPI_Comm_free(&again);
  MPI_Comm_free(&point);
  MPI_Comm_free(&sub);
  MPI_Comm_free(&grid);
}

static void test_part(void) {
  int one = size > 1 ? size - 1 : 1, period = 1, n, mapped;
  MPI_Comm line;
  MPI_Cart_create(MPI_COMM_WORLD, 1, &one, &period, 0, &line);
  CHECK((line == MPI_COMM_NULL) == (rank >= one));
  MPI_Cart_map(MPI_COMM_WORLD, 1, &one, &period, &mapped);
  CHECK(mapped == (rank < one ? rank : MPI_UNDEFINED));
  if (line != MPI_COMM_NULL) {
    MPI_Comm_size(line, &n);
    CHECK(n == one);
    MPI_Comm_free(&line);
  }
  /* No dimensions: one process. */
  MPI_Cart_create(MPI_COMM_WORLD, 0, NULL, NULL, 0, &line);
  CHECK((line == MPI_COMM_NULL) == (rank != 0));
  if (line != MPI_COMM_NULL) MPI_Comm_free(&line);
}

static void test_errors(void) {
  int too_many = size + 1, zero = 0, one = 1, value[3], coords = 1, from, to;
  int bad[3] = {0, 3, 0};
  MPI_Comm comm;
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
  CHECK(MPI_Cart_create(MPI_COMM_WORLD, 1, &too_many, &one, 0, &comm) == MPI_ERR_DIMS);
  CHECK(MPI_Cart_create(MPI_COMM_WORLD, 1, &zero, &one, 0, &comm) == MPI_ERR_DIMS);
  CHECK(MPI_Cart_create(MPI_COMM_WORLD, -1, &one, &one, 0, &comm) == MPI_ERR_DIMS);
  CHECK(MPI_Dims_create(7, 3, bad) == MPI_ERR_DIMS);
  CHECK(MPI_Cart_get(MPI_COMM_WORLD, 3, value, value, value) == MPI_ERR_TOPOLOGY);
  CHECK(MPI_Graphdims_get(MPI_COMM_WORLD, &from, &to) == MPI_ERR_TOPOLOGY);
  MPI_Cart_create(MPI_COMM_SELF, 1, &one, &zero, 0, &comm);
  MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
  CHECK(MPI_Cart_rank(comm, &coords, &from) == MPI_ERR_ARG);
  CHECK(MPI_Cart_coords(comm, 1, 1, value) == MPI_ERR_RANK);
  CHECK(MPI_Cart_shift(comm, 1, 1, &from, &to) == MPI_ERR_ARG);
  MPI_Comm_free(&comm);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
  MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_ARE_FATAL);
}

int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  test_grid();
  test_sub();
  test_part();
  test_errors();
  done();
  return 0;
}
