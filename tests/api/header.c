/* Compiled only: mpi.h alone, twice, and what programs do with its constants. */
#include <mpi.h>

#include <mpi.h>

#if MPI_VERSION != 5 || MPI_SUBVERSION != 0 || MPI_ABI_VERSION != 1
#error "not the standard ABI"
#endif

typedef char status_is_eight_ints[sizeof(MPI_Status) == 8 * sizeof(int) ? 1 : -1];
typedef char error_classes_are_constants[MPI_ERR_ABI - MPI_ERR_BUFFER];

static MPI_Comm static_comm = MPI_COMM_NULL;
static MPI_Datatype static_types[] = {MPI_INT, MPI_DOUBLE, MPI_C_FLOAT_COMPLEX};

static void user_function(void *in, void *inout, int *len, MPI_Datatype *type) {
  (void)in, (void)inout, (void)len, (void)type;
}
static void handler(MPI_Comm *comm, int *code, ...) { (void)comm, (void)code; }

int use_header(int argc, char **argv);
int use_header(int argc, char **argv) {
  MPI_Op op;
  MPI_Errhandler errhandler;
  MPI_Comm duplicate;
  int keyval;
  MPI_Aint address;
  MPI_Init(&argc, &argv);
  MPI_Op_create(user_function, 1, &op);
  MPI_Comm_create_errhandler(handler, &errhandler);
  MPI_Comm_create_keyval(MPI_COMM_DUP_FN, MPI_COMM_NULL_DELETE_FN, &keyval, NULL);
  if (static_comm != MPI_COMM_WORLD && MPI_BOTTOM != MPI_IN_PLACE) MPI_Comm_dup(MPI_COMM_WORLD, &duplicate);
  switch (argc) {
    case MPI_ANY_SOURCE:
    case MPI_ANY_TAG:
    case MPI_PROC_NULL:
    case MPI_UNDEFINED: return (int)sizeof static_types;
    default: break;
  }
  MPI_Send_c(argv, 0, MPI_BYTE, MPI_PROC_NULL, 0, MPI_COMM_WORLD);
  MPI_Waitall(0, NULL, MPI_STATUSES_IGNORE);
  MPI_Pcontrol(1, "level");
  if (MPI_Comm_f2c(MPI_Comm_c2f(static_comm)) != static_comm) return MPI_Address(argv, &address); /* of MPI-1 */
  return PMPI_Finalize();
}
