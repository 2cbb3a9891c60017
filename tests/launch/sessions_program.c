// A session goes on after MPI_Finalize, with its requests and communicators, and with a message that is received later:
// TERN_CHECK leaves it alone. `sessions_program [leak]`, 2 ranks or more. With "leak" the World Model leaves a
// communicator and a message behind, which is to be found.
#include <mpi.h>

int main(int argc, char **argv) {
  MPI_Session session;
  MPI_Group group;
  MPI_Comm comm, duplicate;
  MPI_Request requests[2];
  int rank, size, mine = 7, late = -1, early = -1;
  MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &session);
  MPI_Group_from_session_pset(session, "mpi://WORLD", &group);
  MPI_Comm_create_from_group(group, "tern.test.goes_on", MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &comm);
  MPI_Comm_rank(comm, &rank);
  MPI_Comm_size(comm, &size);
  const int next = (rank + 1) % size, previous = (rank + size - 1) % size;
  MPI_Init(&argc, &argv);
  /* The message with tag 1 waits unexpected in MPI_Finalize; the receive with tag 2 is still posted. */
  MPI_Isend(&mine, 1, MPI_INT, next, 1, comm, &requests[0]);
  MPI_Irecv(&late, 1, MPI_INT, previous, 2, comm, &requests[1]);
  if (argc > 1) {
    MPI_Request request;
    MPI_Comm_dup(MPI_COMM_WORLD, &duplicate);
    MPI_Isend(&mine, 1, MPI_INT, next, 3, MPI_COMM_WORLD, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
  }
  MPI_Finalize();
  MPI_Recv(&early, 1, MPI_INT, previous, 1, comm, MPI_STATUS_IGNORE);
  MPI_Send(&mine, 1, MPI_INT, next, 2, comm);
  MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
  MPI_Comm_free(&comm);
  MPI_Group_free(&group);
  MPI_Session_finalize(&session);
  return early == 7 && late == 7 ? 0 : 1;
}
