// ranks: 2 4
// paths: shm tcp udp
/* TERN_PROGRESS=auto, the default: where some peer is reached by sockets an event thread finishes what was begun while
 * nobody is inside MPI; ranks that all share memory have no such thread. Argument: whether one is expected (1, 0),
 * where the path does not say so. */
#include <dirent.h>
#include <time.h>
#include <unistd.h>

#include "check.h"

enum { kLarge = 4 << 20, kPatience_ms = 20000 };

/* Threads of this process with that name. */
static int threads_called(const char *name) {
  int count = 0;
  DIR *tasks = opendir("/proc/self/task");
  for (struct dirent *task; tasks && (task = readdir(tasks));) {
    char path[64 + sizeof task->d_name], comm[32] = "";
    snprintf(path, sizeof path, "/proc/self/task/%s/comm", task->d_name);
    FILE *file = fopen(path, "r");
    if (!file) continue;
    if (fgets(comm, sizeof comm, file)) comm[strcspn(comm, "\n")] = '\0';
    count += strcmp(comm, name) == 0;
    fclose(file);
  }
  if (tasks) closedir(tasks);
  return count;
}

int main(int argc, char **argv) {
  int rank, size;
  const char *path = getenv("TERN_PATH");
  const int expected = argc > 1 ? atoi(argv[1]) : path && !strstr(path, "shm");
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  CHECK(threads_called("tern-events") == expected);
#ifndef __SANITIZE_THREAD__ /* what it looks at before MPI_Wait is a race by intention */
  if (expected) {
    int to = (rank + 1) % size, from = (rank + size - 1) % size;
    char *out = malloc(kLarge), *in = malloc(kLarge), *want = malloc(kLarge);
    fill(out, 1 + rank, kLarge);
    fill(want, 1 + from, kLarge);
    memset(in, 0x55, kLarge);
    MPI_Request requests[2];
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Irecv(in, kLarge, MPI_BYTE, from, 3, MPI_COMM_WORLD, &requests[0]);
    usleep(rank % 2 * 20000);
    MPI_Isend(out, kLarge, MPI_BYTE, to, 3, MPI_COMM_WORLD, &requests[1]);
    for (int ms = 0; ms < kPatience_ms && memcmp(in, want, kLarge) != 0; ms += 10) usleep(10000);
    CHECK(memcmp(in, want, kLarge) == 0);
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    free(out), free(in), free(want);
  }
#endif
  done();
  return 0;
}
