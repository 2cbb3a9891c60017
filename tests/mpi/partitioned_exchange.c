// ranks: 1 2 3 4
/* Partitioned communication: every pair of partitionings, partitions marked in every order, several starts, derived
 * datatypes, sizes around every threshold, messages of one tag matched in the order of their making, threads. */
#include <pthread.h>

#include "check.h"

static int rank, size, to, from;

static int filled(const char *data, long seed, int begin, int bytes) {
  for (int i = 0; i < bytes; i++) {
    if ((unsigned char)data[i] != pattern(seed, begin + i)) return 0;
  }
  return 1;
}

/* `total` bytes in `out_parts` partitions, received in `in_parts`; three starts; the order of marking by `how`. */
static void exchange(int total, int out_parts, int in_parts, int how) {
  char *out = malloc((size_t)total + 1), *in = malloc((size_t)total + 1);
  int *list = malloc(sizeof(int) * (size_t)out_parts);
  MPI_Request send, receive;
  MPI_Status status;
  if (how % 2)
    MPI_Precv_init(in, in_parts, total / in_parts, MPI_BYTE, from, 5, MPI_COMM_WORLD, MPI_INFO_NULL, &receive);
  MPI_Psend_init(out, out_parts, total / out_parts, MPI_BYTE, to, 5, MPI_COMM_WORLD, MPI_INFO_NULL, &send);
  if (how % 2 == 0)
    MPI_Precv_init(in, in_parts, total / in_parts, MPI_BYTE, from, 5, MPI_COMM_WORLD, MPI_INFO_NULL, &receive);
  int flag = 0, count;
  MPI_Parrived(receive, 0, &flag);
  CHECK(flag); /* inactive */
  for (int again = 0; again < 3; again++) {
    fill(out, rank * 100 + again, total);
    memset(in, 1, (size_t)total + 1);
    if (again == 1) {
      MPI_Start(&receive);
      MPI_Start(&send);
    } else {
      MPI_Start(&send);
      MPI_Start(&receive);
    }
    switch (how % 4) {
      case 0:
        for (int i = 0; i < out_parts; i++) MPI_Pready(i, send);
        break;
      case 1:
        for (int i = out_parts; i-- > 0;) MPI_Pready(i, send);
        break;
      case 2: MPI_Pready_range(0, out_parts - 1, send); break;
      default:
        for (int i = 0, n = 0; i < 2; i++) {
          for (int k = i; k < out_parts; k += 2) list[n++] = k; /* the even ones, then the odd ones */
        }
        MPI_Pready_list(out_parts, list, send);
    }
    if (how < 4) {
      for (int i = 0; i < in_parts; i++) {
        do MPI_Parrived(receive, i, &flag);
        while (!flag);
        int begin = total / in_parts * i;
        CHECK(filled(in + begin, from * 100 + again, begin, total / in_parts));
      }
    }
    MPI_Wait(&receive, &status);
    CHECK(receive != MPI_REQUEST_NULL);
    CHECK(status.MPI_SOURCE == from && status.MPI_TAG == 5);
    MPI_Get_count(&status, MPI_BYTE, &count);
    CHECK(count == total);
    CHECK(filled(in, from * 100 + again, 0, total));
    CHECK(in[total] == 1);
    MPI_Wait(&send, MPI_STATUS_IGNORE);
    CHECK(send != MPI_REQUEST_NULL);
  }
  MPI_Request_free(&send);
  MPI_Request_free(&receive);
  free(out);
  free(in);
  free(list);
}

/* Three messages of one tag: matched in the order of their making, whatever the order of their starts. */
static void same_tag(void) {
  int out[3][8], in[3][8];
  MPI_Request sends[3], receives[3];
  for (int i = 0; i < 3; i++) MPI_Psend_init(out[i], 4, 2, MPI_INT, to, 9, MPI_COMM_WORLD, MPI_INFO_NULL, &sends[i]);
  for (int i = 0; i < 3; i++)
    MPI_Precv_init(in[i], 2, 4, MPI_INT, from, 9, MPI_COMM_WORLD, MPI_INFO_NULL, &receives[i]);
  for (int i = 0; i < 3; i++) {
    for (int k = 0; k < 8; k++) out[i][k] = 1000 * rank + 10 * i + k;
  }
  MPI_Startall(3, receives);
  for (int i = 3; i-- > 0;) {
    MPI_Start(&sends[i]);
    MPI_Pready_range(0, 3, sends[i]);
  }
  MPI_Waitall(3, receives, MPI_STATUSES_IGNORE);
  MPI_Waitall(3, sends, MPI_STATUSES_IGNORE);
  for (int i = 0; i < 3; i++) {
    for (int k = 0; k < 8; k++) CHECK(in[i][k] == 1000 * from + 10 * i + k);
    MPI_Request_free(&sends[i]);
    MPI_Request_free(&receives[i]);
  }
}

/* Every second element, on one side only; ordinary messages of the same tag go past. */
static void derived(int elements) {
  MPI_Datatype spread;
  MPI_Type_create_resized(MPI_INT, 0, 2 * sizeof(int), &spread);
  MPI_Type_commit(&spread);
  int *out = malloc(sizeof(int) * (size_t)elements * 2), *in = malloc(sizeof(int) * (size_t)elements);
  MPI_Request send, receive;
  MPI_Psend_init(out, 4, elements / 4, spread, to, 7, MPI_COMM_WORLD, MPI_INFO_NULL, &send);
  MPI_Precv_init(in, elements, 1, MPI_INT, from, 7, MPI_COMM_WORLD, MPI_INFO_NULL, &receive);
  for (int again = 0; again < 2; again++) {
    for (int i = 0; i < 2 * elements; i++) out[i] = i % 2 ? -1 : rank + again + i;
    MPI_Start(&receive);
    MPI_Start(&send);
    MPI_Pready_range(2, 3, send);
    int other = rank, got = -1;
    MPI_Sendrecv(&other, 1, MPI_INT, to, 7, &got, 1, MPI_INT, from, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    CHECK(got == from);
    MPI_Pready_range(0, 1, send);
    MPI_Wait(&receive, MPI_STATUS_IGNORE);
    MPI_Wait(&send, MPI_STATUS_IGNORE);
    for (int i = 0; i < elements; i++) CHECK(in[i] == from + again + 2 * i);
  }
  MPI_Request_free(&send);
  MPI_Request_free(&receive);
  MPI_Type_free(&spread);
  free(out);
  free(in);
}

/* Partitions without data arrive when the sender has marked them, not before. */
static void empty(int out_parts, int in_parts) {
  MPI_Request send, receive;
  MPI_Psend_init(NULL, out_parts, 0, MPI_INT, to, 8, MPI_COMM_WORLD, MPI_INFO_NULL, &send);
  MPI_Precv_init(NULL, in_parts, 0, MPI_INT, from, 8, MPI_COMM_WORLD, MPI_INFO_NULL, &receive);
  for (int again = 0; again < 3; again++) {
    int there = -1;
    MPI_Start(&receive);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Test(&receive, &there, MPI_STATUS_IGNORE);
    CHECK(!there);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Start(&send);
    if (out_parts > 1) MPI_Pready_range(1, out_parts - 1, send);
    MPI_Barrier(MPI_COMM_WORLD);
    for (int i = 0; i < in_parts; i++) {
      MPI_Parrived(receive, i, &there);
      CHECK(!there);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Pready(0, send);
    for (int i = 0; i < in_parts; i++) {
      do MPI_Parrived(receive, i, &there);
      while (!there);
    }
    MPI_Status status;
    MPI_Wait(&receive, &status);
    MPI_Wait(&send, MPI_STATUS_IGNORE);
    int count = -1;
    MPI_Get_count(&status, MPI_INT, &count);
    CHECK(count == 0 && status.MPI_SOURCE == from && status.MPI_TAG == 8);
  }
  MPI_Request_free(&send);
  MPI_Request_free(&receive);
}

enum { kThreads = 4, kParts = 32, kEach = 3000 };
struct share {
  MPI_Request request;
  int *data, first;
};
static void *worker(void *argument) {
  struct share *share = argument;
  for (int i = share->first; i < kParts; i += kThreads) {
    for (int k = 0; k < kEach; k++) share->data[i * kEach + k] = rank * 7 + i * kEach + k;
    MPI_Pready(i, share->request);
  }
  return NULL;
}
static void *watcher(void *argument) {
  struct share *share = argument;
  for (int i = share->first; i < kParts; i += kThreads) {
    for (int flag = 0; !flag;) MPI_Parrived(share->request, i, &flag);
    for (int k = 0; k < kEach; k++) CHECK(share->data[i * kEach + k] == from * 7 + i * kEach + k);
  }
  return NULL;
}
static void threads(void) {
  int *out = calloc(kParts * kEach, sizeof *out), *in = calloc(kParts * kEach, sizeof *in);
  struct share shares[2 * kThreads];
  pthread_t ids[2 * kThreads];
  MPI_Request send, receive;
  MPI_Psend_init(out, kParts, kEach, MPI_INT, to, 1, MPI_COMM_WORLD, MPI_INFO_NULL, &send);
  MPI_Precv_init(in, kParts, kEach, MPI_INT, from, 1, MPI_COMM_WORLD, MPI_INFO_NULL, &receive);
  for (int again = 0; again < 3; again++) {
    memset(in, 0, sizeof(int) * kParts * kEach);
    MPI_Start(&receive);
    MPI_Start(&send);
    for (int i = 0; i < 2 * kThreads; i++) {
      shares[i] = (struct share){i < kThreads ? send : receive, i < kThreads ? out : in, i % kThreads};
      pthread_create(&ids[i], NULL, i < kThreads ? worker : watcher, &shares[i]);
    }
    for (int i = 0; i < 2 * kThreads; i++) pthread_join(ids[i], NULL);
    MPI_Wait(&send, MPI_STATUS_IGNORE);
    MPI_Wait(&receive, MPI_STATUS_IGNORE);
  }
  MPI_Request_free(&send);
  MPI_Request_free(&receive);
  free(out);
  free(in);
}

static int error_class(int code) {
  int class;
  MPI_Error_class(code, &class);
  return class;
}

static void errors(void) {
  int data[8] = {0}, flag, list[2] = {1, 1};
  MPI_Request send, receive, other;
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
  CHECK(error_class(MPI_Psend_init(data, 0, 1, MPI_INT, to, 3, MPI_COMM_WORLD, MPI_INFO_NULL, &send)) == MPI_ERR_ARG);
  CHECK(MPI_Precv_init(data, 1, 1, MPI_INT, MPI_ANY_SOURCE, 3, MPI_COMM_WORLD, MPI_INFO_NULL, &receive) != MPI_SUCCESS);
  CHECK(MPI_Precv_init(data, 1, 1, MPI_INT, from, MPI_ANY_TAG, MPI_COMM_WORLD, MPI_INFO_NULL, &receive) != MPI_SUCCESS);
  /* Nobody is there: done when all partitions are marked. */
  MPI_Psend_init(data, 4, 2, MPI_INT, MPI_PROC_NULL, 3, MPI_COMM_WORLD, MPI_INFO_NULL, &send);
  MPI_Precv_init(data, 4, 2, MPI_INT, MPI_PROC_NULL, 3, MPI_COMM_WORLD, MPI_INFO_NULL, &receive);
  CHECK(error_class(MPI_Pready(0, send)) == MPI_ERR_REQUEST); /* not started */
  MPI_Start(&send);
  MPI_Start(&receive);
  CHECK(error_class(MPI_Pready(4, send)) == MPI_ERR_ARG);
  CHECK(error_class(MPI_Pready(-1, send)) == MPI_ERR_ARG);
  CHECK(error_class(MPI_Pready(0, receive)) == MPI_ERR_REQUEST);
  CHECK(error_class(MPI_Parrived(send, 0, &flag)) == MPI_ERR_REQUEST);
  CHECK(error_class(MPI_Pready_list(2, list, send)) == MPI_ERR_ARG);
  CHECK(error_class(MPI_Pready_range(3, 2, send)) == MPI_ERR_ARG);
  CHECK(MPI_Pready(1, send) == MPI_SUCCESS);
  CHECK(error_class(MPI_Pready(1, send)) == MPI_ERR_ARG); /* twice */
  MPI_Test(&send, &flag, MPI_STATUS_IGNORE);
  CHECK(!flag);
  MPI_Pready(0, send);
  MPI_Pready_range(2, 3, send);
  MPI_Status status;
  MPI_Wait(&send, MPI_STATUS_IGNORE);
  MPI_Wait(&receive, &status);
  CHECK(status.MPI_SOURCE == MPI_PROC_NULL);
  MPI_Request_free(&send);
  MPI_Request_free(&receive);
  CHECK(MPI_Parrived(MPI_REQUEST_NULL, 0, &flag) == MPI_SUCCESS && flag);
  MPI_Send_init(data, 1, MPI_INT, 0, 3, MPI_COMM_SELF, &other);
  CHECK(error_class(MPI_Pready(0, other)) == MPI_ERR_REQUEST);
  MPI_Request_free(&other);
  /* Both sides describe the same amount of data, or both are told. */
  MPI_Psend_init(data, 2, 2, MPI_INT, to, 4, MPI_COMM_WORLD, MPI_INFO_NULL, &send);
  MPI_Precv_init(data, 1, 3, MPI_INT, from, 4, MPI_COMM_WORLD, MPI_INFO_NULL, &receive);
  MPI_Start(&receive);
  CHECK(error_class(MPI_Wait(&receive, MPI_STATUS_IGNORE)) == MPI_ERR_TRUNCATE);
  MPI_Start(&send);
  MPI_Pready_range(0, 1, send);
  CHECK(error_class(MPI_Wait(&send, MPI_STATUS_IGNORE)) == MPI_ERR_TRUNCATE);
  MPI_Request_free(&send);
  MPI_Request_free(&receive);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
}

int main(int argc, char **argv) {
  int provided;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  static const int totals[] = {0, 64, 4096, 64000, 1000000}, parts[] = {1, 2, 16, 64};
  for (int shift = 0; shift < size && shift < 3; shift++) {
    to = (rank + shift) % size;
    from = (rank - shift + size) % size;
    for (int t = 0; t < 5; t++) {
      for (int a = 0; a < 4; a++) {
        for (int b = 0; b < 4; b++) exchange(totals[t], parts[a], parts[b], (t + a + 3 * b + shift) % 8);
      }
    }
    same_tag();
    derived(64);
    derived(40000);
    empty(1, 3);
    empty(5, 2);
    threads();
    errors();
  }
  done();
  return 0;
}
