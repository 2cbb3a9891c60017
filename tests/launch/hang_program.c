/* Programs that hang, compute or crash, for hang_test.py and crash_test.py; the first argument says how. */
#include <mpi.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static int rank, size;
static volatile double heat = 1.0;

static void wrong_tag(void) {
  int value = 0;
  if (rank == 0) MPI_Recv(&value, 1, MPI_INT, 1, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  if (rank == 1) MPI_Send(&value, 1, MPI_INT, 0, 8, MPI_COMM_WORLD);
  if (rank != 0) MPI_Barrier(MPI_COMM_WORLD);
}

/* Rank 0 reduces on a copy of MPI_COMM_WORLD, the others on MPI_COMM_WORLD. */
static void other_communicator(void) {
  int value = 1, sum;
  MPI_Comm copy;
  MPI_Comm_split(MPI_COMM_WORLD, 0, rank, &copy);
  MPI_Allreduce(&value, &sum, 1, MPI_INT, MPI_SUM, rank == 0 ? copy : MPI_COMM_WORLD);
}

static void other_root(void) {
  static int values[100000];
  MPI_Barrier(MPI_COMM_WORLD);
  MPI_Reduce(rank == 0 ? values : values + 1, values + 50000, 40000, MPI_INT, MPI_SUM, rank, MPI_COMM_WORLD);
  MPI_Barrier(MPI_COMM_WORLD);
}

static void long_message(void) {
  const int bytes = 60000000;
  char *data = calloc(1, (size_t)bytes);
  if (rank == 0) MPI_Send(data, bytes, MPI_BYTE, 1, 0, MPI_COMM_WORLD);
  if (rank == 1) MPI_Recv(data, bytes, MPI_BYTE, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  free(data);
}

/* The parent and its child wait for ever. */
static void spawned(char **argv) {
  MPI_Comm parent, children;
  int value;
  char *arguments[] = {"spawned", NULL};
  MPI_Comm_get_parent(&parent);
  if (parent == MPI_COMM_NULL)
    MPI_Comm_spawn(argv[0], arguments, 1, MPI_INFO_NULL, 0, MPI_COMM_SELF, &children, MPI_ERRCODES_IGNORE);
  MPI_Recv(&value, 1, MPI_INT, 0, parent == MPI_COMM_NULL ? 5 : 6, MPI_COMM_SELF, MPI_STATUS_IGNORE);
}

/* For TERN_CHECK: a group of one session and a group of another one. */
static void two_sessions(void) {
  MPI_Session sessions[2];
  MPI_Group groups[2], both;
  for (int i = 0; i < 2; ++i) {
    MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &sessions[i]);
    MPI_Group_from_session_pset(sessions[i], "mpi://WORLD", &groups[i]);
  }
  MPI_Group_union(groups[0], groups[1], &both);
  MPI_Group_free(&both);
  for (int i = 0; i < 2; ++i) {
    MPI_Group_free(&groups[i]);
    MPI_Session_finalize(&sessions[i]);
  }
}

/* Everybody receives from the left before anybody sends. */
static void circle(void) {
  int value = 0;
  MPI_Recv(&value, 1, MPI_INT, (rank + size - 1) % size, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  MPI_Send(&value, 1, MPI_INT, (rank + 1) % size, 1, MPI_COMM_WORLD);
}

static void compute_for_ever(void) {
  while (heat > 0) heat += 1e-9;
}

static void missing(void) {
  if (rank == size - 1) compute_for_ever();
  MPI_Barrier(MPI_COMM_WORLD);
}

/* A pause of `seconds`, then everything goes on. */
static void pause_of(int seconds) {
  if (rank == size - 1) sleep((unsigned)seconds);
  MPI_Barrier(MPI_COMM_WORLD);
}

/* Two collectives; the other rank cannot be asked which one it is in. */
static void differ(void) {
  int value = 1, sum;
  MPI_Request request;
  MPI_Barrier(MPI_COMM_WORLD); /* connects them */
  if (rank == 1) {
    MPI_Iallreduce(&value, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &request);
    sigset_t all;
    sigfillset(&all);
    sigprocmask(SIG_BLOCK, &all, NULL);
    for (;;) sleep(1);
  }
  sleep(1);
  MPI_Barrier(MPI_COMM_WORLD);
}

static void *send_later(void *seconds) {
  int value = 1;
  sleep((unsigned)*(int *)seconds);
  MPI_Send(&value, 1, MPI_INT, rank, 3, MPI_COMM_WORLD);
  return NULL;
}

/* Every rank's main thread waits for its own second thread, which does not call MPI meanwhile. */
static void threads(int seconds) {
  pthread_t thread;
  int value;
  pthread_create(&thread, NULL, send_later, &seconds);
  MPI_Recv(&value, 1, MPI_INT, rank, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  pthread_join(thread, NULL);
}

static volatile sig_atomic_t handled;
static void own_handler(int signal) { handled = signal; }

/* Read at run time: the compiler removes what it sees to be undefined. */
static int *volatile nowhere = NULL;
static __attribute__((noinline)) void store(volatile int *where) { *where = 1; }
static __attribute__((noinline)) int overflow(int depth) {
  volatile char room[4096];
  room[0] = (char)depth;
  return depth == 0 ? 0 : overflow(depth - 1) + room[0];
}

/* The receive buffer is gone when the library's own thread fills it. */
static void crash_in_helper(void) {
  int go = 0;
  const size_t bytes = 8 << 20;
  MPI_Request request;
  char *buffer = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  memset(buffer, 1, bytes);
  if (rank == 0) {
    MPI_Recv(&go, 1, MPI_INT, 1, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Isend(buffer, (int)bytes, MPI_BYTE, 1, 0, MPI_COMM_WORLD, &request);
  } else {
    MPI_Irecv(buffer, (int)bytes, MPI_BYTE, 0, 0, MPI_COMM_WORLD, &request);
    mprotect(buffer, bytes, PROT_NONE); /* nobody can get these addresses again, as after munmap */
    MPI_Send(&go, 1, MPI_INT, 0, 1, MPI_COMM_WORLD);
    compute_for_ever();
  }
  MPI_Wait(&request, MPI_STATUS_IGNORE);
}

/* All ranks make the same mistake; the first argument says which. */
static void all_alike(const char *how) {
  int value = 0;
  MPI_Barrier(MPI_COMM_WORLD); /* ranks start one after the other; mpiexec folds what is said together */
  if (!strcmp(how, "argument")) MPI_Bcast(&value, -3, MPI_INT, 0, MPI_COMM_WORLD);
  if (!strcmp(how, "abort")) MPI_Abort(MPI_COMM_WORLD, 7);
  if (!strcmp(how, "crash")) store(nowhere);
  if (!strcmp(how, "two_kinds")) MPI_Bcast(&value, rank % 2 ? -3 : -4, MPI_INT, 0, MPI_COMM_WORLD);
}

static void truncated(void) {
  int values[100] = {0};
  if (rank == 0) MPI_Send(values, 100, MPI_INT, 1, 0, MPI_COMM_WORLD);
  if (rank == 1) MPI_Recv(values, 10, MPI_INT, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  MPI_Barrier(MPI_COMM_WORLD);
}

static __attribute__((noinline)) void large_array(void) {
  volatile double array[3000000]; /* 24 MB */
  memset((void *)array, 1, sizeof array);
  heat += array[77];
}

static void own_way(int signal) {
  (void)signal;
  static const char text[] = "my own handler\n";
  if (write(2, text, sizeof text - 1) < 0) _exit(4);
  _exit(3);
}

static void (*volatile no_function)(void);
static __attribute__((noinline)) void call_nothing(void) {
  no_function();
  heat = 2.0; /* no jump instead of the call */
}

/* A write behind the end of a variable, up to the place to return to. */
static __attribute__((noinline)) void return_to_nothing(void) {
  void *volatile *const frame = __builtin_frame_address(0);
  frame[0] = NULL;
  frame[1] = NULL;
  frame[2] = NULL;
}

static void crash(const char *how) {
  if (rank == size - 1) {
    if (!strcmp(how, "null")) store(nowhere);
    if (!strcmp(how, "call")) call_nothing();
    if (!strcmp(how, "return")) return_to_nothing();
    if (!strcmp(how, "abort")) abort();
    if (!strcmp(how, "exit")) _exit(9);
    if (!strcmp(how, "stack")) overflow(1 << 30);
    if (!strcmp(how, "array")) large_array();
    if (!strcmp(how, "own_before")) store(nowhere);
    if (!strcmp(how, "own_before_stack")) overflow(1 << 30);
    if (!strcmp(how, "own")) {
      signal(SIGSEGV, own_way);
      store(nowhere);
    }
  }
  MPI_Barrier(MPI_COMM_WORLD);
}

int main(int argc, char **argv) {
  const char *how = argc > 1 ? argv[1] : "";
  const char *more = argc > 2 ? argv[2] : "";
  int level = !strcmp(how, "threads") ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE;
  if (!strcmp(how, "own_signal")) signal(SIGUSR1, own_handler);
  if (!strcmp(how, "crash") && !strncmp(more, "own_before", 10)) signal(SIGSEGV, own_way);
  if (!strcmp(how, "crash_in_helper")) level = MPI_THREAD_MULTIPLE;
  MPI_Init_thread(&argc, &argv, level, &level);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  if (rank == 0) {
    puts("ready");
    fflush(stdout);
  }
  if (!strcmp(how, "wrong_tag") || !strcmp(how, "own_signal")) wrong_tag();
  if (!strcmp(how, "circle")) circle();
  if (!strcmp(how, "missing")) missing();
  if (!strcmp(how, "other_communicator")) other_communicator();
  if (!strcmp(how, "other_root")) other_root();
  if (!strcmp(how, "long_message")) long_message();
  if (!strcmp(how, "spawned")) spawned(argv);
  if (!strcmp(how, "two_sessions")) two_sessions();
  if (!strcmp(how, "differ")) differ();
  if (!strcmp(how, "pause")) pause_of(atoi(more));
  if (!strcmp(how, "threads")) threads(atoi(more));
  if (!strcmp(how, "crash")) crash(more);
  if (!strcmp(how, "crash_in_helper")) crash_in_helper();
  if (!strcmp(how, "all_alike")) all_alike(more);
  if (!strcmp(how, "truncated")) truncated();
  if (!strcmp(how, "leave")) exit(atoi(more)); /* without MPI_Finalize */
  if (!strcmp(how, "give_up") && rank == size - 1) MPI_Abort(MPI_COMM_WORLD, atoi(more));
  if (!strcmp(how, "give_up")) MPI_Barrier(MPI_COMM_WORLD);
  MPI_Finalize();
  return handled ? 5 : 0;
}
