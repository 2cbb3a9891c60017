/* handles FIRST LAST_FILE: makes calls with one wrong handle each, from number FIRST on. Rank 0 writes the number and
 * the name of each into LAST_FILE before it is made, so that a crash can be told (handles_test.py). Run with two ranks.
 */
#include "handles.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

char memory[1 << 16], other_memory[1 << 16], text[4096];
int zeros[16], ones[16], ints_out[64], ranges[1][3] = {{0, 0, 1}}, distribs[16], dargs[16], int_out, position;
MPI_Count large_zeros[16], large_ones[16], counts_out[64], count_out, large_position;
MPI_Aint aint_zeros[16], aints_out[64], aint_out, aint_position;
MPI_Offset offset_out;
MPI_Datatype types_out[64];
MPI_Status status, statuses[16];
void *pointer_out;
MPI_Comm comm, freed_comm, inter, cart, graph, dist_graph;
MPI_Group group, freed_group;
MPI_Datatype freed_type, uncommitted, mixed, strided, empty;
MPI_Op freed_op, user_op, user_op_c;
MPI_Info info, freed_info;
MPI_Errhandler freed_errhandler, comm_errhandler, win_errhandler, file_errhandler;
MPI_Request freed_request, persistent, partitioned_send, partitioned_receive, persistent_barrier;
MPI_Session session, freed_session;
MPI_File file, freed_file, read_only, sequential;
MPI_Win win, freed_win, created, dynamic, shared;
int comm_keyval, type_keyval, win_keyval, freed_keyval;

static int rank, number, first, failures;
static const char *current = "";
static FILE *last;

void nothing(void) {}
static void add(void *in, void *inout, int *n, MPI_Datatype *type) { (void)in, (void)inout, (void)n, (void)type; }
static void add_c(void *in, void *inout, MPI_Count *n, MPI_Datatype *type) {
  (void)in, (void)inout, (void)n, (void)type;
}

static void make_types(void) {
  int lengths[2] = {1, 1};
  MPI_Aint places[2] = {0, 8};
  MPI_Datatype parts[2] = {MPI_INT, MPI_DOUBLE};
  MPI_Type_contiguous(2, MPI_INT, &uncommitted);
  MPI_Type_create_struct(2, lengths, places, parts, &mixed);
  MPI_Type_commit(&mixed);
  MPI_Type_vector(2, 1, 3, MPI_INT, &strided);
  MPI_Type_commit(&strided);
  MPI_Type_contiguous(0, MPI_INT, &empty);
  MPI_Type_commit(&empty);
  MPI_Datatype gone;
  MPI_Type_dup(MPI_INT, &gone);
  freed_type = gone;
  MPI_Type_free(&gone);
}

static void make_comms(void) {
  MPI_Comm_dup(MPI_COMM_SELF, &comm);
  int one = 1, zero = 0;
  MPI_Cart_create(MPI_COMM_SELF, 1, &one, &one, 0, &cart);
  MPI_Graph_create(MPI_COMM_SELF, 1, &one, &zero, 0, &graph);
  MPI_Dist_graph_create_adjacent(MPI_COMM_SELF, 1, &zero, MPI_UNWEIGHTED, 1, &zero, MPI_UNWEIGHTED, MPI_INFO_NULL, 0,
                                 &dist_graph);
  MPI_Intercomm_create(MPI_COMM_SELF, 0, MPI_COMM_WORLD, 1 - rank, 1, &inter);
  MPI_Comm gone;
  MPI_Comm_dup(MPI_COMM_SELF, &gone);
  freed_comm = gone;
  MPI_Comm_free(&gone);
  MPI_Group group_gone;
  MPI_Comm_group(comm, &group);
  MPI_Comm_group(cart, &group_gone);
  MPI_Group_incl(group, 1, &zero, &freed_group);
  group_gone = freed_group;
  MPI_Group_free(&group_gone);
}

static void make_windows(void) {
  char *base;
  MPI_Win *windows[] = {&win, &created, &dynamic, &shared, &freed_win};
  MPI_Win_allocate(4096, 1, MPI_INFO_NULL, MPI_COMM_SELF, &base, &win);
  MPI_Win_create(other_memory, 4096, 1, MPI_INFO_NULL, MPI_COMM_SELF, &created);
  MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_SELF, &dynamic);
  MPI_Win_allocate_shared(4096, 1, MPI_INFO_NULL, MPI_COMM_SELF, &base, &shared);
  MPI_Win_create(memory, 4096, 1, MPI_INFO_NULL, MPI_COMM_SELF, &freed_win);
  for (int i = 0; i < 5; i++) MPI_Win_set_errhandler(*windows[i], MPI_ERRORS_RETURN);
  MPI_Win gone = freed_win;
  MPI_Win_free(&gone);
}

static void make_files(void) {
  char name[64];
  snprintf(name, sizeof name, "handles.%d.data", rank);
  MPI_File_open(MPI_COMM_SELF, name, MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file);
  MPI_File_set_size(file, 4096);
  MPI_File_open(MPI_COMM_SELF, name, MPI_MODE_RDONLY, MPI_INFO_NULL, &read_only);
  MPI_File_open(MPI_COMM_SELF, name, MPI_MODE_WRONLY | MPI_MODE_SEQUENTIAL | MPI_MODE_DELETE_ON_CLOSE, MPI_INFO_NULL,
                &sequential);
  MPI_File gone;
  MPI_File_open(MPI_COMM_SELF, name, MPI_MODE_RDONLY, MPI_INFO_NULL, &gone);
  freed_file = gone;
  MPI_File_close(&gone);
}

static void make_others(void) {
  MPI_Op_create(add, 1, &user_op);
  MPI_Op_create_c(add_c, 1, &user_op_c);
  MPI_Op op_gone;
  MPI_Op_create(add, 1, &op_gone);
  freed_op = op_gone;
  MPI_Op_free(&op_gone);
  MPI_Info info_gone;
  MPI_Info_create(&info);
  MPI_Info_create(&info_gone);
  freed_info = info_gone;
  MPI_Info_free(&info_gone);
  MPI_Comm_create_errhandler((MPI_Comm_errhandler_function *)nothing, &comm_errhandler);
  MPI_Win_create_errhandler((MPI_Win_errhandler_function *)nothing, &win_errhandler);
  MPI_File_create_errhandler((MPI_File_errhandler_function *)nothing, &file_errhandler);
  MPI_Errhandler handler_gone;
  MPI_Comm_create_errhandler((MPI_Comm_errhandler_function *)nothing, &handler_gone);
  freed_errhandler = handler_gone;
  MPI_Errhandler_free(&handler_gone);
  MPI_Send_init(memory, 1, MPI_INT, MPI_PROC_NULL, 0, comm, &persistent);
  MPI_Psend_init(memory, 1, 1, MPI_INT, MPI_PROC_NULL, 0, comm, MPI_INFO_NULL, &partitioned_send);
  MPI_Precv_init(memory, 1, 1, MPI_INT, MPI_PROC_NULL, 0, comm, MPI_INFO_NULL, &partitioned_receive);
  MPI_Barrier_init(comm, MPI_INFO_NULL, &persistent_barrier);
  MPI_Request gone;
  MPI_Send_init(memory, 1, MPI_INT, MPI_PROC_NULL, 0, comm, &gone);
  freed_request = gone;
  MPI_Request_free(&gone);
  MPI_Session session_gone;
  MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &session);
  MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &session_gone);
  freed_session = session_gone;
  MPI_Session_finalize(&session_gone);
  MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, MPI_COMM_NULL_DELETE_FN, &comm_keyval, NULL);
  MPI_Type_create_keyval(MPI_TYPE_NULL_COPY_FN, MPI_TYPE_NULL_DELETE_FN, &type_keyval, NULL);
  MPI_Win_create_keyval(MPI_WIN_NULL_COPY_FN, MPI_WIN_NULL_DELETE_FN, &win_keyval, NULL);
  int key_gone;
  MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, MPI_COMM_NULL_DELETE_FN, &key_gone, NULL);
  freed_keyval = key_gone;
  MPI_Comm_free_keyval(&key_gone);
}

/* What a call may have left begun ends; the errors of what was not begun mean nothing. */
static void settle(void) {
  MPI_Win windows[] = {win, created, dynamic, shared};
  for (int i = 0; i < 4; i++) {
    MPI_Win_complete(windows[i]);
    MPI_Win_unlock(0, windows[i]);
    MPI_Win_lock_all(0, windows[i]);
  }
  MPI_File files[] = {file, read_only, sequential};
  for (int i = 0; i < 3; i++) {
    MPI_File_read_all_end(files[i], memory, &status);
    MPI_File_read_at_all_end(files[i], memory, &status);
    MPI_File_read_ordered_end(files[i], memory, &status);
    MPI_File_write_all_end(files[i], memory, &status);
    MPI_File_write_at_all_end(files[i], memory, &status);
    MPI_File_write_ordered_end(files[i], memory, &status);
  }
  int_out = position = 0;
  count_out = large_position = 0;
  aint_out = aint_position = 0;
  memset(&status, 0, sizeof status);
}

int begin_case(const char *label) {
  current = label;
  if (number++ < first) return 0;
  settle();
  if (rank == 0) {
    rewind(last);
    fprintf(last, "%d %-150s\n", number - 1, label);
    fflush(last);
  }
  return 1;
}

void judge(int result, const int *wanted, int error) {
  int class = MPI_SUCCESS;
  if (result != MPI_SUCCESS) MPI_Error_class(result, &class);
  int right = !error || (wanted[0] == -1 && class != MPI_SUCCESS);
  for (const int *one = wanted; *one != -1; one++) right = right || class == *one;
  if (right) return;
  failures++;
  int length;
  char message[MPI_MAX_ERROR_STRING + 1] = "";
  MPI_Error_string(result, message, &length);
  fprintf(stderr, "%s: class %d, not %d: %s\n", current, class, wanted[0], message);
}

void end_request(MPI_Request *request) { MPI_Wait(request, MPI_STATUS_IGNORE); }
void free_request(MPI_Request *request) {
  if (*request != MPI_REQUEST_NULL) MPI_Request_free(request);
}

int main(int argc, char **argv) {
  if (argc != 3) return 2;
  first = atoi(argv[1]);
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
  if (rank == 0) last = fopen(argv[2], "w");
  for (int i = 0; i < 16; i++) {
    ones[i] = 1, large_ones[i] = 1;
    distribs[i] = MPI_DISTRIBUTE_NONE;
    dargs[i] = MPI_DISTRIBUTE_DFLT_DARG;
  }
  make_types();
  make_comms();
  make_windows();
  make_files();
  make_others();
  all_cases();
  settle();
  MPI_File_close(&file);
  MPI_File_close(&read_only);
  MPI_File_close(&sequential);
  if (rank == 0) printf("%d calls\n", number);
  MPI_Session_finalize(&session);
  MPI_Finalize();
  return failures != 0;
}
