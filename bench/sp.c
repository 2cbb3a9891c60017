/* The communication pattern of NPB SP (NAS Parallel Benchmarks 3, MPI, SP/{copy_faces,x_solve,y_solve,z_solve}.f) with
 * its computation as time: a square number of ranks, each with sqrt(ranks) cells of the multi-partition scheme.
 *
 * A step: the faces of all cells to six neighbours (copy_faces, everything nonblocking, nothing to hide it behind);
 * then in each of three directions a pipeline there and one back over the cells:
 *
 *   receive from the predecessor: posted; meanwhile the left-hand side of the cell is computed; wait; compute; send on
 *
 *   sp --points 102 --steps N --step-us T        points: class A 64, B 102, C 162; T: computation of a rank in a step
 *
 * Series: step (us per step); x: the number of ranks. */
#include <math.h>

#include "bench.h"

/* Parts of a step's computation, in 1000: right-hand side and addition; of each direction the left-hand sides (hidden
 * behind the forward receives), the elimination, the inversions (hidden behind the backward receives), the
 * substitution. */
enum { RHS = 280, LHS = 70, FORWARD = 90, INVERT = 20, BACKWARD = 60 };

static int rank, side, row, column;
static double per_part; /* loops of one part of one cell */
static char *in_buffer, *out_buffer[2], *faces_in[6], *faces_out[6];

static int at(int r, int c) { return ((r + side) % side) * side + (c + side) % side; }

static void compute(int parts, double cells) { work((long)(per_part * parts * cells)); }

/* One pipeline over the cells: `ahead` is computed while the message comes, `after` with it. */
static void pipeline(int from, int to, int bytes, int tag, int ahead, int after) {
  MPI_Request requests[2] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL};
  for (int stage = 0; stage < side; stage++) {
    if (stage != 0) MPI_Irecv(in_buffer, bytes, MPI_BYTE, from, tag, MPI_COMM_WORLD, &requests[0]);
    compute(ahead, 1);
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    compute(after, 1);
    if (stage != side - 1)
      MPI_Isend(out_buffer[stage % 2], bytes, MPI_BYTE, to, tag, MPI_COMM_WORLD, &requests[1]);
  }
  MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
}

static void step(const int *next, const int *previous, int face_bytes, int forward_bytes, int backward_bytes) {
  MPI_Request requests[12];
  for (int d = 0; d < 3; d++) {
    const int a = 2 * d, b = a + 1;
    MPI_Irecv(faces_in[a], face_bytes, MPI_BYTE, next[d], 100 + a, MPI_COMM_WORLD, &requests[a]);
    MPI_Irecv(faces_in[b], face_bytes, MPI_BYTE, previous[d], 100 + b, MPI_COMM_WORLD, &requests[b]);
  }
  for (int d = 0; d < 3; d++) {
    const int a = 2 * d, b = a + 1;
    MPI_Isend(faces_out[a], face_bytes, MPI_BYTE, previous[d], 100 + a, MPI_COMM_WORLD, &requests[6 + a]);
    MPI_Isend(faces_out[b], face_bytes, MPI_BYTE, next[d], 100 + b, MPI_COMM_WORLD, &requests[6 + b]);
  }
  MPI_Waitall(12, requests, MPI_STATUSES_IGNORE);
  compute(RHS, side);
  for (int d = 0; d < 3; d++) {
    pipeline(previous[d], next[d], forward_bytes, 200 + d, LHS, FORWARD);
    pipeline(next[d], previous[d], backward_bytes, 300 + d, INVERT, BACKWARD);
  }
}

int main(int argc, char **argv) {
  int ranks;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  side = (int)(sqrt((double)ranks) + 0.5);
  if (side * side != ranks) {
    if (rank == 0) fprintf(stderr, "sp: %d ranks are no square number\n", ranks);
    MPI_Abort(MPI_COMM_WORLD, 2);
  }
  const long points = argument(argc, argv, "--points", 102); /* of an edge: A 64, B 102, C 162 */
  const long steps = argument(argc, argv, "--steps", 10), step_us = argument(argc, argv, "--step-us", 60000);
  const int edge = (int)((points + side - 1) / side), square = edge * edge;
  const int face_bytes = square * 5 * 2 * 8 * side, forward_bytes = square * 22 * 8, backward_bytes = square * 10 * 8;
  row = rank / side, column = rank % side;
  const int next[3] = {at(row, column + 1), at(row + 1, column), at(row + 1, column - 1)};
  const int previous[3] = {at(row, column - 1), at(row - 1, column), at(row - 1, column + 1)};
  in_buffer = touched((size_t)forward_bytes);
  for (int i = 0; i < 2; i++) out_buffer[i] = touched((size_t)forward_bytes);
  for (int i = 0; i < 6; i++) faces_in[i] = touched((size_t)face_bytes), faces_out[i] = touched((size_t)face_bytes);
  double began = MPI_Wtime();
  work(1000000);
  double per_loop = (MPI_Wtime() - began) * 1e6 / 1e6;
  per_part = (double)step_us / per_loop / 1000 / side;
  for (int warm = 0; warm < 12; warm++) {
    per_part /= 1000;
    step(next, previous, face_bytes, forward_bytes, backward_bytes);
    per_part *= 1000;
  }
  MPI_Barrier(MPI_COMM_WORLD);
  began = MPI_Wtime();
  for (long i = 0; i < steps; i++) step(next, previous, face_bytes, forward_bytes, backward_bytes);
  double mine = (MPI_Wtime() - began) * 1e6 / (double)steps, slowest;
  MPI_Reduce(&mine, &slowest, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
  if (rank == 0) point("step", ranks, slowest, "us");
  free(in_buffer);
  for (int i = 0; i < 2; i++) free(out_buffer[i]);
  for (int i = 0; i < 6; i++) free(faces_in[i]), free(faces_out[i]);
  MPI_Finalize();
  return 0;
}
