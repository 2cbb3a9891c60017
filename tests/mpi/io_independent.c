// ranks: 1 2 4
/* Files opened by all, each rank alone with its data: modes, sizes, pointers, views, types in memory, ends of files. */
#include "io_check.h"

static int rank, size;

static void test_modes(void) {
  MPI_File fh;
  const char *name = new_name();
  int amode;
  FAILS(MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_RDONLY, MPI_INFO_NULL, &fh), MPI_ERR_NO_SUCH_FILE);
  FAILS(MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_RDONLY | MPI_MODE_RDWR, MPI_INFO_NULL, &fh), MPI_ERR_AMODE);
  FAILS(MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_CREATE, MPI_INFO_NULL, &fh), MPI_ERR_AMODE);
  FAILS(MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_RDONLY | MPI_MODE_CREATE, MPI_INFO_NULL, &fh), MPI_ERR_AMODE);
  FAILS(MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_RDWR | MPI_MODE_SEQUENTIAL, MPI_INFO_NULL, &fh), MPI_ERR_AMODE);
  FAILS(MPI_File_open(MPI_COMM_WORLD, "/tmp", MPI_MODE_RDONLY, MPI_INFO_NULL, &fh), MPI_ERR_BAD_FILE);
  FAILS(MPI_File_open(MPI_COMM_WORLD, "/proc/version", MPI_MODE_RDWR | MPI_MODE_EXCL | MPI_MODE_CREATE, MPI_INFO_NULL,
                      &fh),
        MPI_ERR_FILE_EXISTS);
  if (size > 1)
    FAILS(MPI_File_open(MPI_COMM_WORLD, name,
                        rank == 0 ? MPI_MODE_RDWR | MPI_MODE_CREATE : MPI_MODE_WRONLY | MPI_MODE_CREATE, MPI_INFO_NULL,
                        &fh),
          MPI_ERR_NOT_SAME);
  FINE(MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_RDWR | MPI_MODE_CREATE | MPI_MODE_EXCL, MPI_INFO_NULL, &fh));
  FINE(MPI_File_get_amode(fh, &amode));
  CHECK(amode == (MPI_MODE_RDWR | MPI_MODE_CREATE | MPI_MODE_EXCL));
  FINE(MPI_File_close(&fh));
  CHECK(fh == MPI_FILE_NULL);
  FAILS(MPI_File_close(&fh), MPI_ERR_FILE);
  FAILS(MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_RDWR | MPI_MODE_CREATE | MPI_MODE_EXCL, MPI_INFO_NULL, &fh),
        MPI_ERR_FILE_EXISTS);
  /* What a mode forbids. */
  int x = rank;
  FINE(MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_WRONLY, MPI_INFO_NULL, &fh));
  FINE(MPI_File_write_at(fh, rank * 4, &x, 1, MPI_INT, MPI_STATUS_IGNORE));
  FAILS(MPI_File_read_at(fh, 0, &x, 1, MPI_INT, MPI_STATUS_IGNORE), MPI_ERR_ACCESS);
  FINE(MPI_File_close(&fh));
  FINE(MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_RDONLY | MPI_MODE_APPEND, MPI_INFO_NULL, &fh));
  MPI_Offset at;
  FINE(MPI_File_get_position(fh, &at));
  CHECK(at == 4 * size);
  FINE(MPI_File_get_position_shared(fh, &at));
  CHECK(at == 4 * size);
  FAILS(MPI_File_write_at(fh, 0, &x, 1, MPI_INT, MPI_STATUS_IGNORE), MPI_ERR_READ_ONLY);
  FAILS(MPI_File_write_at_all(fh, 0, &x, 1, MPI_INT, MPI_STATUS_IGNORE), MPI_ERR_READ_ONLY);
  FAILS(MPI_File_read_at(fh, -1, &x, 1, MPI_INT, MPI_STATUS_IGNORE), MPI_ERR_ARG);
  FAILS(MPI_File_read_at(fh, 0, &x, -1, MPI_INT, MPI_STATUS_IGNORE), MPI_ERR_COUNT);
  FAILS(MPI_File_read_at(fh, 0, NULL, 1, MPI_INT, MPI_STATUS_IGNORE), MPI_ERR_BUFFER);
  FINE(MPI_File_close(&fh));
  FINE(MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE, MPI_INFO_NULL, &fh));
  FINE(MPI_File_close(&fh));
  FAILS(MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_RDONLY, MPI_INFO_NULL, &fh), MPI_ERR_NO_SUCH_FILE);
  if (rank == 0) FAILS(MPI_File_delete(name, MPI_INFO_NULL), MPI_ERR_NO_SUCH_FILE);
}

static void test_size(void) {
  MPI_File fh;
  MPI_Offset bytes;
  const char *name = new_name();
  FINE(MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_RDWR | MPI_MODE_CREATE | MPI_MODE_DELETE_ON_CLOSE, MPI_INFO_NULL,
                     &fh));
  FINE(MPI_File_set_size(fh, 1000));
  FINE(MPI_File_get_size(fh, &bytes));
  CHECK(bytes == 1000);
  FINE(MPI_File_preallocate(fh, 500));
  FINE(MPI_File_get_size(fh, &bytes));
  CHECK(bytes == 1000);
  MPI_Barrier(MPI_COMM_WORLD);
  FINE(MPI_File_preallocate(fh, 100000));
  FINE(MPI_File_get_size(fh, &bytes));
  CHECK(bytes == 100000);
  MPI_Barrier(MPI_COMM_WORLD);
  FINE(MPI_File_set_size(fh, 10));
  FINE(MPI_File_get_size(fh, &bytes));
  CHECK(bytes == 10);
  FAILS(MPI_File_set_size(fh, -1), MPI_ERR_ARG);
  if (size > 1) FAILS(MPI_File_set_size(fh, rank), MPI_ERR_NOT_SAME);
  FINE(MPI_File_sync(fh));
  FINE(MPI_File_close(&fh));
}

static void test_pointers(void) {
  MPI_File fh;
  MPI_Offset at, disp;
  MPI_Status status;
  int numbers[100], back[100];
  const char *name = new_name();
  FINE(MPI_File_open(MPI_COMM_SELF, rank == 0 ? name : "/dev/null", MPI_MODE_RDWR | (rank == 0 ? MPI_MODE_CREATE : 0),
                     MPI_INFO_NULL, &fh));
  if (rank == 0) {
    for (int i = 0; i < 100; i++) numbers[i] = i;
    FINE(MPI_File_set_view(fh, 8, MPI_INT, MPI_INT, "native", MPI_INFO_NULL));
    FINE(MPI_File_write(fh, numbers, 60, MPI_INT, &status));
    CHECK(count_of(&status, MPI_INT) == 60);
    FINE(MPI_File_write(fh, numbers + 60, 40, MPI_INT, &status));
    FINE(MPI_File_get_position(fh, &at));
    CHECK(at == 100);
    FINE(MPI_File_get_byte_offset(fh, at, &disp));
    CHECK(disp == 408);
    FINE(MPI_File_seek(fh, 10, MPI_SEEK_SET));
    FINE(MPI_File_seek(fh, 5, MPI_SEEK_CUR));
    FINE(MPI_File_read(fh, back, 1, MPI_INT, &status));
    CHECK(back[0] == 15);
    FINE(MPI_File_seek(fh, -2, MPI_SEEK_END));
    FINE(MPI_File_read(fh, back, 10, MPI_INT, &status));
    CHECK(count_of(&status, MPI_INT) == 2 && back[0] == 98 && back[1] == 99);
    FINE(MPI_File_get_position(fh, &at));
    CHECK(at == 100);
    FINE(MPI_File_read(fh, back, 10, MPI_INT, &status));
    CHECK(count_of(&status, MPI_INT) == 0);
    FAILS(MPI_File_seek(fh, -1, MPI_SEEK_SET), MPI_ERR_ARG);
    FAILS(MPI_File_seek(fh, 0, 77), MPI_ERR_ARG);
    FINE(MPI_File_get_position(fh, &at));
    CHECK(at == 100);
    /* An end in the middle of a number. */
    FINE(MPI_File_set_size(fh, 8 + 4 * 99 + 2));
    FINE(MPI_File_seek(fh, 98, MPI_SEEK_SET));
    FINE(MPI_File_read(fh, back, 10, MPI_INT, &status));
    CHECK(count_of(&status, MPI_BYTE) == 6);
    CHECK(count_of(&status, MPI_INT) == MPI_UNDEFINED && back[0] == 98);
    FAILS(MPI_File_read(fh, back, 3, MPI_CHAR, &status), MPI_ERR_TYPE);
  }
  FINE(MPI_File_close(&fh));
  if (rank == 0) FINE(MPI_File_delete(name, MPI_INFO_NULL));
}

/* Each rank sees every size-th block; what all wrote is what one reads. */
static void test_views(void) {
  enum { kBlocks = 37, kBlock = 11 };
  MPI_File fh;
  MPI_Status status;
  MPI_Datatype filetype, columns, etype_back, filetype_back;
  MPI_Offset disp;
  char datarep[MPI_MAX_DATAREP_STRING];
  unsigned char mine[kBlocks * kBlock], *all = malloc((size_t)(kBlocks * kBlock * size + 5));
  const char *name = new_name();
  fill(mine, rank, sizeof mine);
  FINE(MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_RDWR | MPI_MODE_CREATE | MPI_MODE_DELETE_ON_CLOSE, MPI_INFO_NULL,
                     &fh));
  MPI_Type_vector(2, kBlock, kBlock * size, MPI_BYTE, &columns);
  MPI_Type_create_resized(columns, 0, 2 * kBlock * size, &filetype);
  MPI_Type_commit(&filetype);
  MPI_Type_free(&columns);
  FINE(MPI_File_set_view(fh, 5 + rank * kBlock, MPI_BYTE, filetype, "native", MPI_INFO_NULL));
  FINE(MPI_File_get_view(fh, &disp, &etype_back, &filetype_back, datarep));
  CHECK(disp == 5 + rank * kBlock && etype_back == MPI_BYTE && !strcmp(datarep, "native"));
  MPI_Type_free(&filetype_back);
  for (int i = 0; i < kBlocks * kBlock; i += 50) {
    int n = kBlocks * kBlock - i < 50 ? kBlocks * kBlock - i : 50;
    FINE(MPI_File_write(fh, mine + i, n, MPI_BYTE, &status));
    CHECK(count_of(&status, MPI_BYTE) == n);
  }
  MPI_Barrier(MPI_COMM_WORLD);
  FINE(MPI_File_set_view(fh, 0, MPI_BYTE, MPI_BYTE, "native", MPI_INFO_NULL));
  int bytes = kBlocks * kBlock * size + 5;
  FINE(MPI_File_read_at(fh, 0, all, bytes + 100, MPI_BYTE, &status));
  CHECK(count_of(&status, MPI_BYTE) == bytes);
  for (int i = 0; i < kBlocks * size; i++) {
    for (int j = 0; j < kBlock; j++) CHECK(all[5 + i * kBlock + j] == pattern(i % size, i / size * kBlock + j));
  }
  /* Back through the view, into memory with holes. */
  FINE(MPI_File_set_view(fh, 5 + rank * kBlock, MPI_BYTE, filetype, "native", MPI_INFO_NULL));
  MPI_Type_free(&filetype);
  MPI_Datatype sparse;
  MPI_Type_vector(kBlocks * kBlock, 1, 2, MPI_BYTE, &sparse);
  MPI_Type_commit(&sparse);
  unsigned char holes[2 * kBlocks * kBlock];
  memset(holes, 7, sizeof holes);
  FINE(MPI_File_read_at(fh, 0, holes, 1, sparse, &status));
  CHECK(count_of(&status, sparse) == 1);
  for (int i = 0; i < kBlocks * kBlock; i++) CHECK(holes[2 * i] == mine[i] && holes[2 * i + 1] == 7);
  MPI_Type_free(&sparse);
  FINE(MPI_File_close(&fh));
  free(all);
}

static void test_bad_views(void) {
  MPI_File fh;
  MPI_Datatype type;
  const char *name = new_name();
  FINE(MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_RDWR | MPI_MODE_CREATE | MPI_MODE_DELETE_ON_CLOSE, MPI_INFO_NULL,
                     &fh));
  FAILS(MPI_File_set_view(fh, 0, MPI_INT, MPI_INT, "martian", MPI_INFO_NULL), MPI_ERR_UNSUPPORTED_DATAREP);
  FAILS(MPI_File_set_view(fh, -5, MPI_INT, MPI_INT, "native", MPI_INFO_NULL), MPI_ERR_ARG);
  FAILS(MPI_File_set_view(fh, MPI_DISPLACEMENT_CURRENT, MPI_INT, MPI_INT, "native", MPI_INFO_NULL), MPI_ERR_ARG);
  FAILS(MPI_File_set_view(fh, 0, MPI_INT, MPI_CHAR, "native", MPI_INFO_NULL), MPI_ERR_ARG);
  int lengths[2] = {1, 1}, back[2] = {4, 0}, twice[2] = {0, 0}, negative[2] = {-1, 4};
  MPI_Type_indexed(2, lengths, back, MPI_INT, &type);
  FAILS(MPI_File_set_view(fh, 0, MPI_INT, type, "native", MPI_INFO_NULL), MPI_ERR_TYPE);
  MPI_Type_commit(&type);
  FAILS(MPI_File_set_view(fh, 0, MPI_INT, type, "native", MPI_INFO_NULL), MPI_ERR_IO);
  MPI_Type_free(&type);
  MPI_Type_indexed(2, lengths, negative, MPI_INT, &type);
  MPI_Type_commit(&type);
  FAILS(MPI_File_set_view(fh, 0, MPI_INT, type, "native", MPI_INFO_NULL), MPI_ERR_IO);
  MPI_Type_free(&type);
  MPI_Type_indexed(2, lengths, twice, MPI_INT, &type);
  MPI_Type_commit(&type);
  FAILS(MPI_File_set_view(fh, 0, MPI_INT, type, "native", MPI_INFO_NULL), MPI_ERR_IO);
  MPI_Type_free(&type);
  if (size > 1)
    FAILS(MPI_File_set_view(fh, 0, MPI_INT, MPI_INT, rank == 0 ? "native" : "internal", MPI_INFO_NULL),
          MPI_ERR_NOT_SAME);
  if (size > 1) {
    MPI_Datatype etype = rank == 0 ? MPI_INT : MPI_SHORT;
    FAILS(MPI_File_set_view(fh, 0, etype, etype, "native", MPI_INFO_NULL), MPI_ERR_NOT_SAME);
  }
  FINE(MPI_File_close(&fh));
}

/* A filetype as HDF5 makes them for chunks: one member of the structure has bounds of its own, so the structure's
 * bounds are that member's (MPI 5.0, 5.1.7), and its copies would begin before its end. The first copy is a sound
 * view. */
static void test_first_copy(void) {
  static const int places[5] = {0, 1, 4, 8, 9};
  for (int together = 0; together < 3; together++) {
    MPI_File fh;
    MPI_Info info;
    MPI_Status status;
    MPI_Datatype bounded, pieces;
    MPI_Datatype members[3] = {MPI_INT, MPI_INT, MPI_INT};
    const int lengths[3] = {2, 1, 2};
    const MPI_Aint displacements[3] = {0, 16, 32};
    MPI_Aint lower, extent;
    MPI_Type_create_resized(MPI_INT, 0, 16, &bounded);
    members[1] = bounded;
    MPI_Type_create_struct(3, lengths, displacements, members, &pieces);
    MPI_Type_commit(&pieces);
    MPI_Type_get_extent(pieces, &lower, &extent);
    CHECK(lower == 16 && extent == 16);
    MPI_Info_create(&info);
    MPI_Info_set(info, "romio_cb_write", together == 1 ? "enable" : "disable");
    MPI_Info_set(info, "romio_cb_read", together == 1 ? "enable" : "disable");
    FINE(MPI_File_open(MPI_COMM_WORLD, new_name(), MPI_MODE_RDWR | MPI_MODE_CREATE | MPI_MODE_DELETE_ON_CLOSE, info,
                       &fh));
    FINE(MPI_File_set_view(fh, 40 * rank, MPI_INT, pieces, "native", MPI_INFO_NULL));
    int out[5], in[5] = {0}, all[10] = {0};
    for (int i = 0; i < 5; i++) out[i] = 100 * rank + i + 1;
    if (together != 2) {
      FINE(MPI_File_write_at_all(fh, 0, out, 5, MPI_INT, &status));
      FINE(MPI_File_read_at_all(fh, 0, in, 5, MPI_INT, &status));
    } else {
      FINE(MPI_File_write_at(fh, 0, out, 5, MPI_INT, &status));
      FINE(MPI_File_read_at(fh, 0, in, 5, MPI_INT, &status));
    }
    for (int i = 0; i < 5; i++) CHECK(in[i] == out[i]);
    FINE(MPI_File_read_at(fh, 3, in, 2, MPI_INT, &status));
    CHECK(in[0] == out[3] && in[1] == out[4]);
    FAILS(MPI_File_write_at(fh, 4, out, 2, MPI_INT, &status), MPI_ERR_ARG);
    FAILS(MPI_File_read_at(fh, 5, in, 1, MPI_INT, &status), MPI_ERR_ARG);
    FINE(MPI_File_set_view(fh, 40 * rank, MPI_INT, MPI_INT, "native", MPI_INFO_NULL));
    FINE(MPI_File_read_at(fh, 0, all, 10, MPI_INT, &status));
    for (int i = 0, k = 0; i < 10; i++) {
      const int seen = k < 5 && places[k] == i;
      CHECK(all[i] == (seen ? out[k] : 0));
      k += seen;
    }
    FINE(MPI_File_close(&fh));
    MPI_Info_free(&info);
    MPI_Type_free(&pieces);
    MPI_Type_free(&bounded);
  }
}

/* A rank that sees nothing, as HDF5 makes them. */
static void test_empty_view(void) {
  MPI_File fh;
  MPI_Datatype none;
  MPI_Status status;
  char byte = 1;
  const char *name = new_name();
  MPI_Type_contiguous(0, MPI_BYTE, &none);
  MPI_Type_commit(&none);
  FINE(MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_RDWR | MPI_MODE_CREATE | MPI_MODE_DELETE_ON_CLOSE, MPI_INFO_NULL,
                     &fh));
  FINE(MPI_File_set_view(fh, 0, MPI_BYTE, none, "native", MPI_INFO_NULL));
  FINE(MPI_File_write_at(fh, 0, &byte, 0, MPI_BYTE, &status));
  FINE(MPI_File_write_at_all(fh, 0, &byte, 0, MPI_BYTE, &status));
  CHECK(count_of(&status, MPI_BYTE) == 0);
  FAILS(MPI_File_write_at(fh, 0, &byte, 1, MPI_BYTE, &status), MPI_ERR_TYPE);
  MPI_Type_free(&none);
  FINE(MPI_File_close(&fh));
}

static int handled, handled_code, handler_leaves = -1;
static MPI_File handled_file;
static void on_error(MPI_File *fh, int *code, ...) {
  ++handled;
  handled_code = *code;
  handled_file = *fh;
  if (handler_leaves >= 0) *code = handler_leaves;
}

static void test_handlers(void) {
  MPI_File fh;
  MPI_Errhandler handler, back;
  MPI_Group group, world;
  MPI_Info info;
  int x = 0, result, flag, length;
  char text[MPI_MAX_ERROR_STRING], value[256];
  const char *name = new_name();
  FINE(MPI_File_get_errhandler(MPI_FILE_NULL, &back));
  CHECK(back == MPI_ERRORS_RETURN);
  MPI_File_create_errhandler(on_error, &handler);
  FINE(MPI_File_set_errhandler(MPI_FILE_NULL, handler));
  FAILS(MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_RDONLY, MPI_INFO_NULL, &fh), MPI_ERR_NO_SUCH_FILE);
  CHECK(handled == 1 && handled_code == MPI_ERR_NO_SUCH_FILE && handled_file == MPI_FILE_NULL);
  MPI_Error_string(MPI_ERR_NO_SUCH_FILE, text, &length);
  CHECK(strstr(text, name) && strstr(text, "ENOENT") && strstr(text, "MPI_File_open"));
  FINE(MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_WRONLY | MPI_MODE_CREATE | MPI_MODE_DELETE_ON_CLOSE, MPI_INFO_NULL,
                     &fh));
  FAILS(MPI_File_read_at(fh, 0, &x, 1, MPI_INT, MPI_STATUS_IGNORE), MPI_ERR_ACCESS);
  CHECK(handled == 2 && handled_file == fh);
  FINE(MPI_File_call_errhandler(fh, MPI_ERR_IO));
  CHECK(handled == 3 && handled_code == MPI_ERR_IO);
  // The call returns what the handler leaves in the code (9.3.1).
  handler_leaves = MPI_SUCCESS;
  CHECK(MPI_File_read_at(fh, 0, &x, 1, MPI_INT, MPI_STATUS_IGNORE) == MPI_SUCCESS);
  handler_leaves = MPI_ERR_OTHER;
  CHECK(MPI_File_read_at(fh, 0, &x, 1, MPI_INT, MPI_STATUS_IGNORE) == MPI_ERR_OTHER);
  CHECK(handled == 5 && handled_code == MPI_ERR_ACCESS);
  handler_leaves = -1;
  FINE(MPI_File_set_errhandler(fh, MPI_ERRORS_RETURN));
  FAILS(MPI_File_read_at(fh, 0, &x, 1, MPI_INT, MPI_STATUS_IGNORE), MPI_ERR_ACCESS);
  CHECK(handled == 5);
  FINE(MPI_File_set_errhandler(MPI_FILE_NULL, MPI_ERRORS_RETURN));
  MPI_Errhandler_free(&handler);
  FINE(MPI_File_get_group(fh, &group));
  MPI_Comm_group(MPI_COMM_WORLD, &world);
  MPI_Group_compare(group, world, &result);
  CHECK(result == MPI_IDENT);
  MPI_Group_free(&group);
  MPI_Group_free(&world);
  FINE(MPI_File_get_info(fh, &info));
  length = sizeof value;
  MPI_Info_get_string(info, "filename", &length, value, &flag);
  CHECK(flag && !strcmp(value, name));
  length = sizeof value;
  MPI_Info_get_string(info, "cb_buffer_size", &length, value, &flag);
  CHECK(flag && atol(value) > 0);
  MPI_Info_set(info, "cb_buffer_size", "65536");
  MPI_Info_set(info, "romio_ds_read", "disable");
  FINE(MPI_File_set_info(fh, info));
  MPI_Info_free(&info);
  FINE(MPI_File_get_info(fh, &info));
  length = sizeof value;
  MPI_Info_get_string(info, "cb_buffer_size", &length, value, &flag);
  CHECK(flag && !strcmp(value, "65536"));
  length = sizeof value;
  MPI_Info_get_string(info, "romio_ds_read", &length, value, &flag);
  CHECK(flag && !strcmp(value, "disable"));
  MPI_Info_free(&info);
  FINE(MPI_File_close(&fh));
}

/* Offsets beyond 4 GiB, a type of 10^7 pieces, counts of elements. */
static void test_large(void) {
  MPI_File fh;
  MPI_Status status;
  MPI_Datatype filetype, pieces;
  const MPI_Offset far = (MPI_Offset)5 << 30;
  const char *name = new_name();
  int x = rank + 1000, y = 0;
  FINE(MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_RDWR | MPI_MODE_CREATE | MPI_MODE_DELETE_ON_CLOSE, MPI_INFO_NULL,
                     &fh));
  FINE(MPI_File_write_at(fh, far + 4 * rank, &x, 1, MPI_INT, &status));
  FINE(MPI_File_read_at(fh, far + 4 * rank, &y, 1, MPI_INT, &status));
  CHECK(y == x);
  /* One int of every 4 KiB, 10^7 of them in one filetype: 40 GB of file that nobody expands. */
  MPI_Type_vector(10000000, 1, 1024, MPI_INT, &pieces);
  MPI_Type_create_resized(pieces, 0, (MPI_Aint)10000000 * 4096, &filetype);
  MPI_Type_commit(&filetype);
  FINE(MPI_File_set_view(fh, 4 * rank, MPI_INT, filetype, "native", MPI_INFO_NULL));
  FINE(MPI_File_write_at(fh, 9999999, &x, 1, MPI_INT, &status));
  MPI_Offset bytes, at;
  FINE(MPI_File_get_byte_offset(fh, 9999999, &at));
  CHECK(at == (MPI_Offset)9999999 * 4096 + 4 * rank);
  MPI_Barrier(MPI_COMM_WORLD);
  FINE(MPI_File_get_size(fh, &bytes));
  CHECK(bytes == (MPI_Offset)9999999 * 4096 + 4 * size);
  FINE(MPI_File_seek(fh, 0, MPI_SEEK_END));
  FINE(MPI_File_get_position(fh, &at));
  CHECK(at == 10000000);
  y = 0;
  FINE(MPI_File_read_at_c(fh, 9999999, &y, 1, MPI_INT, &status));
  CHECK(y == x);
  MPI_Type_free(&pieces);
  MPI_Type_free(&filetype);
  FINE(MPI_File_close(&fh));
}

/* Of a file in memory (tmpfs) the kernel does not say whether a read must wait. */
static void test_tmpfs(void) {
  enum { count = 1000 };
  static int out[count], in[count];
  const char *name = new_name_in("/dev/shm");
  MPI_File fh;
  MPI_Request request;
  MPI_Status status;
  for (int i = 0; i < count; i++) out[i] = rank * count + i;
  FINE(MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_RDWR | MPI_MODE_CREATE | MPI_MODE_DELETE_ON_CLOSE, MPI_INFO_NULL,
                     &fh));
  FINE(MPI_File_iwrite_at(fh, (MPI_Offset)rank * (MPI_Offset)sizeof out, out, count, MPI_INT, &request));
  FINE(MPI_Wait(&request, &status));
  CHECK(count_of(&status, MPI_INT) == count);
  FINE(MPI_File_iread_at(fh, (MPI_Offset)rank * (MPI_Offset)sizeof out, in, count, MPI_INT, &request));
  FINE(MPI_Wait(&request, &status));
  CHECK(count_of(&status, MPI_INT) == count && in[0] == out[0] && in[count - 1] == out[count - 1]);
  FINE(MPI_File_read_at_all(fh, (MPI_Offset)rank * (MPI_Offset)sizeof out, in, count, MPI_INT, &status));
  CHECK(count_of(&status, MPI_INT) == count);
  FINE(MPI_File_close(&fh));
}

int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  test_modes();
  test_size();
  test_pointers();
  test_views();
  test_bad_views();
  test_first_copy();
  test_empty_view();
  test_handlers();
  test_large();
  test_tmpfs();
  done();
  return 0;
}
