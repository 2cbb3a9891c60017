/* What the selection of RDMA channels must know of an adapter beside the latencies (bench/latency.c), between ranks 0
 * and 1. bench/tune compares what this prints under different TERN_RDMA_CHANNELS and TERN_RDMA_RING_ENTRIES:
 *
 *   first         microseconds of the first round trips: meeting, and making a ring for each direction
 *   round_trips   how many
 *   round_trip    microseconds of a later one
 *   probe         nanoseconds of an MPI_Iprobe that finds nothing, soon after a message: no ring is quiet yet
 *   polls         empty polls of rings in such a call
 *   drain         nanoseconds in which 16 messages are taken that have all arrived
 *   credits       credit messages that are sent meanwhile */
#include "counters.h"

#define FIRST 200
#define BURST 16
#define PROBES 48 /* fewer than make a ring quiet */
#define ROUNDS (20 * BATCHES)
#define COMPUTE 200000 /* loops: until a burst has surely arrived */

static char byte;

static void send_to(int rank, int tag) { MPI_Send(&byte, 1, MPI_BYTE, rank, tag, MPI_COMM_WORLD); }
static void receive_from(int rank, int tag) {
  MPI_Recv(&byte, 1, MPI_BYTE, rank, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

static double round_trips(int rank) {
  const double began = MPI_Wtime();
  for (int i = 0; i < FIRST; i++) {
    if (rank == 0) send_to(1, 1);
    receive_from(1 - rank, 1);
    if (rank == 1) send_to(0, 1);
  }
  return (MPI_Wtime() - began) * 1e6;
}

static void empty_probes(int rank, double *nanoseconds, double *polls) {
  double values[ROUNDS];
  if (rank == 0) begin_counting("rdma_");
  *polls = 0;
  for (int round = 0; round < ROUNDS; round++) {
    if (rank == 0) {
      receive_from(1, 2);
      const double polls_before = counted_as("rdma_empty_polls"), began = MPI_Wtime();
      for (int i = 0, flag; i < PROBES; i++) MPI_Iprobe(1, 3, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
      values[round] = (MPI_Wtime() - began) * 1e9 / PROBES;
      *polls += (counted_as("rdma_empty_polls") - polls_before) / PROBES / ROUNDS;
      send_to(1, 6);
    } else {
      send_to(0, 2);
      receive_from(0, 6);
    }
  }
  if (rank != 0) return;
  *nanoseconds = median(values, ROUNDS);
  end_counting();
}

static void drains(int rank, double *nanoseconds, double *credits) {
  double values[ROUNDS];
  if (rank == 0) begin_counting("rdma_");
  for (int round = 0; round < ROUNDS; round++) {
    if (rank == 0) {
      work(COMPUTE);
      const double began = MPI_Wtime();
      for (int i = 0; i < BURST; i++) receive_from(1, 4);
      values[round] = (MPI_Wtime() - began) * 1e9;
      send_to(1, 5);
    } else {
      for (int i = 0; i < BURST; i++) send_to(0, 4);
      receive_from(0, 5);
    }
  }
  if (rank != 0) return;
  /* The counter is brought up to date now and then. */
  for (int i = 0, flag; i < 1000; i++) MPI_Iprobe(1, 3, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
  *nanoseconds = median(values, ROUNDS);
  *credits = counted_as("rdma_credits") / ROUNDS;
  end_counting();
}

int main(int argc, char **argv) {
  int rank, ranks;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  if (ranks != 2) {
    fprintf(stderr, "channel_costs: on two ranks\n");
    MPI_Abort(MPI_COMM_WORLD, 2);
  }
  const double first = round_trips(rank), later = round_trips(rank) / FIRST;
  double probe = 0, polls = 0, drain = 0, credits = 0;
  empty_probes(rank, &probe, &polls);
  drains(rank, &drain, &credits);
  if (rank == 0) {
    point("first", ranks, first, "us");
    point("round_trips", ranks, FIRST, "");
    point("round_trip", ranks, later, "us");
    point("probe", ranks, probe, "ns");
    point("polls", ranks, polls, "");
    point("drain", ranks, drain, "ns");
    point("credits", ranks, credits, "");
  }
  MPI_Finalize();
  return 0;
}
