/* Two ranks with something in each message queue: rank 0 stops in `stopped` when all of it is there, for
 * debugger_test.py. With "multiple" threads may call, so that message engines have the messages. Then everything is
 * received, and the program ends well. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { kLarge = 1 << 20, kAnnounced = 300000 };
static char large[kLarge], other[kLarge];

__attribute__((noinline)) void stopped(void) { __asm__ volatile("" : : : "memory"); }

static void await(int tag) {
  for (int there = 0; !there;) MPI_Iprobe(1, tag, MPI_COMM_WORLD, &there, MPI_STATUS_IGNORE);
}

int main(int argc, char **argv) {
  int rank, small[4] = {0}, any = 0, level;
  MPI_Comm reversed;
  MPI_Request requests[3];
  const int multiple = argc > 1 && strcmp(argv[1], "multiple") == 0;
  MPI_Init_thread(&argc, &argv, multiple ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE, &level);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_split(MPI_COMM_WORLD, 0, -rank, &reversed);
  MPI_Comm_set_name(reversed, "solver");
  if (rank == 0) {
    MPI_Irecv(small, 4, MPI_INT, 1, 7, MPI_COMM_WORLD, &requests[0]);
    MPI_Irecv(&any, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, reversed, &requests[1]);
    MPI_Issend(large, kLarge, MPI_BYTE, 0, 9, reversed, &requests[2]);
    await(8);
    await(11);
    stopped();
    MPI_Recv(other, 12, MPI_BYTE, 1, 8, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Recv(other, kAnnounced, MPI_BYTE, 1, 11, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Send(small, 0, MPI_INT, 1, 1, MPI_COMM_WORLD);
    MPI_Waitall(3, requests, MPI_STATUSES_IGNORE);
    stopped();
  } else {
    MPI_Request first, second;
    MPI_Isend(other, 12, MPI_BYTE, 0, 8, MPI_COMM_WORLD, &first);
    MPI_Isend(other, kAnnounced, MPI_BYTE, 0, 11, MPI_COMM_WORLD, &second);
    MPI_Recv(small, 0, MPI_INT, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Wait(&first, MPI_STATUS_IGNORE);
    MPI_Wait(&second, MPI_STATUS_IGNORE);
    MPI_Send(small, 4, MPI_INT, 0, 7, MPI_COMM_WORLD);
    MPI_Send(&any, 1, MPI_INT, 1, 3, reversed);
    MPI_Recv(large, kLarge, MPI_BYTE, 1, 9, reversed, MPI_STATUS_IGNORE);
  }
  MPI_Comm_free(&reversed);
  MPI_Finalize();
  return 0;
}
