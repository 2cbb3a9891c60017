// Handles and the INTEGERs that Fortran has for them. A predefined handle is the same number in both (MPI 5.0 sections
// 20.4.5, 20.5); of all others only the library that has made them knows the number: in one it is the handle, in
// another the handle is the address of an object. Thread rule: stateless.
#pragma once

#include <atomic>
#include <cstdint>
#include <type_traits>

#include "mpi.h"

namespace tern::fortran {

constexpr uintptr_t kPredefinedHandles = 4096;  // 20.5: their values have 12 bits

#define TERN_HANDLE_NUMBERS(Handle, Name)                                     \
  inline int number_of(Handle handle) { return PMPI_##Name##_toint(handle); } \
  inline void handle_of(int number, Handle* to) { *to = PMPI_##Name##_fromint(number); }
TERN_HANDLE_NUMBERS(MPI_Comm, Comm)
TERN_HANDLE_NUMBERS(MPI_Datatype, Type)
TERN_HANDLE_NUMBERS(MPI_Errhandler, Errhandler)
TERN_HANDLE_NUMBERS(MPI_File, File)
TERN_HANDLE_NUMBERS(MPI_Group, Group)
TERN_HANDLE_NUMBERS(MPI_Info, Info)
TERN_HANDLE_NUMBERS(MPI_Message, Message)
TERN_HANDLE_NUMBERS(MPI_Op, Op)
TERN_HANDLE_NUMBERS(MPI_Request, Request)
TERN_HANDLE_NUMBERS(MPI_Session, Session)
TERN_HANDLE_NUMBERS(MPI_Win, Win)
#undef TERN_HANDLE_NUMBERS

/// Whether the library knows what this Fortran's types are like. Telling is for the time after MPI's initialization,
/// when datatypes are named; startup.cc.
extern std::atomic<bool> told_about_fortran;
void tell_about_fortran();

template <typename Handle>
Handle from_int(int number) {
  if constexpr (std::is_same_v<Handle, MPI_Datatype>) {
    if (!told_about_fortran.load(std::memory_order_acquire)) tell_about_fortran();
  }
  if (static_cast<unsigned>(number) < kPredefinedHandles)
    return reinterpret_cast<Handle>(static_cast<intptr_t>(number));
  Handle handle;
  handle_of(number, &handle);
  return handle;
}
template <typename Handle>
int to_int(Handle handle) {
  auto value = reinterpret_cast<uintptr_t>(handle);
  return value < kPredefinedHandles ? static_cast<int>(value) : number_of(handle);
}

/// C's function for a Fortran procedure that C is to call with a handle by reference (reduction functions, error
/// handlers); functions.cc.
MPI_User_function* c_function(MPI_User_function* procedure);
MPI_User_function_c* c_function(MPI_User_function_c* procedure);
MPI_Comm_errhandler_function* c_function(MPI_Comm_errhandler_function* procedure);
MPI_File_errhandler_function* c_function(MPI_File_errhandler_function* procedure);
MPI_Session_errhandler_function* c_function(MPI_Session_errhandler_function* procedure);
MPI_Win_errhandler_function* c_function(MPI_Win_errhandler_function* procedure);

}  // namespace tern::fortran
