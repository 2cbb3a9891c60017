/* The progress benchmark of Small and Yuan (ICS 2009, Figure 8): per iteration
 *
 *   barrier;  rank 0: comp1, Isend, comp2, Wait, comp3     rank 1: comp4, Irecv, comp5, Wait, comp6
 *
 * in units C(1) of about 18 us of fixed work, as theirs. Without arguments the paper's four configurations:
 *
 *   figure-9a   (0,0,60,X,0,0), 30 KB, x: X                 hybrid frees the sender:    C(60), not C(60) + C(X) + T
 *   figure-9b   (0,20,0,5,5,20), 30 KB                      and the receiver:           C(30), not C(40) + T
 *   figure-10a  (20,20,20,0,0,0), x: bytes                  receiver early, sender computes:   C(40) + max(C(20), T)
 *   figure-10b  (27,0,0,20,20,20), x: bytes                 receiver early, receiver computes: C(47) + max(C(13), T)
 *
 * With --size N and --comp1 .. --comp6: that one. Printed in units of C(1), and what C(1) is. */
#include "bench.h"

#define ROUNDS 61

static double iteration(int rank, char *data, long bytes, const long *comp, long unit_loops) {
  double times[ROUNDS];
  for (int i = 0; i < ROUNDS; i++) {
    MPI_Request request;
    MPI_Barrier(MPI_COMM_WORLD);
    double began = MPI_Wtime();
    work(comp[rank ? 3 : 0] * unit_loops);
    if (rank == 0) MPI_Isend(data, (int)bytes, MPI_BYTE, 1, 1, MPI_COMM_WORLD, &request);
    else MPI_Irecv(data, (int)bytes, MPI_BYTE, 0, 1, MPI_COMM_WORLD, &request);
    work(comp[rank ? 4 : 1] * unit_loops);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    work(comp[rank ? 5 : 2] * unit_loops);
    double mine = (MPI_Wtime() - began) * 1e6;
    MPI_Allreduce(&mine, &times[i], 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  }
  return median(times, ROUNDS);
}

int main(int argc, char **argv) {
  int rank;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  char *data = touched(4 << 20);
  double best = 1e9;
  long unit_loops = 10000;
  for (int i = 0; i < 200; i++) {
    double began = MPI_Wtime();
    work(unit_loops);
    double took = (MPI_Wtime() - began) * 1e6;
    if (took < best) best = took;
  }
  unit_loops = (long)(unit_loops * 18 / best);
  MPI_Bcast(&unit_loops, 1, MPI_LONG, 0, MPI_COMM_WORLD);
  long none[6] = {10, 0, 0, 10, 0, 0};
  double unit = iteration(rank, data, 0, none, unit_loops) / 10;
  if (rank == 0) point("unit", 1, unit, "us");

  long size = argument(argc, argv, "--size", 0);
  if (size > 0) {
    long comp[6];
    const char *const names[] = {"--comp1", "--comp2", "--comp3", "--comp4", "--comp5", "--comp6"};
    for (int i = 0; i < 6; i++) comp[i] = argument(argc, argv, names[i], 0);
    double time = iteration(rank, data, size, comp, unit_loops);
    if (rank == 0) point("iteration", size, time / unit, "C");
  } else {
    for (long x = 10; x <= 50; x += 10) {
      long comp[6] = {0, 0, 60, x, 0, 0};
      double time = iteration(rank, data, 30000, comp, unit_loops);
      if (rank == 0) point("figure-9a", x, time / unit, "C");
    }
    long nine_b[6] = {0, 20, 0, 5, 5, 20}, ten_a[6] = {20, 20, 20, 0, 0, 0}, ten_b[6] = {27, 0, 0, 20, 20, 20};
    double time = iteration(rank, data, 30000, nine_b, unit_loops);
    if (rank == 0) point("figure-9b", 30000, time / unit, "C");
    for (long bytes = 100000; bytes <= 3200000; bytes *= 2) {
      time = iteration(rank, data, bytes, ten_a, unit_loops);
      if (rank == 0) point("figure-10a", bytes, time / unit, "C");
      time = iteration(rank, data, bytes, ten_b, unit_loops);
      if (rank == 0) point("figure-10b", bytes, time / unit, "C");
    }
  }
  free(data);
  MPI_Finalize();
  return 0;
}
