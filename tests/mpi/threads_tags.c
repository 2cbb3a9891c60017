// ranks: 1 2 4
/* MPI_THREAD_MULTIPLE: threads that share a communicator and have tags of their own, where all members have promised
 * not to receive MPI_ANY_TAG. Everything that names a tag works; MPI_ANY_TAG is refused where the messages are spread
 * by their tags, and works where one member has not promised. */
#include <pthread.h>

#include "check.h"

enum { kThreads = 4, kRounds = 200, kSome = 600, kLarge = 200000 };
static int rank, size, to, from;
static MPI_Comm comm;

static MPI_Comm make(int promise) {
  MPI_Comm made;
  MPI_Info info;
  MPI_Info_create(&info);
  if (promise) MPI_Info_set(info, "mpi_assert_no_any_tag", "true");
  MPI_Comm_dup_with_info(MPI_COMM_WORLD, info, &made);
  MPI_Info_free(&info);
  MPI_Comm_set_errhandler(made, MPI_ERRORS_RETURN);
  return made;
}

/* Thread t has the tags 10 t to 10 t + 9. */
static void *exchange(void *argument) {
  const int base = 10 * (int)(long)argument;
  unsigned char *out = malloc(kLarge), *in = malloc(kLarge);
  MPI_Request requests[6];
  MPI_Status status, statuses[6];
  MPI_Message message;
  for (int i = 0; i < kRounds; i++) {
    const long seed = base * 1000 + i;
    const int bytes = i % 20 == 7 ? kLarge : i % 4 * 200;
    fill(out, seed, bytes);
    MPI_Irecv(in, kLarge, MPI_BYTE, i % 3 ? from : MPI_ANY_SOURCE, base + 1, comm, &requests[0]);
    MPI_Isend(out, bytes, MPI_BYTE, to, base + 1, comm, &requests[1]);
    MPI_Waitall(2, requests, statuses);
    CHECK(holds(in, seed, bytes) && statuses[0].MPI_SOURCE == from && statuses[0].MPI_TAG == base + 1);
    /* Several tags, so several engines, in one wait. */
    for (int k = 0; k < 3; k++) {
      MPI_Irecv(in + k * kSome, kSome, MPI_BYTE, from, base + 2 + k, comm, &requests[k]);
      fill(out + k * kSome, seed + k, kSome);
      MPI_Isend(out + k * kSome, kSome, MPI_BYTE, to, base + 2 + k, comm, &requests[3 + k]);
    }
    MPI_Waitall(6, requests, statuses);
    for (int k = 0; k < 3; k++) CHECK(holds(in + k * kSome, seed + k, kSome) && statuses[k].MPI_TAG == base + 2 + k);
    if (i % 10 != 0) continue;
    MPI_Isend(out, kSome, MPI_BYTE, to, base + 5, comm, &requests[0]);
    if (i % 20 == 0) {
      MPI_Probe(from, base + 5, comm, &status);
      MPI_Recv(in, kSome, MPI_BYTE, status.MPI_SOURCE, status.MPI_TAG, comm, &status);
    } else {
      MPI_Mprobe(MPI_ANY_SOURCE, base + 5, comm, &message, &status);
      MPI_Mrecv(in, kSome, MPI_BYTE, &message, &status);
    }
    MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
    CHECK(holds(in, seed, kSome) && status.MPI_TAG == base + 5);
    /* Odd ranks send with one tag, even ones with another. */
    MPI_Sendrecv(out, kSome, MPI_BYTE, to, base + 6 + rank % 2, in, kSome, MPI_BYTE, from, base + 6 + from % 2, comm,
                 &status);
    CHECK(holds(in, seed, kSome) && status.MPI_TAG == base + 6 + from % 2);
  }
  free(out);
  free(in);
  return NULL;
}

static void run_threads(int threads) {
  pthread_t all[kThreads];
  for (long i = 0; i < threads; i++) pthread_create(&all[i], NULL, exchange, (void *)i);
  for (int i = 0; i < threads; i++) pthread_join(all[i], NULL);
}

/* What has no part in the engines' short calls. */
static void other_calls(void) {
  unsigned char out[kSome], in[kSome], buffer[2 * kSome + 2 * MPI_BSEND_OVERHEAD];
  MPI_Request requests[3];
  MPI_Status status;
  int flag;
  for (int tag = 100; tag < 110; tag++) {
    fill(out, tag, kSome);
    MPI_Send_init(out, kSome, MPI_BYTE, to, tag, comm, &requests[0]);
    MPI_Recv_init(in, kSome, MPI_BYTE, from, tag, comm, &requests[1]);
    MPI_Startall(2, requests);
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    CHECK(holds(in, tag, kSome));
    MPI_Request_free(&requests[0]);
    MPI_Request_free(&requests[1]);
    MPI_Irecv(in, kSome, MPI_BYTE, from, 100 + tag, comm, &requests[0]);
    MPI_Cancel(&requests[0]);
    MPI_Wait(&requests[0], &status);
    MPI_Test_cancelled(&status, &flag);
    CHECK(flag);
    MPI_Isendrecv(out, kSome, MPI_BYTE, to, tag, in, kSome, MPI_BYTE, from, tag, comm, &requests[0]);
    MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
    CHECK(holds(in, tag, kSome));
  }
  MPI_Buffer_attach(buffer, sizeof buffer);
  fill(out, 5, kSome);
  MPI_Bsend(out, kSome, MPI_BYTE, to, 120, comm);
  MPI_Recv(in, kSome, MPI_BYTE, from, 120, comm, MPI_STATUS_IGNORE);
  CHECK(holds(in, 5, kSome));
  void *place;
  int bytes;
  MPI_Buffer_detach(&place, &bytes);
  MPI_Isend(out, kSome, MPI_BYTE, to, 121, comm, &requests[0]);
  MPI_Request_free(&requests[0]);
  MPI_Recv(in, kSome, MPI_BYTE, from, 121, comm, MPI_STATUS_IGNORE);
  CHECK(holds(in, 5, kSome));
}

/* Whether the communicator's receives may name any tag. */
static int takes_any_tag(void) {
  int in = -1, error, class;
  MPI_Request request;
  MPI_Isend(&rank, 1, MPI_INT, to, 9, comm, &request);
  error = MPI_Recv(&in, 1, MPI_INT, from, MPI_ANY_TAG, comm, MPI_STATUS_IGNORE);
  MPI_Error_class(error, &class);
  CHECK(class == MPI_SUCCESS || class == MPI_ERR_TAG);
  if (class == MPI_ERR_TAG) {
    MPI_Status status;
    int flag;
    CHECK(MPI_Iprobe(from, MPI_ANY_TAG, comm, &flag, &status) != MPI_SUCCESS);
    MPI_Recv(&in, 1, MPI_INT, from, 9, comm, MPI_STATUS_IGNORE);
  }
  CHECK(in == from);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  return class == MPI_SUCCESS;
}

static int keeps_promise(void) {
  MPI_Info info;
  char value[8] = "";
  int flag, length = sizeof value;
  MPI_Comm_get_info(comm, &info);
  MPI_Info_get_string(info, "mpi_assert_no_any_tag", &length, value, &flag);
  MPI_Info_free(&info);
  CHECK(flag);
  return strcmp(value, "true") == 0;
}

static void withdraw_promise(void) {
  MPI_Info info;
  MPI_Info_create(&info);
  MPI_Info_set(info, "mpi_assert_no_any_tag", "false");
  MPI_Comm_set_info(comm, info);
  MPI_Info_free(&info);
}

/* Engines have no part where several networks may replace each other. */
static int has_engines(void) {
  static const char *const networks[] = {"tcp", "udp", "rdma", "ofi"};
  const char *path = getenv("TERN_PATH");
  int count = 0;
  if (size == 1 || !path || strstr(path, "shm")) return 1;
  for (int i = 0; i < 4; i++) count += strstr(path, networks[i]) != NULL;
  return count == 1;
}

int main(int argc, char **argv) {
  int provided;
  setenv("TERN_ENGINES", "4", 0); /* also where a rank has one core */
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
  CHECK(provided == MPI_THREAD_MULTIPLE);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  to = (rank + 1) % size;
  from = (rank + size - 1) % size;
  const int engines = has_engines();
  comm = make(1);
  CHECK(takes_any_tag() == !engines);
  for (int threads = 1; threads <= kThreads; threads *= 2) run_threads(threads);
  withdraw_promise();
  CHECK(keeps_promise() == engines && takes_any_tag() == !engines);
  other_calls();
  run_threads(2);
  MPI_Comm_disconnect(&comm);
  comm = make(rank != 0); /* one member does not promise */
  CHECK(takes_any_tag() && keeps_promise() == (rank != 0));
  run_threads(2);
  MPI_Comm_free(&comm);
  done();
  return 0;
}
