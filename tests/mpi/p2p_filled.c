// ranks: 2
// paths: shm
/* A rank posts a hundred receives and computes without MPI: their messages arrive meanwhile, in the buffers themselves.
 * The sender is complete, too. Needs cross-memory attach; where the kernel refuses it, there is nothing to test. */
#define _GNU_SOURCE
#include <stdint.h>
#include <sys/uio.h>
#include <unistd.h>

#include "check.h"

enum { kReceives = 100, kPatience_s = 30 };

/* In memory that both ranks map. */
struct board {
  volatile int sent; /* the round whose sends are all complete */
  int pid, attached;
  char *probe;
};

static struct board *board_of_rank_0(int rank, MPI_Win *win) {
  void *base;
  MPI_Aint bytes;
  int unit;
  MPI_Win_allocate_shared(rank == 0 ? sizeof(struct board) : 0, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &base, win);
  MPI_Win_shared_query(*win, 0, &bytes, &unit, &base);
  if (rank == 0) memset(base, 0, sizeof(struct board));
  MPI_Barrier(MPI_COMM_WORLD);
  return base;
}

/* Whether rank 0 may write rank 1's memory, as the library would. */
static int may_attach(int rank, struct board *board) {
  static char mine[8];
  if (rank == 1) {
    board->pid = (int)getpid();
    board->probe = mine;
  }
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank == 0) {
    char data[8] = {1};
    struct iovec here = {data, 8}, there = {board->probe, 8};
    board->attached = process_vm_writev(board->pid, &here, 1, &there, 1, 0) == 8;
  }
  MPI_Barrier(MPI_COMM_WORLD);
  return board->attached;
}

static void one_round(int rank, struct board *board, int round, long bytes) {
  unsigned char *data = malloc((size_t)(kReceives * bytes));
  MPI_Request requests[kReceives];
  memset(data, 0, (size_t)(kReceives * bytes));
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank == 0) {
    for (int i = 0; i < kReceives; i++) fill(data + i * bytes, round * kReceives + i, bytes);
    MPI_Recv(NULL, 0, MPI_BYTE, 1, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    for (int i = 0; i < kReceives; i++) MPI_Send(data + i * bytes, (int)bytes, MPI_BYTE, 1, 2 + i % 3, MPI_COMM_WORLD);
    __atomic_store_n(&board->sent, round, __ATOMIC_RELEASE);
  } else {
    for (int i = 0; i < kReceives; i++)
      MPI_Irecv(data + i * bytes, (int)bytes, MPI_BYTE, 0, 2 + i % 3, MPI_COMM_WORLD, &requests[i]);
    MPI_Send(NULL, 0, MPI_BYTE, 0, 1, MPI_COMM_WORLD);
    const double began = MPI_Wtime();
    while (__atomic_load_n(&board->sent, __ATOMIC_ACQUIRE) != round) {
      if (MPI_Wtime() - began > kPatience_s) {
        fprintf(stderr, "%ld bytes: the sends do not end while the receiver computes\n", bytes);
        MPI_Abort(MPI_COMM_WORLD, 1);
      }
    }
    for (int i = 0; i < kReceives; i++) CHECK(holds(data + i * bytes, round * kReceives + i, bytes));
    MPI_Waitall(kReceives, requests, MPI_STATUSES_IGNORE);
  }
  free(data);
}

int main(int argc, char **argv) {
  static const long sizes[] = {16384, 65536, 65537, 300000};
  int rank;
  MPI_Win win;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  struct board *board = board_of_rank_0(rank, &win);
  if (may_attach(rank, board)) {
    for (int round = 1; round <= 8; round++) one_round(rank, board, round, sizes[round % 4]);
  } else if (rank == 0) {
    puts("skipped: no cross-memory attach between the ranks");
  }
  MPI_Barrier(MPI_COMM_WORLD);
  MPI_Win_free(&win);
  done();
  return 0;
}
