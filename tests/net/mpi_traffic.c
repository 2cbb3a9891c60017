/* Ring, then random traffic among all ranks with checked contents, then collectives: an ordinary MPI program
 * for the tests between hosts. Rank 0 prints "ok" and on how many hosts the ranks were. Arguments: rounds of the random
 * traffic; a file: when the rounds are over, more of them while it exists. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static unsigned mix(unsigned x) {
  x ^= x >> 16;
  x *= 0x7feb352du;
  x ^= x >> 15;
  x *= 0x846ca68bu;
  x ^= x >> 16;
  return x;
}
/* Bytes of message `number` from one rank to another: the same on both sides. */
static int size_of(int from, int to, int number) {
  unsigned r = mix((unsigned)(from * 977 + to * 131 + number));
  return r % 8 == 0 ? (int)(mix(r) % 300000) : (int)(mix(r) % 2000);
}
static unsigned char byte_of(int from, int to, int number, int i) {
  return (unsigned char)mix((unsigned)(from * 31 + to * 7 + number * 1009 + i));
}

/* Whether there is a round after so many. Rank 0 decides, every 16 rounds. */
static int goes_on(int done, int rounds, const char *file, int rank) {
  int more = 1;
  if (done < rounds || done % 16) return 1;
  if (rank == 0) more = file && access(file, F_OK) == 0;
  MPI_Bcast(&more, 1, MPI_INT, 0, MPI_COMM_WORLD);
  return more;
}

int main(int argc, char **argv) {
  int rank, size, bad = 0;
  const int rounds = argc > 1 ? atoi(argv[1]) : 60;
  const char *file = argc > 2 ? argv[2] : NULL;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);

  int right = (rank + 1) % size, left = (rank + size - 1) % size, token = rank, hops = 0;
  for (int i = 0; i < size; ++i) {
    MPI_Sendrecv_replace(&token, 1, MPI_INT, right, 1, left, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    hops += token == (rank + size - 1 - i) % size;
  }
  bad += hops != size;

  for (int number = 0; goes_on(number, rounds, file, rank); ++number) {
    MPI_Request *requests = malloc(sizeof(MPI_Request) * 2 * (size_t)size);
    unsigned char **in = calloc((size_t)size, sizeof *in), **out = calloc((size_t)size, sizeof *out);
    int count = 0;
    for (int k = 1; k < size; ++k) {
      int peer = (rank + k) % size, n = size_of(peer, rank, number), m = size_of(rank, peer, number);
      in[peer] = malloc((size_t)n + 1);
      out[peer] = malloc((size_t)m + 1);
      for (int i = 0; i < m; ++i) out[peer][i] = byte_of(rank, peer, number, i);
      if (number % 2) MPI_Isend(out[peer], m, MPI_BYTE, peer, number, MPI_COMM_WORLD, &requests[count++]);
      MPI_Irecv(in[peer], n, MPI_BYTE, peer, number, MPI_COMM_WORLD, &requests[count++]);
      if (number % 2 == 0) MPI_Isend(out[peer], m, MPI_BYTE, peer, number, MPI_COMM_WORLD, &requests[count++]);
    }
    MPI_Waitall(count, requests, MPI_STATUSES_IGNORE);
    for (int k = 1; k < size; ++k) {
      int peer = (rank + k) % size, n = size_of(peer, rank, number);
      for (int i = 0; i < n; ++i) bad += in[peer][i] != byte_of(peer, rank, number, i);
      free(in[peer]);
      free(out[peer]);
    }
    free(in);
    free(out);
    free(requests);
  }

  long long mine = rank + 1, sum = 0;
  MPI_Allreduce(&mine, &sum, 1, MPI_LONG_LONG, MPI_SUM, MPI_COMM_WORLD);
  bad += sum != (long long)size * (size + 1) / 2;
  char name[MPI_MAX_PROCESSOR_NAME] = "", *all = calloc((size_t)size, sizeof name);
  int length, hosts = 0, total = 0;
  MPI_Get_processor_name(name, &length);
  MPI_Allgather(name, MPI_MAX_PROCESSOR_NAME, MPI_CHAR, all, MPI_MAX_PROCESSOR_NAME, MPI_CHAR, MPI_COMM_WORLD);
  for (int i = 0; i < size; ++i) {
    int seen = 0;
    for (int j = 0; j < i; ++j) seen |= strcmp(all + i * MPI_MAX_PROCESSOR_NAME, all + j * MPI_MAX_PROCESSOR_NAME) == 0;
    hosts += !seen;
  }
  free(all);
  MPI_Reduce(&bad, &total, 1, MPI_INT, MPI_SUM, 0, MPI_COMM_WORLD);
  if (rank == 0) printf("%s: %d ranks on %d hosts\n", total ? "WRONG" : "ok", size, hosts);
  MPI_Finalize();
  return bad != 0;
}
