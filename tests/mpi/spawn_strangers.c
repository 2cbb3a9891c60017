// Ranks of jobs that have never met: an intercommunicator over a communicator of their leaders, and a third job.
// ranks: 1 2 3
// paths: tcp
#include "check.h"

enum { kChildren = 2 };

// Everybody sends to everybody on the other side.
static void talk(MPI_Comm inter, int there) {
  int rank, remote, sum = 0, one = 1, mine, theirs[8];
  MPI_Request requests[16];
  MPI_Comm_rank(inter, &rank);
  MPI_Comm_remote_size(inter, &remote);
  CHECK(remote == there);
  mine = 7 * rank;
  for (int i = 0; i < there; ++i) {
    MPI_Irecv(&theirs[i], 1, MPI_INT, i, 5, inter, &requests[i]);
    MPI_Isend(&mine, 1, MPI_INT, i, 5, inter, &requests[there + i]);
  }
  MPI_Waitall(2 * there, requests, MPI_STATUSES_IGNORE);
  for (int i = 0; i < there; ++i) CHECK(theirs[i] == 7 * i);
  MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, inter);
  CHECK(sum == there);
}

int main(int argc, char **argv) {
  MPI_Comm parent, first = MPI_COMM_NULL, second = MPI_COMM_NULL, wide, all, wider;
  int rank, size;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  MPI_Comm_get_parent(&parent);
  const int is_child = parent != MPI_COMM_NULL, is_second = is_child && argc > 2;
  const int parents = is_child ? atoi(argv[1]) : size;
  if (!is_child) {
    // Only rank 0 meets the children.
    char number[16], *arguments[] = {number, NULL, NULL};
    snprintf(number, sizeof number, "%d", size);
    if (rank == 0) {
      MPI_Comm_spawn(argv[0], arguments, kChildren, MPI_INFO_NULL, 0, MPI_COMM_SELF, &first, MPI_ERRCODES_IGNORE);
      arguments[1] = "second";
      MPI_Comm_spawn(argv[0], arguments, kChildren, MPI_INFO_NULL, 0, MPI_COMM_SELF, &second, MPI_ERRCODES_IGNORE);
    }
  } else {
    *(is_second ? &second : &first) = parent;
  }
  if (!is_second) {
    MPI_Intercomm_create(MPI_COMM_WORLD, 0, first, 0, 123, &wide);
    talk(wide, is_child ? parents : kChildren);
    MPI_Intercomm_merge(wide, is_child, &all);
  } else {
    MPI_Comm_dup(MPI_COMM_WORLD, &all);
  }
  // Two jobs and the third, which only rank 0 of the first knows.
  MPI_Intercomm_create(all, 0, second, 0, 124, &wider);
  talk(wider, is_second ? parents + kChildren : kChildren);
  MPI_Comm_disconnect(&wider);
  MPI_Comm_disconnect(&all);
  if (!is_second) MPI_Comm_disconnect(&wide);
  if (first != MPI_COMM_NULL) MPI_Comm_disconnect(&first);
  if (second != MPI_COMM_NULL) MPI_Comm_disconnect(&second);
  if (is_child) MPI_Finalize();
  else done();
  return 0;
}
