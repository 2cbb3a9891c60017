// ranks: 2 4
/* Children of fork while buffers are registered with an adapter, and while transfers are under way. A child that lives
 * shares its parent's pages until one of them writes. The adapter must then see the parent's copy, whichever of the two
 * writes first. Children end in every way, which harms nobody. */
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

enum { kBytes = 1 << 20, kRounds = 24 };
static unsigned char *out, *in;
static int me, ranks;

/* The child writes to its copy of the buffers, waits until the parent has finished, and ends. */
static pid_t begin_child(int round, int* done) {
  int both[2];
  CHECK(pipe(both) == 0);
  fflush(NULL);
  const pid_t child = fork();
  CHECK(child >= 0);
  if (child != 0) {
    close(both[0]);
    *done = both[1];
    return child;
  }
  close(both[1]);
  if (round % 2) memset(out, 0xee, kBytes), memset(in, 0xee, kBytes);
  char end;
  while (read(both[0], &end, 1) < 0) continue; /* the parent's side is closed */
  switch (round % 4) {
    case 0: _exit(0);
    case 1:
#ifndef __SANITIZE_ADDRESS__ /* its search for leaks waits for a lock that the parent's event thread may have held */
      exit(0);
#endif
    case 2: execlp("true", "true", (char*)0); _exit(1);
    default:
      signal(SIGSEGV, SIG_DFL);
      raise(SIGSEGV);
      _exit(1);
  }
}

int main(void) {
  MPI_Init(NULL, NULL);
  MPI_Comm_rank(MPI_COMM_WORLD, &me);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  const int to = (me + 1) % ranks, from = (me + ranks - 1) % ranks;
  out = malloc(kBytes), in = malloc(kBytes);
  for (int round = 0; round < kRounds; round++) {
    MPI_Request requests[2];
    int pipe_end, status;
    pid_t child = 0;
    fill(out, me * 1000 + round, kBytes);
    if (round % 3 == 0) child = begin_child(round, &pipe_end); /* both buffers are registered, from the round before */
    if (child && round % 2 == 0) fill(out, me * 1000 + round + 500, kBytes); /* the parent writes first */
    const int salt = child && round % 2 == 0 ? 500 : 0;
    MPI_Irecv(in, kBytes, MPI_BYTE, from, 0, MPI_COMM_WORLD, &requests[0]);
    MPI_Isend(out, kBytes, MPI_BYTE, to, 0, MPI_COMM_WORLD, &requests[1]);
    if (round % 3 == 1) child = begin_child(round, &pipe_end); /* transfers are under way */
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    const int theirs = round % 3 == 0 && round % 2 == 0 ? 500 : 0;
    CHECK(salt == theirs && holds(in, from * 1000 + round + theirs, kBytes));
    if (child) {
      close(pipe_end);
      CHECK(waitpid(child, &status, 0) == child);
    }
  }
  free(out), free(in);
  done();
  return 0;
}
