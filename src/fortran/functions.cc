// Reduction functions and error handlers written in Fortran: SUBROUTINE F(INVEC, INOUTVEC, LEN, DATATYPE) and
// SUBROUTINE F(HANDLE, ERROR). C calls such a function with a handle by reference, where Fortran wants its number
// (numbers.h), and tells it nothing else; so each procedure gets a C function of its own, from a table of fixed size.
// An entry is kept for good: a handle may call the function until it is freed, and a program has few procedures.
// MPI 5.0 sections 6.9.5, 9.3. Thread rule: any thread; the tables are lists of atomic pointers that only grow.
#include <array>
#include <atomic>
#include <utility>

#include "fortran/numbers.h"

namespace tern::fortran {

namespace {

constexpr size_t kProcedures = 128;  // of each type

template <typename Function>
using Table = std::array<std::atomic<Function*>, kProcedures>;
template <typename Function>
Table<Function> procedures{};

template <typename Function>
struct Caller;

template <typename Length>
struct Caller<void(void*, void*, Length*, MPI_Datatype*)> {
  using Function = void(void*, void*, Length*, MPI_Datatype*);
  template <size_t index>
  static void call(void* in, void* in_out, Length* length, MPI_Datatype* type) {
    int number = to_int(*type);
    Function* procedure = procedures<Function>[index].load(std::memory_order_acquire);
    reinterpret_cast<void (*)(void*, void*, Length*, int*)>(procedure)(in, in_out, length, &number);
  }
};
template <typename Handle>
struct Caller<void(Handle*, int*, ...)> {
  using Function = void(Handle*, int*, ...);
  template <size_t index>
  static void call(Handle* handle, int* error, ...) {
    int number = to_int(*handle);
    Function* procedure = procedures<Function>[index].load(std::memory_order_acquire);
    reinterpret_cast<void (*)(int*, int*)>(procedure)(&number, error);
  }
};

template <typename Function, size_t... indices>
Function* caller(size_t index, std::index_sequence<indices...>) {
  static constexpr Function* callers[] = {Caller<Function>::template call<indices>...};
  return callers[index];
}

template <typename Function>
Function* entered(Function* procedure) {
  Table<Function>& table = procedures<Function>;
  for (size_t i = 0; i < kProcedures; ++i) {
    Function* there = nullptr;
    if (table[i].compare_exchange_strong(there, procedure, std::memory_order_acq_rel) || there == procedure) {
      return caller<Function>(i, std::make_index_sequence<kProcedures>());
    }
  }
  // The table is full. C may call the procedure itself where the lower half of a handle is its number: with every
  // predefined handle, and in libraries whose MPI_X_toint is a cast.
  return procedure;
}

}  // namespace

MPI_User_function* c_function(MPI_User_function* procedure) { return entered(procedure); }
MPI_User_function_c* c_function(MPI_User_function_c* procedure) { return entered(procedure); }
MPI_Comm_errhandler_function* c_function(MPI_Comm_errhandler_function* procedure) { return entered(procedure); }
MPI_File_errhandler_function* c_function(MPI_File_errhandler_function* procedure) { return entered(procedure); }
MPI_Session_errhandler_function* c_function(MPI_Session_errhandler_function* procedure) { return entered(procedure); }
MPI_Win_errhandler_function* c_function(MPI_Win_errhandler_function* procedure) { return entered(procedure); }

}  // namespace tern::fortran
