/* All ranks want rank 0's lock all the time, for --seconds (10): get, add one, put, unlock. Acquisitions per second of
 * all together and of one rank alone, and the largest number of one rank divided by the smallest: who collapses when
 * there are more ranks than cores, and who starves. The sum is checked: the lock excludes. --shared 1: one in ten is
 * exclusive, the others only read. TERN_RMA_LOCK names the design. */
#include "bench.h"

static MPI_Win window;
static int rank, ranks;

/* One turn; returns 1 when it has added. */
static long turn(int exclusive) {
  long value = 0;
  MPI_Win_lock(exclusive ? MPI_LOCK_EXCLUSIVE : MPI_LOCK_SHARED, 0, 0, window);
  MPI_Get(&value, 1, MPI_LONG, 0, 0, 1, MPI_LONG, window);
  MPI_Win_flush(0, window);
  ++value;
  if (exclusive) MPI_Put(&value, 1, MPI_LONG, 0, 0, 1, MPI_LONG, window);
  MPI_Win_unlock(0, window);
  return exclusive;
}

/* Turns in that time, and how many of them have added. */
static long turns(double seconds, int shared, long* added) {
  const double end = MPI_Wtime() + seconds;
  long n = 0;
  for (; MPI_Wtime() < end; ++n) *added += turn(!shared || n % 10 == 0);
  return n;
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  const int seconds = argument(argc, argv, "--seconds", 10), shared = argument(argc, argv, "--shared", 0);
  long *memory = NULL, added = 0;
  MPI_Win_allocate(rank == 0 ? 8 : 0, 8, MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &window);
  if (rank == 0) *memory = 0;
  MPI_Barrier(MPI_COMM_WORLD);
  const int last = rank == ranks - 1;
  const double alone_s = seconds / 5.0;
  double alone = last ? turns(alone_s, shared, &added) / alone_s : 0;
  MPI_Bcast(&alone, 1, MPI_DOUBLE, ranks - 1, MPI_COMM_WORLD);
  long mine = turns(seconds, shared, &added), all = 0, most = 0, least = 0, sum = 0;
  MPI_Reduce(&mine, &all, 1, MPI_LONG, MPI_SUM, 0, MPI_COMM_WORLD);
  MPI_Reduce(&mine, &most, 1, MPI_LONG, MPI_MAX, 0, MPI_COMM_WORLD);
  MPI_Reduce(&mine, &least, 1, MPI_LONG, MPI_MIN, 0, MPI_COMM_WORLD);
  MPI_Reduce(&added, &sum, 1, MPI_LONG, MPI_SUM, 0, MPI_COMM_WORLD);
  if (rank == 0) {
    MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, window);
    if (*memory != sum) {
      fprintf(stderr, "contention: %ld were added, but the memory says %ld\n", sum, *memory);
      MPI_Abort(MPI_COMM_WORLD, 1);
    }
    MPI_Win_unlock(0, window);
    point("alone", 1, alone, "per second");
    point("together", ranks, (double)all / seconds, "per second");
    point("most_to_least", ranks, (double)most / (least > 0 ? (double)least : 0.5), "ratio");
  }
  MPI_Win_free(&window);
  MPI_Finalize();
  return 0;
}
