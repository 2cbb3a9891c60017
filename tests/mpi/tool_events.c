// ranks: 1 2 4
/* Events of the tools interface (MPI 5.0, 15.3.8): as many as the counters count, with the arguments of what happened;
 * callbacks that may do everything are called at the end of a call, those that promise more where the event happens;
 * what is dropped is counted. */
#include <unistd.h>

#include "check.h"

enum { kMost = 32 };
typedef struct {
  const char *name;
  long long count, dropped;
  MPI_T_cb_safety level;
  long long last[4];
  MPI_Count time;
  long long of_kind[2]; /* by the third element: of request_completed, sends and receives */
  int source, elements, freed;
  MPI_T_event_registration handle;
} Seen;

static Seen seen[kMost];
static int types, rank, size, other_calls;

static int index_of(const char *name) {
  int index = -1;
  CHECK(MPI_T_event_get_index(name, &index) == MPI_SUCCESS);
  return index;
}
static Seen *of(const char *name) { return &seen[index_of(name)]; }

static void on_event(MPI_T_event_instance instance, MPI_T_event_registration handle, MPI_T_cb_safety level,
                     void *data) {
  Seen *mine = data;
  MPI_Count time;
  mine->count++;
  mine->level = level;
  CHECK(handle == mine->handle);
  CHECK(MPI_T_event_get_timestamp(instance, &time) == MPI_SUCCESS && time >= mine->time);
  mine->time = time;
  CHECK(MPI_T_event_get_source(instance, &mine->source) == MPI_SUCCESS);
  long long copy[8] = {0};
  CHECK(MPI_T_event_copy(instance, copy) == MPI_SUCCESS);
  MPI_Datatype types_of[4];
  MPI_Aint at[4];
  int elements = 4;
  CHECK(MPI_T_event_get_info((int)(mine - seen), NULL, NULL, NULL, types_of, at, &elements, NULL, NULL, NULL, NULL,
                             NULL) == MPI_SUCCESS);
  for (int i = 0; i < elements; i++) {
    long long wide = 0;
    int narrow = 0;
    if (types_of[i] == MPI_INT64_T) {
      CHECK(MPI_T_event_read(instance, i, &wide) == MPI_SUCCESS);
      CHECK(memcmp((char *)copy + at[i], &wide, sizeof wide) == 0);
      mine->last[i] = wide;
    } else {
      CHECK(types_of[i] == MPI_INT32_T && MPI_T_event_read(instance, i, &narrow) == MPI_SUCCESS);
      CHECK(memcmp((char *)copy + at[i], &narrow, sizeof narrow) == 0);
      mine->last[i] = narrow;
    }
  }
  CHECK(MPI_T_event_read(instance, elements, copy) == MPI_T_ERR_INVALID_INDEX);
  if (mine->last[2] == 0 || mine->last[2] == 1) mine->of_kind[mine->last[2]]++;
}

static void on_dropped(MPI_Count count, MPI_T_event_registration handle, int source, MPI_T_cb_safety level,
                       void *data) {
  Seen *mine = data;
  CHECK(handle == mine->handle && count > 0 && source == (int)(mine - seen));
  CHECK(level == MPI_T_CB_REQUIRE_NONE);
  mine->dropped += count;
}

static void on_freed(MPI_T_event_registration handle, MPI_T_cb_safety level, void *data) { ((Seen *)data)->freed++; }

static void listen_to(int index, MPI_T_cb_safety level, MPI_T_event_cb_function *function) {
  Seen *mine = &seen[index];
  CHECK(MPI_T_event_handle_alloc(index, NULL, MPI_INFO_NULL, &mine->handle) == MPI_SUCCESS);
  CHECK(MPI_T_event_register_callback(mine->handle, level, MPI_INFO_NULL, mine, function) == MPI_SUCCESS);
}
static void stop(int index) {
  Seen *mine = &seen[index];
  MPI_T_event_registration gone = mine->handle;
  mine->freed = 0;
  CHECK(MPI_T_event_handle_free(gone, mine, on_freed) == MPI_SUCCESS && mine->freed == 1);
  CHECK(MPI_T_event_handle_free(gone, mine, on_freed) == MPI_T_ERR_INVALID_HANDLE);
}

static void types_say_what_they_are(void) {
  CHECK(MPI_T_event_get_num(&types) == MPI_SUCCESS && types >= 10 && types <= kMost);
  int sources, items;
  CHECK(MPI_T_source_get_num(&sources) == MPI_SUCCESS && sources >= 10);
  for (int i = 0; i < types; i++) {
    char name[64], text[400];
    int name_room = sizeof name, text_room = sizeof text, bind, verbosity, elements = 0;
    MPI_T_enum values;
    MPI_Info info;
    CHECK(MPI_T_event_get_info(i, name, &name_room, &verbosity, NULL, NULL, &elements, &values, &info, text, &text_room,
                               &bind) == MPI_SUCCESS);
    CHECK(strlen(name) > 5 && strlen(text) > 20 && bind == MPI_T_BIND_NO_OBJECT && elements >= 1 && elements <= 4);
    CHECK(index_of(name) == i);
    CHECK(values == MPI_T_ENUM_NULL || (MPI_T_enum_get_info(values, &items, NULL, NULL) == MPI_SUCCESS && items > 10));
    MPI_Info_free(&info);
  }
  for (int i = 0; i < sources; i++) {
    MPI_T_source_order order;
    MPI_Count ticks, most, first, second;
    CHECK(MPI_T_source_get_info(i, NULL, NULL, NULL, NULL, &order, &ticks, &most, NULL) == MPI_SUCCESS);
    CHECK(order == MPI_T_SOURCE_ORDERED && ticks == 1000000000 && most > 0);
    CHECK(MPI_T_source_get_timestamp(i, &first) == MPI_SUCCESS);
    CHECK(MPI_T_source_get_timestamp(i, &second) == MPI_SUCCESS && second >= first);
  }
}

/* --- Counts. */

static MPI_T_pvar_session session;

static unsigned long long counted(const char *name) {
  int index, class, elements;
  unsigned long long values[8], sum = 0;
  MPI_T_pvar_handle handle;
  const int classes[] = {MPI_T_PVAR_CLASS_COUNTER, MPI_T_PVAR_CLASS_AGGREGATE, MPI_T_PVAR_CLASS_LEVEL};
  for (class = 0; MPI_T_pvar_get_index(name, classes[class], &index) != MPI_SUCCESS; class ++) CHECK(class < 2);
  static struct {
    int index, elements;
    MPI_T_pvar_handle handle;
  } known[kMost];
  static int handles;
  for (int i = 0; i < handles; i++) {
    if (known[i].index != index) continue;
    CHECK(MPI_T_pvar_read(session, known[i].handle, values) == MPI_SUCCESS);
    for (int k = 0; k < known[i].elements; k++) sum += values[k];
    return sum;
  }
  CHECK(handles < kMost);
  CHECK(MPI_T_pvar_handle_alloc(session, index, NULL, &handle, &elements) == MPI_SUCCESS);
  if (class < 2) CHECK(MPI_T_pvar_start(session, handle) == MPI_SUCCESS); /* a level is always there */
  known[handles].index = index;
  known[handles].elements = elements;
  known[handles++].handle = handle;
  CHECK(MPI_T_pvar_read(session, handle, values) == MPI_SUCCESS);  // a level is not 0 if a message has come already
  for (int k = 0; k < elements; k++) sum += values[k];
  return sum;
}

static unsigned long long sum_of(const char *const *names) {
  unsigned long long sum = 0;
  for (; *names; names++) sum += counted(*names);
  return sum;
}

static const char *const received[] = {"received_expected", "received_unexpected", NULL};
static const char *const large[] = {"sent_tuple",      "sent_receiver_put", "sent_receiver_stream", "sent_hybrid",
                                    "sent_sender_put", "sent_sender_get",   "sent_sender_data",     NULL};
static const char *const collectives[] = {"coll_node", "coll_blocking", "coll_scheduled", NULL};
static const char *const files[] = {"io_read", "io_written", NULL};
static const char *const failovers[] = {"lane_failovers", NULL};

static char out[1 << 20], in[1 << 20];
static void requests_only(void) {
  const int to = (rank + 1) % size, from = (rank + size - 1) % size;
  for (int bytes = 1; bytes <= 1 << 20; bytes *= 32) {
    MPI_Request requests[2];
    MPI_Irecv(in, bytes, MPI_BYTE, from, bytes, MPI_COMM_WORLD, &requests[0]);
    MPI_Isend(out, bytes, MPI_BYTE, to, bytes, MPI_COMM_WORLD, &requests[1]);
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
  }
}

static void some_of_everything(void) {
  const int to = (rank + 1) % size, from = (rank + size - 1) % size;
  requests_only();
  for (int bytes = 1; bytes <= 1 << 20; bytes *= 32) {
    MPI_Sendrecv(out, bytes, MPI_BYTE, to, 3, in, bytes, MPI_BYTE, from, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  }
  int sum = 1;
  MPI_Request request;
  for (int i = 0; i < 10; i++) MPI_Allreduce(MPI_IN_PLACE, &sum, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
  MPI_Ibcast(out, 100, MPI_BYTE, 0, MPI_COMM_WORLD, &request);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  MPI_File file;
  char name[64];
  snprintf(name, sizeof name, "/tmp/tern-events-%d-%d", (int)getpid(), rank);
  MPI_File_open(MPI_COMM_SELF, name, MPI_MODE_CREATE | MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE, MPI_INFO_NULL, &file);
  for (int i = 0; i < 3; i++) MPI_File_write_at(file, 100 * i, out, 100, MPI_BYTE, MPI_STATUS_IGNORE);
  MPI_File_read_at(file, 0, in, 100, MPI_BYTE, MPI_STATUS_IGNORE);
  MPI_File_close(&file);
}

static const char *const unexpected[] = {"received_unexpected", "unexpected_queue", NULL};
static const char *const sent[] = {"sent_eager",           "sent_tuple",       "sent_receiver_put",
                                   "sent_receiver_stream", "sent_hybrid",      "sent_sender_put",
                                   "sent_sender_get",      "sent_sender_data", NULL};

/* What a source tells of, and what counts it. */
static const struct {
  const char *event;
  const char *const *counters;
} counts[] = {
    {"message_matched", received}, {"message_unexpected", unexpected}, {"rendezvous_begun", large},
    {"rendezvous_done", large},    {"collective_begun", collectives},  {"collective_done", collectives},
    {"file_access", files},        {"path_lost", failovers},           {"path_restored", failovers},
};
enum { kCounts = sizeof counts / sizeof *counts };

/* What the counters say less what was told or dropped, at a moment at which no message came: another rank may be
 * ahead of this one, and the library's thread takes its messages at any time, whose events may wait for the end of a
 * call. */
static long long not_told(int of_counts) {
  long long counter, events;
  int flag;
  const Seen *mine = of(counts[of_counts].event);
  do {
    counter = (long long)sum_of(counts[of_counts].counters);
    MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_SELF, &flag, MPI_STATUS_IGNORE);
    events = mine->count + mine->dropped;
  } while ((long long)sum_of(counts[of_counts].counters) != counter);
  return counter - events;
}

/* Told and dropped ones are together what the counters say, at a level at which events are told where they happen, and
 * at one at which they are told at the end of a call. */
static void events_are_counted(MPI_T_cb_safety level) {
  long long before[kCounts], sends, receives;
  memset(seen, 0, sizeof seen);
  for (int i = 0; i < types; i++) {
    listen_to(i, level, on_event);
    CHECK(MPI_T_event_set_dropped_handler(seen[i].handle, on_dropped) == MPI_SUCCESS);
  }
  for (int i = 0; i < kCounts; i++) before[i] = not_told(i);
  /* A blocking send that leaves at once has no request: here are none. */
  sends = (long long)sum_of(sent), receives = (long long)sum_of(received);
  requests_only();
  const Seen *completed = of("request_completed");
  CHECK(completed->dropped == 0 && completed->of_kind[0] == (long long)sum_of(sent) - sends);
  CHECK(completed->of_kind[1] == (long long)sum_of(received) - receives);
  some_of_everything();
  for (int i = 0; i < kCounts; i++) CHECK(not_told(i) == before[i]);
  CHECK(of("file_access")->last[0] == 0 && of("file_access")->last[3] == 100);
  CHECK(of("message_matched")->source == index_of("message_matched"));
  CHECK(of("hang_suspected")->count == 0);

  /* Epochs: fence, lock, unlock, flush. */
  MPI_Win window;
  static int memory[4];
  MPI_Win_create(memory, sizeof memory, sizeof *memory, MPI_INFO_NULL, MPI_COMM_WORLD, &window);
  const long long epochs = of("window_epoch")->count;
  MPI_Win_fence(0, window);
  CHECK(of("window_epoch")->last[1] == 0);
  MPI_Win_fence(0, window);
  MPI_Win_lock(MPI_LOCK_SHARED, size - 1, 0, window);
  CHECK(of("window_epoch")->last[0] == size - 1 && of("window_epoch")->last[1] == 5);
  MPI_Win_flush(size - 1, window);
  MPI_Win_unlock(size - 1, window);
  CHECK(of("window_epoch")->count == epochs + 5);
  MPI_Win_free(&window);
  for (int i = 0; i < types; i++) stop(i);
  const long long matched = of("message_matched")->count;
  some_of_everything();
  CHECK(of("message_matched")->count == matched);
}

/* --- Safety levels. */

static int inside;
static void may_do_everything(MPI_T_event_instance instance, MPI_T_event_registration handle, MPI_T_cb_safety level,
                              void *data) {
  on_event(instance, handle, level, data);
  CHECK(level == MPI_T_CB_REQUIRE_NONE);
  if (inside++ != 0) return;  // this callback's own messages are events, too
  int five = 5, got = 0, provided;
  MPI_Sendrecv(&five, 1, MPI_INT, rank, 77, &got, 1, MPI_INT, rank, 77, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  CHECK(got == 5);
  MPI_Query_thread(&provided);
  other_calls++;
}

static void callbacks_are_called_where_they_may(void) {
  const int matched = index_of("message_matched"), to = (rank + 1) % size, from = (rank + size - 1) % size;
  char byte = 0, got;
  memset(&seen[matched], 0, sizeof seen[matched]);
  listen_to(matched, MPI_T_CB_REQUIRE_NONE, may_do_everything);
  MPI_Sendrecv(&byte, 1, MPI_BYTE, to, 1, &got, 1, MPI_BYTE, from, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  CHECK(seen[matched].count >= 1 && other_calls == 1);
  /* One that promises more is called at once. */
  CHECK(MPI_T_event_register_callback(seen[matched].handle, MPI_T_CB_REQUIRE_NONE, MPI_INFO_NULL, NULL, NULL) ==
        MPI_SUCCESS);
  CHECK(MPI_T_event_register_callback(seen[matched].handle, MPI_T_CB_REQUIRE_ASYNC_SIGNAL_SAFE, MPI_INFO_NULL,
                                      &seen[matched], on_event) == MPI_SUCCESS);
  MPI_Sendrecv(&byte, 1, MPI_BYTE, to, 1, &got, 1, MPI_BYTE, from, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  CHECK(seen[matched].level == MPI_T_CB_REQUIRE_MPI_RESTRICTED || seen[matched].level == MPI_T_CB_REQUIRE_THREAD_SAFE);
  CHECK(MPI_T_event_register_callback(seen[matched].handle, (MPI_T_cb_safety)4, MPI_INFO_NULL, NULL, NULL) ==
        MPI_T_ERR_INVALID);
  stop(matched);
}

/* More than wait for the end of a call: rank 0 sends while rank 1 is in one receive. */
static void dropped_events_are_counted(void) {
  enum { kMessages = 6000 };
  const int matched = index_of("message_matched");
  static char bytes[kMessages];
  static MPI_Request requests[kMessages];
  char go = 0;
  if (size < 2 || rank > 1) return;
  if (rank == 0) {
    MPI_Recv(&go, 1, MPI_BYTE, 1, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    for (int i = 0; i < kMessages; i++) MPI_Send(bytes, 1, MPI_BYTE, 1, 2, MPI_COMM_WORLD);
    MPI_Send(&go, 1, MPI_BYTE, 1, 3, MPI_COMM_WORLD);
    return;
  }
  for (int i = 0; i < kMessages; i++) MPI_Irecv(bytes + i, 1, MPI_BYTE, 0, 2, MPI_COMM_WORLD, &requests[i]);
  memset(&seen[matched], 0, sizeof seen[matched]);
  listen_to(matched, MPI_T_CB_REQUIRE_NONE, on_event);
  CHECK(MPI_T_event_set_dropped_handler(seen[matched].handle, on_dropped) == MPI_SUCCESS);
  MPI_Send(&go, 1, MPI_BYTE, 0, 1, MPI_COMM_WORLD);
  MPI_Recv(&go, 1, MPI_BYTE, 0, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  MPI_Waitall(kMessages, requests, MPI_STATUSES_IGNORE);
  CHECK(seen[matched].count + seen[matched].dropped == kMessages + 1);
  CHECK(seen[matched].dropped > 0 && seen[matched].count >= 4096);
  stop(matched);
}

int main(int argc, char **argv) {
  int provided;
  CHECK(MPI_T_init_thread(MPI_THREAD_SINGLE, &provided) == MPI_SUCCESS);
  types_say_what_they_are();
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  CHECK(MPI_T_pvar_session_create(&session) == MPI_SUCCESS);
  for (int i = 0; i < kCounts; i++) sum_of(counts[i].counters); /* begins to count */
  sum_of(sent);
  events_are_counted(MPI_T_CB_REQUIRE_THREAD_SAFE);
  events_are_counted(MPI_T_CB_REQUIRE_NONE);
  callbacks_are_called_where_they_may();
  dropped_events_are_counted();
  MPI_Barrier(MPI_COMM_WORLD);
  done();
  CHECK(MPI_T_pvar_session_free(&session) == MPI_SUCCESS);
  return MPI_T_finalize();
}
