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

/* 19.3.4: each kind of handle, to the other language and back. 0 when one of them changed. */
int c_handles(MPI_Fint comm, MPI_Fint op, MPI_Fint type) {
  MPI_Comm (*from)(MPI_Fint) = MPI_Comm_f2c; /* not only calls: these have addresses */
  MPI_Comm c_comm = from(comm);
  MPI_Group group;
  MPI_Info info;
  MPI_Request request;
  MPI_Errhandler errors;
  int same, buffer;
  MPI_Comm_group(c_comm, &group);
  MPI_Info_create(&info);
  MPI_Recv_init(&buffer, 1, MPI_Type_f2c(type), MPI_PROC_NULL, 0, c_comm, &request);
  MPI_Comm_get_errhandler(c_comm, &errors);
  same = c_comm == MPI_COMM_WORLD && MPI_Comm_c2f(c_comm) == comm && PMPI_Op_c2f(PMPI_Op_f2c(op)) == op &&
         MPI_Type_f2c(type) == MPI_INTEGER && MPI_Type_c2f(MPI_INTEGER) == type &&
         MPI_Group_f2c(MPI_Group_c2f(group)) == group && MPI_Info_f2c(MPI_Info_c2f(info)) == info &&
         MPI_Request_f2c(MPI_Request_c2f(request)) == request &&
         MPI_Errhandler_f2c(MPI_Errhandler_c2f(errors)) == errors &&
         MPI_Comm_f2c(MPI_Comm_c2f(MPI_COMM_NULL)) == MPI_COMM_NULL &&
         MPI_Win_f2c(MPI_Win_c2f(MPI_WIN_NULL)) == MPI_WIN_NULL &&
         MPI_File_f2c(MPI_File_c2f(MPI_FILE_NULL)) == MPI_FILE_NULL &&
         MPI_Message_f2c(MPI_Message_c2f(MPI_MESSAGE_NO_PROC)) == MPI_MESSAGE_NO_PROC &&
         MPI_Session_f2c(MPI_Session_c2f(MPI_SESSION_NULL)) == MPI_SESSION_NULL;
  MPI_Request_free(&request);
  MPI_Info_free(&info);
  MPI_Group_free(&group);
  MPI_Errhandler_free(&errors);
  return same;
}
/* 19.3.5: what a status says, hidden parts too (the count), after every conversion there is; -1 for an ignored one. */
int c_count(MPI_Fint *status) {
  MPI_Status c_status;
  MPI_F08_status f08_status;
  MPI_Fint again[MPI_F_STATUS_SIZE];
  int count = -1;
  if (status == MPI_F_STATUS_IGNORE || status == MPI_F_STATUSES_IGNORE) return -1;
  MPI_Status_f2c(status, &c_status);
  MPI_Status_c2f08(&c_status, &f08_status);
  MPI_Status_f082f(&f08_status, again);
  MPI_Status_f2f08(again, &f08_status);
  MPI_Status_f082c(&f08_status, &c_status);
  MPI_Status_c2f(&c_status, again);
  MPI_Status_f2c(again, &c_status);
  MPI_Get_count(&c_status, MPI_INT, &count);
  return c_status.MPI_TAG == status[MPI_F_TAG] && c_status.MPI_SOURCE == status[MPI_F_SOURCE] ? count : -2;
}
