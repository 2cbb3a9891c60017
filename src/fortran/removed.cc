// Procedures that MPI-3.0 removed and that Fortran programs still call, by their names in mpif.h only (no module
// declares them, so new programs do not meet them). Their INTEGER displacements are what they always were: 32 bits.
// MPI_ADDRESS is not among them: no address fits. Source: MPI 5.0 chapter 17 names their successors.
// Thread rule: stateless.
#include <climits>
#include <vector>

#include "fortran/bridge.h"
#include "fortran/names.h"

using namespace tern::fortran;

namespace {

std::vector<MPI_Aint> widened(const int* values, int n) { return {values, values + (n > 0 ? n : 0)}; }

int narrow(MPI_Aint value, int* to) {
  bool fits = value >= INT_MIN && value <= INT_MAX;
  *to = fits ? static_cast<int>(value) : MPI_UNDEFINED;
  return MPI_SUCCESS;
}

}  // namespace

#pragma GCC visibility push(default)
extern "C" {

void pmpi_type_extent_(int* type, int* extent, int* ierror) {
  MPI_Aint lower = 0, size = 0;
  int result = PMPI_Type_get_extent(from_int<MPI_Datatype>(*type), &lower, &size);
  finish(ierror, result == MPI_SUCCESS ? narrow(size, extent) : result);
}
void pmpi_type_lb_(int* type, int* displacement, int* ierror) {
  MPI_Aint lower = 0, size = 0;
  int result = PMPI_Type_get_extent(from_int<MPI_Datatype>(*type), &lower, &size);
  finish(ierror, result == MPI_SUCCESS ? narrow(lower, displacement) : result);
}
void pmpi_type_ub_(int* type, int* displacement, int* ierror) {
  MPI_Aint lower = 0, size = 0;
  int result = PMPI_Type_get_extent(from_int<MPI_Datatype>(*type), &lower, &size);
  finish(ierror, result == MPI_SUCCESS ? narrow(lower + size, displacement) : result);
}
void pmpi_type_hvector_(int* count, int* blocklength, int* stride, int* oldtype, int* newtype, int* ierror) {
  MPI_Datatype made = nullptr;
  int result = PMPI_Type_create_hvector(*count, *blocklength, *stride, from_int<MPI_Datatype>(*oldtype), &made);
  if (result == MPI_SUCCESS) *newtype = to_int(made);
  finish(ierror, result);
}
void pmpi_type_hindexed_(int* count, int* lengths, int* places, int* oldtype, int* newtype, int* ierror) {
  MPI_Datatype made = nullptr;
  int result = PMPI_Type_create_hindexed(*count, lengths, widened(places, *count).data(),
                                         from_int<MPI_Datatype>(*oldtype), &made);
  if (result == MPI_SUCCESS) *newtype = to_int(made);
  finish(ierror, result);
}
void pmpi_type_struct_(int* count, int* lengths, int* places, int* types, int* newtype, int* ierror) {
  Handles<MPI_Datatype> handles(types, *count);
  MPI_Datatype made = nullptr;
  int result = PMPI_Type_create_struct(*count, lengths, widened(places, *count).data(), handles.data(), &made);
  if (result == MPI_SUCCESS) *newtype = to_int(made);
  finish(ierror, result);
}
void pmpi_errhandler_create_(MPI_Comm_errhandler_function* function, int* handler, int* ierror) {
  MPI_Errhandler made = nullptr;
  int result = PMPI_Comm_create_errhandler(c_function(function), &made);
  if (result == MPI_SUCCESS) *handler = to_int(made);
  finish(ierror, result);
}
void pmpi_errhandler_set_(int* comm, int* handler, int* ierror) {
  finish(ierror, PMPI_Comm_set_errhandler(from_int<MPI_Comm>(*comm), from_int<MPI_Errhandler>(*handler)));
}
void pmpi_errhandler_get_(int* comm, int* handler, int* ierror) {
  MPI_Errhandler found = nullptr;
  int result = PMPI_Comm_get_errhandler(from_int<MPI_Comm>(*comm), &found);
  if (result == MPI_SUCCESS) *handler = to_int(found);
  finish(ierror, result);
}

TERN_FORTRAN_NAME(type_extent, int*, int*, int*)
TERN_FORTRAN_NAME(type_lb, int*, int*, int*)
TERN_FORTRAN_NAME(type_ub, int*, int*, int*)
TERN_FORTRAN_NAME(type_hvector, int*, int*, int*, int*, int*, int*)
TERN_FORTRAN_NAME(type_hindexed, int*, int*, int*, int*, int*, int*)
TERN_FORTRAN_NAME(type_struct, int*, int*, int*, int*, int*, int*)
TERN_FORTRAN_NAME(errhandler_create, MPI_Comm_errhandler_function*, int*, int*)
TERN_FORTRAN_NAME(errhandler_set, int*, int*, int*)
TERN_FORTRAN_NAME(errhandler_get, int*, int*, int*)

}  // extern "C"
#pragma GCC visibility pop
