// ranks: 1 2 4
/* Attributes of communicators and datatypes: callbacks, their order and their errors; predefined attributes; what
 * MPI_Finalize deletes. */
#include "check.h"

static int rank, size;
static char diary[1000];

static int copy_adds_one(MPI_Comm comm, int key, void *extra, void *in, void *out, int *flag) {
  CHECK(comm != MPI_COMM_NULL && key != MPI_KEYVAL_INVALID);
  sprintf(diary + strlen(diary), "copy%d ", *(int *)extra);
  *(char **)out = (char *)in + 1;
  *flag = 1;
  return MPI_SUCCESS;
}
static int copy_refuses(MPI_Comm comm, int key, void *extra, void *in, void *out, int *flag) {
  *flag = 0;
  return MPI_SUCCESS;
}
static int copy_fails(MPI_Comm comm, int key, void *extra, void *in, void *out, int *flag) { return MPI_ERR_OTHER; }
static int delete_notes(MPI_Comm comm, int key, void *value, void *extra) {
  int r;
  CHECK(MPI_Comm_rank(comm, &r) == MPI_SUCCESS); /* the handle works inside a callback */
  sprintf(diary + strlen(diary), "delete%d ", *(int *)extra);
  return MPI_SUCCESS;
}
static int failing = 1;
static int delete_fails(MPI_Comm comm, int key, void *value, void *extra) {
  return failing ? MPI_ERR_INTERN : MPI_SUCCESS;
}

static int saw(const char *text) {
  int same = strcmp(diary, text) == 0;
  diary[0] = 0;
  return same;
}

static int names[] = {0, 1, 2, 3};
static char values[8];

static void test_communicators(void) {
  int keys[4], flag;
  char *value;
  MPI_Comm comm, dup;
  for (int i = 0; i < 3; i++) MPI_Comm_create_keyval(copy_adds_one, delete_notes, &keys[i], &names[i]);
  MPI_Comm_create_keyval(copy_refuses, MPI_COMM_NULL_DELETE_FN, &keys[3], NULL);
  MPI_Comm_dup(MPI_COMM_WORLD, &comm);
  MPI_Comm_get_attr(comm, keys[0], &value, &flag);
  CHECK(!flag);
  MPI_Comm_set_attr(comm, keys[1], &values[1]);
  MPI_Comm_set_attr(comm, keys[0], &values[0]);
  MPI_Comm_set_attr(comm, keys[3], NULL);
  MPI_Comm_set_attr(comm, keys[2], &values[2]);
  MPI_Comm_get_attr(comm, keys[3], &value, &flag);
  CHECK(flag && value == NULL);
  CHECK(saw(""));
  MPI_Comm_dup(comm, &dup);
  CHECK(saw("copy1 copy0 copy2 "));
  MPI_Comm_get_attr(dup, keys[0], &value, &flag);
  CHECK(flag && value == &values[1]);
  MPI_Comm_get_attr(dup, keys[3], &value, &flag);
  CHECK(!flag);
  /* Setting anew deletes the old value. */
  MPI_Comm_set_attr(comm, keys[1], &values[5]);
  CHECK(saw("delete1 "));
  MPI_Comm_delete_attr(comm, keys[0]);
  CHECK(saw("delete0 "));
  CHECK(MPI_Comm_get_attr(comm, keys[0], &value, &flag) == MPI_SUCCESS && !flag);
  /* A freed key works on where it is in use, and may be freed again. */
  int stale = keys[2], again = stale;
  MPI_Comm_free_keyval(&keys[2]);
  CHECK(keys[2] == MPI_KEYVAL_INVALID);
  MPI_Comm_free_keyval(&again);
  MPI_Comm_get_attr(dup, stale, &value, &flag);
  CHECK(flag && value == &values[3]);
  MPI_Comm_free(&comm);
  CHECK(saw("delete2 delete1 "));
  /* split does not copy. */
  MPI_Comm_split(dup, 0, 0, &comm);
  CHECK(saw(""));
  MPI_Comm_free(&comm);
  /* idup copies at once. */
  MPI_Request request;
  MPI_Comm_idup(dup, &comm, &request);
  CHECK(saw("copy1 copy0 copy2 "));
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  MPI_Comm_get_attr(comm, keys[0], &value, &flag);
  CHECK(flag && value == &values[2]);
  MPI_Comm_free(&comm);
  CHECK(saw("delete2 delete0 delete1 "));
  MPI_Comm_free(&dup);
  CHECK(saw("delete2 delete0 delete1 "));
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  CHECK(MPI_Comm_set_attr(MPI_COMM_WORLD, stale, NULL) == MPI_ERR_KEYVAL);
  CHECK(MPI_Comm_delete_attr(MPI_COMM_WORLD, keys[0]) != MPI_SUCCESS);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
  MPI_Comm_free_keyval(&keys[0]);
  MPI_Comm_free_keyval(&keys[1]);
  MPI_Comm_free_keyval(&keys[3]);
}

static void test_failing_callbacks(void) {
  int copies, deletes, flag;
  char *value;
  MPI_Comm comm, dup = MPI_COMM_WORLD;
  MPI_Comm_create_keyval(copy_fails, MPI_COMM_NULL_DELETE_FN, &copies, NULL);
  MPI_Comm_create_keyval(MPI_COMM_DUP_FN, delete_fails, &deletes, NULL);
  MPI_Comm_dup(MPI_COMM_WORLD, &comm);
  MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
  /* It fails on one rank only; the others get their duplicate. */
  if (rank == 0) MPI_Comm_set_attr(comm, copies, &values[0]);
  int code = MPI_Comm_dup(comm, &dup);
  CHECK(code == (rank == 0 ? MPI_ERR_OTHER : MPI_SUCCESS));
  if (rank == 0) CHECK(dup == MPI_COMM_NULL);
  if (rank != 0) MPI_Comm_free(&dup);
  if (rank == 0) MPI_Comm_delete_attr(comm, copies);
  const int too_many = 1 << 30, periodic = 0;
  MPI_Comm grid = comm;
  CHECK(MPI_Cart_create(comm, 1, &too_many, &periodic, 0, &grid) != MPI_SUCCESS && grid == MPI_COMM_NULL);
  MPI_Comm_set_attr(comm, deletes, &values[3]);
  CHECK(MPI_Comm_delete_attr(comm, deletes) == MPI_ERR_INTERN);
  CHECK(MPI_Comm_set_attr(comm, deletes, &values[4]) == MPI_ERR_INTERN);
  MPI_Comm_get_attr(comm, deletes, &value, &flag);
  CHECK(flag && value == &values[3]);
  MPI_Comm again = comm;
  CHECK(MPI_Comm_free(&again) == MPI_ERR_INTERN && again == comm);
  MPI_Barrier(comm); /* it lives */
  failing = 0;
  MPI_Comm_free(&comm);
  MPI_Comm_free_keyval(&copies);
  MPI_Comm_free_keyval(&deletes);
}

static int type_copied, type_deleted;
static int type_copy(MPI_Datatype type, int key, void *extra, void *in, void *out, int *flag) {
  int bytes;
  MPI_Type_size(type, &bytes);
  CHECK(bytes == 12);
  type_copied++;
  *(void **)out = in;
  *flag = 1;
  return MPI_SUCCESS;
}
static int type_delete(MPI_Datatype type, int key, void *value, void *extra) {
  type_deleted++;
  return MPI_SUCCESS;
}

static void test_datatypes(void) {
  int key, comm_key, flag;
  char *value;
  MPI_Datatype type, dup;
  MPI_Type_create_keyval(type_copy, type_delete, &key, NULL);
  MPI_Type_contiguous(3, MPI_INT, &type);
  MPI_Type_set_attr(type, key, &values[6]);
  MPI_Type_dup(type, &dup);
  CHECK(type_copied == 1);
  MPI_Type_free(&type);
  CHECK(type_deleted == 1);
  MPI_Type_get_attr(dup, key, &value, &flag);
  CHECK(flag && value == &values[6]);
  MPI_Type_delete_attr(dup, key);
  CHECK(type_deleted == 2);
  MPI_Type_free(&dup);
  CHECK(type_deleted == 2);
  /* Also on predefined types. */
  MPI_Type_set_attr(MPI_DOUBLE, key, &values[2]);
  MPI_Type_get_attr(MPI_DOUBLE, key, &value, &flag);
  CHECK(flag && value == &values[2]);
  MPI_Type_delete_attr(MPI_DOUBLE, key);
  /* Keys are for one kind of object. */
  MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, MPI_COMM_NULL_DELETE_FN, &comm_key, NULL);
  MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
  CHECK(MPI_Type_set_attr(MPI_INT, comm_key, NULL) == MPI_ERR_KEYVAL);
  CHECK(MPI_Comm_set_attr(MPI_COMM_SELF, key, NULL) == MPI_ERR_KEYVAL);
  CHECK(MPI_Comm_set_attr(MPI_COMM_SELF, MPI_TAG_UB, NULL) == MPI_ERR_KEYVAL);
  int predefined = MPI_TAG_UB, invalid = MPI_KEYVAL_INVALID;
  CHECK(MPI_Comm_free_keyval(&predefined) == MPI_ERR_KEYVAL);
  CHECK(MPI_Comm_free_keyval(&invalid) == MPI_ERR_KEYVAL);
  MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_ARE_FATAL);
  MPI_Type_free_keyval(&key);
  MPI_Comm_free_keyval(&comm_key);
}

static void test_predefined(void) {
  int *value, flag, before;
  MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &value, &flag);
  CHECK(flag && *value >= 32767);
  int in = 0, tag = *value;
  MPI_Sendrecv(&rank, 1, MPI_INT, rank, tag, &in, 1, MPI_INT, rank, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  CHECK(in == rank);
  MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_IO, &value, &flag);
  CHECK(flag && *value == MPI_ANY_SOURCE);
  MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_WTIME_IS_GLOBAL, &value, &flag);
  CHECK(!flag || *value == 0 || *value == 1);
  MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_UNIVERSE_SIZE, &value, &flag);
  CHECK(!flag || *value >= size);
  MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_APPNUM, &value, &flag);
  CHECK(!flag || *value == 0);
  MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_LASTUSEDCODE, &value, &flag);
  CHECK(flag && *value >= MPI_ERR_LASTCODE);
  before = *value;
  int added;
  MPI_Add_error_class(&added);
  MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_LASTUSEDCODE, &value, &flag);
  CHECK(flag && *value == added && added > before);
}

static int delete_at_end(MPI_Comm comm, int key, void *value, void *extra) {
  int finalized = 1;
  MPI_Finalized(&finalized);
  CHECK(!finalized);
  sprintf(diary + strlen(diary), "%d ", *(int *)extra);
  return MPI_SUCCESS;
}

int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  test_communicators();
  test_failing_callbacks();
  test_datatypes();
  test_predefined();
  for (int i = 0; i < 4; i++) {
    int key;
    MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, delete_at_end, &key, &names[i]);
    MPI_Comm_set_attr(MPI_COMM_SELF, key, NULL);
    MPI_Comm_free_keyval(&key);
  }
  MPI_Barrier(MPI_COMM_WORLD);
  MPI_Finalize();
  if (!saw("3 2 1 0 ")) { /* the reverse of the order of setting (11.2.4) */
    fprintf(stderr, "MPI_Finalize deleted the attributes of MPI_COMM_SELF in another order than the reverse\n");
    return 1;
  }
  if (rank == 0) puts("ok");
  return 0;
}
