/* The communication pattern of NPB SP (NAS Parallel Benchmarks 3, MPI, SP/{copy_faces,x_solve,y_solve,z_solve}.f) with
 * its computation as time: a square number of ranks, each with sqrt(ranks) cells of the multi-partition scheme.
 *
 * A step: the faces of all cells to six neighbours (copy_faces, everything nonblocking, nothing to hide it behind);
 * then in each of three directions a pipeline there and one back over the cells:
 *
 *   receive from the predecessor: posted; meanwhile the left-hand side of the cell is computed; wait; compute; send on
 *
 *   sp --points 102 --steps N --step-us T [--noise P]
 *
 * points: class A 64, B 102, C 162; T: computation of a rank in a step; P: each part of it takes differently long, by
 * chance (exponentially distributed beyond 100 - P %, in the mean 100 %), and differently on each rank.
 *
 * Series: step (us per step); x: the number of ranks. */
#include <math.h>

#include "bench.h"

/* Parts of a step's computation, in 1000: right-hand side and addition; of each direction the left-hand sides (hidden
 * behind the forward receives), the elimination, the inversions (hidden behind the backward receives), the
 * substitution. Means of the three directions in a trace of the real program (class A on 9 ranks, 909 steps, processor
 * time between its MPI calls). */
enum { RHS = 271, LHS = 92, FORWARD = 87, INVERT = 10, BACKWARD = 54 };

/* One rank; no globals, since simulated ranks share them. */
struct rank {
  int side, next[3], previous[3];
  int face_bytes, forward_bytes, backward_bytes;
  double loops_per_part;    /* of one part of one cell */
  double noise;             /* 0 to 1 */
  unsigned long long state; /* of chance */
  char *in, *out[2], *faces_in[6], *faces_out[6];
};

static int at(int side, int row, int column) { return ((row + side) % side) * side + (column + side) % side; }

/* Uniform in (0, 1]. Knuth's generator (MMIX): the same on every machine. */
static double chance(struct rank* r) {
  r->state = r->state * 6364136223846793005ULL + 1442695040888963407ULL;
  return (double)((r->state >> 11) + 1) / 9007199254740992.0;
}

static void compute(struct rank* r, int parts, int cells) {
  double loops = r->loops_per_part * parts * cells;
  if (r->noise > 0) loops *= 1 - r->noise - r->noise * log(chance(r));
  work((long)loops);
}

/* One pipeline over the cells: `ahead` is computed while the message comes, `after` with it. */
static void pipeline(struct rank* r, int from, int to, int bytes, int tag, int ahead, int after) {
  MPI_Request requests[2] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL};
  for (int stage = 0; stage < r->side; stage++) {
    if (stage != 0) MPI_Irecv(r->in, bytes, MPI_BYTE, from, tag, MPI_COMM_WORLD, &requests[0]);
    compute(r, ahead, 1);
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    compute(r, after, 1);
    if (stage != r->side - 1) MPI_Isend(r->out[stage % 2], bytes, MPI_BYTE, to, tag, MPI_COMM_WORLD, &requests[1]);
  }
  MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
}

static void step(struct rank* r) {
  MPI_Request requests[12];
  for (int d = 0; d < 3; d++) {
    const int a = 2 * d, b = a + 1;
    MPI_Irecv(r->faces_in[a], r->face_bytes, MPI_BYTE, r->next[d], 100 + a, MPI_COMM_WORLD, &requests[a]);
    MPI_Irecv(r->faces_in[b], r->face_bytes, MPI_BYTE, r->previous[d], 100 + b, MPI_COMM_WORLD, &requests[b]);
  }
  for (int d = 0; d < 3; d++) {
    const int a = 2 * d, b = a + 1;
    MPI_Isend(r->faces_out[a], r->face_bytes, MPI_BYTE, r->previous[d], 100 + a, MPI_COMM_WORLD, &requests[6 + a]);
    MPI_Isend(r->faces_out[b], r->face_bytes, MPI_BYTE, r->next[d], 100 + b, MPI_COMM_WORLD, &requests[6 + b]);
  }
  MPI_Waitall(12, requests, MPI_STATUSES_IGNORE);
  compute(r, RHS, r->side);
  for (int d = 0; d < 3; d++) {
    pipeline(r, r->previous[d], r->next[d], r->forward_bytes, 200 + d, LHS, FORWARD);
    pipeline(r, r->next[d], r->previous[d], r->backward_bytes, 300 + d, INVERT, BACKWARD);
  }
}

int main(int argc, char** argv) {
  int rank, ranks;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  const int side = (int)(sqrt((double)ranks) + 0.5), row = rank / side, column = rank % side;
  if (side * side != ranks) {
    if (rank == 0) fprintf(stderr, "sp: %d ranks are no square number\n", ranks);
    MPI_Abort(MPI_COMM_WORLD, 2);
  }
  const long points = argument(argc, argv, "--points", 102);
  const long steps = argument(argc, argv, "--steps", 10), step_us = argument(argc, argv, "--step-us", 60000);
  const int edge = (int)((points + side - 1) / side), square = edge * edge;
  struct rank r = {
      .side = side,
      .next = {at(side, row, column + 1), at(side, row + 1, column), at(side, row + 1, column - 1)},
      .previous = {at(side, row, column - 1), at(side, row - 1, column), at(side, row - 1, column + 1)},
      .face_bytes = square * 5 * 2 * 8 * (side - 1), /* of the cells that have a neighbour there */
      .forward_bytes = square * 22 * 8,
      .backward_bytes = square * 10 * 8,
  };
  r.in = touched((size_t)r.forward_bytes);
  for (int i = 0; i < 2; i++) r.out[i] = touched((size_t)r.forward_bytes);
  for (int i = 0; i < 6; i++) {
    r.faces_in[i] = touched((size_t)r.face_bytes);
    r.faces_out[i] = touched((size_t)r.face_bytes);
  }
  for (int warm = 0; warm < 12; warm++) step(&r); /* nothing is computed */
  double began = MPI_Wtime();
  work(1000000);
  const double us_per_loop = (MPI_Wtime() - began) * 1e6 / 1e6;
  r.noise = (double)argument(argc, argv, "--noise", 0) / 100;
  r.state = (unsigned long long)rank * 7919 + 1;
  r.loops_per_part = (double)step_us / us_per_loop / 1000 / side;
  MPI_Barrier(MPI_COMM_WORLD);
  began = MPI_Wtime();
  for (long i = 0; i < steps; i++) step(&r);
  double mine = (MPI_Wtime() - began) * 1e6 / (double)steps, slowest;
  MPI_Reduce(&mine, &slowest, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
  if (rank == 0) point("step", ranks, slowest, "us");
  free(r.in);
  for (int i = 0; i < 2; i++) free(r.out[i]);
  for (int i = 0; i < 6; i++) free(r.faces_in[i]), free(r.faces_out[i]);
  MPI_Finalize();
  return 0;
}
