// Handles and reductions under TERN_CHECK: `handles_program CASE`, any number of ranks.
#include <mpi.h>
#include <stdlib.h>

#include "cases.h"

static int rank;

/* Objects that the program has not made, or cannot free: predefined datatypes without a name, predefined handles. */
static void right_handles(void) {
  MPI_Datatype type, same, parts[1];
  MPI_Group group;
  MPI_Errhandler handler;
  MPI_Comm parent;
  int numbers[2];
  for (int i = 0; i < 2; ++i) MPI_Type_create_f90_real(15, MPI_UNDEFINED, &type);
  MPI_Type_get_contents(type, 2, 0, 0, numbers, NULL, NULL);
  MPI_Type_create_f90_complex(6, 30, &type);
  MPI_Type_create_f90_integer(9, &type);
  MPI_Type_get_value_index(MPI_DOUBLE, MPI_UINT64_T, &type);
  MPI_Type_match_size(MPI_TYPECLASS_REAL, 8, &same);
  MPI_Type_contiguous(2, type, &same);
  MPI_Type_get_contents(same, 1, 0, 1, numbers, NULL, parts); /* predefined: not a copy */
  MPI_Type_free(&same);
  MPI_Comm_get_parent(&parent);
  MPI_Group_union(MPI_GROUP_EMPTY, MPI_GROUP_EMPTY, &group);
  if (group != MPI_GROUP_EMPTY) MPI_Group_free(&group);
  MPI_Comm_get_errhandler(MPI_COMM_WORLD, &handler); /* predefined */
  MPI_Op op = MPI_SUM;
  int in = 1, out = 2;
  MPI_Reduce_local(&in, &out, 1, MPI_INT, op);
}

static void reductions_of_text(void) {
  char in = 1, out = 0;
  MPI_Aint some = 1, all = 0;
  MPI_Allreduce(&in, &out, 1, MPI_CHAR, MPI_SUM, MPI_COMM_WORLD);
  MPI_Allreduce(&some, &all, 1, MPI_AINT, MPI_LAND, MPI_COMM_WORLD);
}

int main(int argc, char **argv) {
  const struct Case cases[] = {{"right_handles", right_handles}, {"reductions_of_text", reductions_of_text}};
  return run_case(argc, argv, cases, sizeof cases / sizeof cases[0], MPI_THREAD_SINGLE, &rank);
}
