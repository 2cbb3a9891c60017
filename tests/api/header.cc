// Compiled only: mpi.h as C++11 sees it.
#include <mpi.h>

#include <mpi.h>

static_assert(sizeof(MPI_Status) == 32 && alignof(MPI_Status) == alignof(int), "MPI 5.0, 20.3.1");
static_assert(sizeof(MPI_Aint) == sizeof(void*) && sizeof(MPI_Count) == 8 && sizeof(MPI_Offset) == 8,
              "MPI 5.0, 20.3.5");

extern "C" int use_header_cxx(MPI_T_cb_safety safety);
int use_header_cxx(MPI_T_cb_safety safety) {
  const MPI_Datatype types[] = {MPI_INT, MPI_CXX_BOOL};
  MPI_Request request = MPI_REQUEST_NULL;
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  int size = 0;
  MPI_Type_size(types[0], &size);
  return safety == MPI_T_CB_REQUIRE_THREAD_SAFE ? size : MPI_Comm_toint(MPI_COMM_WORLD);
}
