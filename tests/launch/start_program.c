/* What a program learns of its start: MPI_INFO_ENV, the initial error handler, the arguments of spawned processes. The
 * first argument says which; start_test.py reads what is printed. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static int rank;

static void print_info(MPI_Info info) {
  static const char *const keys[] = {
      "command", "argv", "maxprocs", "soft", "mpi_initial_errhandler", "mpi_memory_alloc_kinds"};
  for (size_t i = 0; i < sizeof keys / sizeof *keys; ++i) {
    char value[MPI_MAX_INFO_VAL];
    int length = sizeof value, found;
    MPI_Info_get_string(info, keys[i], &length, value, &found);
    if (found) printf("%d %s=[%s]\n", rank, keys[i], value);
  }
}

static const char *handler_name(MPI_Errhandler handler) {
  return handler == MPI_ERRORS_RETURN      ? "return"
         : handler == MPI_ERRORS_ABORT     ? "abort"
         : handler == MPI_ERRORS_ARE_FATAL ? "fatal"
                                           : "another";
}

/* What is supported of the kinds of memory that were asked for: of the World Model, and of a session. */
static void print_kinds(void) {
  MPI_Info infos[3];
  MPI_Session session;
  char value[MPI_MAX_INFO_VAL];
  MPI_Comm_get_info(MPI_COMM_WORLD, &infos[0]);
  MPI_Comm_get_info(MPI_COMM_SELF, &infos[1]);
  MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &session);
  MPI_Session_get_info(session, &infos[2]);
  for (int i = 0; i < 3; ++i) {
    int length = sizeof value, found;
    MPI_Info_get_string(infos[i], "mpi_memory_alloc_kinds", &length, value, &found);
    printf("%d kinds=[%s]\n", rank, found ? value : "none");
    MPI_Info_free(&infos[i]);
  }
  MPI_Session_finalize(&session);
}

static void print_handlers(void) {
  MPI_Errhandler world, self, copy;
  MPI_Comm dup;
  MPI_Comm_dup(MPI_COMM_WORLD, &dup);
  MPI_Comm_get_errhandler(MPI_COMM_WORLD, &world);
  MPI_Comm_get_errhandler(MPI_COMM_SELF, &self);
  MPI_Comm_get_errhandler(dup, &copy);
  printf("%d handlers: %s %s %s\n", rank, handler_name(world), handler_name(self), handler_name(copy));
  MPI_Errhandler_free(&world), MPI_Errhandler_free(&self), MPI_Errhandler_free(&copy);
  MPI_Comm_free(&dup);
}

/* The parent spawns this program: `maxprocs` of it, soft, with arguments that have blanks, line breaks, backslashes. */
static void spawn(char *self) {
  char *arguments[] = {"child", "two words", "line\nbreak \\n and \\ at the end\n", "", NULL};
  int codes[5] = {-1, -1, -1, -1, -1}, size;
  MPI_Comm children;
  MPI_Info info;
  MPI_Info_create(&info);
  MPI_Info_set(info, "soft", "1,3:10:4");
  MPI_Info_set(info, "mpi_initial_errhandler", "MPI_Errors_Return");
  MPI_Info_set(info, "mpi_memory_alloc_kinds", "system");
  MPI_Comm_spawn(self, arguments, 5, info, 0, MPI_COMM_WORLD, &children, codes);
  MPI_Comm_remote_size(children, &size);
  printf("%d spawned %d: %d %d %d %d %d\n", rank, size, codes[0] != 0, codes[1] != 0, codes[2] != 0, codes[3] != 0,
         codes[4] != 0);
  MPI_Barrier(children);
  MPI_Comm_disconnect(&children);
  /* Two programs, one of them soft; an impossible wish. */
  char *commands[] = {self, self};
  char *child[] = {"child", NULL};
  char **all[] = {child, child};
  int counts[] = {2, 3};
  MPI_Info infos[] = {info, MPI_INFO_NULL};
  MPI_Info_set(info, "soft", "0:1");
  MPI_Comm_spawn_multiple(2, commands, all, counts, infos, 0, MPI_COMM_WORLD, &children, codes);
  MPI_Comm_remote_size(children, &size);
  printf("%d spawned %d: %d %d %d %d %d\n", rank, size, codes[0] != 0, codes[1] != 0, codes[2] != 0, codes[3] != 0,
         codes[4] != 0);
  MPI_Barrier(children);
  MPI_Comm_disconnect(&children);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  MPI_Info_set(info, "soft", "7:9");
  int impossible = MPI_Comm_spawn(self, child, 5, info, 0, MPI_COMM_WORLD, &children, codes), class;
  MPI_Error_class(impossible, &class);
  printf("%d impossible: %d\n", rank, class == MPI_ERR_SPAWN);
  MPI_Info_free(&info);
}

/* The child leaves its communicator with the parents to MPI_Finalize. */
static void keep_parent(char *self) {
  char *arguments[] = {"kept", NULL};
  MPI_Comm children;
  MPI_Comm_spawn(self, arguments, 1, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &children, MPI_ERRCODES_IGNORE);
  MPI_Comm_free(&children);
}

/* A child of fork ends MPI as if it were a rank; the job goes on. */
static void finalize_in_child(void) {
  fflush(NULL);
  const pid_t child = fork();
  if (child == 0) {
    int flag, me;
    MPI_Comm_rank(MPI_COMM_WORLD, &me); /* needs nobody */
    MPI_Finalize();
    MPI_Finalized(&flag);
    exit(flag && me == rank ? 0 : 1);
  }
  int status, sum = 1, all = 0;
  waitpid(child, &status, 0);
  MPI_Allreduce(&sum, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  printf("%d child: %d, all: %d\n", rank, status, all);
}

int main(int argc, char **argv) {
  const char *what = argc > 1 ? argv[1] : "";
  MPI_Comm parent;
  int provided;
  if (strcmp(what, "before") == 0) {
    printf("before: %d\n", MPI_Barrier(MPI_COMM_WORLD) != MPI_SUCCESS);
    fflush(stdout);
  }
  if (strcmp(what, "threads") == 0) MPI_Init_thread(NULL, NULL, MPI_THREAD_MULTIPLE, &provided);
  else MPI_Init(NULL, NULL);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_get_parent(&parent);
  if (strcmp(what, "spawn") == 0) spawn(argv[0]);
  if (strcmp(what, "parent") == 0) keep_parent(argv[0]);
  if (strcmp(what, "kept") == 0) printf("%d child\n", rank);
  if (strcmp(what, "fork") == 0 || strcmp(what, "threads") == 0) finalize_in_child();
  if (strcmp(what, "info") == 0 || strcmp(what, "child") == 0) print_info(MPI_INFO_ENV);
  if (strcmp(what, "kinds") == 0) print_kinds();
  if (strcmp(what, "handlers") == 0 || strcmp(what, "child") == 0) print_handlers();
  if (parent != MPI_COMM_NULL && strcmp(what, "kept") != 0) {
    fflush(stdout);
    MPI_Barrier(parent);
    MPI_Comm_disconnect(&parent);
  }
  MPI_Finalize();
  return 0;
}
