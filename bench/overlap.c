/* How much of a message's time is hidden behind computation, ranks 0 (sends) and 1 (receives):
 *
 *   overlap = 1 - (t_total - t_compute) / t_comm        1: all of it, 0: nothing
 *
 * receiver  rank 1 posts, says so, computes, waits; rank 0 sends (blocking) when it hears of it.     Timed: rank 1.
 * sender    rank 0 starts its send, says so, computes, waits; rank 1 receives when it hears of it.   Timed: rank 0.
 * both      rank 1 posts, says so, computes, waits; rank 0 starts its send, computes, waits.         Timed: the longer.
 * free      how long a blocking send to a receiver that is not there yet keeps the sender (us), where it returns at all.
 *
 * The computation is a fixed amount of work, eight times t_comm and at least 50 us, so that CPU time which the library takes
 * from it shows, and a copy that one side makes alone (some times slower than both together) can be hidden. --compute N: N
 * times t_comm. t_comm is the same pattern without the computation. */
#include "bench.h"

#define ROUNDS 41

enum pattern { RECEIVER, SENDER, BOTH };

/* One exchange; the time of the side that counts, 0 elsewhere. */
static double exchange(enum pattern pattern, int rank, char *data, int bytes, long loops) {
  MPI_Request request;
  MPI_Barrier(MPI_COMM_WORLD);
  double began = MPI_Wtime();
  if (rank == 1) {
    if (pattern == SENDER) {
      MPI_Recv(NULL, 0, MPI_BYTE, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
      MPI_Recv(data, bytes, MPI_BYTE, 0, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
      return 0;
    }
    MPI_Irecv(data, bytes, MPI_BYTE, 0, 2, MPI_COMM_WORLD, &request);
    MPI_Send(NULL, 0, MPI_BYTE, 0, 1, MPI_COMM_WORLD);
  } else {
    if (pattern != SENDER) MPI_Recv(NULL, 0, MPI_BYTE, 1, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (pattern == RECEIVER) {
      MPI_Send(data, bytes, MPI_BYTE, 1, 2, MPI_COMM_WORLD);
      return 0;
    }
    MPI_Isend(data, bytes, MPI_BYTE, 1, 2, MPI_COMM_WORLD, &request);
    if (pattern == SENDER) MPI_Send(NULL, 0, MPI_BYTE, 1, 1, MPI_COMM_WORLD);
  }
  work(loops);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  return (MPI_Wtime() - began) * 1e6;
}

static double typical(enum pattern pattern, int rank, char *data, int bytes, long loops) {
  double mine[ROUNDS], longest = 0;
  for (int i = 0; i < ROUNDS; i++) {
    double time = exchange(pattern, rank, data, bytes, loops);
    MPI_Allreduce(&time, &mine[i], 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    if (mine[i] > longest) longest = mine[i];
  }
  return median(mine, ROUNDS);
}

static double compute_us(long loops) {
  double times[ROUNDS], all;
  for (int i = 0; i < ROUNDS; i++) {
    double began = MPI_Wtime();
    work(loops);
    times[i] = (MPI_Wtime() - began) * 1e6;
  }
  double mine = median(times, ROUNDS);
  MPI_Allreduce(&mine, &all, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  return all;
}

/* A blocking send while the receiver computes before it receives. */
static double send_free(int rank, char *data, int bytes, long loops) {
  double times[ROUNDS];
  for (int i = 0; i < ROUNDS; i++) {
    MPI_Barrier(MPI_COMM_WORLD);
    double began = MPI_Wtime();
    if (rank == 0) {
      MPI_Send(data, bytes, MPI_BYTE, 1, 2, MPI_COMM_WORLD);
      times[i] = (MPI_Wtime() - began) * 1e6;
    } else {
      work(loops);
      MPI_Recv(data, bytes, MPI_BYTE, 0, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
      times[i] = 0;
    }
  }
  return median(times, ROUNDS);
}

int main(int argc, char **argv) {
  static const char *const names[] = {"overlap-receiver", "overlap-sender", "overlap-both"};
  int rank;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  long most = argument(argc, argv, "--max", 4 << 20);
  double times = (double)argument(argc, argv, "--compute", 8);
  char *data = touched((size_t)most);
  double per_loop = compute_us(1000000) / 1e6;
  for (long bytes = 1024; bytes <= most; bytes *= 2) {
    for (int p = RECEIVER; p <= BOTH; p++) {
      typical(p, rank, data, (int)bytes, 0);
      double t_comm = typical(p, rank, data, (int)bytes, 0);
      double wanted = times * t_comm > 50 ? times * t_comm : 50;
      long loops = (long)(wanted / per_loop);
      MPI_Bcast(&loops, 1, MPI_LONG, 0, MPI_COMM_WORLD);
      double t_compute = compute_us(loops);
      double t_total = typical(p, rank, data, (int)bytes, loops);
      if (rank == 0) {
        point(names[p], bytes, 100 * (1 - (t_total - t_compute) / t_comm), "percent");
        point(p == RECEIVER ? "comm-receiver" : p == SENDER ? "comm-sender" : "comm-both", bytes, t_comm, "us");
      }
    }
    double free_us = send_free(rank, data, (int)bytes, (long)(200 / per_loop));
    if (rank == 0) point("sender-free", bytes, free_us, "us");
  }
  free(data);
  MPI_Finalize();
  return 0;
}
