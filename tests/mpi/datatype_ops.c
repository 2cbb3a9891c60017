// ranks: 1 2
// Operators as objects: user functions of both widths, commutativity, refused combinations, MPI_Reduce_local.
#include "check.h"

static MPI_Datatype seen;
static int calls;
static void concat(void *in, void *inout, int *len, MPI_Datatype *type) {
  // Affine maps: two ints (a, b) each.
  seen = *type;
  calls++;
  int *f = in, *g = inout;
  for (int i = 0; i < *len; i++, f += 2, g += 2) {
    int a = f[0] * g[0], b = f[0] * g[1] + f[1];
    g[0] = a;
    g[1] = b;
  }
}
static void add(void *in, void *inout, MPI_Count *len, MPI_Datatype *type) {
  seen = *type;
  for (MPI_Count i = 0; i < *len; i++) ((double *)inout)[i] += 2 * ((double *)in)[i];
}

int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
  MPI_Op op;
  int commutes, f[] = {2, 1, 3, 0}, g[] = {5, 7, 1, 1}, code, class;
  MPI_Datatype pair;
  MPI_Type_contiguous(2, MPI_INT, &pair);
  MPI_Type_commit(&pair);
  MPI_Op_create(concat, 0, &op);
  MPI_Op_commutative(op, &commutes);
  CHECK(!commutes);
  MPI_Reduce_local(f, g, 2, pair, op);
  CHECK(calls == 1 && seen == pair && g[0] == 10 && g[1] == 15 && g[2] == 3 && g[3] == 3);
  MPI_Op_free(&op);
  CHECK(op == MPI_OP_NULL);

  double x[3] = {1, 2, 3}, y[3] = {10, 20, 30};
  MPI_Op_create_c(add, 1, &op);
  MPI_Op_commutative(op, &commutes);
  CHECK(commutes);
  MPI_Reduce_local_c(x, y, 3, MPI_DOUBLE, op);
  CHECK(seen == MPI_DOUBLE && y[0] == 12 && y[1] == 24 && y[2] == 36);
  MPI_Op_free(&op);

  MPI_Op_commutative(MPI_SUM, &commutes);
  CHECK(commutes);
  op = MPI_SUM;
  code = MPI_Op_free(&op);
  MPI_Error_class(code, &class);
  CHECK(class == MPI_ERR_OP && op == MPI_SUM);

  // Predefined operators refuse what 6.9.2 does not list.
  code = MPI_Reduce_local(x, y, 1, MPI_DOUBLE, MPI_BAND);
  MPI_Error_class(code, &class);
  CHECK(class == MPI_ERR_OP);
  code = MPI_Reduce_local(f, g, 1, pair, MPI_SUM);
  MPI_Error_class(code, &class);
  CHECK(class == MPI_ERR_OP);
  code = MPI_Reduce_local(f, g, 1, MPI_INT, MPI_REPLACE);
  MPI_Error_class(code, &class);
  CHECK(class == MPI_ERR_OP);

  MPI_Datatype same;  // a duplicate of a predefined type is as good as that
  MPI_Type_dup(MPI_INT, &same);
  f[0] = 4, g[0] = 5;
  CHECK(MPI_Reduce_local(f, g, 1, same, MPI_PROD) == MPI_SUCCESS && g[0] == 20);
  MPI_Type_free(&same);
  MPI_Type_free(&pair);

  struct {
    long value;
    int index;
  } a[2] = {{5, 1}, {3, 9}}, b[2] = {{5, 0}, {4, 2}};
  MPI_Reduce_local(a, b, 2, MPI_LONG_INT, MPI_MAXLOC);
  CHECK(b[0].value == 5 && b[0].index == 0 && b[1].value == 4 && b[1].index == 2);
  MPI_Reduce_local(a, b, 2, MPI_LONG_INT, MPI_MINLOC);
  CHECK(b[1].value == 3 && b[1].index == 9);
  done();
  return 0;
}
