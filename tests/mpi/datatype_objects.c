// ranks: 1 2
// Datatypes as objects: constructors, envelopes, contents, names, attributes on duplicates, packing, external32,
// element counts, large counts, Fortran kinds, value-index pairs.
#include "check.h"

#include <stdint.h>

static void constructors_and_contents(void) {
  MPI_Datatype vector, copy, back[1];
  int ni, na, nd, combiner, ints[3], size;
  MPI_Aint lb, extent;
  CHECK(MPI_Type_vector(3, 2, 5, MPI_DOUBLE, &vector) == MPI_SUCCESS);
  MPI_Type_size(vector, &size);
  MPI_Type_get_extent(vector, &lb, &extent);
  CHECK(size == 48 && lb == 0 && extent == (2 * 5 + 2) * 8);
  MPI_Type_get_envelope(vector, &ni, &na, &nd, &combiner);
  CHECK(ni == 3 && na == 0 && nd == 1 && combiner == MPI_COMBINER_VECTOR);
  MPI_Type_get_contents(vector, 3, 0, 1, ints, NULL, back);
  CHECK(ints[0] == 3 && ints[1] == 2 && ints[2] == 5 && back[0] == MPI_DOUBLE);

  MPI_Type_dup(vector, &copy);
  MPI_Type_free(&vector);
  CHECK(vector == MPI_DATATYPE_NULL);
  MPI_Type_get_envelope(copy, &ni, &na, &nd, &combiner);
  CHECK(combiner == MPI_COMBINER_DUP && nd == 1);
  MPI_Type_get_contents(copy, 0, 0, 1, NULL, NULL, back);
  MPI_Type_get_envelope(back[0], &ni, &na, &nd, &combiner);
  CHECK(combiner == MPI_COMBINER_VECTOR);  // lives on though its handle was freed
  MPI_Type_free(&back[0]);
  MPI_Type_free(&copy);

  MPI_Type_get_envelope(MPI_INT, &ni, &na, &nd, &combiner);
  CHECK(combiner == MPI_COMBINER_NAMED);
  MPI_Datatype predefined = MPI_INT;
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
  int code, class;
  code = MPI_Type_free(&predefined);
  MPI_Error_class(code, &class);
  CHECK(class == MPI_ERR_TYPE && predefined == MPI_INT);
  code = MPI_Type_get_contents(MPI_INT, 0, 0, 0, NULL, NULL, NULL);
  MPI_Error_class(code, &class);
  CHECK(class == MPI_ERR_TYPE);
  code = MPI_Type_vector(-1, 1, 1, MPI_INT, &vector);
  CHECK(code != MPI_SUCCESS);

  char name[MPI_MAX_OBJECT_NAME];
  int length;
  MPI_Type_get_name(MPI_DOUBLE, name, &length);
  CHECK(strcmp(name, "MPI_DOUBLE") == 0 && length == 10);
  MPI_Type_contiguous(2, MPI_INT, &vector);
  MPI_Type_get_name(vector, name, &length);
  CHECK(length == 0 && name[0] == 0);
  MPI_Type_set_name(vector, "pair of ints");
  MPI_Type_get_name(vector, name, &length);
  CHECK(strcmp(name, "pair of ints") == 0);
  MPI_Type_free(&vector);
}

static void large_counts(void) {
  MPI_Datatype huge;
  MPI_Count ni, na, nl, nd, counts[3], size;
  int combiner, small, code, class;
  MPI_Type_vector_c((MPI_Count)3 << 31, 1, 2, MPI_CHAR, &huge);
  MPI_Type_size_c(huge, &size);
  CHECK(size == (MPI_Count)3 << 31);
  MPI_Type_size(huge, &small);
  CHECK(small == MPI_UNDEFINED);
  MPI_Type_get_envelope_c(huge, &ni, &na, &nl, &nd, &combiner);
  CHECK(ni == 0 && na == 0 && nl == 3 && nd == 1 && combiner == MPI_COMBINER_VECTOR);
  MPI_Datatype back[1];
  MPI_Type_get_contents_c(huge, 0, 0, 3, 1, NULL, NULL, counts, back);
  CHECK(counts[0] == (MPI_Count)3 << 31 && counts[1] == 1 && counts[2] == 2 && back[0] == MPI_CHAR);
  int i, a, d;
  code = MPI_Type_get_envelope(huge, &i, &a, &d, &combiner);
  MPI_Error_class(code, &class);
  CHECK(class == MPI_ERR_TYPE);
  MPI_Type_free(&huge);
}

static int keyval, copies, deletions;
static int copy_attribute(MPI_Datatype old, int key, void *extra, void *value, void *copied, int *flag) {
  *(void **)copied = (char *)value + 1;
  *flag = 1;
  copies++;
  return MPI_SUCCESS;
}
static int delete_attribute(MPI_Datatype type, int key, void *value, void *extra) {
  deletions++;
  return MPI_SUCCESS;
}

static void attributes(void) {
  MPI_Datatype type, copy;
  static char place[4];
  void *value;
  int flag;
  MPI_Type_create_keyval(copy_attribute, delete_attribute, &keyval, NULL);
  MPI_Type_contiguous(2, MPI_INT, &type);
  MPI_Type_set_attr(type, keyval, place);
  MPI_Type_dup(type, &copy);
  CHECK(copies == 1);
  MPI_Type_get_attr(copy, keyval, &value, &flag);
  CHECK(flag && value == place + 1);
  MPI_Type_free(&type);
  CHECK(deletions == 1);
  MPI_Type_free(&copy);
  CHECK(deletions == 2);
  MPI_Type_free_keyval(&keyval);
}

static void packing(void) {
  int matrix[6][7], column[6], out[6], position = 0, size;
  char packed[200];
  for (int i = 0; i < 6; i++)
    for (int j = 0; j < 7; j++) matrix[i][j] = 10 * i + j;
  MPI_Datatype type;
  MPI_Type_vector(6, 1, 7, MPI_INT, &type);
  MPI_Type_commit(&type);
  MPI_Pack_size(1, type, MPI_COMM_WORLD, &size);
  CHECK(size >= 24 && size <= 200);
  double d = 2.5, e = 0;
  MPI_Pack(&matrix[0][3], 1, type, packed, 200, &position, MPI_COMM_WORLD);
  MPI_Pack(&d, 1, MPI_DOUBLE, packed, 200, &position, MPI_COMM_WORLD);
  int end = position;
  position = 0;
  MPI_Unpack(packed, end, &position, column, 6, MPI_INT, MPI_COMM_WORLD);
  MPI_Unpack(packed, end, &position, &e, 1, MPI_DOUBLE, MPI_COMM_WORLD);
  CHECK(position == end && e == 2.5);
  for (int i = 0; i < 6; i++) CHECK(column[i] == 10 * i + 3);
  position = 190;
  CHECK(MPI_Pack(matrix, 6, MPI_INT, packed, 200, &position, MPI_COMM_WORLD) != MPI_SUCCESS);

  MPI_Aint at = 0, bytes;
  MPI_Pack_external_size("external32", 1, type, &bytes);
  CHECK(bytes == 24);
  MPI_Pack_external("external32", &matrix[0][1], 1, type, packed, 200, &at);
  CHECK(at == 24 && packed[4] == 0 && packed[7] == 11 && packed[23] == 51);
  at = 0;
  MPI_Unpack_external("external32", packed, 24, &at, out, 6, MPI_INT);
  for (int i = 0; i < 6; i++) CHECK(out[i] == 10 * i + 1);
  MPI_Type_free(&type);

  // Absolute addresses, relative to MPI_BOTTOM.
  int blocks[2] = {1, 2};
  MPI_Aint places[2];
  MPI_Datatype types[2] = {MPI_DOUBLE, MPI_INT};
  MPI_Get_address(&d, &places[0]);
  MPI_Get_address(&matrix[2][2], &places[1]);
  MPI_Type_create_struct(2, blocks, places, types, &type);
  MPI_Type_commit(&type);
  position = 0;
  MPI_Pack(MPI_BOTTOM, 1, type, packed, 200, &position, MPI_COMM_WORLD);
  CHECK(position == 16);
  position = 0;
  MPI_Unpack(packed, 16, &position, &e, 1, MPI_DOUBLE, MPI_COMM_WORLD);
  MPI_Unpack(packed, 16, &position, out, 2, MPI_INT, MPI_COMM_WORLD);
  CHECK(e == 2.5 && out[0] == 22 && out[1] == 23);
  MPI_Type_free(&type);
}

static void elements(void) {
  struct {
    int i;
    double d;
  } target[2];
  int one[2] = {1, 1}, n, self;
  MPI_Aint places[2] = {0, 8};
  MPI_Datatype types[2] = {MPI_INT, MPI_DOUBLE}, type;
  MPI_Status status;
  MPI_Comm_rank(MPI_COMM_SELF, &self);
  MPI_Type_create_struct(2, one, places, types, &type);
  MPI_Type_commit(&type);
  char wire[16];
  int position = 0, i = 7;
  double d = 1.25;
  MPI_Pack(&i, 1, MPI_INT, wire, 16, &position, MPI_COMM_SELF);
  MPI_Pack(&d, 1, MPI_DOUBLE, wire, 16, &position, MPI_COMM_SELF);
  MPI_Pack(&i, 1, MPI_INT, wire, 16, &position, MPI_COMM_SELF);
  MPI_Sendrecv(wire, position, MPI_PACKED, 0, 1, target, 2, type, 0, 1, MPI_COMM_SELF, &status);
  MPI_Get_elements(&status, type, &n);
  CHECK(n == 3);
  MPI_Get_count(&status, type, &n);
  CHECK(n == MPI_UNDEFINED);
  CHECK(target[0].i == 7 && target[0].d == 1.25 && target[1].i == 7);
  MPI_Type_free(&type);
}

static void by_property(void) {
  MPI_Datatype a, b;
  int size, ni, na, nd, combiner, ints[2];
  MPI_Type_create_f90_real(15, 307, &a);
  MPI_Type_create_f90_real(15, 307, &b);
  MPI_Type_size(a, &size);
  CHECK(a == b && size == 8 && a != MPI_DOUBLE);
  MPI_Type_get_envelope(a, &ni, &na, &nd, &combiner);
  MPI_Type_get_contents(a, 2, 0, 0, ints, NULL, NULL);
  CHECK(combiner == MPI_COMBINER_F90_REAL && nd == 0 && ints[0] == 15 && ints[1] == 307);
  CHECK(MPI_Type_free(&a) != MPI_SUCCESS);
  double x = 1, y = 2;
  CHECK(MPI_Reduce_local(&x, &y, 1, b, MPI_SUM) == MPI_SUCCESS && y == 3);
  MPI_Type_match_size(MPI_TYPECLASS_REAL, 4, &a);
  CHECK(a == MPI_REAL4);

  struct {
    double value;
    uint64_t index;
  } in = {1.5, 3}, inout = {2.5, 1};
  MPI_Datatype pair, parts[2];
  MPI_Type_get_value_index(MPI_DOUBLE, MPI_UINT64_T, &pair);
  CHECK(pair != MPI_DATATYPE_NULL);
  CHECK(MPI_Reduce_local(&in, &inout, 1, pair, MPI_MINLOC) == MPI_SUCCESS);
  CHECK(inout.value == 1.5 && inout.index == 3);
  MPI_Type_get_envelope(pair, &ni, &na, &nd, &combiner);
  CHECK(combiner == MPI_COMBINER_VALUE_INDEX && nd == 2);
  MPI_Type_get_contents(pair, 0, 0, 2, NULL, NULL, parts);
  CHECK(parts[0] == MPI_DOUBLE && parts[1] == MPI_UINT64_T);
  MPI_Type_get_value_index(MPI_FLOAT, MPI_INT, &pair);
  CHECK(pair == MPI_FLOAT_INT);
  MPI_Type_get_value_index(MPI_CHAR, MPI_INT, &pair);
  CHECK(pair == MPI_DATATYPE_NULL);

  MPI_Aint here, there;
  MPI_Get_address(&in, &here);
  MPI_Get_address((char *)&in + 5, &there);
  CHECK(MPI_Aint_diff(there, here) == 5 && MPI_Aint_add(here, 5) == there);
}

int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  constructors_and_contents();
  large_counts();
  attributes();
  packing();
  elements();
  by_property();
  done();
  return 0;
}
