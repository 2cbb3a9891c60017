/* What a lock of a window costs (Jiang et al. 2004, section 6). Origins lock their target, put 8 bytes, flush, hold the
 * lock for --hold us and unlock, --rounds times. --alone 1: lock and unlock alone, without a put, as in the paper: the
 * lock is taken by MPI_Win_lock itself (of Tern by the info key tern_rma_lock_at_once). Rank 0 is the target of all
 * others; with --pairs 1 the lower half of the ranks are targets, of one origin each. --own 1: each origin has a window
 * of its own. --compute US: targets compute for so long meanwhile, instead of waiting inside MPI. --alternate 1, two
 * origins: each asks for the lock while the other one holds it, so that every release hands the lock over.
 * TERN_RMA_LOCK names the design.
 *
 * Means, x: origins. lock (until the put is at the target, less what a put takes; --alone: MPI_Win_lock), unlock, round
 * (all of it, less the hold; of contenders the time from one's release to the next one's put), messages (of a round and
 * origin, of Tern: operations on lock words, messages to targets and back; the put's are counted, too). */
#include "bench.h"

#define MOST 16

/* `value` is the origin's own part of a window, which is registered. A variable of a function is registered by its
 * first put from each page, and where pages begin depends on the compiler. */
static void put(const long *value, int target, MPI_Win window) {
  MPI_Put(value, 1, MPI_LONG, target, 0, 1, MPI_LONG, window);
  MPI_Win_flush(target, window);
}

/* What a put and its flush take, in us. */
static double put_us(const long *value, int target, MPI_Win window, int rounds) {
  MPI_Win_lock(MPI_LOCK_SHARED, target, MPI_MODE_NOCHECK, window);
  put(value, target, window);
  double began = MPI_Wtime();
  for (int i = 0; i < rounds; i++) put(value, target, window);
  double took = (MPI_Wtime() - began) / rounds * 1e6;
  MPI_Win_unlock(target, window);
  return took;
}

/* The library's counters of messages, from now on; none with another MPI. No statics: simulated ranks share them. */
struct counters {
  MPI_T_pvar_session session;
  MPI_T_pvar_handle handles[3];
  int count;
};

static struct counters open_counters(void) {
  static const char *const names[] = {"rma_lock_words", "rma_messages", "rma_answers"};
  struct counters its = {.count = 0};
  int provided;
  MPI_T_init_thread(MPI_THREAD_SINGLE, &provided);
  MPI_T_pvar_session_create(&its.session);
  for (int i = 0; i < 3; i++) {
    int index, count;
    if (MPI_T_pvar_get_index(names[i], MPI_T_PVAR_CLASS_COUNTER, &index) != MPI_SUCCESS) continue;
    MPI_T_pvar_handle *handle = &its.handles[its.count++];
    MPI_T_pvar_handle_alloc(its.session, index, NULL, handle, &count);
    MPI_T_pvar_start(its.session, *handle);
  }
  return its;
}

static double messages(const struct counters *its) {
  double sum = 0;
  for (int i = 0; i < its->count; i++) {
    unsigned long long value = 0;
    MPI_T_pvar_read(its->session, its->handles[i], &value);
    sum += (double)value;
  }
  return sum;
}

static void close_counters(struct counters *its) {
  for (int i = 0; i < its->count; i++) MPI_T_pvar_handle_free(its->session, &its->handles[i]);
  MPI_T_pvar_session_free(&its->session);
  MPI_T_finalize();
}

struct times {
  double lock_us, unlock_us, all_us;
};

/* `other`: the origin to alternate with, which is told of each turn; MPI_PROC_NULL: none. */
static struct times take_turns(const long *value, int target, MPI_Win window, int rounds, double hold_us, int other,
                               int first, int alone) {
  struct times sum = {0, 0, 0};
  const double began = MPI_Wtime();
  for (int i = 0; i < rounds; i++) {
    if (i > 0 || !first) MPI_Recv(NULL, 0, MPI_INT, other, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    const double start = MPI_Wtime();
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, target, 0, window);
    if (!alone) put(value, target, window);
    MPI_Send(NULL, 0, MPI_INT, other, 0, MPI_COMM_WORLD);
    const double held = MPI_Wtime();
    if (hold_us > 0) work((long)(hold_us * 1000));
    const double end = MPI_Wtime();
    MPI_Win_unlock(target, window);
    sum.lock_us += (held - start) * 1e6 / rounds;
    sum.unlock_us += (MPI_Wtime() - end) * 1e6 / rounds;
  }
  sum.all_us = (MPI_Wtime() - began) * 1e6 / rounds;
  if (first) MPI_Recv(NULL, 0, MPI_INT, other, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  return sum;
}

int main(int argc, char **argv) {
  int rank, ranks;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  const int rounds = (int)argument(argc, argv, "--rounds", 200), pairs = (int)argument(argc, argv, "--pairs", 0);
  const int own = (int)argument(argc, argv, "--own", 0), alone = (int)argument(argc, argv, "--alone", 0);
  const double hold_us = (double)argument(argc, argv, "--hold", 0),
               compute_us = (double)argument(argc, argv, "--compute", 0);
  const int origins = pairs ? ranks / 2 : ranks - 1;
  const int windows = own ? origins : 1, target = pairs ? rank - ranks / 2 : 0;
  const int alternate = (int)argument(argc, argv, "--alternate", 0);
  if (windows > MOST || (alternate && (ranks != 3 || own || pairs))) MPI_Abort(MPI_COMM_WORLD, 1);
  const int other = alternate ? 3 - rank : MPI_PROC_NULL, first = !alternate || rank == 1;
  long *memory;
  MPI_Win window[MOST];
  MPI_Info info;
  MPI_Info_create(&info);
  if (alone) MPI_Info_set(info, "tern_rma_lock_at_once", "true");
  for (int i = 0; i < windows; i++)
    MPI_Win_allocate(sizeof(long), sizeof(long), info, MPI_COMM_WORLD, &memory, &window[i]);
  MPI_Info_free(&info);
  const int origin = pairs ? rank >= ranks / 2 : rank != 0;
  MPI_Win mine = window[own && origin ? rank - 1 : 0];
  double put_alone = 0;
  struct times times = {0, 0, 0};
  if (origin) {
    if (!alone) put_alone = put_us(memory, target, mine, 20);
    times = take_turns(memory, target, mine, 3, 0, other, first, alone);
  }
  MPI_Barrier(MPI_COMM_WORLD);
  struct counters its = open_counters();
  MPI_Barrier(MPI_COMM_WORLD);
  const double before = messages(&its);
  MPI_Barrier(MPI_COMM_WORLD);
  if (origin) times = take_turns(memory, target, mine, rounds, hold_us, other, first, alone);
  else if (compute_us > 0) work((long)(compute_us * 1000));
  const double sent = messages(&its) - before;
  close_counters(&its);
  MPI_Barrier(MPI_COMM_WORLD);
  double values[4] = {times.lock_us - (origin ? put_alone : 0), times.unlock_us, times.all_us, sent / rounds}, sums[4];
  MPI_Reduce(values, sums, 4, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
  if (rank == 0) {
    const int contenders = own || pairs ? 1 : origins;
    point("lock", origins, sums[0] / origins, "us");
    point("unlock", origins, sums[1] / origins, "us");
    point("round", origins, sums[2] / origins / contenders - hold_us, "us");
    point("messages", origins, sums[3] / origins, "messages");
  }
  for (int i = 0; i < windows; i++) MPI_Win_free(&window[i]);
  MPI_Finalize();
  return 0;
}
