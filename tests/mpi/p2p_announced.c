// ranks: 2 3
// Large receives that are announced to their senders (receiver-initiated rendezvous), in every situation that makes it
// difficult: sizes that do not match, truncation, wildcards before and behind, persistent and probed receives,
// cancelled ones, freed communicators, data with gaps, synchronous sends, very many tags. Sizes around all thresholds.
#include <mpi.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"

static const int sizes[] = {8000, 8193, 65536, 65537, 150000, 600000};
#define SIZES ((int)(sizeof sizes / sizeof sizes[0]))
#define MOST 1300000

static int rank;
static unsigned char *out, *in;

static void write_out(unsigned char *p, int n, int salt) { fill(p, salt, n); }
static int right(const unsigned char *p, int n, int salt) { return holds(p, salt, n); }
static void work(void) {
  volatile double x = 1;
  for (int i = 0; i < 60000; i++) x = x * 1.0000001;
}
static void go(int to) { MPI_Send(NULL, 0, MPI_BYTE, to, 900, MPI_COMM_WORLD); }
static void wait_for(int from) { MPI_Recv(NULL, 0, MPI_BYTE, from, 900, MPI_COMM_WORLD, MPI_STATUS_IGNORE); }

// The receiver early, the sender early, both at a time; in all send modes; the receiver computing or waiting.
static void early_and_late(void) {
  for (int s = 0; s < SIZES; s++) {
    for (int way = 0; way < 9; way++) {
      int n = sizes[s], early = way % 3, mode = way / 3;
      MPI_Barrier(MPI_COMM_WORLD);
      if (rank == 0) {
        write_out(out, n, s + way);
        if (early == 0) wait_for(1);
        if (mode == 0) {
          MPI_Send(out, n, MPI_BYTE, 1, 5, MPI_COMM_WORLD);
        } else {
          MPI_Request request;
          if (mode == 1) MPI_Isend(out, n, MPI_BYTE, 1, 5, MPI_COMM_WORLD, &request);
          else MPI_Issend(out, n, MPI_BYTE, 1, 5, MPI_COMM_WORLD, &request);
          if (early == 1) go(1);
          work();
          MPI_Wait(&request, MPI_STATUS_IGNORE);
        }
        memset(out, 0, (size_t)n);  // ours again: a late reader gets wrong data
      } else if (rank == 1) {
        MPI_Status status;
        MPI_Request request;
        int count;
        memset(in, 0xee, MOST);
        if (early == 1) {
          if (mode != 0) wait_for(0);
          else work();
        }
        MPI_Irecv(in, n, MPI_BYTE, 0, 5, MPI_COMM_WORLD, &request);
        if (early == 0) go(0);
        if (way % 2) work();
        MPI_Wait(&request, &status);
        MPI_Get_count(&status, MPI_BYTE, &count);
        CHECK(count == n && status.MPI_SOURCE == 0 && status.MPI_TAG == 5);
        CHECK(right(in, n, s + way));
        CHECK(n == MOST || in[n] == 0xee);
      }
    }
  }
}

// More room than the message needs, and less (truncation): the receiver expects something else than it gets.
static void mismatched(void) {
  for (int s = 0; s < SIZES; s++) {
    for (int t = 0; t < SIZES; t++) {
      MPI_Barrier(MPI_COMM_WORLD);
      if (rank == 0) {
        write_out(out, sizes[s], s);
        wait_for(1);
        MPI_Send(out, sizes[s], MPI_BYTE, 1, 6, MPI_COMM_WORLD);
        write_out(out, sizes[0], 77);
        MPI_Send(out, sizes[0], MPI_BYTE, 1, 6, MPI_COMM_WORLD);
      } else if (rank == 1) {
        MPI_Status status;
        MPI_Request requests[2];
        int count, n = sizes[s] < sizes[t] ? sizes[s] : sizes[t], outcome;
        unsigned char *second = malloc(MOST);
        memset(in, 0xee, MOST);
        MPI_Irecv(in, sizes[t], MPI_BYTE, 0, 6, MPI_COMM_WORLD, &requests[0]);
        MPI_Irecv(second, MOST, MPI_BYTE, 0, 6, MPI_COMM_WORLD, &requests[1]);
        go(0);
        work();
        outcome = MPI_Wait(&requests[0], &status);
        if (outcome != MPI_SUCCESS) MPI_Error_class(outcome, &outcome);
        CHECK(outcome == (sizes[s] > sizes[t] ? MPI_ERR_TRUNCATE : MPI_SUCCESS));
        MPI_Get_count(&status, MPI_BYTE, &count);
        CHECK(count == n && right(in, n, s));
        CHECK(n == MOST || in[n] == 0xee);
        MPI_Wait(&requests[1], &status);
        MPI_Get_count(&status, MPI_BYTE, &count);
        CHECK(count == sizes[0] && right(second, count, 77));
        free(second);
      }
    }
  }
}

// Specific receives before, between and behind wildcards of both kinds.
static void wildcards(void) {
  enum { N = 12 };
  static const int kind[N] = {0, 1, 0, 2, 3, 0, 0, 1, 0, 2, 0, 0};
  const int n = 70000;
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank == 0) {
    wait_for(1);
    for (int i = 0; i < N; i++) {
      write_out(out, n, i);
      if (i % 3 == 0) MPI_Ssend(out, n, MPI_BYTE, 1, 7, MPI_COMM_WORLD);
      else MPI_Send(out, i % 3 == 1 ? n : 10, MPI_BYTE, 1, 7, MPI_COMM_WORLD);
    }
  } else if (rank == 1) {
    MPI_Request requests[N];
    unsigned char *buffers = malloc((size_t)N * (size_t)n);
    for (int i = 0; i < N; i++) {
      MPI_Irecv(buffers + (size_t)i * (size_t)n, n, MPI_BYTE, kind[i] & 1 ? MPI_ANY_SOURCE : 0,
                kind[i] & 2 ? MPI_ANY_TAG : 7, MPI_COMM_WORLD, &requests[i]);
    }
    go(0);
    work();
    MPI_Waitall(N, requests, MPI_STATUSES_IGNORE);
    for (int i = 0; i < N; i++) CHECK(right(buffers + (size_t)i * (size_t)n, i % 3 == 2 ? 10 : n, i));
    free(buffers);
  }
}

static void persistent_and_probed(void) {
  const int n = 200000;
  MPI_Request request;
  if (rank == 0) MPI_Send_init(out, n, MPI_BYTE, 1, 8, MPI_COMM_WORLD, &request);
  if (rank == 1) MPI_Recv_init(in, n, MPI_BYTE, 0, 8, MPI_COMM_WORLD, &request);
  for (int i = 0; i < 6; i++) {
    if (rank == 0) {
      write_out(out, n, i);
      if (i % 2) wait_for(1);
      MPI_Start(&request);
      MPI_Wait(&request, MPI_STATUS_IGNORE);
    } else if (rank == 1) {
      memset(in, 0, (size_t)n);
      MPI_Start(&request);
      if (i % 2) go(0);
      MPI_Wait(&request, MPI_STATUS_IGNORE);
      CHECK(right(in, n, i));
    }
  }
  if (rank < 2) MPI_Request_free(&request);
  // An announced receive is posted; the message behind its own is probed for and received by the probe's handle.
  if (rank == 0) {
    write_out(out, n, 1);
    wait_for(1);
    MPI_Send(out, n, MPI_BYTE, 1, 9, MPI_COMM_WORLD);
    MPI_Send(out, n, MPI_BYTE, 1, 9, MPI_COMM_WORLD);
  } else if (rank == 1) {
    MPI_Message message;
    MPI_Status status;
    unsigned char *second = malloc((size_t)n);
    MPI_Irecv(in, n, MPI_BYTE, 0, 9, MPI_COMM_WORLD, &request);
    go(0);
    MPI_Mprobe(0, 9, MPI_COMM_WORLD, &message, &status);
    MPI_Mrecv(second, n, MPI_BYTE, &message, &status);
    MPI_Wait(&request, &status);
    CHECK(right(in, n, 1) && right(second, n, 1));
    free(second);
  }
}

// Announced receives are cancelled, first ones and later ones: no byte may be written into them afterwards.
static void cancelled(void) {
  const int n = 150000;
  for (int round = 0; round < 12; round++) {
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) {
      MPI_Request requests[2];
      if (round % 3 == 0) wait_for(1);
      for (int i = 0; i < 2; i++) {
        unsigned char *data = out + (size_t)i * (size_t)n;
        write_out(data, n, 10 * round + i);
        MPI_Isend(data, n, MPI_BYTE, 1, 10, MPI_COMM_WORLD, &requests[i]);
      }
      if (round % 3 == 1) work();
      MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    } else if (rank == 1) {
      MPI_Request requests[3];
      MPI_Status statuses[3];
      int next = 0, flags[3];
      unsigned char *buffers = malloc((size_t)3 * (size_t)n);
      memset(buffers, 0xee, (size_t)3 * (size_t)n);
      for (int i = 0; i < 3; i++) {
        MPI_Irecv(buffers + (size_t)i * (size_t)n, n, MPI_BYTE, 0, 10, MPI_COMM_WORLD, &requests[i]);
      }
      if (round % 3 == 0) go(0);
      if (round % 2) work();
      MPI_Cancel(&requests[round % 4 < 2 ? 0 : 1]);
      MPI_Wait(&requests[round % 4 < 2 ? 0 : 1], &statuses[round % 4 < 2 ? 0 : 1]);
      MPI_Test_cancelled(&statuses[round % 4 < 2 ? 0 : 1], &flags[round % 4 < 2 ? 0 : 1]);
      int asked = round % 4 < 2 ? 0 : 1;
      if (!flags[asked]) {  // two messages are for the other two, then; the last of the three stays without
        MPI_Cancel(&requests[2]);
      }
      for (int i = 0; i < 3; i++) {
        if (i == asked) continue;
        MPI_Wait(&requests[i], &statuses[i]);
        MPI_Test_cancelled(&statuses[i], &flags[i]);
      }
      for (int i = 0; i < 3; i++) {
        unsigned char *data = buffers + (size_t)i * (size_t)n;
        if (flags[i]) {
          for (int at = 0; at < n; at++) CHECK(data[at] == 0xee);
        } else {
          CHECK(right(data, n, 10 * round + next));
          next++;
        }
      }
      CHECK(next == 2);
      free(buffers);
    }
  }
}

static void freed_communicators(void) {
  const int n = 90000;
  for (int i = 0; i < 8; i++) {
    MPI_Comm comm;
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    if (rank == 1) MPI_Irecv(in, n, MPI_BYTE, 0, 3, comm, &request);
    if (rank == 0) {
      work();
      write_out(out, n, i);
      MPI_Isend(out, n, MPI_BYTE, 1, 3, comm, &request);
    }
    if (i % 2) MPI_Comm_free(&comm);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    if (rank == 1) CHECK(right(in, n, i));
    if (!(i % 2)) MPI_Comm_free(&comm);
  }
}

// Every third int of a row, on either side or both.
static void with_gaps(void) {
  enum { COUNT = 40000 };
  MPI_Datatype gaps;
  MPI_Type_vector(COUNT, 1, 3, MPI_INT, &gaps);
  MPI_Type_commit(&gaps);
  int *a = malloc(sizeof(int) * 3 * COUNT), *b = malloc(sizeof(int) * 3 * COUNT);
  for (int way = 0; way < 8; way++) {
    MPI_Barrier(MPI_COMM_WORLD);
    int send_gaps = way & 1, receive_gaps = way & 2, early = way & 4;
    if (rank == 0) {
      for (int i = 0; i < COUNT; i++) a[send_gaps ? 3 * i : i] = i * 7 + way;
      if (early) wait_for(1);
      MPI_Send(a, send_gaps ? 1 : COUNT, send_gaps ? gaps : MPI_INT, 1, 11, MPI_COMM_WORLD);
    } else if (rank == 1) {
      MPI_Request request;
      memset(b, 0xee, sizeof(int) * 3 * COUNT);
      MPI_Irecv(b, receive_gaps ? 1 : COUNT, receive_gaps ? gaps : MPI_INT, 0, 11, MPI_COMM_WORLD, &request);
      if (early) go(0);
      work();
      MPI_Wait(&request, MPI_STATUS_IGNORE);
      for (int i = 0; i < COUNT; i++) CHECK(b[receive_gaps ? 3 * i : i] == i * 7 + way);
      if (receive_gaps) CHECK(b[1] == (int)0xeeeeeeee);
    }
  }
  free(a);
  free(b);
  MPI_Type_free(&gaps);
}

// Each tag once, its receive announced: nothing may be kept for it.
static void many_tags(void) {
  const int rounds = 1500, window = 16, room = 80000;
  for (int round = 0; round < rounds; round++) {
    MPI_Request requests[16];
    for (int i = 0; i < window; i++) {
      int tag = 1000 + round * window + i, value;
      if (rank == 1) MPI_Irecv(in + (size_t)i * (size_t)room, room, MPI_BYTE, 0, tag, MPI_COMM_WORLD, &requests[i]);
      if (rank == 0) {
        value = tag * 3;
        MPI_Send(&value, 1, MPI_INT, 1, tag, MPI_COMM_WORLD);
      }
    }
    if (rank != 1) continue;
    MPI_Waitall(window, requests, MPI_STATUSES_IGNORE);
    for (int i = 0; i < window; i++) {
      int value;
      memcpy(&value, in + (size_t)i * (size_t)room, sizeof value);
      CHECK(value == (1000 + round * window + i) * 3);
    }
  }
}

int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  out = malloc(MOST);
  in = malloc(MOST);
  early_and_late();
  mismatched();
  wildcards();
  persistent_and_probed();
  cancelled();
  freed_communicators();
  with_gaps();
  many_tags();
  free(out);
  free(in);
  done();
  return 0;
}
