// ranks: 1 2
/* Control variables, enumerations, categories and events of the tools interface (MPI 5.0, 15.3): before MPI_Init, while
 * MPI runs, and after MPI_Finalize. What is written before MPI_Init holds afterwards. */
#include "check.h"

static int index_of(const char *name) {
  int index = -1;
  CHECK(MPI_T_cvar_get_index(name, &index) == MPI_SUCCESS);
  return index;
}

static void every_variable_says_what_it_is(void) {
  int count;
  CHECK(MPI_T_cvar_get_num(&count) == MPI_SUCCESS && count > 20);
  for (int i = 0; i < count; i++) {
    char name[100], text[1000];
    int name_room = sizeof name, text_room = sizeof text, verbosity, bind, scope, again = -1, elements;
    MPI_Datatype type;
    MPI_T_enum values;
    CHECK(MPI_T_cvar_get_info(i, name, &name_room, &verbosity, &type, &values, text, &text_room, &bind, &scope) ==
          MPI_SUCCESS);
    CHECK(strncmp(name, "TERN_", 5) == 0 && strlen(text) > 10);
    CHECK(MPI_T_cvar_get_index(name, &again) == MPI_SUCCESS && again == i);
    CHECK(type == MPI_CHAR || type == MPI_COUNT || type == MPI_INT);
    CHECK((values != MPI_T_ENUM_NULL) == (type == MPI_INT));
    CHECK(bind == MPI_T_BIND_NO_OBJECT && (scope == MPI_T_SCOPE_LOCAL || scope == MPI_T_SCOPE_ALL_EQ));
    MPI_T_cvar_handle handle;
    CHECK(MPI_T_cvar_handle_alloc(i, NULL, &handle, &elements) == MPI_SUCCESS);
    char buffer[4096];
    CHECK(elements >= 1 && elements <= (int)sizeof buffer && (type == MPI_CHAR || elements == 1));
    CHECK(MPI_T_cvar_read(handle, buffer) == MPI_SUCCESS);
    if (type == MPI_INT) {  // the value is one of the enumeration's
      int items, found = 0;
      CHECK(MPI_T_enum_get_info(values, &items, NULL, NULL) == MPI_SUCCESS && items >= 2);
      for (int item = 0; item < items; item++) {
        int value, room = sizeof name;
        CHECK(MPI_T_enum_get_item(values, item, &value, name, &room) == MPI_SUCCESS && name[0] != '\0');
        found += value == *(int *)buffer;
      }
      CHECK(found == 1);
      CHECK(MPI_T_enum_get_item(values, items, NULL, NULL, NULL) == MPI_T_ERR_INVALID_INDEX);
    }
    CHECK(MPI_T_cvar_handle_free(&handle) == MPI_SUCCESS && handle == MPI_T_CVAR_HANDLE_NULL);
  }
  CHECK(MPI_T_cvar_get_info(count, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL) == MPI_T_ERR_INVALID_INDEX);
  CHECK(MPI_T_cvar_get_info(-1, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL) == MPI_T_ERR_INVALID_INDEX);
  CHECK(MPI_T_cvar_get_info(0, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL) == MPI_SUCCESS);
}

/* 15.3.3: truncated to the room there is, and told how much is needed. */
static void strings_know_their_room(void) {
  const int index = index_of("TERN_SHM_EAGER_BYTES");
  char name[8] = "xxxxxxx";
  int room = 6;
  CHECK(MPI_T_cvar_get_info(index, name, &room, NULL, NULL, NULL, NULL, NULL, NULL, NULL) == MPI_SUCCESS);
  CHECK(strcmp(name, "TERN_") == 0 && name[6] == 'x' && room == (int)sizeof "TERN_SHM_EAGER_BYTES");
  room = 0;
  CHECK(MPI_T_cvar_get_info(index, name, &room, NULL, NULL, NULL, NULL, NULL, NULL, NULL) == MPI_SUCCESS);
  CHECK(strcmp(name, "TERN_") == 0 && room == (int)sizeof "TERN_SHM_EAGER_BYTES");
  int long_enough = 40;
  char whole[40];
  CHECK(MPI_T_cvar_get_info(index, whole, &long_enough, NULL, NULL, NULL, NULL, NULL, NULL, NULL) == MPI_SUCCESS);
  CHECK(long_enough == (int)strlen(whole) + 1 && strcmp(whole, "TERN_SHM_EAGER_BYTES") == 0);
}

static void write_number(const char *name, MPI_Count value, int expected) {
  MPI_T_cvar_handle handle;
  int elements;
  CHECK(MPI_T_cvar_handle_alloc(index_of(name), NULL, &handle, &elements) == MPI_SUCCESS);
  MPI_Count before = -1, after = -1;
  CHECK(MPI_T_cvar_read(handle, &before) == MPI_SUCCESS);
  CHECK(MPI_T_cvar_write(handle, &value) == expected);
  CHECK(MPI_T_cvar_read(handle, &after) == MPI_SUCCESS);
  CHECK(after == (expected == MPI_SUCCESS ? value : before));
  CHECK(MPI_T_cvar_handle_free(&handle) == MPI_SUCCESS);
}

static unsigned long long sent_eagerly(MPI_T_pvar_session session, MPI_T_pvar_handle handle) {
  unsigned long long classes[8] = {0}, sum = 0;
  CHECK(MPI_T_pvar_read(session, handle, classes) == MPI_SUCCESS);
  for (int i = 0; i < 8; i++) sum += classes[i];
  return sum;
}

/* 6000 bytes went eagerly by default; with a limit of 1000, set before MPI_Init, they do not. */
static void what_was_written_holds(int rank, int size) {
  if (size != 2) return;
  int index, elements;
  MPI_T_pvar_session session;
  MPI_T_pvar_handle handle;
  CHECK(MPI_T_pvar_get_index("sent_eager", MPI_T_PVAR_CLASS_COUNTER, &index) == MPI_SUCCESS);
  CHECK(MPI_T_pvar_session_create(&session) == MPI_SUCCESS);
  CHECK(MPI_T_pvar_handle_alloc(session, index, NULL, &handle, &elements) == MPI_SUCCESS && elements == 8);
  CHECK(MPI_T_pvar_start(session, handle) == MPI_SUCCESS);
  static char data[6000];
  for (int bytes = 900; bytes <= 6000; bytes += 5100) {
    if (rank == 0) MPI_Send(data, bytes, MPI_BYTE, 1, 0, MPI_COMM_WORLD);
    if (rank == 1) MPI_Recv(data, bytes, MPI_BYTE, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  }
  CHECK(sent_eagerly(session, handle) == (rank == 0 ? 1u : 0u));
  CHECK(MPI_T_pvar_session_free(&session) == MPI_SUCCESS && session == MPI_T_PVAR_SESSION_NULL);
}

static void categories_hold_every_variable(void) {
  int count, cvars, pvars, in_cvars = 0, in_pvars = 0, in_events = 0, stamp = -1, later = -2, index;
  CHECK(MPI_T_category_changed(&stamp) == MPI_SUCCESS);
  CHECK(MPI_T_category_get_num(&count) == MPI_SUCCESS && count >= 3);
  CHECK(MPI_T_cvar_get_num(&cvars) == MPI_SUCCESS);
  CHECK(MPI_T_pvar_get_num(&pvars) == MPI_SUCCESS);
  char *seen_cvars = calloc((size_t)cvars, 1), *seen_pvars = calloc((size_t)pvars, 1);
  for (int i = 0; i < count; i++) {
    char name[64], text[200];
    int name_room = sizeof name, text_room = sizeof text, c, p, sub, events = -1, indices[200];
    CHECK(MPI_T_category_get_info(i, name, &name_room, text, &text_room, &c, &p, &sub) == MPI_SUCCESS);
    CHECK(MPI_T_category_get_index(name, &index) == MPI_SUCCESS && index == i);
    CHECK(MPI_T_category_get_num_events(i, &events) == MPI_SUCCESS && events >= 0);
    in_events += events;
    CHECK(MPI_T_category_get_cvars(i, 200, indices) == MPI_SUCCESS);
    for (int k = 0; k < c; k++) in_cvars += !seen_cvars[indices[k]]++;
    CHECK(MPI_T_category_get_pvars(i, 200, indices) == MPI_SUCCESS);
    for (int k = 0; k < p; k++) in_pvars += !seen_pvars[indices[k]]++;
    CHECK(MPI_T_category_get_categories(i, 200, indices) == MPI_SUCCESS);
    for (int k = 0; k < sub; k++) CHECK(indices[k] > i && indices[k] < count);
    CHECK(sub == 0 || sub == count - 1);
    indices[0] = -7;
    CHECK(MPI_T_category_get_pvars(i, 0, indices) == MPI_SUCCESS && indices[0] == -7);
  }
  CHECK(in_cvars == cvars && in_pvars == pvars);
  CHECK(MPI_T_event_get_num(&index) == MPI_SUCCESS && index == in_events);
  free(seen_cvars);
  free(seen_pvars);
  CHECK(MPI_T_category_get_index("no such category", &index) == MPI_T_ERR_INVALID_NAME);
  CHECK(MPI_T_category_get_num_events(count, &index) == MPI_T_ERR_INVALID_INDEX);
  CHECK(MPI_T_category_changed(&later) == MPI_SUCCESS && later == stamp);
}

/* What events do is tested by tool_events. */
static void wrong_events_are_refused(void) {
  int count = -1;
  MPI_Count time;
  char byte;
  CHECK(MPI_T_event_get_num(&count) == MPI_SUCCESS && count >= 10);
  CHECK(MPI_T_event_get_info(count, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL) ==
        MPI_T_ERR_INVALID_INDEX);
  MPI_T_event_registration none = NULL;
  CHECK(MPI_T_event_handle_alloc(count, NULL, MPI_INFO_NULL, &none) == MPI_T_ERR_INVALID_INDEX);
  CHECK(MPI_T_source_get_num(&count) == MPI_SUCCESS && count >= 10);
  CHECK(MPI_T_source_get_timestamp(count, &time) == MPI_T_ERR_INVALID_INDEX);
  CHECK(MPI_T_source_get_info(-1, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL) == MPI_T_ERR_INVALID_INDEX);
  CHECK(MPI_T_event_get_index("anything", &count) == MPI_T_ERR_INVALID_NAME);
  CHECK(MPI_T_event_handle_free(none, NULL, NULL) == MPI_T_ERR_INVALID_HANDLE);
  CHECK(MPI_T_event_set_dropped_handler(none, NULL) == MPI_T_ERR_INVALID_HANDLE);
  CHECK(MPI_T_event_copy(NULL, &byte) == MPI_T_ERR_INVALID_HANDLE);
}

int main(int argc, char **argv) {
  int provided = -1, count, index, rank, size;
  CHECK(MPI_T_cvar_get_num(&count) == MPI_T_ERR_NOT_INITIALIZED);
  CHECK(MPI_T_finalize() == MPI_T_ERR_NOT_INITIALIZED);
  CHECK(MPI_T_init_thread(MPI_THREAD_MULTIPLE, &provided) == MPI_SUCCESS && provided >= MPI_THREAD_SINGLE);
  CHECK(MPI_T_init_thread(MPI_THREAD_SINGLE, &provided) == MPI_SUCCESS);
  every_variable_says_what_it_is();
  strings_know_their_room();
  CHECK(MPI_T_cvar_get_index("TERN_NO_SUCH_THING", &index) == MPI_T_ERR_INVALID_NAME);
  write_number("TERN_SHM_EAGER_BYTES", 1000, MPI_SUCCESS);
  write_number("TERN_TCP_EAGER_BYTES", 1000, MPI_SUCCESS);
  write_number("TERN_RDMA_EAGER_BYTES", 1000, MPI_SUCCESS);
  write_number("TERN_UDP_EAGER_BYTES", 1000, MPI_SUCCESS);
  write_number("TERN_OFI_EAGER_BYTES", 1000, MPI_SUCCESS);
  write_number("TERN_SHM_EAGER_BYTES", -5, MPI_T_ERR_INVALID);
  CHECK(MPI_T_finalize() == MPI_SUCCESS);
  CHECK(MPI_T_cvar_get_num(&count) == MPI_SUCCESS);  // initialised twice, finalised once

  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  every_variable_says_what_it_is();
  what_was_written_holds(rank, size);
  write_number("TERN_SHM_EAGER_BYTES", 2000, MPI_T_ERR_CVAR_SET_NOT_NOW);
  categories_hold_every_variable();
  wrong_events_are_refused();
  int wrong = -1;
  MPI_T_cvar_handle checks;
  CHECK(MPI_T_cvar_handle_alloc(index_of("TERN_CHECK_ARGUMENTS"), NULL, &checks, &count) == MPI_SUCCESS);
  CHECK(MPI_T_cvar_write(checks, &wrong) == MPI_T_ERR_INVALID);
  int off = 0;
  CHECK(MPI_T_cvar_write(checks, &off) == MPI_SUCCESS);
  CHECK(MPI_T_cvar_read(checks, &wrong) == MPI_SUCCESS && wrong == 0);
  CHECK(MPI_T_cvar_handle_free(&checks) == MPI_SUCCESS);
  CHECK(MPI_T_cvar_handle_free(&checks) == MPI_T_ERR_INVALID_HANDLE);
  CHECK(MPI_T_cvar_read(MPI_T_CVAR_HANDLE_NULL, &wrong) == MPI_T_ERR_INVALID_HANDLE);
  MPI_Barrier(MPI_COMM_WORLD);
  MPI_Finalize();

  int after;
  if (MPI_T_cvar_get_num(&after) != MPI_SUCCESS || MPI_T_finalize() != MPI_SUCCESS) return 1;
  if (MPI_T_cvar_get_num(&after) != MPI_T_ERR_NOT_INITIALIZED) return 1;
  if (rank == 0) puts("ok");
  return 0;
}
