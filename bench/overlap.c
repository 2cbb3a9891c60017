/* How much of a message's time is hidden behind computation, ranks 0 (sends) and 1 (receives):
 *
 *   overlap = 1 - (t_total - t_compute) / t_comm        1: all of it, 0: nothing
 *
 * receiver  rank 1 posts, says so, computes, waits; rank 0 sends (blocking) when it hears of it.     Timed: rank 1.
 * sender    rank 0 starts its send, says so, computes, waits; rank 1 receives when it hears of it.   Timed: rank 0.
 * both      rank 1 posts, says so, computes, waits; rank 0 starts its send, computes, waits.         Timed: the longer.
 * free      how long a blocking send to a receiver that is not there yet keeps the sender (us), where it returns at
 * all.
 *
 * The side that is not timed computes on when its part is done: a core that falls asleep costs the other one of a
 * virtual machine some 8 us.
 *
 * The computation is a fixed amount of work, eight times t_comm and at least 50 us, so that CPU time which the library
 * takes from it shows, and a copy that one side makes alone (some times slower than both together) can be hidden.
 * --compute N: N times t_comm. t_comm is the same pattern without the computation.
 *
 * bare_overlap is this program without MPI (memory.h): what the machine allows. */
#include "bench.h"

#define ROUNDS 41

enum pattern { RECEIVER, SENDER, BOTH };

#define NOT_TIMED (-1e9)

/* One exchange; the time of the side that counts, NOT_TIMED elsewhere. */
static double exchange(enum pattern pattern, int rank, char *data, int bytes, long loops) {
  MPI_Request request;
  MPI_Barrier(MPI_COMM_WORLD);
  double began = MPI_Wtime();
  if (rank == 1) {
    if (pattern == SENDER) {
      MPI_Recv(NULL, 0, MPI_BYTE, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
      MPI_Recv(data, bytes, MPI_BYTE, 0, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
      work(loops);
      return NOT_TIMED;
    }
    MPI_Irecv(data, bytes, MPI_BYTE, 0, 2, MPI_COMM_WORLD, &request);
    MPI_Send(NULL, 0, MPI_BYTE, 0, 1, MPI_COMM_WORLD);
  } else {
    if (pattern != SENDER) MPI_Recv(NULL, 0, MPI_BYTE, 1, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (pattern == RECEIVER) {
      MPI_Send(data, bytes, MPI_BYTE, 1, 2, MPI_COMM_WORLD);
      work(loops);
      return NOT_TIMED;
    }
    MPI_Isend(data, bytes, MPI_BYTE, 1, 2, MPI_COMM_WORLD, &request);
    if (pattern == SENDER) MPI_Send(NULL, 0, MPI_BYTE, 1, 1, MPI_COMM_WORLD);
  }
  work(loops);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  return (MPI_Wtime() - began) * 1e6;
}

struct figures {
  double comm, hidden; /* us without computation; percent of that */
};

/* Each round measures all three times, so that drift of the machine meets them alike; of the excess over the
 * computation the median counts. */
static struct figures measure(enum pattern pattern, int rank, char *data, int bytes, long loops) {
  double comm[ROUNDS], excess[ROUNDS];
  for (int i = 0; i < ROUNDS; i++) {
    double mine[2];
    mine[0] = exchange(pattern, rank, data, bytes, 0);
    MPI_Barrier(MPI_COMM_WORLD);
    double began = MPI_Wtime();
    work(loops);
    double compute = (MPI_Wtime() - began) * 1e6;
    double total = exchange(pattern, rank, data, bytes, loops);
    mine[1] = total == NOT_TIMED ? NOT_TIMED : total - compute;
    double both[2];
    MPI_Allreduce(mine, both, 2, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    comm[i] = both[0];
    excess[i] = both[1];
  }
  struct figures result = {median(comm, ROUNDS), 0};
  result.hidden = 100 * (1 - median(excess, ROUNDS) / result.comm);
  return result;
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
      double t_comm = measure(p, rank, data, (int)bytes, 0).comm;
      long loops = (long)((times * t_comm > 50 ? times * t_comm : 50) / per_loop);
      MPI_Bcast(&loops, 1, MPI_LONG, 0, MPI_COMM_WORLD);
      struct figures figures = measure(p, rank, data, (int)bytes, loops);
      if (rank == 0) {
        point(names[p], bytes, figures.hidden, "percent");
        point(p == RECEIVER ? "comm-receiver" : p == SENDER ? "comm-sender" : "comm-both", bytes, figures.comm, "us");
      }
    }
    double free_us = send_free(rank, data, (int)bytes, (long)(200 / per_loop));
    if (rank == 0) point("sender-free", bytes, free_us, "us");
  }
  free(data);
  MPI_Finalize();
  return 0;
}
