// ranks: 1 2 4
/* Sessions alone, before and beside the World Model; process sets; communicators from groups (11.3). */
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

static void ring(MPI_Comm comm) {
  int rank, size, in = -1;
  MPI_Comm_rank(comm, &rank);
  MPI_Comm_size(comm, &size);
  MPI_Sendrecv(&rank, 1, MPI_INT, (rank + 1) % size, 0, &in, 1, MPI_INT, (rank + size - 1) % size, 0, comm,
               MPI_STATUS_IGNORE);
  NEED(in == (rank + size - 1) % size);
}

static int one_session(const char *level) {
  MPI_Session session;
  MPI_Info info;
  MPI_Group group, self;
  MPI_Comm comm;
  char name[64], value[64];
  int sets, length, flag, size, members;
  MPI_Info_create(&info);
  MPI_Info_set(info, "thread_level", level);
  MPI_Session_init(info, MPI_ERRORS_ARE_FATAL, &session);
  MPI_Info_free(&info);
  MPI_Session_get_info(session, &info);
  length = sizeof value;
  MPI_Info_get_string(info, "thread_level", &length, value, &flag);
  NEED(flag && !strncmp(value, "MPI_THREAD_", 11));
  MPI_Info_free(&info);

  MPI_Session_get_num_psets(session, MPI_INFO_NULL, &sets);
  NEED(sets >= 2);
  length = 0;
  MPI_Session_get_nth_pset(session, MPI_INFO_NULL, 0, &length, NULL);
  NEED(length == (int)strlen("mpi://WORLD") + 1);
  MPI_Session_get_nth_pset(session, MPI_INFO_NULL, 0, &length, name);
  NEED(!strcmp(name, "mpi://WORLD"));
  length = 4;
  MPI_Session_get_nth_pset(session, MPI_INFO_NULL, 1, &length, name);
  NEED(!strcmp(name, "mpi") && length == (int)strlen("mpi://SELF") + 1);

  MPI_Group_from_session_pset(session, "mpi://WORLD", &group);
  MPI_Group_from_session_pset(session, "mpi://SELF", &self);
  MPI_Group_size(group, &members);
  MPI_Session_get_pset_info(session, "MPI://world", &info); /* a URI: in any case */
  length = sizeof value;
  MPI_Info_get_string(info, "mpi_size", &length, value, &flag);
  NEED(flag && atoi(value) == members);
  MPI_Info_free(&info);
  MPI_Group_size(self, &size);
  NEED(size == 1);
  MPI_Comm_create_from_group(group, "tern.test.session", MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &comm);
  MPI_Comm_size(comm, &size);
  NEED(size == members);
  ring(comm);
  MPI_Comm_free(&comm);
  MPI_Group_free(&self);
  MPI_Group_free(&group);
  MPI_Session_finalize(&session);
  NEED(session == MPI_SESSION_NULL);
  return members;
}

int main(int argc, char **argv) {
  int flag = -1, size, rank;
  MPI_Session around;
  /* One after the other: the second begins after the first is gone. */
  int members = one_session("MPI_THREAD_SINGLE");
  one_session("MPI_THREAD_MULTIPLE");
  MPI_Initialized(&flag);
  NEED(!flag);
  MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &around);
  MPI_Init(&argc, &argv);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  NEED(size == members);
  one_session("MPI_THREAD_SERIALIZED");
  ring(MPI_COMM_WORLD);
  if (rank == 0) puts("ok");
  MPI_Finalize();
  MPI_Finalized(&flag);
  NEED(flag);
  /* The session goes on after the World Model has ended. */
  one_session("MPI_THREAD_MULTIPLE");
  MPI_Session_finalize(&around);
  return 0;
}
