// ranks: 1 2 3
// paths: tcp
/* Two threads of each rank are in two collective calls at the same time, each over communicators of its own: every pair
 * of calls that make, connect or end something. A random order of some of all pairs; by hand: threads_pairs SEED PAIRS
 */
#include <pthread.h>
#include <unistd.h>

#include "io_check.h"

static const char *program;
static int rank, size, process;

/* What a thread has for itself. */
typedef struct {
  int slot, step;
  MPI_Comm all;
} Place;

static void add_up(MPI_Comm comm, int is_inter) {
  int one = 1, sum = 0, members;
  if (is_inter) MPI_Comm_remote_size(comm, &members);
  else MPI_Comm_size(comm, &members);
  FINE(MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, comm));
  CHECK(sum == members);
}

static void duplicate(const Place *at) {
  MPI_Comm made;
  FINE(MPI_Comm_dup(at->all, &made));
  add_up(made, 0);
  FINE(MPI_Comm_free(&made));
}

static void duplicate_later(const Place *at) {
  MPI_Comm made;
  MPI_Request request;
  FINE(MPI_Comm_idup(at->all, &made, &request));
  FINE(MPI_Wait(&request, MPI_STATUS_IGNORE));
  add_up(made, 0);
  FINE(MPI_Comm_free(&made));
}

static void split(const Place *at) {
  MPI_Comm made;
  FINE(MPI_Comm_split(at->all, rank % 2, -rank, &made));
  add_up(made, 0);
  FINE(MPI_Comm_free(&made));
}

static void create_from_group(const Place *at) {
  MPI_Group group;
  MPI_Comm made;
  MPI_Comm_group(at->all, &group);
  FINE(MPI_Comm_create_group(at->all, group, 7, &made));
  add_up(made, 0);
  MPI_Group_free(&group);
  FINE(MPI_Comm_free(&made));
}

static void between_halves(const Place *at) {
  if (size == 1) {
    duplicate(at);
    return;
  }
  MPI_Comm half, inter, merged;
  FINE(MPI_Comm_split(at->all, rank % 2, rank, &half));
  FINE(MPI_Intercomm_create(half, 0, at->all, 1 - rank % 2, 5, &inter));
  add_up(inter, 1);
  FINE(MPI_Intercomm_merge(inter, rank % 2, &merged));
  add_up(merged, 0);
  FINE(MPI_Comm_free(&merged));
  FINE(MPI_Comm_free(&inter));
  FINE(MPI_Comm_free(&half));
}

/* The even ranks accept, the odd ones connect. */
static void meet(const Place *at) {
  if (size == 1) {
    duplicate(at);
    return;
  }
  char port[MPI_MAX_PORT_NAME] = "";
  MPI_Comm half, inter;
  FINE(MPI_Comm_split(at->all, rank % 2, rank, &half));
  if (rank == 0) FINE(MPI_Open_port(MPI_INFO_NULL, port));
  FINE(MPI_Bcast(port, sizeof port, MPI_CHAR, 0, at->all));
  if (rank % 2 == 0) FINE(MPI_Comm_accept(port, MPI_INFO_NULL, 0, half, &inter));
  else FINE(MPI_Comm_connect(port, MPI_INFO_NULL, 0, half, &inter));
  add_up(inter, 1);
  FINE(MPI_Comm_disconnect(&inter));
  if (rank == 0) FINE(MPI_Close_port(port));
  FINE(MPI_Comm_free(&half));
}

static void publish(const Place *at) {
  char service[64], port[MPI_MAX_PORT_NAME] = "", found[MPI_MAX_PORT_NAME] = "";
  snprintf(service, sizeof service, "tern pairs %d %d %d", process, at->slot, at->step);
  if (rank == 0) {
    FINE(MPI_Open_port(MPI_INFO_NULL, port));
    FINE(MPI_Publish_name(service, MPI_INFO_NULL, port));
  }
  FINE(MPI_Bcast(port, sizeof port, MPI_CHAR, 0, at->all));
  FINE(MPI_Lookup_name(service, MPI_INFO_NULL, found));
  CHECK(strcmp(port, found) == 0);
  FINE(MPI_Barrier(at->all));
  if (rank == 0) {
    FINE(MPI_Unpublish_name(service, MPI_INFO_NULL, port));
    FINE(MPI_Close_port(port));
  }
}

static void spawn(const Place *at) {
  MPI_Comm inter;
  char *arguments[] = {"child", NULL};
  FINE(MPI_Comm_spawn(program, arguments, 1 + at->step % 2, MPI_INFO_NULL, 0, at->all, &inter, MPI_ERRCODES_IGNORE));
  add_up(inter, 1);
  FINE(MPI_Comm_disconnect(&inter));
}

static void use_file(const Place *at) {
  char name[300];
  unsigned char out[64], in[64];
  MPI_File file;
  snprintf(name, sizeof name, "%s/tern-pairs-%d-%d-%d", getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp", process, at->slot,
           at->step);
  FINE(MPI_File_open(at->all, name, MPI_MODE_CREATE | MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE, MPI_INFO_NULL, &file));
  fill(out, rank + 100 * at->step, sizeof out);
  FINE(MPI_File_write_ordered(file, out, sizeof out, MPI_BYTE, MPI_STATUS_IGNORE));
  FINE(MPI_File_read_at_all(file, rank * (MPI_Offset)sizeof in, in, sizeof in, MPI_BYTE, MPI_STATUS_IGNORE));
  CHECK(memcmp(in, out, sizeof in) == 0);
  FINE(MPI_File_close(&file));
}

static void use_window(const Place *at) {
  MPI_Win window;
  int *memory;
  FINE(MPI_Win_allocate(sizeof(int), sizeof(int), MPI_INFO_NULL, at->all, &memory, &window));
  *memory = -1;
  FINE(MPI_Win_fence(0, window));
  FINE(MPI_Put(&rank, 1, MPI_INT, (rank + 1) % size, 0, 1, MPI_INT, window));
  FINE(MPI_Win_fence(0, window));
  CHECK(*memory == (rank + size - 1) % size);
  FINE(MPI_Barrier(at->all));
  FINE(MPI_Win_lock_all(0, window));
  int one = 1, old;
  FINE(MPI_Fetch_and_op(&one, &old, MPI_INT, (rank + 1) % size, 0, MPI_SUM, window));
  FINE(MPI_Win_unlock_all(window));
  FINE(MPI_Win_free(&window));
}

static void use_session(const Place *at) {
  char name[64];
  MPI_Session session;
  MPI_Group group;
  MPI_Comm made;
  FINE(MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &session));
  FINE(MPI_Group_from_session_pset(session, "mpi://WORLD", &group));
  snprintf(name, sizeof name, "pairs %d", at->slot);
  FINE(MPI_Comm_create_from_group(group, name, MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &made));
  MPI_Group_free(&group);
  add_up(made, 0);
  FINE(MPI_Comm_disconnect(&made));
  FINE(MPI_Session_finalize(&session));
}

static void make_topology(const Place *at) {
  MPI_Comm made;
  int periodic = 1, in = -1;
  FINE(MPI_Cart_create(at->all, 1, &size, &periodic, 0, &made));
  int left, right;
  MPI_Cart_shift(made, 0, 1, &left, &right);
  FINE(MPI_Sendrecv(&rank, 1, MPI_INT, right, 0, &in, 1, MPI_INT, left, 0, made, MPI_STATUS_IGNORE));
  CHECK(in == left);
  FINE(MPI_Comm_free(&made));
}

static const struct {
  const char *name;
  void (*call)(const Place *);
} calls[] = {{"MPI_Comm_dup", duplicate},
             {"MPI_Comm_idup", duplicate_later},
             {"MPI_Comm_split", split},
             {"MPI_Comm_create_group", create_from_group},
             {"MPI_Intercomm_create", between_halves},
             {"MPI_Comm_accept", meet},
             {"MPI_Publish_name", publish},
             {"MPI_Comm_spawn", spawn},
             {"MPI_File_open", use_file},
             {"MPI_Win_allocate", use_window},
             {"MPI_Session_init", use_session},
             {"MPI_Cart_create", make_topology}};
enum { kCalls = sizeof calls / sizeof *calls, kPairs = kCalls * (kCalls + 1) / 2 };

/* The order in which this seed takes the pairs: the same at all ranks. */
static int order[kPairs][2];
static void draw(unsigned long seed) {
  int n = 0;
  for (int a = 0; a < kCalls; a++) {
    for (int b = 0; b <= a; b++, n++) {
      seed = seed * 6364136223846793005ul + 1442695040888963407ul;
      int at = (int)((seed >> 33) % (unsigned long)(n + 1));
      memcpy(order[n], order[at], sizeof order[n]);
      order[at][0] = a;
      order[at][1] = b;
    }
  }
}

static Place places[2];
static pthread_barrier_t both;
static int pairs, tells;

static void *work(void *argument) {
  Place *at = argument;
  for (at->step = 0; at->step < pairs; at->step++) {
    const int *pair = order[at->step % kPairs];
    if (tells && rank == 0 && at->slot == 0) fprintf(stderr, "%s, %s\n", calls[pair[0]].name, calls[pair[1]].name);
    pthread_barrier_wait(&both);
    calls[pair[at->slot]].call(at);
  }
  return NULL;
}

static int be_a_child(void) {
  MPI_Comm parent;
  MPI_Init(NULL, NULL);
  MPI_Comm_get_parent(&parent);
  CHECK(parent != MPI_COMM_NULL);
  add_up(parent, 1);
  FINE(MPI_Comm_disconnect(&parent));
  MPI_Finalize();
  return 0;
}

int main(int argc, char **argv) {
  if (argc > 1 && strcmp(argv[1], "child") == 0) return be_a_child();
  int provided;
  program = argv[0];
  pairs = argc > 2 ? atoi(argv[2]) : 10;
  tells = argc > 1;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
  CHECK(provided == MPI_THREAD_MULTIPLE);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  process = (int)getpid();
  MPI_Bcast(&process, 1, MPI_INT, 0, MPI_COMM_WORLD);
  draw(argc > 1 ? strtoul(argv[1], NULL, 10) : 1);
  pthread_t threads[2];
  pthread_barrier_init(&both, NULL, 2);
  for (int i = 0; i < 2; i++) {
    places[i].slot = i;
    MPI_Comm_dup(MPI_COMM_WORLD, &places[i].all);
  }
  for (int i = 0; i < 2; i++) pthread_create(&threads[i], NULL, work, &places[i]);
  for (int i = 0; i < 2; i++) pthread_join(threads[i], NULL);
  for (int i = 0; i < 2; i++) MPI_Comm_free(&places[i].all);
  done();
  return 0;
}
