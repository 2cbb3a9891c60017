// ranks: 1 2 4
// progress: default event
/* MPI_THREAD_MULTIPLE: the calls that work on tables the threads share (communicators, datatypes, groups, attributes,
 * infos, operators, error handlers, probes, generalized and persistent requests, sessions), from all threads at the
 * same time. */
#include <pthread.h>

#include "check.h"

enum { kThreads = 4, kRounds = 40, kMessages = 8 };
static int rank, size;
static MPI_Comm comms[kThreads];

static int count_delete(MPI_Comm comm, int keyval, void *value, void *extra) {
  ++*(int *)value;
  return MPI_SUCCESS;
}
static void add(void *in, void *inout, int *n, MPI_Datatype *type) {
  for (int i = 0; i < *n; i++) ((int *)inout)[i] += ((int *)in)[i];
}
static int query(void *extra, MPI_Status *status) {
  MPI_Status_set_elements(status, MPI_BYTE, 0);
  MPI_Status_set_cancelled(status, 0);
  status->MPI_SOURCE = status->MPI_TAG = MPI_UNDEFINED;
  return MPI_SUCCESS;
}
static int freed(void *extra) { return MPI_SUCCESS; }
static int cancelled(void *extra, int complete) { return MPI_SUCCESS; }
static void *complete_it(void *request) {
  MPI_Grequest_complete(*(MPI_Request *)request);
  return NULL;
}

static void objects(MPI_Comm comm, int me) {
  MPI_Datatype vector;
  MPI_Group world, first;
  MPI_Info info;
  MPI_Op op;
  MPI_Comm copy, half;
  int keyval, deleted = 0, zero = 0, flag, sum = 0, found;
  char value[16], name[MPI_MAX_OBJECT_NAME];
  MPI_Type_vector(3, 1, 2, MPI_INT, &vector);
  MPI_Type_commit(&vector);
  MPI_Comm_group(comm, &world);
  MPI_Group_incl(world, 1, &zero, &first);
  MPI_Info_create(&info);
  snprintf(value, sizeof value, "thread %d", me);
  MPI_Info_set(info, "who", value);
  MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, count_delete, &keyval, NULL);
  MPI_Comm_dup(comm, &copy);
  MPI_Comm_set_attr(copy, keyval, &deleted);
  MPI_Comm_set_name(copy, value);
  MPI_Comm_get_name(copy, name, &found);
  CHECK(strcmp(name, value) == 0);
  MPI_Comm_set_errhandler(copy, MPI_ERRORS_RETURN);
  CHECK(MPI_Send(NULL, -1, MPI_INT, 0, 0, copy) != MPI_SUCCESS);
  MPI_Comm_split(copy, rank % 2, rank, &half);
  MPI_Op_create(add, 1, &op);
  int one = 1, expected = (size + 1 - rank % 2) / 2;
  MPI_Allreduce(&one, &sum, 1, MPI_INT, op, half);
  CHECK(sum == expected);
  MPI_Op_free(&op);
  MPI_Comm_free(&half);
  MPI_Comm_free(&copy);
  CHECK(deleted == 1);
  MPI_Comm_free_keyval(&keyval);
  int room = sizeof value;
  MPI_Info_get_string(info, "who", &room, value, &flag);
  CHECK(flag && value[7] == '0' + me);
  MPI_Info_free(&info);
  MPI_Group_free(&first);
  MPI_Group_free(&world);
  MPI_Type_free(&vector);
}

static void messages(MPI_Comm comm, int me, int round) {
  int right = (rank + 1) % size, left = (rank + size - 1) % size, out[kMessages], in[kMessages], flag = 0, number;
  MPI_Request sends[kMessages], persistent;
  MPI_Message message;
  MPI_Status status;
  for (int i = 0; i < kMessages; i++) {
    out[i] = rank * 10000 + round * 100 + i;
    MPI_Isend(&out[i], 1, MPI_INT, right, i, comm, &sends[i]);
  }
  for (int i = 0; i < kMessages / 2; i++) {
    if (i % 2) {
      while (!flag) MPI_Improbe(left, i, comm, &flag, &message, &status);
      flag = 0;
    } else {
      MPI_Mprobe(left, i, comm, &message, &status);
    }
    MPI_Mrecv(&in[i], 1, MPI_INT, &message, &status);
    CHECK(in[i] == left * 10000 + round * 100 + i);
  }
  for (int i = kMessages / 2; i < kMessages; i++) {
    MPI_Recv_init(&in[i], 1, MPI_INT, left, i, comm, &persistent);
    MPI_Start(&persistent);
    MPI_Wait(&persistent, &status);
    CHECK(in[i] == left * 10000 + round * 100 + i);
    MPI_Request_free(&persistent);
  }
  for (int left_over = kMessages; left_over > 0; left_over--) {
    MPI_Waitany(kMessages, sends, &number, &status);
    CHECK(number != MPI_UNDEFINED);
  }
}

static void *work(void *argument) {
  int me = (int)(long)argument;
  for (int i = 0; i < kRounds; i++) {
    objects(comms[me], me);
    messages(comms[me], me, i);
    if (i % 10 == 0) {
      MPI_Request request;
      MPI_Session session;
      pthread_t other;
      MPI_Grequest_start(query, freed, cancelled, NULL, &request);
      MPI_Request handle = request;
      pthread_create(&other, NULL, complete_it, &handle);
      MPI_Wait(&request, MPI_STATUS_IGNORE);
      pthread_join(other, NULL);
      MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &session);
      MPI_Session_finalize(&session);
    }
  }
  return NULL;
}

int main(int argc, char **argv) {
  int provided;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
  CHECK(provided == MPI_THREAD_MULTIPLE);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  pthread_t threads[kThreads];
  for (int i = 0; i < kThreads; i++) MPI_Comm_dup(MPI_COMM_WORLD, &comms[i]);
  for (long i = 0; i < kThreads; i++) pthread_create(&threads[i], NULL, work, (void *)i);
  for (int i = 0; i < kThreads; i++) pthread_join(threads[i], NULL);
  for (int i = 0; i < kThreads; i++) MPI_Comm_free(&comms[i]);
  done();
  return 0;
}
