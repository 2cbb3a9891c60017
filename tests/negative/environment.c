/* Chapters 9, 10, 11, 13, 20: error handlers, codes, info objects, sessions, memory, the ABI's own functions.
 */
#include "expect.h"

static int calls, last_code;
static MPI_Comm last_comm;
static void on_comm(MPI_Comm *comm, int *code, ...) {
  calls++;
  last_code = *code;
  last_comm = *comm;
}
static void on_session(MPI_Session *session, int *code, ...) {
  (void)session;
  calls++;
  last_code = *code;
}

int main(int argc, char **argv) {
  int rank, size, x = 0, flag, class, code, length;
  char text[MPI_MAX_ERROR_STRING + 1], long_key[MPI_MAX_INFO_KEY + 2], long_value[MPI_MAX_INFO_VAL + 2];
  MPI_Errhandler handler, for_sessions, got;
  MPI_Info info, copy;
  MPI_Session session;
  begin(&argc, &argv, &rank, &size);

  /* A user's handler gets the communicator and the code; the call returns the code. */
  FINE(MPI_Comm_create_errhandler(on_comm, &handler));
  FINE(MPI_Session_create_errhandler(on_session, &for_sessions));
  EXPECT(MPI_Comm_set_errhandler(MPI_COMM_WORLD, for_sessions), MPI_ERR_ERRHANDLER, "MPI_Comm_set_errhandler",
         "MPI_Comm_create_errhandler");
  EXPECT(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRHANDLER_NULL), MPI_ERR_ERRHANDLER, "MPI_ERRHANDLER_NULL");
  FINE(MPI_Comm_set_errhandler(MPI_COMM_WORLD, handler));
  EXPECT(MPI_Send(&x, 1, MPI_INT, size, 0, MPI_COMM_WORLD), MPI_ERR_RANK, "'dest'");
  TRUE_OR_FAIL(calls == 1 && last_code == MPI_ERR_RANK && last_comm == MPI_COMM_WORLD);
  FINE(MPI_Comm_call_errhandler(MPI_COMM_WORLD, MPI_ERR_TAG));
  TRUE_OR_FAIL(calls == 2 && last_code == MPI_ERR_TAG);
  /* It is inherited, and lives on after its handle was freed. */
  {
    MPI_Comm dup;
    FINE(MPI_Comm_dup(MPI_COMM_WORLD, &dup));
    FINE(MPI_Errhandler_free(&handler));
    TRUE_OR_FAIL(handler == MPI_ERRHANDLER_NULL);
    EXPECT(MPI_Send(&x, -1, MPI_INT, 0, 0, dup), MPI_ERR_COUNT, "'count'");
    TRUE_OR_FAIL(calls == 3 && last_comm == dup);
    FINE(MPI_Comm_get_errhandler(dup, &got));
    FINE(MPI_Errhandler_free(&got));
    FINE(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    EXPECT(MPI_Send(&x, -1, MPI_INT, 0, 0, dup), MPI_ERR_COUNT, "'count'");
    TRUE_OR_FAIL(calls == 4);
    FINE(MPI_Comm_free(&dup));
  }
  FINE(MPI_Comm_get_errhandler(MPI_COMM_WORLD, &got));
  TRUE_OR_FAIL(got == MPI_ERRORS_RETURN);
  FINE(MPI_Errhandler_free(&got));
  EXPECT(MPI_Errhandler_free(&got), MPI_ERR_ERRHANDLER, "MPI_ERRHANDLER_NULL");

  /* Codes. */
  EXPECT(MPI_Error_class(123456, &class), MPI_ERR_ARG, "argument 'errorcode' is 123456");
  EXPECT(MPI_Comm_call_errhandler(MPI_COMM_WORLD, -77), MPI_ERR_ARG, "'errorcode' is -77");
  FINE(MPI_Add_error_class(&class));
  FINE(MPI_Add_error_code(class, &code));
  FINE(MPI_Add_error_string(code, "the cat is on the keyboard"));
  FINE(MPI_Error_string(code, text, &length));
  TRUE_OR_FAIL(!strcmp(text, "the cat is on the keyboard") && length == (int)strlen(text));
  {
    int of = 0;
    FINE(MPI_Error_class(code, &of));
    TRUE_OR_FAIL(of == class && class > MPI_ERR_LASTCODE);
  }
  EXPECT(MPI_Add_error_code(code, &x), MPI_ERR_ARG, "'errorclass'");
  EXPECT(MPI_Add_error_string(MPI_ERR_ARG, "no"), MPI_ERR_ARG, "'errorcode'");
  EXPECT(MPI_Remove_error_class(class), MPI_ERR_ARG, "still has the code");
  EXPECT(MPI_Remove_error_code(code), MPI_ERR_ARG, "still has a string");
  FINE(MPI_Remove_error_string(code));
  FINE(MPI_Remove_error_code(code));
  FINE(MPI_Remove_error_class(class));
  EXPECT(MPI_Remove_error_class(class), MPI_ERR_ARG, "'errorclass'");

  /* Info objects. */
  memset(long_key, 'k', sizeof long_key);
  long_key[sizeof long_key - 1] = 0;
  memset(long_value, 'v', sizeof long_value);
  long_value[sizeof long_value - 1] = 0;
  FINE(MPI_Info_create(&info));
  EXPECT(MPI_Info_set(info, long_key, "v"), MPI_ERR_INFO_KEY, "257", "MPI_MAX_INFO_KEY");
  EXPECT(MPI_Info_set(info, "", "v"), MPI_ERR_INFO_KEY, "empty");
  EXPECT(MPI_Info_set(info, "k", long_value), MPI_ERR_INFO_VALUE, "1025");
  EXPECT(MPI_Info_set(info, NULL, "v"), MPI_ERR_ARG, "argument 'key' is a null pointer");
  EXPECT(MPI_Info_delete(info, "absent"), MPI_ERR_INFO_NOKEY, "'absent'");
  FINE(MPI_Info_set(info, "k", "value"));
  EXPECT(MPI_Info_get_nthkey(info, 1, text), MPI_ERR_ARG, "argument 'n' is 1", "1 keys");
  length = 3;
  FINE(MPI_Info_get_string(info, "k", &length, text, &flag));
  TRUE_OR_FAIL(flag && length == 6 && !strcmp(text, "va"));
  length = 0;
  FINE(MPI_Info_get_string(info, "k", &length, NULL, &flag));
  TRUE_OR_FAIL(flag && length == 6);
  copy = info;
  FINE(MPI_Info_free(&info));
  EXPECT(MPI_Info_set(copy, "k", "v"), MPI_ERR_INFO, "info object that was freed");
  EXPECT(MPI_Info_set(MPI_INFO_NULL, "k", "v"), MPI_ERR_INFO, "MPI_INFO_NULL");
  EXPECT(MPI_Info_set(MPI_INFO_ENV, "k", "v"), MPI_ERR_INFO, "MPI_INFO_ENV cannot be changed");
  info = MPI_INFO_ENV;
  EXPECT(MPI_Info_free(&info), MPI_ERR_INFO, "MPI_INFO_ENV");

  /* Sessions. */
  FINE(MPI_Session_init(MPI_INFO_NULL, for_sessions, &session));
  calls = 0;
  length = 5;
  EXPECT(MPI_Session_get_nth_pset(session, MPI_INFO_NULL, 2, &length, text), MPI_ERR_ARG, "argument 'n' is 2");
  TRUE_OR_FAIL(calls == 1 && last_code == MPI_ERR_ARG);
  EXPECT(MPI_Session_get_pset_info(session, "mpi://NOWHERE", &info), MPI_ERR_ARG, "mpi://NOWHERE");
  FINE(MPI_Session_set_errhandler(session, MPI_ERRORS_RETURN));
  {
    MPI_Session old = session;
    FINE(MPI_Session_finalize(&session));
    TRUE_OR_FAIL(session == MPI_SESSION_NULL);
    EXPECT(MPI_Session_finalize(&old), MPI_ERR_SESSION, "session that was freed");
  }
  FINE(MPI_Info_create(&info));
  FINE(MPI_Info_set(info, "thread_level", "MPI_THREAD_WHATEVER"));
  EXPECT(MPI_Session_init(info, MPI_ERRORS_RETURN, &session), MPI_ERR_INFO_VALUE, "MPI_THREAD_WHATEVER");
  FINE(MPI_Info_free(&info));
  FINE(MPI_Errhandler_free(&for_sessions));

  /* Memory. */
  EXPECT(MPI_Alloc_mem(-1, MPI_INFO_NULL, &text), MPI_ERR_ARG, "argument 'size' is -1");
  EXPECT(MPI_Free_mem(&x), MPI_ERR_BASE, "argument 'base'");
  {
    void *memory = NULL;
    EXPECT(MPI_Alloc_mem(((MPI_Aint)1) << 60, MPI_INFO_NULL, &memory), MPI_ERR_NO_MEM, "bytes");
    FINE(MPI_Alloc_mem(100, MPI_INFO_NULL, &memory));
    FINE(MPI_Free_mem(memory));
    EXPECT(MPI_Free_mem(memory), MPI_ERR_BASE, "freed");
  }

  /* Starting twice; what does not exist yet says so. */
  EXPECT(MPI_Init(NULL, NULL), MPI_ERR_OTHER, "MPI_Init: called twice");
  {
    MPI_File file;
    MPI_Comm child;
    EXPECT(MPI_File_open(MPI_COMM_SELF, "there/is/none", MPI_MODE_RDONLY, MPI_INFO_NULL, &file), MPI_ERR_NO_SUCH_FILE,
           "MPI_File_open", "there/is/none");
    EXPECT(MPI_Comm_spawn("x", MPI_ARGV_NULL, 1, MPI_INFO_NULL, 0, MPI_COMM_SELF, &child, MPI_ERRCODES_IGNORE),
           MPI_ERR_SPAWN, "MPI_Comm_spawn", "'x'");
    MPI_Request request;
    EXPECT(MPI_Psend_init(&x, 0, 1, MPI_INT, 0, 0, MPI_COMM_SELF, MPI_INFO_NULL, &request), MPI_ERR_ARG,
           "argument 'partitions' is 0");
    TRUE_OR_FAIL(MPI_T_cvar_get_num(&x) == MPI_T_ERR_NOT_INITIALIZED);
    TRUE_OR_FAIL(MPI_T_init_thread(12345, &x) == MPI_T_ERR_INVALID);
  }

  /* The ABI. */
  TRUE_OR_FAIL(MPI_Comm_toint(MPI_COMM_WORLD) == 257 && MPI_Comm_fromint(257) == MPI_COMM_WORLD);
  TRUE_OR_FAIL(MPI_Type_toint(MPI_INT) == 521 && MPI_Op_fromint(33) == MPI_SUM);
  {
    int yes = 1, no = 0, is_set = 0, big_yes = 0, big_no = 1;
    FINE(MPI_Abi_get_fortran_booleans(sizeof yes, &yes, &no, &is_set));
    TRUE_OR_FAIL(!is_set);
    FINE(MPI_Abi_set_fortran_booleans(sizeof yes, &yes, &no));
    EXPECT(MPI_Abi_set_fortran_booleans(sizeof yes, &yes, &no), MPI_ERR_ABI, "set already");
    FINE(MPI_Abi_get_fortran_booleans(sizeof yes, &big_yes, &big_no, &is_set));
    TRUE_OR_FAIL(is_set && big_yes == 1 && big_no == 0);
    FINE(MPI_Abi_get_fortran_info(&info));
    TRUE_OR_FAIL(info == MPI_INFO_NULL);
    FINE(MPI_Info_create(&info));
    FINE(MPI_Info_set(info, "mpi_integer_size", "8"));
    EXPECT(MPI_Abi_set_fortran_info(info), MPI_ERR_ABI, "mpi_integer_size");
    FINE(MPI_Info_set(info, "mpi_integer_size", "4"));
    FINE(MPI_Abi_set_fortran_info(info));
    EXPECT(MPI_Abi_set_fortran_info(info), MPI_ERR_ABI, "already");
    FINE(MPI_Info_free(&info));
  }
  return end();
}
