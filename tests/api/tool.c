/* A profiling tool as MPI 5.0, 15.2, describes it: replaces MPI_ functions, calls PMPI_ ones. */
#include <mpi.h>
#include <stdio.h>

static int sends, receives;

int MPI_Send(const void *buf, int count, MPI_Datatype datatype, int dest, int tag, MPI_Comm comm) {
  sends++;
  return PMPI_Send(buf, count, datatype, dest, tag, comm);
}
int MPI_Irecv(void *buf, int count, MPI_Datatype datatype, int source, int tag, MPI_Comm comm, MPI_Request *request) {
  receives++;
  return PMPI_Irecv(buf, count, datatype, source, tag, comm, request);
}
int MPI_Finalize(void) {
  printf("tool saw %d sends and %d receives\n", sends, receives);
  return PMPI_Finalize();
}
