// Callbacks with extra state: generalized requests and data representations. MPI 5.0 sections 13.2, 14.5.3.
// Reduction functions and error handlers have no extra state: functions.cc. Thread rule: stateless; records belong to
// the request.
#include "fortran/bridge.h"
#include "fortran/names.h"

using namespace tern::fortran;

namespace {

using QueryFunction = void(MPI_Aint* state, MPI_Status* status, int* ierror);
using FreeFunction = void(MPI_Aint* state, int* ierror);
using CancelFunction = void(MPI_Aint* state, int* complete, int* ierror);

/// Lives from the start of a generalized request to its freeing.
struct Grequest {
  QueryFunction* query;
  FreeFunction* release;
  CancelFunction* cancel;
  MPI_Aint state;
};

int query_request(void* extra_state, MPI_Status* status) {
  int ierror = MPI_SUCCESS;
  auto* record = static_cast<Grequest*>(extra_state);
  record->query(&record->state, status, &ierror);
  return ierror;
}
int free_request(void* extra_state) {
  int ierror = MPI_SUCCESS;
  auto* record = static_cast<Grequest*>(extra_state);
  record->release(&record->state, &ierror);
  delete record;
  return ierror;
}
int cancel_request(void* extra_state, int complete) {
  int ierror = MPI_SUCCESS;
  auto* record = static_cast<Grequest*>(extra_state);
  record->cancel(&record->state, &complete, &ierror);
  return ierror;
}

using ExtentFunction = void(int* type, MPI_Aint* extent, MPI_Aint* state, int* ierror);
template <typename Length>
using ConversionFunction = void(void* userbuf, int* type, Length* count, void* filebuf, MPI_Offset* position,
                                MPI_Aint* state, int* ierror);

/// A representation cannot be taken back: its record lives as long as the program.
template <typename Length>
struct Datarep {
  ConversionFunction<Length>* read;
  ConversionFunction<Length>* write;
  ExtentFunction* extent;
  MPI_Aint state;
};

template <typename Length, ConversionFunction<Length>* Datarep<Length>::*member>
int convert(void* userbuf, MPI_Datatype type, Length count, void* filebuf, MPI_Offset position, void* extra_state) {
  auto* record = static_cast<Datarep<Length>*>(extra_state);
  int number = to_int(type), ierror = MPI_SUCCESS;
  (record->*member)(userbuf, &number, &count, filebuf, &position, &record->state, &ierror);
  return ierror;
}
template <typename Length>
int extent_in_file(MPI_Datatype type, MPI_Aint* extent, void* extra_state) {
  auto* record = static_cast<Datarep<Length>*>(extra_state);
  int number = to_int(type), ierror = MPI_SUCCESS;
  record->extent(&number, extent, &record->state, &ierror);
  return ierror;
}

template <typename Length, typename Register>
int register_datarep(const std::string& name, Datarep<Length> record, bool read, bool write, Register registered) {
  auto* kept = new Datarep<Length>(record);
  int result = registered(name.c_str(), read ? convert<Length, &Datarep<Length>::read> : nullptr,
                          write ? convert<Length, &Datarep<Length>::write> : nullptr, extent_in_file<Length>, kept);
  if (result != MPI_SUCCESS) delete kept;
  return result;
}

}  // namespace

#pragma GCC visibility push(default)
extern "C" {

void pmpi_grequest_start_(QueryFunction* query, FreeFunction* release, CancelFunction* cancel, MPI_Aint* state,
                          int* request, int* ierror) {
  auto* record = new Grequest{query, release, cancel, *state};
  MPI_Request made = nullptr;
  int result = PMPI_Grequest_start(query_request, free_request, cancel_request, record, &made);
  if (result == MPI_SUCCESS) {
    *request = to_int(made);
  } else {
    delete record;
  }
  finish(ierror, result);
}
TERN_FORTRAN_NAMES(grequest_start, QueryFunction*, FreeFunction*, CancelFunction*, MPI_Aint*, int*, int*)

// Never called: known by their addresses.
void mpi_conversion_fn_null_(void*, int*, int*, void*, MPI_Offset*, MPI_Aint*, int* ierror) {
  *ierror = MPI_ERR_CONVERSION;
}
void mpi_conversion_fn_null_c_(void*, int*, MPI_Count*, void*, MPI_Offset*, MPI_Aint*, int* ierror) {
  *ierror = MPI_ERR_CONVERSION;
}

void pmpi_register_datarep_(const char* name, ConversionFunction<int>* read, ConversionFunction<int>* write,
                            ExtentFunction* extent, MPI_Aint* state, int* ierror, size_t length) {
  finish(ierror,
         register_datarep<int>(trimmed(name, length), {read, write, extent, *state}, read != mpi_conversion_fn_null_,
                               write != mpi_conversion_fn_null_, PMPI_Register_datarep));
}
void pmpi_register_datarep_c_(const char* name, ConversionFunction<MPI_Count>* read,
                              ConversionFunction<MPI_Count>* write, ExtentFunction* extent, MPI_Aint* state,
                              int* ierror, size_t length) {
  finish(ierror, register_datarep<MPI_Count>(trimmed(name, length), {read, write, extent, *state},
                                             read != mpi_conversion_fn_null_c_, write != mpi_conversion_fn_null_c_,
                                             PMPI_Register_datarep_c));
}
TERN_FORTRAN_NAMES(register_datarep, const char*, ConversionFunction<int>*, ConversionFunction<int>*, ExtentFunction*,
                   MPI_Aint*, int*, size_t)
TERN_FORTRAN_NAMES(register_datarep_c, const char*, ConversionFunction<MPI_Count>*, ConversionFunction<MPI_Count>*,
                   ExtentFunction*, MPI_Aint*, int*, size_t)

}  // extern "C"
#pragma GCC visibility pop
