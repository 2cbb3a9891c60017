// ranks: 2 3 4
/* Communicators that ask for tuple queues (info key tern_rendezvous) and assert what is true of them (MPI 5.0, 7.4.4):
 * everything arrives once, in order and whole, with such queues as on paths that have none, and MPI_Comm_get_info says
 * which. tests/sim/mpi_tuples_test.cc runs this program in the simulated world, where all ranks share its statics: it
 * has none that it writes. */
#include "check.h"

#define TAGS 2
#define ROUNDS 16
#define MOST 150000

enum assertion { NO_WILDCARDS = 1, EXACT = 2, OVERTAKING = 4, ALL = 7 };

struct place {
  MPI_Comm comm;
  int rank, size, left, right, asserted;
};

static const int sizes[] = {0, 1, 300, 5000, 8192, 8193, 70000, MOST};

static int size_of(int round, int tag) { return sizes[(round + 3 * tag) % 8]; }
static int seed_of(int rank, int round, int tag) { return (rank * 100 + round) * TAGS + tag; }

static MPI_Info wishes(int asserted) {
  MPI_Info info;
  MPI_Info_create(&info);
  MPI_Info_set(info, "tern_rendezvous", "tupleq");
  if (asserted & NO_WILDCARDS) {
    MPI_Info_set(info, "mpi_assert_no_any_source", "true");
    MPI_Info_set(info, "mpi_assert_no_any_tag", "true");
  }
  if (asserted & EXACT) MPI_Info_set(info, "mpi_assert_exact_length", "true");
  if (asserted & OVERTAKING) MPI_Info_set(info, "mpi_assert_allow_overtaking", "true");
  return info;
}

static int has(MPI_Comm comm, const char *key, const char *wanted) {
  char value[40];
  int length = sizeof value, flag;
  MPI_Info used;
  MPI_Comm_get_info(comm, &used);
  MPI_Info_get_string(used, key, &length, value, &flag);
  MPI_Info_free(&used);
  return flag && strcmp(value, wanted) == 0;
}

static struct place open_place(int asserted) {
  struct place p = {.asserted = asserted};
  MPI_Info info = wishes(asserted);
  if (asserted % 2) {
    MPI_Comm_dup_with_info(MPI_COMM_WORLD, info, &p.comm);
  } else {
    MPI_Comm_dup(MPI_COMM_WORLD, &p.comm);
    MPI_Comm_set_info(p.comm, info);
  }
  MPI_Info_free(&info);
  CHECK(has(p.comm, "mpi_assert_no_any_tag", asserted & NO_WILDCARDS ? "true" : "false"));
  CHECK(has(p.comm, "mpi_assert_exact_length", asserted & EXACT ? "true" : "false"));
  CHECK(has(p.comm, "mpi_assert_allow_overtaking", asserted & OVERTAKING ? "true" : "false"));
  MPI_Comm_set_errhandler(p.comm, MPI_ERRORS_RETURN);
  MPI_Comm_rank(p.comm, &p.rank);
  MPI_Comm_size(p.comm, &p.size);
  p.left = (p.rank + p.size - 1) % p.size;
  p.right = (p.rank + 1) % p.size;
  return p;
}

static void start_send(const struct place *p, int round, int tag, const void *data, int early, MPI_Request *request) {
  const int n = size_of(round, tag);
  if (round % 4 == 1) MPI_Issend(data, n, MPI_BYTE, p->right, tag, p->comm, request);
  else if (round % 4 == 2 && early) MPI_Irsend(data, n, MPI_BYTE, p->right, tag, p->comm, request);
  else MPI_Isend(data, n, MPI_BYTE, p->right, tag, p->comm, request);
}

/* Where messages may overtake, the next one of a tag waits for the last. */
static void apart(const struct place *p) {
  if (p->asserted & OVERTAKING) MPI_Barrier(p->comm);
}

/* Along the ring, in two tags; receives are posted before their messages are sent, or behind. */
static void ring(const struct place *p) {
  unsigned char *in = malloc((size_t)TAGS * MOST), *out = malloc((size_t)TAGS * MOST);
  for (int round = 0; round < ROUNDS; round++) {
    const int early = round % 3 != 0;
    MPI_Request requests[2 * TAGS];
    MPI_Status statuses[2 * TAGS];
    for (int pass = 0; pass < 2; pass++) {
      for (int tag = 0; tag < TAGS; tag++) {
        if (pass != early) {
          const int room = p->asserted & EXACT ? size_of(round, tag) : MOST;
          MPI_Irecv(in + (size_t)tag * MOST, room, MPI_BYTE, p->left, tag, p->comm, &requests[tag]);
        } else {
          unsigned char *data = out + (size_t)tag * MOST;
          fill(data, seed_of(p->rank, round, tag), size_of(round, tag));
          start_send(p, round, tag, data, early, &requests[TAGS + tag]);
        }
      }
      if (pass == 0 && early) MPI_Barrier(MPI_COMM_WORLD); /* every receive is posted */
    }
    CHECK(MPI_Waitall(2 * TAGS, requests, statuses) == MPI_SUCCESS);
    for (int tag = 0; tag < TAGS; tag++) {
      int count;
      MPI_Get_count(&statuses[tag], MPI_BYTE, &count);
      CHECK(count == size_of(round, tag) && statuses[tag].MPI_TAG == tag && statuses[tag].MPI_SOURCE == p->left);
      CHECK(holds(in + (size_t)tag * MOST, seed_of(p->left, round, tag), count));
    }
    apart(p);
  }
  free(in);
  free(out);
}

/* Many messages of one tuple, more than a queue of receives is deep: in order. */
static void burst(const struct place *p) {
  enum { kMany = 400 };
  MPI_Request requests[2 * kMany];
  int out[kMany], in[kMany];
  for (int i = 0; i < kMany; i++) {
    out[i] = p->rank * kMany + i;
    MPI_Irecv(&in[i], 1, MPI_INT, p->left, 3, p->comm, &requests[i]);
  }
  for (int i = 0; i < kMany; i++) MPI_Isend(&out[i], 1, MPI_INT, p->right, 3, p->comm, &requests[kMany + i]);
  MPI_Waitall(2 * kMany, requests, MPI_STATUSES_IGNORE);
  for (int i = 0; i < kMany; i++) CHECK(in[i] == p->left * kMany + i);
}

/* Persistent requests, of data with gaps on either side. */
static void persistent(const struct place *p) {
  enum { kBlocks = 700 };
  MPI_Datatype gaps;
  MPI_Request requests[2];
  int *out = malloc(sizeof(int) * 2 * kBlocks), *in = malloc(sizeof(int) * 2 * kBlocks);
  MPI_Type_vector(kBlocks, 1, 2, MPI_INT, &gaps);
  MPI_Type_commit(&gaps);
  for (int side = 0; side < 2; side++) {
    MPI_Send_init(out, side ? 1 : kBlocks, side ? gaps : MPI_INT, p->right, 4, p->comm, &requests[0]);
    MPI_Recv_init(in, side ? kBlocks : 1, side ? MPI_INT : gaps, p->left, 4, p->comm, &requests[1]);
    for (int round = 0; round < 8; round++) {
      for (int i = 0; i < 2 * kBlocks; i++) {
        out[i] = p->rank * 100000 + round * 10000 + i / (side ? 2 : 1);
        in[i] = -1;
      }
      MPI_Startall(2, requests);
      MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
      for (int i = 0; i < kBlocks; i++) {
        CHECK(in[side ? i : 2 * i] == p->left * 100000 + round * 10000 + i);
        if (!side) CHECK(in[2 * i + 1] == -1);
      }
      apart(p);
    }
    MPI_Request_free(&requests[0]);
    MPI_Request_free(&requests[1]);
  }
  MPI_Type_free(&gaps);
  free(out);
  free(in);
}

/* Messages longer than their receives. */
static void truncated(const struct place *p) {
  unsigned char in[100], *out = malloc(MOST);
  for (int round = 0; round < 6; round++) {
    const int n = round % 2 ? MOST : 5000;
    MPI_Request request, sending;
    MPI_Status status;
    int outcome, count;
    memset(in, 0xee, sizeof in);
    MPI_Irecv(in, 90, MPI_BYTE, p->left, 5, p->comm, &request);
    fill(out, p->rank + round, n);
    MPI_Isend(out, n, MPI_BYTE, p->right, 5, p->comm, &sending);
    outcome = MPI_Wait(&request, &status);
    MPI_Error_class(outcome, &outcome);
    MPI_Get_count(&status, MPI_BYTE, &count);
    CHECK(outcome == MPI_ERR_TRUNCATE && count == 90);
    CHECK(holds(in, p->left + round, 90) && in[90] == 0xee && in[99] == 0xee);
    MPI_Wait(&sending, MPI_STATUS_IGNORE);
  }
  free(out);
}

static void receive_any(const struct place *p, int how, int *next) {
  int value[2];
  MPI_Status status;
  if (how == 0) {
    MPI_Recv(value, 2, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, p->comm, &status);
  } else if (how == 1) {
    MPI_Probe(MPI_ANY_SOURCE, MPI_ANY_TAG, p->comm, &status);
    MPI_Recv(value, 2, MPI_INT, status.MPI_SOURCE, status.MPI_TAG, p->comm, &status);
  } else {
    MPI_Message message;
    int found = 0;
    while (!found) MPI_Improbe(MPI_ANY_SOURCE, 6, p->comm, &found, &message, &status);
    MPI_Mrecv(value, 2, MPI_INT, &message, &status);
  }
  CHECK(status.MPI_TAG == 6 && value[0] == status.MPI_SOURCE && value[1] == next[value[0]]++);
}

/* Wildcards and probes of all kinds among receives that name source and tag: each sender's messages in order. */
static void wildcards(const struct place *p) {
  enum { kMany = 40 };
  MPI_Barrier(p->comm);
  if (p->rank != 0) {
    for (int i = 0; i < kMany; i++) {
      const int value[2] = {p->rank, i};
      if (i % 8 == 5) MPI_Ssend(value, 2, MPI_INT, 0, 6, p->comm);
      else MPI_Send(value, 2, MPI_INT, 0, 6, p->comm);
    }
    MPI_Barrier(p->comm); /* the wildcards must not see what comes then */
    return;
  }
  int *next = calloc((size_t)p->size, sizeof *next);
  for (int i = 0; i < kMany * (p->size - 1); i++) {
    const int source = 1 + i % (p->size - 1);
    if (i % 10 < 6 && next[source] < kMany) { /* long enough by name for a queue to come */
      int value[2];
      MPI_Recv(value, 2, MPI_INT, source, 6, p->comm, MPI_STATUS_IGNORE);
      CHECK(value[0] == source && value[1] == next[source]++);
    } else {
      receive_any(p, i % 3, next);
    }
  }
  MPI_Barrier(p->comm);
  free(next);
}

/* A receive that is cancelled gets nothing, those behind it do. */
static void cancelled(const struct place *p) {
  for (int round = 0; round < 8; round++) {
    int in[2] = {-1, -1}, flag;
    const int out = p->rank * 100 + round;
    MPI_Request requests[2], sending;
    MPI_Status status;
    MPI_Irecv(&in[0], 1, MPI_INT, p->left, 7, p->comm, &requests[0]);
    MPI_Irecv(&in[1], 1, MPI_INT, p->left, 7, p->comm, &requests[1]);
    if (round % 2) MPI_Cancel(&requests[0]);
    MPI_Isend(&out, 1, MPI_INT, p->right, 7, p->comm, &sending);
    if (round % 2 == 0) {
      MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
      MPI_Cancel(&requests[1]);
    }
    MPI_Wait(&requests[!(round % 2)], &status);
    MPI_Test_cancelled(&status, &flag);
    if (round % 2 == 0) CHECK(flag && in[0] == p->left * 100 + round && in[1] == -1);
    else if (!flag) CHECK(in[0] == p->left * 100 + round); /* it was matched before */
    MPI_Wait(&sending, MPI_STATUS_IGNORE);
    if (round % 2 != 0) {
      if (!flag) MPI_Cancel(&requests[1]);
      MPI_Wait(&requests[1], &status);
      CHECK(in[flag ? 1 : 0] == p->left * 100 + round && in[flag ? 0 : 1] == -1);
    }
    MPI_Barrier(p->comm); /* the second receive must not meet the next message */
  }
}

/* Communicators come and go with their queues. */
static void many(void) {
  for (int i = 0; i < 20; i++) {
    struct place p = open_place(ALL);
    for (int round = 0; round < 5; round++) {
      int in = -1, out = i * 10 + round;
      MPI_Sendrecv(&out, 1, MPI_INT, p.right, 0, &in, 1, MPI_INT, p.left, 0, p.comm, MPI_STATUS_IGNORE);
      CHECK(in == out);
    }
    MPI_Comm_free(&p.comm);
  }
}

static void everything(int asserted) {
  struct place p = open_place(asserted);
  ring(&p);
  if (!(asserted & OVERTAKING)) burst(&p);
  persistent(&p);
  if (!(asserted & EXACT)) truncated(&p);
  if (!(asserted & (NO_WILDCARDS | OVERTAKING))) wildcards(&p);
  if (!(asserted & OVERTAKING)) cancelled(&p);
  ring(&p);
  MPI_Comm_free(&p.comm);
}

int main(int argc, char **argv) {
  MPI_T_pvar_session session;
  MPI_T_pvar_handle by_queue;
  int provided, index, elements, queues;
  unsigned long long messages[16], sum = 0;
  MPI_T_init_thread(MPI_THREAD_SINGLE, &provided);
  MPI_Init(&argc, &argv);
  CHECK(MPI_T_pvar_session_create(&session) == MPI_SUCCESS);
  CHECK(MPI_T_pvar_get_index("sent_tuple", MPI_T_PVAR_CLASS_COUNTER, &index) == MPI_SUCCESS);
  CHECK(MPI_T_pvar_handle_alloc(session, index, NULL, &by_queue, &elements) == MPI_SUCCESS && elements <= 16);
  CHECK(MPI_T_pvar_start(session, by_queue) == MPI_SUCCESS);
  for (int asserted = 0; asserted <= ALL; asserted++) everything(asserted);
  many();
  /* What the info says is true: messages took queues, or there are none. */
  struct place p = open_place(0);
  queues = has(p.comm, "tern_rendezvous", "tupleq");
  CHECK(queues || has(p.comm, "tern_rendezvous", "customised"));
  MPI_Comm_free(&p.comm);
  CHECK(MPI_T_pvar_read(session, by_queue, messages) == MPI_SUCCESS);
  for (int i = 0; i < elements; i++) sum += messages[i];
  CHECK((sum > 0) == queues);
  CHECK(MPI_T_pvar_session_free(&session) == MPI_SUCCESS);
  done();
  MPI_T_finalize();
  return 0;
}
