// ranks: 1 2 4
// Derived datatypes on the wire: every pair of shapes (contiguous, strided, indexed, structs, subarrays, negative
// strides) with equal signatures, from a few bytes to megabytes, so that all protocols carry them; what lies between
// the elements must stay as it was.
#include "check.h"

enum { kShapes = 6 };

// A datatype of `n` ints in all, of the given shape, and how many bytes from the buffer's address to allow on each
// side.
static MPI_Datatype shape(int which, int n) {
  MPI_Datatype type = MPI_DATATYPE_NULL, inner;
  int *list, *ones;
  switch (which) {
    case 0: MPI_Type_contiguous(n, MPI_INT, &type); break;
    case 1: MPI_Type_vector(n, 1, 2, MPI_INT, &type); break;
    case 2:
      list = malloc(sizeof(int) * (size_t)n);
      for (int i = 0; i < n; i++) list[i] = i * 2 + i % 2;
      MPI_Type_create_indexed_block(n, 1, list, MPI_INT, &type);
      free(list);
      break;
    case 3:
      MPI_Type_create_hvector(n, 1, -8, MPI_INT, &inner);  // backwards, from the end
      ones = (int[]){1};
      MPI_Type_create_struct(1, ones, (MPI_Aint[]){8 * (MPI_Aint)(n - 1)}, &inner, &type);
      MPI_Type_free(&inner);
      break;
    case 4: {
      int sizes[2] = {n / 4 + 2, 8}, sub[2] = {n / 4, 4}, start[2] = {1, 3};
      if (n % 4) return shape(1, n);
      MPI_Type_create_subarray(2, sizes, sub, start, MPI_ORDER_C, MPI_INT, &type);
      break;
    }
    default: {
      // n / 2 structs of two ints with a hole
      if (n % 2) return shape(2, n);
      int blocks[2] = {1, 1};
      MPI_Aint places[2] = {0, 12};
      MPI_Datatype ints[2] = {MPI_INT, MPI_INT}, pair;
      MPI_Type_create_struct(2, blocks, places, ints, &inner);
      MPI_Type_create_resized(inner, 0, 16, &pair);
      MPI_Type_contiguous(n / 2, pair, &type);
      MPI_Type_free(&inner);
      MPI_Type_free(&pair);
    }
  }
  MPI_Type_commit(&type);
  return type;
}

static void transfer(int n, int from_shape, int to_shape, int count, int peer_to, int peer_from) {
  MPI_Datatype send = shape(from_shape, n), receive = shape(to_shape, n);
  MPI_Aint lb, send_extent, receive_extent;
  MPI_Type_get_extent(send, &lb, &send_extent);
  MPI_Type_get_extent(receive, &lb, &receive_extent);
  size_t send_bytes = (size_t)send_extent * (size_t)count + 64, bytes = (size_t)receive_extent * (size_t)count + 64;
  size_t stream_bytes = sizeof(int) * (size_t)n * (size_t)count;
  char *out = malloc(send_bytes), *in = malloc(bytes), *expected = malloc(bytes), *stream = malloc(stream_bytes);
  int rank, position = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  fill(stream, 1000 * rank + n, (long)stream_bytes);
  memset(out, 0x11, send_bytes);
  memset(in, 0x22, bytes);
  memset(expected, 0x22, bytes);
  MPI_Unpack(stream, (int)stream_bytes, &position, out, count, send, MPI_COMM_WORLD);

  MPI_Status status;
  int elements, received;
  MPI_Sendrecv(out, count, send, peer_to, 3, in, count, receive, peer_from, 3, MPI_COMM_WORLD, &status);
  MPI_Get_count(&status, receive, &received);
  MPI_Get_elements(&status, receive, &elements);
  CHECK(received == count && elements == n * count);

  fill(stream, 1000 * peer_from + n, (long)stream_bytes);
  position = 0;
  MPI_Unpack(stream, (int)stream_bytes, &position, expected, count, receive, MPI_COMM_WORLD);
  CHECK(memcmp(in, expected, bytes) == 0);
  free(out);
  free(in);
  free(expected);
  free(stream);
  MPI_Type_free(&send);
  MPI_Type_free(&receive);
}

// The datatype is freed while the message is under way.
static void freed_early(int rank, int size) {
  MPI_Datatype type = shape(1, 50000);
  int *out = malloc(sizeof(int) * 100000), *in = malloc(sizeof(int) * 100000);
  MPI_Request requests[2];
  for (int i = 0; i < 100000; i++) out[i] = rank * 7 + i, in[i] = -1;
  MPI_Irecv(in, 1, type, (rank + size - 1) % size, 4, MPI_COMM_WORLD, &requests[0]);
  MPI_Isend(out, 1, type, (rank + 1) % size, 4, MPI_COMM_WORLD, &requests[1]);
  MPI_Type_free(&type);
  MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
  int from = (rank + size - 1) % size;
  for (int i = 0; i < 99999; i++) CHECK(in[i] == (i % 2 ? -1 : from * 7 + i));
  free(out);
  free(in);
}

int main(int argc, char **argv) {
  int rank, size;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  const int sizes[] = {2, 16, 1000, 4096, 20000, 300000};
  for (int s = 0; s < 6; s++)
    for (int from = 0; from < kShapes; from++)
      for (int to = 0; to < kShapes; to++) {
        if (sizes[s] > 20000 && from != to && from * to != 0) continue;
        transfer(sizes[s], from, to, 1 + (from + to) % 3, (rank + 1) % size, (rank + size - 1) % size);
      }
  freed_early(rank, size);
  done();
  return 0;
}
