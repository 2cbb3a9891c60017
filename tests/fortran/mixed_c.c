/* The C half of mixed.f90. */
#include <mpi.h>

void c_set(int comm, int keyval, intptr_t address) {
  MPI_Comm_set_attr(MPI_Comm_fromint(comm), keyval, (void *)address);
}
intptr_t c_get(int comm, int keyval) {
  void *value = 0;
  int flag = 0;
  MPI_Comm_get_attr(MPI_Comm_fromint(comm), keyval, &value, &flag);
  return flag ? (intptr_t)value : -1;
}
intptr_t c_read_aint(intptr_t address) { return *(MPI_Aint *)address; }
int c_read_int(intptr_t address) { return *(int *)address; }
int c_dup(int comm) {
  MPI_Comm duped;
  MPI_Comm_dup(MPI_Comm_fromint(comm), &duped);
  return MPI_Comm_toint(duped);
}
void c_free(int comm) {
  MPI_Comm c = MPI_Comm_fromint(comm);
  MPI_Comm_free(&c);
}
int c_keyval(void) {
  int keyval;
  MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, MPI_COMM_NULL_DELETE_FN, &keyval, 0);
  return keyval;
}
int c_maximum(int comm, int op, int value) {
  int most = -1;
  MPI_Allreduce(&value, &most, 1, MPI_INT, MPI_Op_fromint(op), MPI_Comm_fromint(comm));
  return most;
}
