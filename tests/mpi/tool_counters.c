// ranks: 1 2 4
/* Performance variables (MPI 5.0, 15.3.7): what is counted is what was sent; handles start, stop, reset and read by
 * themselves. */
#include "check.h"

typedef unsigned long long number;

static int index_of(const char *name, int var_class) {
  int index = -1;
  CHECK(MPI_T_pvar_get_index(name, var_class, &index) == MPI_SUCCESS);
  return index;
}

static MPI_T_pvar_handle handle_of(MPI_T_pvar_session session, const char *name, int var_class, int elements) {
  MPI_T_pvar_handle handle;
  int count = -1;
  CHECK(MPI_T_pvar_handle_alloc(session, index_of(name, var_class), NULL, &handle, &count) == MPI_SUCCESS);
  CHECK(count == elements);
  return handle;
}

static number read_sum(MPI_T_pvar_session session, MPI_T_pvar_handle handle, int elements) {
  number values[8], sum = 0;
  CHECK(MPI_T_pvar_read(session, handle, values) == MPI_SUCCESS);
  for (int i = 0; i < elements; i++) sum += values[i];
  return sum;
}

static void every_variable_says_what_it_is(void) {
  int count;
  CHECK(MPI_T_pvar_get_num(&count) == MPI_SUCCESS && count > 20);
  for (int i = 0; i < count; i++) {
    char name[100], text[1000];
    int name_room = sizeof name, text_room = sizeof text, verbosity, var_class, bind, readonly, continuous, atomic,
        again;
    MPI_Datatype type;
    MPI_T_enum values;
    CHECK(MPI_T_pvar_get_info(i, name, &name_room, &verbosity, &var_class, &type, &values, text, &text_room, &bind,
                              &readonly, &continuous, &atomic) == MPI_SUCCESS);
    CHECK(strlen(text) > 10 && type == MPI_UNSIGNED_LONG_LONG && values == MPI_T_ENUM_NULL &&
          bind == MPI_T_BIND_NO_OBJECT);
    CHECK(readonly == continuous && atomic == !readonly);
    CHECK(MPI_T_pvar_get_index(name, var_class, &again) == MPI_SUCCESS && again == i);
    CHECK(MPI_T_pvar_get_index(name, MPI_T_PVAR_CLASS_STATE, &again) == MPI_T_ERR_INVALID_NAME);
  }
  CHECK(MPI_T_pvar_get_info(count, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL) ==
        MPI_T_ERR_INVALID_INDEX);
}

/* Sends `count` messages of `bytes` to myself or along the ring: everybody sends and receives so many. */
static void traffic(int rank, int size, int bytes, int count) {
  static char out[20000], in[20000];
  for (int i = 0; i < count; i++) {
    MPI_Sendrecv(out, bytes, MPI_BYTE, (rank + 1) % size, 3, in, bytes, MPI_BYTE, (rank + size - 1) % size, 3,
                 MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  }
}

static void counts_are_exact(int rank, int size) {
  MPI_T_pvar_session session, other;
  CHECK(MPI_T_pvar_session_create(&session) == MPI_SUCCESS);
  CHECK(MPI_T_pvar_session_create(&other) == MPI_SUCCESS);
  MPI_T_pvar_handle messages = handle_of(session, "sent_eager", MPI_T_PVAR_CLASS_COUNTER, 8);
  MPI_T_pvar_handle bytes = handle_of(session, "sent_eager_bytes", MPI_T_PVAR_CLASS_AGGREGATE, 8);
  MPI_T_pvar_handle expected = handle_of(session, "received_expected", MPI_T_PVAR_CLASS_COUNTER, 8);
  MPI_T_pvar_handle unexpected = handle_of(session, "received_unexpected", MPI_T_PVAR_CLASS_COUNTER, 8);
  MPI_T_pvar_handle elsewhere = handle_of(other, "sent_eager", MPI_T_PVAR_CLASS_COUNTER, 8);
  traffic(rank, size, 100, 5);  // nobody has started yet
  CHECK(read_sum(session, messages, 8) == 0);
  CHECK(MPI_T_pvar_start(session, MPI_T_PVAR_ALL_HANDLES) == MPI_SUCCESS);
  traffic(rank, size, 8, 10);
  traffic(rank, size, 500, 20);
  number by_size[8];
  CHECK(MPI_T_pvar_read(session, messages, by_size) == MPI_SUCCESS);
  CHECK(by_size[0] == 10 && by_size[1] == 20 && by_size[2] == 0);  // up to 64 bytes, up to 512, up to 4096
  CHECK(read_sum(session, bytes, 8) == 10 * 8 + 20 * 500);
  CHECK(read_sum(session, expected, 8) + read_sum(session, unexpected, 8) == 30);
  CHECK(read_sum(other, elsewhere, 8) == 0);  // sessions do not touch each other

  CHECK(MPI_T_pvar_stop(session, messages) == MPI_SUCCESS);
  traffic(rank, size, 8, 7);
  CHECK(read_sum(session, messages, 8) == 30 && read_sum(session, bytes, 8) == 17 * 8 + 20 * 500);
  CHECK(MPI_T_pvar_start(session, messages) == MPI_SUCCESS);
  traffic(rank, size, 8, 1);
  CHECK(read_sum(session, messages, 8) == 31);
  CHECK(MPI_T_pvar_readreset(session, messages, by_size) == MPI_SUCCESS && by_size[0] == 11);
  CHECK(read_sum(session, messages, 8) == 0);
  traffic(rank, size, 8, 2);
  CHECK(read_sum(session, messages, 8) == 2);
  number set[8] = {100};
  CHECK(MPI_T_pvar_write(session, messages, set) == MPI_SUCCESS);
  traffic(rank, size, 8, 1);
  CHECK(read_sum(session, messages, 8) == 101);
  CHECK(MPI_T_pvar_reset(session, MPI_T_PVAR_ALL_HANDLES) == MPI_SUCCESS && read_sum(session, bytes, 8) == 0);

  CHECK(MPI_T_pvar_read(other, messages, by_size) == MPI_T_ERR_INVALID_HANDLE);  // of another session
  CHECK(MPI_T_pvar_read(session, MPI_T_PVAR_ALL_HANDLES, by_size) == MPI_T_ERR_INVALID_HANDLE);
  CHECK(MPI_T_pvar_handle_free(session, &messages) == MPI_SUCCESS && messages == MPI_T_PVAR_HANDLE_NULL);
  CHECK(MPI_T_pvar_session_free(&session) == MPI_SUCCESS);
  CHECK(MPI_T_pvar_session_free(&session) == MPI_T_ERR_INVALID_SESSION);
  CHECK(MPI_T_pvar_session_free(&other) == MPI_SUCCESS);
}

/* Messages that nobody has asked for are a level; it is gone when they are received, its high watermark stays. */
static void levels_rise_and_fall(int rank, int size) {
  if (size < 2) return;
  MPI_T_pvar_session session;
  CHECK(MPI_T_pvar_session_create(&session) == MPI_SUCCESS);
  MPI_T_pvar_handle level = handle_of(session, "unexpected_queue", MPI_T_PVAR_CLASS_LEVEL, 1);
  MPI_T_pvar_handle bytes = handle_of(session, "unexpected_bytes", MPI_T_PVAR_CLASS_LEVEL, 1);
  MPI_T_pvar_handle peak = handle_of(session, "unexpected_queue_peak", MPI_T_PVAR_CLASS_HIGHWATERMARK, 1);
  CHECK(MPI_T_pvar_start(session, level) == MPI_T_ERR_PVAR_NO_STARTSTOP);
  CHECK(MPI_T_pvar_start(session, MPI_T_PVAR_ALL_HANDLES) == MPI_SUCCESS);
  CHECK(MPI_T_pvar_reset(session, peak) == MPI_T_ERR_PVAR_NO_WRITE);
  number value;
  CHECK(MPI_T_pvar_readreset(session, peak, &value) == MPI_T_ERR_PVAR_NO_ATOMIC);
  char data[40];
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank == 0) {
    for (int tag = 10; tag < 30; tag++) MPI_Send(data, 40, MPI_BYTE, 1, tag, MPI_COMM_WORLD);
  } else if (rank == 1) {
    MPI_Recv(data, 40, MPI_BYTE, 0, 29, MPI_COMM_WORLD, MPI_STATUS_IGNORE);  // the last: the others are here
    CHECK(read_sum(session, level, 1) == 19 && read_sum(session, bytes, 1) == 19 * 40);
    for (int tag = 10; tag < 29; tag++) MPI_Recv(data, 40, MPI_BYTE, 0, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    CHECK(read_sum(session, level, 1) == 0 && read_sum(session, bytes, 1) == 0 && read_sum(session, peak, 1) >= 19);
    for (int other = 0; other < size; other++) {
      if (other != 1) MPI_Send(data, 1, MPI_BYTE, other, 30, MPI_COMM_WORLD);
    }
  }
  // Nobody goes on to what sends other messages to rank 1.
  if (rank != 1) MPI_Recv(data, 1, MPI_BYTE, 1, 30, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  CHECK(MPI_T_pvar_session_free(&session) == MPI_SUCCESS);
}

/* Rank 0 waits for rank 1, which answers its word after 50 ms: rank 0 measures from before that word, since it may have
 * left the barrier long after rank 1 where ranks share cores. */
static void waiting_is_timed(int rank, int size) {
  if (size < 2) return;
  MPI_T_pvar_session session;
  CHECK(MPI_T_pvar_session_create(&session) == MPI_SUCCESS);
  MPI_T_pvar_handle wait = handle_of(session, "wait", MPI_T_PVAR_CLASS_TIMER, 1);
  MPI_Barrier(MPI_COMM_WORLD);
  CHECK(MPI_T_pvar_start(session, wait) == MPI_SUCCESS);
  char byte = 0;
  if (rank == 0) {
    const double began = MPI_Wtime();
    MPI_Send(&byte, 1, MPI_BYTE, 1, 0, MPI_COMM_WORLD);
    MPI_Recv(&byte, 1, MPI_BYTE, 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    const double took = (MPI_Wtime() - began) * 1e9, waited = (double)read_sum(session, wait, 1);
    if (waited <= 30e6 || waited > took) fprintf(stderr, "waited %.0f ns of %.0f\n", waited, took);
    CHECK(waited > 30e6 && waited <= took);
  } else if (rank == 1) {
    MPI_Recv(&byte, 1, MPI_BYTE, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    const double answer = MPI_Wtime() + 0.05;
    while (MPI_Wtime() < answer) {
    }
    MPI_Send(&byte, 1, MPI_BYTE, 0, 0, MPI_COMM_WORLD);
  }
  CHECK(MPI_T_pvar_stop(session, wait) == MPI_SUCCESS);
  CHECK(MPI_T_pvar_session_free(&session) == MPI_SUCCESS);
}

static void collectives_are_counted(void) {
  MPI_T_pvar_session session;
  CHECK(MPI_T_pvar_session_create(&session) == MPI_SUCCESS);
  MPI_T_pvar_handle node = handle_of(session, "coll_node", MPI_T_PVAR_CLASS_COUNTER, 1);
  MPI_T_pvar_handle blocking = handle_of(session, "coll_blocking", MPI_T_PVAR_CLASS_COUNTER, 1);
  MPI_T_pvar_handle scheduled = handle_of(session, "coll_scheduled", MPI_T_PVAR_CLASS_COUNTER, 1);
  CHECK(MPI_T_pvar_start(session, MPI_T_PVAR_ALL_HANDLES) == MPI_SUCCESS);
  for (int i = 0; i < 20; i++) MPI_Barrier(MPI_COMM_WORLD);
  MPI_Request request;
  MPI_Ibarrier(MPI_COMM_WORLD, &request);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  CHECK(read_sum(session, node, 1) + read_sum(session, blocking, 1) == 20);
  CHECK(read_sum(session, scheduled, 1) == 1);
  CHECK(MPI_T_pvar_session_free(&session) == MPI_SUCCESS);
}

int main(int argc, char **argv) {
  int provided, rank, size;
  CHECK(MPI_T_init_thread(MPI_THREAD_SINGLE, &provided) == MPI_SUCCESS);
  every_variable_says_what_it_is();
  // Handles may be there before MPI is: what it does then is counted.
  MPI_T_pvar_session early;
  CHECK(MPI_T_pvar_session_create(&early) == MPI_SUCCESS);
  MPI_T_pvar_handle sent = handle_of(early, "sent_eager", MPI_T_PVAR_CLASS_COUNTER, 8);
  CHECK(MPI_T_pvar_start(early, sent) == MPI_SUCCESS && read_sum(early, sent, 8) == 0);
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  const number at_start = read_sum(early, sent, 8);
  traffic(rank, size, 8, 3);
  CHECK(read_sum(early, sent, 8) == at_start + 3);
  counts_are_exact(rank, size);
  levels_rise_and_fall(rank, size);
  waiting_is_timed(rank, size);
  collectives_are_counted();
  MPI_Finalize();
  number values[8], sum = 0;
  if (MPI_T_pvar_read(early, sent, values) != MPI_SUCCESS) return 1;
  for (int i = 0; i < 8; i++) sum += values[i];
  if (sum < at_start + 3) return 1;  // they stay to be read
  if (MPI_T_pvar_session_free(&early) != MPI_SUCCESS || MPI_T_finalize() != MPI_SUCCESS) return 1;
  if (rank == 0) puts("ok");
  return 0;
}
