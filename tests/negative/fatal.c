/* Errors under MPI_ERRORS_ARE_FATAL, and calls at the wrong time; which one is the argument. fatal_test.py
 * runs it. */
#include <mpi.h>
#include <stdio.h>
#include <string.h>

int main(int argc, char **argv) {
  const char *what = argc > 1 ? argv[1] : "";
  int rank = -1, x = 0;
  if (!strcmp(what, "before")) return MPI_Send(&x, 1, MPI_INT, 0, 0, MPI_COMM_WORLD);
  if (!strcmp(what, "always")) {
    /* Allowed at any time (11.4.1). */
    int version, sub, flag = 1, length;
    char text[MPI_MAX_LIBRARY_VERSION_STRING];
    MPI_Info info;
    if (MPI_Initialized(&flag) || flag || MPI_Finalized(&flag) || flag) return 1;
    if (MPI_Get_version(&version, &sub) || version != 5 || sub != 0) return 2;
    if (MPI_Get_library_version(text, &length) || strncmp(text, "Tern ", 5)) return 3;
    if (MPI_Info_create(&info) || MPI_Info_set(info, "a", "b") || MPI_Info_free(&info)) return 4;
    if (MPI_Error_string(MPI_ERR_TAG, text, &length)) return 5;
    if (MPI_Abi_get_version(&version, &sub) || version != 1 || sub != 0) return 6;
    MPI_Init(&argc, &argv);
    MPI_Finalize();
    if (MPI_Initialized(&flag) || !flag || MPI_Finalized(&flag) || !flag) return 7;
    if (MPI_Info_create(&info) || MPI_Info_free(&info)) return 8;
    puts("fine");
    return 0;
  }
  if (!strcmp(what, "after")) {
    MPI_Init(&argc, &argv);
    MPI_Finalize();
    return MPI_Barrier(MPI_COMM_WORLD);
  }
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  if (!strcmp(what, "rank") && rank == 0) MPI_Send(&x, 1, MPI_INT, 100, 0, MPI_COMM_WORLD);
  if (!strcmp(what, "errors_abort") && rank == 0) {
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ABORT);
    MPI_Send(&x, 1, MPI_INT, 100, 0, MPI_COMM_WORLD);
  }
  if (!strcmp(what, "abort") && rank == 0) MPI_Abort(MPI_COMM_WORLD, 42);
  if (!strcmp(what, "return")) {
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    if (MPI_Send(&x, 1, MPI_INT, 100, 0, MPI_COMM_WORLD) != MPI_ERR_RANK) return 1;
    MPI_Finalize();
    return 0;
  }
  /* The others wait for what never comes: the failing rank must end them. */
  MPI_Recv(&x, 1, MPI_INT, rank, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  return 99;
}
