// Many jobs spawned and disconnected, one after the other: no descriptor and hardly any memory is left of them, here
// and in mpiexec. By hand: mpiexec -n 1 spawn_many 1000 ranks: 1 2 paths: tcp
#include <dirent.h>
#include <malloc.h>
#include <string.h>
#include <unistd.h>

#include "check.h"

enum { kWarmUp = 3, kUsual = 8, kRememberedBytes = 4 * 1024, kLastBytes = 64 * 1024 };

static int entries_of(pid_t process, const char *folder) {
  char path[64];
  int count = 0;
  snprintf(path, sizeof path, "/proc/%d/%s", (int)process, folder);
  DIR *open = opendir(path);
  CHECK(open != NULL);
  while (readdir(open)) ++count;
  closedir(open);
  return count;
}

static void spawn_one(const char *program, int rank, int index) {
  MPI_Comm children, all;
  char number[16], *arguments[] = {"child", number, NULL};
  snprintf(number, sizeof number, "%d", index);
  MPI_Comm_spawn(program, arguments, 2, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &children, MPI_ERRCODES_IGNORE);
  int answer = 0, size;
  if (rank == 0) {
    MPI_Recv(&answer, 1, MPI_INT, 1, 7, children, MPI_STATUS_IGNORE);
    CHECK(answer == index + 1);
  }
  MPI_Intercomm_merge(children, 0, &all);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  MPI_Allreduce(MPI_IN_PLACE, &answer, 1, MPI_INT, MPI_SUM, all);
  // By turns in both orders.
  MPI_Comm *order[] = {index % 2 ? &all : &children, index % 2 ? &children : &all};
  MPI_Comm_disconnect(order[0]);
  MPI_Comm_disconnect(order[1]);
}

static void be_child(char **argv, MPI_Comm parent) {
  MPI_Comm all;
  int rank, index = atoi(argv[2]), answer = index + 1;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  if (rank == 1) MPI_Send(&answer, 1, MPI_INT, 0, 7, parent);
  MPI_Intercomm_merge(parent, 1, &all);
  MPI_Allreduce(MPI_IN_PLACE, &answer, 1, MPI_INT, MPI_SUM, all);
  MPI_Comm_disconnect(&all);
  MPI_Comm_disconnect(&parent);
}

int main(int argc, char **argv) {
  MPI_Comm parent;
  int rank;
  MPI_Init(&argc, &argv);
  MPI_Comm_get_parent(&parent);
  if (parent != MPI_COMM_NULL) {
    be_child(argv, parent);
    MPI_Finalize();
    return 0;
  }
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  const int count = argc > 1 ? atoi(argv[1]) : kUsual;
  int mine = 0, launcher = 0;
  size_t bytes = 0;
  for (int i = 0; i < kWarmUp + count; ++i) {
    if (i == kWarmUp) {
      mine = entries_of(getpid(), "fd");
      launcher = entries_of(getppid(), "fd");
      bytes = mallinfo2().uordblks;
    }
    spawn_one(argv[0], rank, i);
  }
  const size_t now = mallinfo2().uordblks, more = now > bytes ? now - bytes : 0;
  if (argc > 1) {
    printf("rank %d: %d spawns, %zu bytes more, %d descriptors (before: %d), launcher %d (%d)\n", rank, count, more,
           entries_of(getpid(), "fd"), mine, entries_of(getppid(), "fd"), launcher);
  }
  CHECK(entries_of(getpid(), "fd") <= mine + 2);
  // Of the last jobs mpiexec may still have something.
  CHECK(entries_of(getppid(), "fd") <= launcher + 6);
  // A job that was met is remembered: its ranks' names, keys and addresses. The last ones may not have said goodbye.
  CHECK(more <= (size_t)count * kRememberedBytes + kLastBytes);
  done();
  return 0;
}
