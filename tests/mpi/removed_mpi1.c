// ranks: 1 2
/* The interfaces of MPI-1 that MPI-3 removed (chapter 17), as programs of that time call them: a structure sent with
 * MPI_Address and MPI_Type_struct (HPL does so), bounds of datatypes, error handlers. And those that the ABI leaves out
 * (20.2): attributes. */
#include "check.h"

static int calls;
static void count_call(MPI_Comm *comm, int *code, ...) {
  (void)comm;
  (void)code;
  ++calls;
}

static int copied, deleted;
static int copy(MPI_Comm comm, int keyval, void *extra, void *in, void *out, int *flag) {
  (void)comm;
  (void)keyval;
  ++copied;
  *(void **)out = (char *)in + *(int *)extra;
  return *flag = 1, MPI_SUCCESS;
}
static int delete(MPI_Comm comm, int keyval, void *value, void *extra) {
  (void)comm;
  (void)keyval;
  (void)value;
  (void)extra;
  return ++deleted, MPI_SUCCESS;
}
static void attributes(void) {
  static char place[8];
  int keyval, there = 0, step = 3;
  void *value = NULL;
  MPI_Comm other;
  MPI_Copy_function *copies = copy;
  MPI_Delete_function *deletes = delete;
  CHECK(MPI_Keyval_create(copies, deletes, &keyval, &step) == MPI_SUCCESS);
  CHECK(MPI_Attr_put(MPI_COMM_WORLD, keyval, place) == MPI_SUCCESS);
  MPI_Comm_dup(MPI_COMM_WORLD, &other);
  MPI_Attr_get(other, keyval, &value, &there);
  CHECK(copied == 1 && there && value == place + 3);
  CHECK(MPI_Attr_delete(other, keyval) == MPI_SUCCESS && deleted == 1);
  MPI_Attr_get(other, keyval, &value, &there);
  CHECK(!there);
  MPI_Comm_free(&other);
  MPI_Attr_delete(MPI_COMM_WORLD, keyval);
  CHECK(MPI_Keyval_free(&keyval) == MPI_SUCCESS && keyval == MPI_KEYVAL_INVALID && deleted == 2);
}

int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  attributes();
  int rank, size;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);

  struct {
    double x[3];
    int n;
    char c;
  } out = {{rank, rank + 0.5, rank + 0.25}, 100 + rank, 'c'}, in = {{0, 0, 0}, 0, 0};
  int lengths[3] = {3, 1, 1};
  MPI_Aint places[3], base;
  MPI_Datatype parts[3] = {MPI_DOUBLE, MPI_INT, MPI_CHAR}, whole, rows, blocks;
  MPI_Address(&out, &base);
  MPI_Address(out.x, &places[0]);
  MPI_Address(&out.n, &places[1]);
  MPI_Address(&out.c, &places[2]);
  for (int i = 0; i < 3; i++) places[i] -= base;
  CHECK(MPI_Type_struct(3, lengths, places, parts, &whole) == MPI_SUCCESS);
  MPI_Type_commit(&whole);
  int from = (rank + size - 1) % size;
  MPI_Sendrecv(&out, 1, whole, (rank + 1) % size, 3, &in, 1, whole, from, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  CHECK(in.x[0] == from && in.x[1] == from + 0.5 && in.x[2] == from + 0.25 && in.n == 100 + from && in.c == 'c');

  MPI_Aint extent = -1, lb = -1, ub = -1;
  MPI_Type_hvector(2, 3, 40, MPI_INT, &rows);
  MPI_Type_extent(rows, &extent);
  CHECK(extent == 52);
  int two[2] = {1, 2};
  MPI_Aint starts[2] = {8, 32};
  MPI_Type_hindexed(2, two, starts, MPI_INT, &blocks);
  MPI_Type_lb(blocks, &lb);
  MPI_Type_ub(blocks, &ub);
  CHECK(lb == 8 && ub == 40);
  MPI_Type_free(&whole);
  MPI_Type_free(&rows);
  MPI_Type_free(&blocks);

  MPI_Errhandler handler, now;
  MPI_Handler_function *function = count_call;
  MPI_Errhandler_create(function, &handler);
  MPI_Errhandler_set(MPI_COMM_WORLD, handler);
  MPI_Errhandler_get(MPI_COMM_WORLD, &now);
  CHECK(now == handler);
  MPI_Errhandler_free(&now);
  MPI_Send(&rank, 1, MPI_INT, size, 0, MPI_COMM_WORLD);
  CHECK(calls == 1);
  MPI_Errhandler_set(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
  MPI_Errhandler_free(&handler);
  done();
  return 0;
}
