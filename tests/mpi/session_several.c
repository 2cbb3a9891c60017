// ranks: 1 2 4
// progress: default event
/* Several sessions at a time: each has its own buffer and its own error handler, and what is derived from it (groups,
 * communicators, their duplicates) goes by that (MPI 5.0, 3.6, 9.3, 11.3). */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NEED(condition)                                                         \
  do {                                                                          \
    if (!(condition)) {                                                         \
      fprintf(stderr, "%s:%d: not true: %s\n", __FILE__, __LINE__, #condition); \
      abort();                                                                  \
    }                                                                           \
  } while (0)

static int heard[2];
static MPI_Session sessions[2];

static void first(MPI_Session *session, int *code, ...) {
  NEED(*session == sessions[0] && *code != MPI_SUCCESS);
  heard[0]++;
}
static void second(MPI_Session *session, int *code, ...) {
  NEED(*session == sessions[1] && *code != MPI_SUCCESS);
  heard[1]++;
}

static void only(int which, int code) {
  int class;
  MPI_Error_class(code, &class);
  NEED(class != MPI_SUCCESS);
  NEED(heard[which] == 1 && heard[1 - which] == 0);
  heard[which] = 0;
}

int main(void) {
  MPI_Errhandler handlers[2];
  MPI_Group groups[2], derived;
  MPI_Comm comms[2], copy, none;
  char small[200], message[150], in[150], too_long[MPI_MAX_STRINGTAG_LEN + 10];
  void *large = malloc(20000), *back;
  int bad = 1000, rank, size, bytes, code;
  MPI_Session_create_errhandler(first, &handlers[0]);
  MPI_Session_create_errhandler(second, &handlers[1]);
  for (int i = 0; i < 2; i++) {
    MPI_Session_init(MPI_INFO_NULL, handlers[i], &sessions[i]);
    MPI_Group_from_session_pset(sessions[i], "mpi://WORLD", &groups[i]);
    MPI_Comm_create_from_group(groups[i], i ? "two" : "one", MPI_INFO_NULL, MPI_ERRORS_RETURN, &comms[i]);
  }
  MPI_Comm_rank(comms[0], &rank);
  MPI_Comm_size(comms[0], &size);

  /* Errors on groups, on groups derived from them, on the group of a communicator; in making a communicator. */
  memset(too_long, 'a', sizeof too_long);
  too_long[sizeof too_long - 1] = 0;
  for (int i = 0; i < 2; i++) {
    only(i, MPI_Group_incl(groups[i], 1, &bad, &derived));
    MPI_Group_incl(groups[i], 1, &rank, &derived);
    only(i, MPI_Group_excl(derived, 1, &bad, &derived));
    MPI_Group_free(&derived);
    MPI_Comm_group(comms[i], &derived);
    only(i, MPI_Group_incl(derived, 1, &bad, &derived));
    MPI_Group_free(&derived);
    only(i, MPI_Comm_create_from_group(groups[i], too_long, MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &none));
  }

  /* Buffers: what is too large for the first session's fits into the second's. */
  MPI_Session_attach_buffer(sessions[0], small, sizeof small);
  MPI_Session_attach_buffer(sessions[1], large, 20000);
  MPI_Comm_dup(comms[1], &copy);
  char *big = calloc(1, 10000), *got = malloc(10000);
  big[9999] = (char)(rank + 1);
  code = MPI_Bsend(big, 10000, MPI_BYTE, (rank + 1) % size, 1, comms[0]);
  MPI_Error_class(code, &code);
  NEED(code == MPI_ERR_BUFFER);
  NEED(MPI_Bsend(big, 10000, MPI_BYTE, (rank + 1) % size, 1, comms[1]) == MPI_SUCCESS);
  MPI_Recv(got, 10000, MPI_BYTE, (rank + size - 1) % size, 1, comms[1], MPI_STATUS_IGNORE);
  NEED(got[9999] == (char)((rank + size - 1) % size + 1));
  MPI_Session_flush_buffer(sessions[1]);
  NEED(MPI_Bsend(big, 10000, MPI_BYTE, (rank + 1) % size, 1, copy) == MPI_SUCCESS);
  MPI_Recv(got, 10000, MPI_BYTE, (rank + size - 1) % size, 1, copy, MPI_STATUS_IGNORE);
  memset(message, rank, sizeof message);
  NEED(MPI_Bsend(message, sizeof message, MPI_BYTE, (rank + 1) % size, 1, comms[0]) == MPI_SUCCESS);
  MPI_Recv(in, sizeof in, MPI_BYTE, (rank + size - 1) % size, 1, comms[0], MPI_STATUS_IGNORE);
  NEED(in[149] == (rank + size - 1) % size);
  MPI_Session_detach_buffer(sessions[0], &back, &bytes);
  NEED(back == (void *)small && bytes == sizeof small);
  MPI_Session_detach_buffer(sessions[1], &back, &bytes);
  NEED(back == large && bytes == 20000);

  MPI_Comm_free(&copy);
  for (int i = 0; i < 2; i++) {
    MPI_Comm_disconnect(&comms[i]);
    MPI_Group_free(&groups[i]);
    MPI_Session_finalize(&sessions[i]);
    MPI_Errhandler_free(&handlers[i]);
  }
  NEED(heard[0] == 0 && heard[1] == 0);
  free(large);
  free(big);
  free(got);
  if (rank == 0) puts("ok");
  return 0;
}
