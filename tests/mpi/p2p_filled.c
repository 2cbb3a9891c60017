// ranks: 2
// paths: shm
/* A rank posts up to a thousand receives while their sender computes, and then computes itself without MPI: their
 * messages arrive meanwhile in the buffers themselves, and the sends complete. With several tags and communicators, in
 * any order of them, and with wildcards beside; the sends complete also if they began first. Needs cross-memory attach;
 * where the kernel refuses it, there is nothing to test. */
#define _GNU_SOURCE
#include <stdint.h>
#include <sys/uio.h>
#include <unistd.h>

#include "check.h"

enum { kMost = 1000, kTags = 3, kComms = 2, kKeys = kTags * kComms, kOtherTag = 99, kPatience_s = 30 };
static const long kMaxBytes = 66000000;

/* In memory that both ranks map. */
struct board {
  int posted; /* the round whose receives are all posted */
  int begun;  /* the round whose sends have all begun */
  int sent;   /* the round whose sends are all complete */
  int pid, attached;
  char* probe;
};

/* How the sender sends. SENDS_FIRST: the receiver knows of the messages before it posts the receives. */
enum how { IN_ORDER, LAST_KEY_FIRST, NONBLOCKING, SENDS_FIRST, HOWS };

static int rank;
static struct board* board;
static MPI_Comm comms[kComms + 1];

static struct board* board_of_rank_0(MPI_Win* win) {
  void* base;
  MPI_Aint bytes;
  int unit;
  MPI_Win_allocate_shared(rank == 0 ? sizeof(struct board) : 0, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &base, win);
  MPI_Win_shared_query(*win, 0, &bytes, &unit, &base);
  if (rank == 0) memset(base, 0, sizeof(struct board));
  MPI_Barrier(MPI_COMM_WORLD);
  return base;
}

/* Whether rank 0 may write rank 1's memory, as the library would. */
static int may_attach(void) {
  static char mine[8];
  if (rank == 1) {
    board->pid = (int)getpid();
    board->probe = mine;
  }
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank == 0) {
    char data[8] = {1};
    struct iovec here = {data, 8}, there = {board->probe, 8};
    board->attached = process_vm_writev(board->pid, &here, 1, &there, 1, 0) == 8;
  }
  MPI_Barrier(MPI_COMM_WORLD);
  return board->attached;
}

/* Computes until the other rank has written `round`. */
static void await(const int* word, int round, const char* what) {
  const double began = MPI_Wtime();
  while (__atomic_load_n(word, __ATOMIC_ACQUIRE) < round) {
    if (MPI_Wtime() - began > kPatience_s) {
      fprintf(stderr, "round %d: %s do not end while the other rank computes\n", round, what);
      MPI_Abort(MPI_COMM_WORLD, 1);
    }
  }
}

static MPI_Comm comm_of(int i) { return comms[i / kTags % kComms]; }
static int tag_of(int i) { return 2 + i % kTags; }

static void send_all(int round, unsigned char* data, int receives, long bytes, enum how how) {
  static MPI_Request requests[kMost];
  for (int i = 0; i < receives; i++) fill(data + i * bytes, round * kMost + i, bytes);
  if (how != SENDS_FIRST) await(&board->posted, round, "the receives");
  if (how == LAST_KEY_FIRST) {
    for (int key = kKeys - 1; key >= 0; key--) {
      for (int i = key; i < receives; i += kKeys)
        MPI_Send(data + i * bytes, (int)bytes, MPI_BYTE, 1, tag_of(i), comm_of(i));
    }
  } else {
    for (int i = 0; i < receives; i++) {
      unsigned char* one = data + i * bytes;
      if (how == IN_ORDER) MPI_Send(one, (int)bytes, MPI_BYTE, 1, tag_of(i), comm_of(i));
      else MPI_Isend(one, (int)bytes, MPI_BYTE, 1, tag_of(i), comm_of(i), &requests[i]);
    }
    __atomic_store_n(&board->begun, round, __ATOMIC_RELEASE);
    if (how >= NONBLOCKING) MPI_Waitall(receives, requests, MPI_STATUSES_IGNORE);
  }
  __atomic_store_n(&board->sent, round, __ATOMIC_RELEASE);
  MPI_Send(&round, 1, MPI_INT, 1, kOtherTag, comms[0]);
  MPI_Send(&round, 1, MPI_INT, 1, kOtherTag, comms[kComms]);
}

static void receive_all(int round, unsigned char* data, int receives, long bytes, enum how how) {
  static MPI_Request requests[kMost], wild[2];
  static MPI_Status statuses[kMost];
  int value[2] = {-1, -1}, count, flag;
  if (how == SENDS_FIRST) {
    await(&board->begun, round, "the beginnings of the sends");
    for (int i = 0; i < kMost; i++) MPI_Iprobe(0, kOtherTag, comms[0], &flag, MPI_STATUS_IGNORE);
  }
  for (int i = 0; i < receives; i++) {
    if (i == receives / 2) {
      MPI_Irecv(&value[0], 1, MPI_INT, MPI_ANY_SOURCE, kOtherTag, comms[0], &wild[0]);
      MPI_Irecv(&value[1], 1, MPI_INT, 0, MPI_ANY_TAG, comms[kComms], &wild[1]);
    }
    MPI_Irecv(data + i * bytes, (int)bytes, MPI_BYTE, 0, tag_of(i), comm_of(i), &requests[i]);
  }
  __atomic_store_n(&board->posted, round, __ATOMIC_RELEASE);
  await(&board->sent, round, "the sends");
  const int filled = how != SENDS_FIRST; /* then some are in library buffers of the sender */
  for (int i = 0; filled && i < receives; i++) CHECK(holds(data + i * bytes, round * kMost + i, bytes));
  MPI_Waitall(receives, requests, statuses);
  for (int i = 0; !filled && i < receives; i++) CHECK(holds(data + i * bytes, round * kMost + i, bytes));
  MPI_Waitall(2, wild, MPI_STATUSES_IGNORE);
  CHECK(value[0] == round && value[1] == round);
  for (int i = 0; i < receives; i++) {
    MPI_Get_count(&statuses[i], MPI_BYTE, &count);
    CHECK(count == bytes && statuses[i].MPI_TAG == tag_of(i) && statuses[i].MPI_SOURCE == 0);
  }
}

/* Long and short messages in the same tags: those that are short, or longer than their receives, come their own way. */
static void mixed(int round) {
  enum { kMany = 300, kRoom = 40000 };
  static MPI_Request requests[kMany];
  static MPI_Status statuses[kMany];
  unsigned char* data = malloc((size_t)kMany * 2 * kRoom);
  MPI_Barrier(MPI_COMM_WORLD);
  for (int i = 0; i < kMany; i++) {
    const int bytes = i % 7 == 3 ? 100 : i % 11 == 5 ? kRoom + 1000 : i % 5 == 4 ? kRoom / 2 : kRoom;
    unsigned char* one = data + (long)i * 2 * kRoom;
    if (rank == 0) fill(one, round + i, bytes);
    if (rank == 0) MPI_Isend(one, bytes, MPI_BYTE, 1, tag_of(i), comm_of(i), &requests[i]);
    else MPI_Irecv(one, kRoom, MPI_BYTE, 0, tag_of(i), comm_of(i), &requests[i]);
  }
  const int result = MPI_Waitall(kMany, requests, statuses);
  for (int i = 0; rank == 0 && result != MPI_SUCCESS && i < kMany; i++) {
    char text[MPI_MAX_ERROR_STRING];
    int length;
    MPI_Error_string(statuses[i].MPI_ERROR, text, &length);
    if (statuses[i].MPI_ERROR != MPI_SUCCESS) fprintf(stderr, "send %d: %s\n", i, text);
  }
  CHECK(rank == 1 || result == MPI_SUCCESS);
  for (int i = 0; rank == 1 && i < kMany; i++) {
    const int bytes = i % 7 == 3 ? 100 : i % 11 == 5 ? kRoom : i % 5 == 4 ? kRoom / 2 : kRoom;
    CHECK(holds(data + (long)i * 2 * kRoom, round + i, bytes));
  }
  free(data);
}

int main(int argc, char** argv) {
  static const long sizes[] = {16384, 65536, 65537, 300000, 1048576};
  static const int numbers[] = {1, 7, 100, kMost};
  MPI_Win win;
  int round = 0;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  for (int i = 0; i <= kComms; i++) {
    MPI_Comm_dup(MPI_COMM_WORLD, &comms[i]);
    MPI_Comm_set_errhandler(comms[i], MPI_ERRORS_RETURN);
  }
  board = board_of_rank_0(&win);
  if (may_attach()) {
    unsigned char* data = malloc((size_t)kMaxBytes);
    for (int s = 0; s < 5; s++) {
      for (int n = 0; n < 4; n++) {
        if (sizes[s] * numbers[n] > kMaxBytes) continue;
        for (enum how how = IN_ORDER; how < HOWS; how++) {
          ++round;
          if (rank == 0) {
            send_all(round, data, numbers[n], sizes[s], how);
          } else {
            memset(data, 0, (size_t)(numbers[n] * sizes[s]));
            receive_all(round, data, numbers[n], sizes[s], how);
          }
        }
      }
      mixed(round);
    }
    free(data);
  } else if (rank == 0) {
    puts("skipped: no cross-memory attach between the ranks");
  }
  MPI_Barrier(MPI_COMM_WORLD);
  for (int i = 0; i <= kComms; i++) MPI_Comm_free(&comms[i]);
  MPI_Win_free(&win);
  done();
  return 0;
}
