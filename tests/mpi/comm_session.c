// ranks: 1 2 4 8
/* Communicators from sessions, without MPI_Init: create_from_group, groups of process sets, split by process set. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(condition)                                                        \
  do {                                                                          \
    if (!(condition)) {                                                         \
      fprintf(stderr, "%s:%d: not true: %s\n", __FILE__, __LINE__, #condition); \
      abort();                                                                  \
    }                                                                           \
  } while (0)

static void ring(MPI_Comm comm) {
  int r, n, in = -1;
  MPI_Comm_rank(comm, &r);
  MPI_Comm_size(comm, &n);
  MPI_Sendrecv(&r, 1, MPI_INT, (r + 1) % n, 0, &in, 1, MPI_INT, (r + n - 1) % n, 0, comm, MPI_STATUS_IGNORE);
  CHECK(in == (r + n - 1) % n);
}

int main(void) {
  MPI_Session session;
  MPI_Group world, self, part;
  MPI_Comm comm, sub, dup;
  MPI_Info info;
  int rank, size, flag, *bound;
  MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &session);
  CHECK(MPI_Group_from_session_pset(session, "mpi://WORLD", &world) == MPI_SUCCESS);
  CHECK(MPI_Group_from_session_pset(session, "mpi://SELF", &self) == MPI_SUCCESS);
  MPI_Group_rank(world, &rank);
  MPI_Group_size(world, &size);
  for (int i = 0; i < 4; i++) { /* the same tag again and again */
    CHECK(MPI_Comm_create_from_group(world, "org.example.world", MPI_INFO_NULL, MPI_ERRORS_RETURN, &comm) ==
          MPI_SUCCESS);
    ring(comm);
    if (i < 3) MPI_Comm_free(&comm);
  }
  MPI_Errhandler handler;
  MPI_Comm_get_errhandler(comm, &handler);
  CHECK(handler == MPI_ERRORS_RETURN);
  MPI_Comm_get_attr(comm, MPI_TAG_UB, &bound, &flag);
  CHECK(flag && *bound >= 32767);
  MPI_Comm_get_attr(comm, MPI_APPNUM, &bound, &flag);
  CHECK(!flag);
  MPI_Comm_create_from_group(self, "org.example.world", MPI_INFO_NULL, MPI_ERRORS_RETURN, &sub);
  ring(sub);
  MPI_Comm_free(&sub);
  CHECK(MPI_Comm_create_from_group(MPI_GROUP_EMPTY, "org.example.none", MPI_INFO_NULL, MPI_ERRORS_RETURN, &sub) ==
        MPI_SUCCESS);
  CHECK(sub == MPI_COMM_NULL);
  /* Odd ranks alone, backwards. */
  if (rank % 2) {
    int range[1][3] = {{size / 2 * 2 - 1, 1, -2}};
    MPI_Group_range_incl(world, 1, range, &part);
    MPI_Comm_create_from_group(part, "org.example.odd", MPI_INFO_NULL, MPI_ERRORS_RETURN, &sub);
    ring(sub);
    MPI_Comm_free(&sub);
    MPI_Group_free(&part);
  }
  /* A process set is a way to split what came from a session, also after another step. */
  MPI_Info_create(&info);
  MPI_Info_set(info, "mpi_pset_name", "mpi://WORLD");
  MPI_Comm_dup(comm, &dup);
  MPI_Comm_split_type(dup, MPI_COMM_TYPE_RESOURCE_GUIDED, 0, info, &sub);
  CHECK(sub != MPI_COMM_NULL);
  int result;
  MPI_Comm_compare(dup, sub, &result);
  CHECK(result == MPI_CONGRUENT);
  MPI_Comm_free(&sub);
  MPI_Info_set(info, "mpi_pset_name", "mpi://SELF");
  MPI_Comm_split_type(dup, MPI_COMM_TYPE_RESOURCE_GUIDED, 0, info, &sub);
  MPI_Comm_size(sub, &result);
  CHECK(result == 1);
  MPI_Comm_free(&sub);
  MPI_Info_free(&info);
  MPI_Comm_free(&dup);
  ring(comm);
  if (rank == 0) puts("ok");
  MPI_Comm_disconnect(&comm);
  MPI_Group_free(&world);
  MPI_Group_free(&self);
  MPI_Session_finalize(&session);
  return 0;
}
