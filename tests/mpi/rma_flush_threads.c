// ranks: 2 4
// paths: shm tcp udp
/* The memory of a put may go after MPI_Win_flush, also where other threads poll meanwhile: a page is mapped for each
 * put, which is so long that its data are a message of their own, and unmapped after the flush. */
#include <pthread.h>
#include <sys/mman.h>

#include "check.h"

enum { kThreads = 8, kRounds = 300, kSmall = 4, kLarge = 8192 };
static int rank, to;
static MPI_Win window;

static void flush(int round) {
  switch (round % 4) {
    case 0: MPI_Win_flush(to, window); break;
    case 1: MPI_Win_flush_all(window); break;
    case 2: MPI_Win_flush_local_all(window); break;
    default: MPI_Win_flush_local(to, window);
  }
}

static void *put(void *argument) {
  const long thread = (long)argument, small_at = thread * kSmall, large_at = kThreads * kSmall + thread * kLarge / 8;
  for (long i = 0; i < kRounds; i++) {
    MPI_Put(&i, 1, MPI_LONG, to, small_at + i % kSmall, 1, MPI_LONG, window);
    MPI_Win_flush(to, window);
    if (i % 3 == thread % 3) continue;
    void *page = mmap(NULL, kLarge, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(page != MAP_FAILED);
    fill(page, rank * 10 + thread, kLarge);
    MPI_Put(page, kLarge, MPI_BYTE, to, large_at, kLarge, MPI_BYTE, window);
    flush((int)i);
    CHECK(munmap(page, kLarge) == 0);
  }
  return NULL;
}

int main(int argc, char **argv) {
  int provided, size;
  long *memory;
  pthread_t all[kThreads];
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
  CHECK(provided == MPI_THREAD_MULTIPLE);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  to = (rank + 1) % size;
  MPI_Win_allocate(kThreads * (kSmall * 8 + kLarge), 8, MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &window);
  MPI_Win_lock_all(0, window);
  for (long i = 0; i < kThreads; i++) pthread_create(&all[i], NULL, put, (void *)i);
  for (int i = 0; i < kThreads; i++) pthread_join(all[i], NULL);
  MPI_Win_unlock_all(window);
  MPI_Barrier(MPI_COMM_WORLD);
  for (int i = 0; i < kThreads; i++)
    CHECK(holds(memory + kThreads * kSmall + i * kLarge / 8, (rank + size - 1) % size * 10 + i, kLarge));
  MPI_Win_free(&window);
  done();
  return 0;
}
