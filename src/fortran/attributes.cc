// Attributes from Fortran: values are integers of an address's size (INTEGER for the deprecated MPI_Attr_...).
// MPI 5.0 sections 7.7, 19.3.7. What C sees of a value set by Fortran is the address of a cell that holds it; a pointer
// that is no cell was set by C and is, to Fortran, its address. The cell's lower half is the INTEGER that C reads after
// MPI_Attr_put.
//
// Keyvals made by Fortran have C callbacks (below) that call the user's with Fortran's arguments; their extra state is
// a Keyval record, which lives as long as the program, since attributes may outlive the freeing of their keyval. Equal
// records are one, so that a program that makes keyvals in a loop does not grow.
// Thread rule: the tables have a mutex, which no callback is called under.
#include <map>
#include <mutex>
#include <set>
#include <tuple>

#include "fortran/bridge.h"
#include "fortran/names.h"

using namespace tern::fortran;

namespace {

using CopyFunction = void(int* handle, int* keyval, MPI_Aint* state, MPI_Aint* in, MPI_Aint* out, int* flag,
                          int* ierror);
using DeleteFunction = void(int* handle, int* keyval, MPI_Aint* value, MPI_Aint* state, int* ierror);
using OldCopyFunction = void(int* handle, int* keyval, int* state, int* in, int* out, int* flag, int* ierror);
using OldDeleteFunction = void(int* handle, int* keyval, int* value, int* state, int* ierror);

struct Keyval {
  CopyFunction* copy;
  DeleteFunction* drop;
  MPI_Aint state;
};

struct Tables {
  std::mutex mutex;
  std::set<MPI_Aint*> cells;
  std::map<std::tuple<CopyFunction*, DeleteFunction*, MPI_Aint>, Keyval> keyvals;
};
// Never destroyed: attributes are deleted by MPI_Finalize, which an atexit handler may call.
Tables& tables() {
  static Tables* all = new Tables;
  return *all;
}

Keyval* keyval_record(CopyFunction* copy, DeleteFunction* drop, MPI_Aint state) {
  std::lock_guard<std::mutex> guard(tables().mutex);
  return &tables().keyvals.try_emplace({copy, drop, state}, Keyval{copy, drop, state}).first->second;
}
MPI_Aint* new_cell(MPI_Aint value) {
  auto* cell = new MPI_Aint(value);
  std::lock_guard<std::mutex> guard(tables().mutex);
  tables().cells.insert(cell);
  return cell;
}
bool is_cell(void* pointer) {
  std::lock_guard<std::mutex> guard(tables().mutex);
  return tables().cells.count(static_cast<MPI_Aint*>(pointer)) != 0;
}
void drop_cell(void* pointer) {
  auto* cell = static_cast<MPI_Aint*>(pointer);
  {
    std::lock_guard<std::mutex> guard(tables().mutex);
    if (tables().cells.erase(cell) == 0) return;
  }
  delete cell;
}
MPI_Aint value_of(void* pointer) {
  return is_cell(pointer) ? *static_cast<MPI_Aint*>(pointer) : reinterpret_cast<MPI_Aint>(pointer);
}

// --- What C calls.

template <typename Handle>
int copy_attribute(Handle handle, int keyval, void* extra_state, void* in, void* out, int* flag) {
  auto* record = static_cast<Keyval*>(extra_state);
  int number = to_int(handle), ierror = MPI_SUCCESS;
  MPI_Aint state = record->state, value_in = value_of(in), value_out = 0;
  *flag = 0;
  record->copy(&number, &keyval, &state, &value_in, &value_out, flag, &ierror);
  if (ierror == MPI_SUCCESS && *flag) *static_cast<void**>(out) = new_cell(value_out);
  return ierror;
}
template <typename Handle>
int delete_attribute(Handle handle, int keyval, void* value, void* extra_state) {
  auto* record = static_cast<Keyval*>(extra_state);
  int number = to_int(handle), ierror = MPI_SUCCESS;
  MPI_Aint state = record->state, integer = value_of(value);
  record->drop(&number, &keyval, &integer, &state, &ierror);
  if (ierror == MPI_SUCCESS) drop_cell(value);
  return ierror;
}
// The deprecated callbacks, all of whose arguments are INTEGER.
int copy_old(MPI_Comm comm, int keyval, void* extra_state, void* in, void* out, int* flag) {
  auto* record = static_cast<Keyval*>(extra_state);
  int number = to_int(comm), ierror = MPI_SUCCESS, state = static_cast<int>(record->state);
  int value_in = static_cast<int>(value_of(in)), value_out = 0;
  *flag = 0;
  reinterpret_cast<OldCopyFunction*>(record->copy)(&number, &keyval, &state, &value_in, &value_out, flag, &ierror);
  if (ierror == MPI_SUCCESS && *flag) *static_cast<void**>(out) = new_cell(value_out);
  return ierror;
}
int delete_old(MPI_Comm comm, int keyval, void* value, void* extra_state) {
  auto* record = static_cast<Keyval*>(extra_state);
  int number = to_int(comm), ierror = MPI_SUCCESS, state = static_cast<int>(record->state);
  int integer = static_cast<int>(value_of(value));
  reinterpret_cast<OldDeleteFunction*>(record->drop)(&number, &keyval, &integer, &state, &ierror);
  if (ierror == MPI_SUCCESS) drop_cell(value);
  return ierror;
}

/// Sets by `set(cell)`; a value that was refused leaves nothing behind.
template <typename Set>
int set_value(MPI_Aint value, Set set) {
  MPI_Aint* cell = new_cell(value);
  int result = set(cell);
  if (result != MPI_SUCCESS) drop_cell(cell);
  return result;
}

/// What Fortran gets to see of an attribute of MPI's own; the integer ones are pointers to int in C.
MPI_Aint visible_value(int keyval, void* pointer) {
  switch (keyval) {
    case MPI_TAG_UB:
    case MPI_IO:
    case MPI_HOST:
    case MPI_WTIME_IS_GLOBAL:
    case MPI_APPNUM:
    case MPI_LASTUSEDCODE:
    case MPI_UNIVERSE_SIZE:
    case MPI_WIN_DISP_UNIT:
    case MPI_WIN_CREATE_FLAVOR:
    case MPI_WIN_MODEL: return *static_cast<int*>(pointer);
    case MPI_WIN_SIZE: return *static_cast<MPI_Aint*>(pointer);
    case MPI_WIN_BASE: return reinterpret_cast<MPI_Aint>(pointer);
    default: return value_of(pointer);
  }
}

template <typename Value, typename Get>
void get_value(int keyval, Value* value, int* flag, int* ierror, Get get) {
  void* pointer = nullptr;
  int result = get(&pointer);
  if (result == MPI_SUCCESS && *flag) *value = static_cast<Value>(visible_value(keyval, pointer));
  finish(ierror, result);
}

void no_copy(int* flag, int* ierror) {
  *flag = 0;
  *ierror = MPI_SUCCESS;
}

}  // namespace

#pragma GCC visibility push(default)
extern "C" {

void pmpi_comm_create_keyval_(CopyFunction* copy, DeleteFunction* drop, int* keyval, MPI_Aint* state, int* ierror) {
  finish(ierror, PMPI_Comm_create_keyval(copy_attribute<MPI_Comm>, delete_attribute<MPI_Comm>, keyval,
                                         keyval_record(copy, drop, *state)));
}
void pmpi_type_create_keyval_(CopyFunction* copy, DeleteFunction* drop, int* keyval, MPI_Aint* state, int* ierror) {
  finish(ierror, PMPI_Type_create_keyval(copy_attribute<MPI_Datatype>, delete_attribute<MPI_Datatype>, keyval,
                                         keyval_record(copy, drop, *state)));
}
void pmpi_win_create_keyval_(CopyFunction* copy, DeleteFunction* drop, int* keyval, MPI_Aint* state, int* ierror) {
  finish(ierror, PMPI_Win_create_keyval(copy_attribute<MPI_Win>, delete_attribute<MPI_Win>, keyval,
                                        keyval_record(copy, drop, *state)));
}
void pmpi_keyval_create_(OldCopyFunction* copy, OldDeleteFunction* drop, int* keyval, int* state, int* ierror) {
  finish(ierror, PMPI_Comm_create_keyval(copy_old, delete_old, keyval,
                                         keyval_record(reinterpret_cast<CopyFunction*>(copy),
                                                       reinterpret_cast<DeleteFunction*>(drop), *state)));
}

void pmpi_comm_set_attr_(int* comm, int* keyval, MPI_Aint* value, int* ierror) {
  finish(ierror, set_value(*value, [&](void* v) { return PMPI_Comm_set_attr(from_int<MPI_Comm>(*comm), *keyval, v); }));
}
void pmpi_type_set_attr_(int* type, int* keyval, MPI_Aint* value, int* ierror) {
  finish(ierror,
         set_value(*value, [&](void* v) { return PMPI_Type_set_attr(from_int<MPI_Datatype>(*type), *keyval, v); }));
}
void pmpi_win_set_attr_(int* win, int* keyval, MPI_Aint* value, int* ierror) {
  finish(ierror, set_value(*value, [&](void* v) { return PMPI_Win_set_attr(from_int<MPI_Win>(*win), *keyval, v); }));
}
void pmpi_attr_put_(int* comm, int* keyval, int* value, int* ierror) {
  finish(ierror, set_value(*value, [&](void* v) { return PMPI_Comm_set_attr(from_int<MPI_Comm>(*comm), *keyval, v); }));
}

void pmpi_comm_get_attr_(int* comm, int* keyval, MPI_Aint* value, int* flag, int* ierror) {
  get_value(*keyval, value, flag, ierror,
            [&](void* to) { return PMPI_Comm_get_attr(from_int<MPI_Comm>(*comm), *keyval, to, flag); });
}
void pmpi_type_get_attr_(int* type, int* keyval, MPI_Aint* value, int* flag, int* ierror) {
  get_value(*keyval, value, flag, ierror,
            [&](void* to) { return PMPI_Type_get_attr(from_int<MPI_Datatype>(*type), *keyval, to, flag); });
}
void pmpi_win_get_attr_(int* win, int* keyval, MPI_Aint* value, int* flag, int* ierror) {
  get_value(*keyval, value, flag, ierror,
            [&](void* to) { return PMPI_Win_get_attr(from_int<MPI_Win>(*win), *keyval, to, flag); });
}
void pmpi_attr_get_(int* comm, int* keyval, int* value, int* flag, int* ierror) {
  get_value(*keyval, value, flag, ierror,
            [&](void* to) { return PMPI_Comm_get_attr(from_int<MPI_Comm>(*comm), *keyval, to, flag); });
}

TERN_FORTRAN_NAMES(comm_create_keyval, CopyFunction*, DeleteFunction*, int*, MPI_Aint*, int*)
TERN_FORTRAN_NAMES(type_create_keyval, CopyFunction*, DeleteFunction*, int*, MPI_Aint*, int*)
TERN_FORTRAN_NAMES(win_create_keyval, CopyFunction*, DeleteFunction*, int*, MPI_Aint*, int*)
TERN_FORTRAN_NAMES(keyval_create, OldCopyFunction*, OldDeleteFunction*, int*, int*, int*)
TERN_FORTRAN_NAMES(comm_set_attr, int*, int*, MPI_Aint*, int*)
TERN_FORTRAN_NAMES(type_set_attr, int*, int*, MPI_Aint*, int*)
TERN_FORTRAN_NAMES(win_set_attr, int*, int*, MPI_Aint*, int*)
TERN_FORTRAN_NAMES(attr_put, int*, int*, int*, int*)
TERN_FORTRAN_NAMES(comm_get_attr, int*, int*, MPI_Aint*, int*, int*)
TERN_FORTRAN_NAMES(type_get_attr, int*, int*, MPI_Aint*, int*, int*)
TERN_FORTRAN_NAMES(win_get_attr, int*, int*, MPI_Aint*, int*, int*)
TERN_FORTRAN_NAMES(attr_get, int*, int*, int*, int*, int*)

// Predefined callbacks: plain subroutines that programs may also call.
void mpi_comm_null_copy_fn_(int*, int*, MPI_Aint*, MPI_Aint*, MPI_Aint*, int* flag, int* ierror) {
  no_copy(flag, ierror);
}
void mpi_type_null_copy_fn_(int*, int*, MPI_Aint*, MPI_Aint*, MPI_Aint*, int* flag, int* ierror) {
  no_copy(flag, ierror);
}
void mpi_win_null_copy_fn_(int*, int*, MPI_Aint*, MPI_Aint*, MPI_Aint*, int* flag, int* ierror) {
  no_copy(flag, ierror);
}
void mpi_null_copy_fn_(int*, int*, int*, int*, int*, int* flag, int* ierror) { no_copy(flag, ierror); }
void mpi_comm_dup_fn_(int*, int*, MPI_Aint*, MPI_Aint* in, MPI_Aint* out, int* flag, int* ierror) {
  *out = *in;
  *flag = 1;
  *ierror = MPI_SUCCESS;
}
void mpi_type_dup_fn_(int*, int*, MPI_Aint*, MPI_Aint*, MPI_Aint*, int*, int*)
    __attribute__((alias("mpi_comm_dup_fn_")));
void mpi_win_dup_fn_(int*, int*, MPI_Aint*, MPI_Aint*, MPI_Aint*, int*, int*)
    __attribute__((alias("mpi_comm_dup_fn_")));
void mpi_dup_fn_(int*, int*, int*, int* in, int* out, int* flag, int* ierror) {
  *out = *in;
  *flag = 1;
  *ierror = MPI_SUCCESS;
}
void mpi_comm_null_delete_fn_(int*, int*, MPI_Aint*, MPI_Aint*, int* ierror) { *ierror = MPI_SUCCESS; }
void mpi_type_null_delete_fn_(int*, int*, MPI_Aint*, MPI_Aint*, int* ierror) { *ierror = MPI_SUCCESS; }
void mpi_win_null_delete_fn_(int*, int*, MPI_Aint*, MPI_Aint*, int* ierror) { *ierror = MPI_SUCCESS; }
void mpi_null_delete_fn_(int*, int*, int*, int*, int* ierror) { *ierror = MPI_SUCCESS; }

}  // extern "C"
#pragma GCC visibility pop
