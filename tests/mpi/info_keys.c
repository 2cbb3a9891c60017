// ranks: 1 2 4
/* Info keys that MPI reserves (A.1.5.6), in every call that takes info: what docs/info-keys.md says of each. Those of
 * MPI_Comm_spawn are also in spawn_children.c. */
#include <stdint.h>
#include <unistd.h>

#include "check.h"

static int me, ranks;

static int has(MPI_Info info, const char *key, const char *value) {
  char found[MPI_MAX_INFO_VAL + 1];
  int length = sizeof found, flag;
  MPI_Info_get_string(info, key, &length, found, &flag);
  if (!value) return flag;
  return flag && strcmp(found, value) == 0;
}

static MPI_Info of_key(const char *key, const char *value) {
  MPI_Info info;
  MPI_Info_create(&info);
  MPI_Info_set(info, key, value);
  return info;
}

/* mpi_minimum_memory_alignment: up to more than a page. */
static void alignment(size_t wanted) {
  char text[32];
  snprintf(text, sizeof text, "%zu", wanted);
  MPI_Info info = of_key("mpi_minimum_memory_alignment", text), used;
  void *memory;
  CHECK(MPI_Alloc_mem(100, info, &memory) == MPI_SUCCESS);
  CHECK((uintptr_t)memory % wanted == 0);
  MPI_Free_mem(memory);
  MPI_Win win;
  MPI_Win_allocate(100 + me, 1, info, MPI_COMM_WORLD, &memory, &win);
  CHECK((uintptr_t)memory % wanted == 0);
  MPI_Win_get_info(win, &used);
  CHECK(has(used, "mpi_minimum_memory_alignment", wanted < 64 ? "64" : text));
  MPI_Info_free(&used);
  MPI_Win_free(&win);
  MPI_Comm node;
  MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node);
  int rank, size;
  MPI_Comm_rank(node, &rank);
  MPI_Comm_size(node, &size);
  /* One after the other: the first that has memory. */
  MPI_Aint mine = rank == 0 && size > 1 ? 0 : 100;
  MPI_Win_allocate_shared(mine, 1, info, node, &memory, &win);
  if (rank == (size > 1)) CHECK((uintptr_t)memory % wanted == 0);
  if (mine != 0) memset(memory, me, (size_t)mine);
  MPI_Win_free(&win);
  MPI_Info_set(info, "alloc_shared_noncontig", "true");
  MPI_Win_allocate_shared(100, 1, info, node, &memory, &win);
  CHECK((uintptr_t)memory % wanted == 0);
  memset(memory, me, 100);
  MPI_Win_get_info(win, &used);
  CHECK(has(used, "alloc_shared_noncontig", "true"));
  MPI_Info_free(&used);
  MPI_Win_free(&win);
  MPI_Comm_free(&node);
  MPI_Info_free(&info);
}

/* A value that makes no sense says nothing. */
static void senseless(void) {
  MPI_Info info = of_key("mpi_minimum_memory_alignment", "48"), used;
  MPI_Info_set(info, "no_locks", "perhaps");
  MPI_Info_set(info, "accumulate_ops", "any");
  MPI_Info_set(info, "mpi_accumulate_granularity", "some");
  void *memory;
  CHECK(MPI_Alloc_mem(100, info, &memory) == MPI_SUCCESS);
  MPI_Free_mem(memory);
  MPI_Win win;
  MPI_Win_allocate(8, 1, info, MPI_COMM_WORLD, &memory, &win);
  MPI_Win_get_info(win, &used);
  CHECK(has(used, "mpi_minimum_memory_alignment", "64"));
  CHECK(has(used, "no_locks", "false"));
  CHECK(has(used, "accumulate_ops", "same_op_no_op"));
  CHECK(has(used, "mpi_accumulate_granularity", "0"));
  MPI_Info_free(&used);
  MPI_Win_free(&win);
  MPI_Info_free(&info);
}

/* Kept by windows and told again. */
static void kept_by_windows(void) {
  const char *keys[][2] = {{"accumulate_ordering", "none"},
                           {"accumulate_ops", "same_op"},
                           {"mpi_accumulate_granularity", "64"},
                           {"same_size", "true"},
                           {"same_disp_unit", "true"},
                           {"no_locks", "true"},
                           {"mpi_assert_memory_alloc_kinds", "mpi:win_allocate"}};
  for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
    MPI_Info info = of_key(keys[i][0], keys[i][1]), used;
    void *memory;
    MPI_Win win;
    MPI_Win_allocate(8, 1, info, MPI_COMM_WORLD, &memory, &win);
    MPI_Win_get_info(win, &used);
    CHECK(has(used, keys[i][0], keys[i][1]));
    MPI_Info_free(&used);
    MPI_Win_free(&win);
    /* Also when they come later. */
    MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    MPI_Win_set_info(win, info);
    MPI_Win_get_info(win, &used);
    CHECK(has(used, keys[i][0], keys[i][1]));
    CHECK(!has(used, "mpi_minimum_memory_alignment", NULL));
    MPI_Info_free(&used);
    MPI_Win_free(&win);
    MPI_Info_free(&info);
  }
}

static void kept_by_communicators(void) {
  const char *keys[][2] = {
      {"mpi_assert_no_any_tag", "true"},   {"mpi_assert_no_any_source", "true"},
      {"mpi_assert_exact_length", "true"}, {"mpi_assert_allow_overtaking", "true"},
      {"tern_reproducible", "true"},       {"mpi_assert_memory_alloc_kinds", "system,mpi:alloc_mem"}};
  for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
    MPI_Info info = of_key(keys[i][0], keys[i][1]), used;
    MPI_Comm comm;
    MPI_Comm_dup_with_info(MPI_COMM_WORLD, info, &comm);
    MPI_Comm_get_info(comm, &used);
    CHECK(has(used, keys[i][0], keys[i][1]));
    MPI_Info_free(&used);
    MPI_Comm_free(&comm);
    MPI_Info_free(&info);
  }
  /* Kinds that are not supported are ignored. */
  MPI_Info info = of_key("mpi_assert_memory_alloc_kinds", "system,gpu:device"), used;
  MPI_Comm comm;
  MPI_Comm_dup_with_info(MPI_COMM_WORLD, info, &comm);
  MPI_Comm_get_info(comm, &used);
  CHECK(!has(used, "mpi_assert_memory_alloc_kinds", NULL));
  MPI_Info_free(&used);
  MPI_Comm_free(&comm);
  MPI_Info_free(&info);
}

static void splitting(void) {
  MPI_Info info = of_key("mpi_hw_resource_type", "mpi_shared_memory");
  MPI_Comm node, guided;
  MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node);
  MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_HW_GUIDED, 0, info, &guided);
  int same;
  MPI_Comm_compare(node, guided, &same);
  CHECK(same == MPI_CONGRUENT);
  MPI_Comm_free(&node);
  MPI_Comm_free(&guided);
  MPI_Info_free(&info);
}

static void files(void) {
  const char *kept[][2] = {{"access_style", "random"},
                           {"collective_buffering", "false"},
                           {"cb_block_size", "8192"},
                           {"cb_buffer_size", "65536"},
                           {"cb_nodes", "1"},
                           {"file_perm", "640"},
                           {"mpi_assert_memory_alloc_kinds", "system"},
                           {"striping_unit", "65536"},
                           {"striping_factor", "1"}};
  const char *ignored[] = {"chunked", "chunked_item", "chunked_size", "io_node_list", "nb_proc", "num_io_nodes"};
  MPI_Info info, used;
  MPI_Info_create(&info);
  for (size_t i = 0; i < sizeof kept / sizeof kept[0]; i++) MPI_Info_set(info, kept[i][0], kept[i][1]);
  for (size_t i = 0; i < sizeof ignored / sizeof ignored[0]; i++) MPI_Info_set(info, ignored[i], "2");
  char name[64];
  snprintf(name, sizeof name, "info_keys.hints.%d.data", (int)getpid());
  MPI_Bcast(name, sizeof name, MPI_CHAR, 0, MPI_COMM_WORLD);
  MPI_File file;
  const int mode = MPI_MODE_CREATE | MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE;
  CHECK(MPI_File_open(MPI_COMM_WORLD, name, mode, info, &file) == MPI_SUCCESS);
  MPI_File_get_info(file, &used);
  for (size_t i = 0; i < sizeof kept / sizeof kept[0]; i++) CHECK(has(used, kept[i][0], kept[i][1]));
  for (size_t i = 0; i < sizeof ignored / sizeof ignored[0]; i++) CHECK(!has(used, ignored[i], NULL));
  CHECK(has(used, "filename", name));
  MPI_Info_free(&used);
  MPI_File_close(&file);
  MPI_Info_free(&info);
}

/* What MPI tells of itself. */
static void told(void) {
  const char *start[] = {"command", "maxprocs", "host", "arch", "wdir", "mpi_memory_alloc_kinds"};
  for (size_t i = 0; i < sizeof start / sizeof start[0]; i++) CHECK(has(MPI_INFO_ENV, start[i], NULL));
  MPI_Info info;
  MPI_Abi_get_info(&info);
  CHECK(has(info, "mpi_aint_size", "8") && has(info, "mpi_count_size", "8") && has(info, "mpi_offset_size", "8"));
  MPI_Info_free(&info);
  const char *fortran[] = {"mpi_logical_size",
                           "mpi_integer_size",
                           "mpi_real_size",
                           "mpi_double_precision_size",
                           "mpi_integer1_supported",
                           "mpi_integer2_supported",
                           "mpi_integer4_supported",
                           "mpi_integer8_supported",
                           "mpi_integer16_supported",
                           "mpi_logical1_supported",
                           "mpi_logical2_supported",
                           "mpi_logical4_supported",
                           "mpi_logical8_supported",
                           "mpi_logical16_supported",
                           "mpi_real2_supported",
                           "mpi_real4_supported",
                           "mpi_real8_supported",
                           "mpi_real16_supported",
                           "mpi_complex4_supported",
                           "mpi_complex8_supported",
                           "mpi_complex16_supported",
                           "mpi_complex32_supported",
                           "mpi_double_complex_supported"};
  MPI_Info_create(&info);
  for (size_t i = 0; i < sizeof fortran / sizeof fortran[0]; i++) {
    const char *value = strstr(fortran[i], "supported") ? "true" : strstr(fortran[i], "double") ? "8" : "4";
    MPI_Info_set(info, fortran[i], value);
  }
  CHECK(MPI_Abi_set_fortran_info(info) == MPI_SUCCESS);
  MPI_Info_free(&info);
  MPI_Abi_get_fortran_info(&info);
  for (size_t i = 0; i < sizeof fortran / sizeof fortran[0]; i++) CHECK(has(info, fortran[i], NULL));
  MPI_Info_free(&info);
}

/* Ports choose their address and number themselves. */
static void ports(void) {
  MPI_Info info = of_key("ip_port", "1");
  MPI_Info_set(info, "ip_address", "192.0.2.1");
  char name[MPI_MAX_PORT_NAME];
  CHECK(MPI_Open_port(info, name) == MPI_SUCCESS);
  MPI_Close_port(name);
  MPI_Info_free(&info);
}

/* mpi_memory_alloc_kinds, everywhere the same. */
static void memory_kinds(MPI_Comm comm, const char *expected) {
  MPI_Info used;
  MPI_Comm_get_info(comm, &used);
  CHECK(has(used, "mpi_memory_alloc_kinds", expected));
  MPI_Info_free(&used);
  MPI_Win win;
  int *memory;
  MPI_Win_allocate(4, 4, MPI_INFO_NULL, comm, &memory, &win);
  MPI_Win_get_info(win, &used);
  CHECK(has(used, "mpi_memory_alloc_kinds", expected));
  MPI_Info_free(&used);
  MPI_Win_free(&win);
  MPI_File file;
  char name[64];
  int size;
  MPI_Comm_size(comm, &size);
  snprintf(name, sizeof name, "info_keys.%d.data", (int)getpid());
  MPI_Bcast(name, sizeof name, MPI_CHAR, 0, comm);
  CHECK(MPI_File_open(comm, name, MPI_MODE_CREATE | MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE, MPI_INFO_NULL, &file) ==
        MPI_SUCCESS);
  MPI_File_get_info(file, &used);
  CHECK(has(used, "mpi_memory_alloc_kinds", expected));
  MPI_Info_free(&used);
  MPI_File_close(&file);
}

static void sessions(void) {
  MPI_Info info = of_key("mpi_memory_alloc_kinds", "system,gpu:device,mpi:alloc_mem"), used;
  MPI_Info_set(info, "thread_level", "MPI_THREAD_SINGLE");
  MPI_Session session;
  MPI_Session_init(info, MPI_ERRORS_RETURN, &session);
  MPI_Session_get_info(session, &used);
  CHECK(has(used, "mpi_memory_alloc_kinds", "system,mpi:alloc_mem,mpi"));
  CHECK(has(used, "thread_level", NULL));
  MPI_Info_free(&used);
  MPI_Session_get_pset_info(session, "mpi://WORLD", &used);
  CHECK(has(used, "mpi_size", NULL));
  MPI_Info_free(&used);
  MPI_Group group;
  MPI_Comm comm;
  MPI_Group_from_session_pset(session, "mpi://WORLD", &group);
  MPI_Comm_create_from_group(group, "info_keys", MPI_INFO_NULL, MPI_ERRORS_RETURN, &comm);
  memory_kinds(comm, "system,mpi:alloc_mem,mpi");
  MPI_Comm_free(&comm);
  MPI_Group_free(&group);
  MPI_Session_finalize(&session);
  MPI_Info_free(&info);
}

int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &me);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  alignment(16);
  alignment(4096);
  alignment(1 << 20);
  senseless();
  kept_by_windows();
  kept_by_communicators();
  splitting();
  files();
  told();
  ports();
  char kinds[256];
  int length = sizeof kinds, flag;
  MPI_Info_get_string(MPI_INFO_ENV, "mpi_memory_alloc_kinds", &length, kinds, &flag);
  CHECK(flag);
  memory_kinds(MPI_COMM_WORLD, kinds);
  memory_kinds(MPI_COMM_SELF, kinds);
  sessions();
  done();
  return 0;
}
