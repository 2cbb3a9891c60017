// Entry points whose Fortran form differs from C's by more than types: lengths that count a final NUL in C, argument
// lists of blank-padded strings, functions that return a value. Source: the chapters named at each.
// Thread rule: stateless.
#include <cstring>
#include <fstream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "fortran/bridge.h"
#include "fortran/names.h"
#include "fortran/section.h"

using namespace tern::fortran;

namespace {

/// Runs get(buffer, length) where C's length includes the final NUL and Fortran's does not; 0 asks for the length only.
template <typename Get>
int get_with_length(int* length, char* to, size_t to_length, const int* flag, Get get) {
  int with_nul = *length > 0 ? *length + 1 : 0;
  std::vector<char> buffer(static_cast<size_t>(with_nul) + 1, '\0');
  int result = get(buffer.data(), &with_nul);
  if (result == MPI_SUCCESS && *flag) {
    if (*length > 0) put_string(buffer.data(), to, to_length);
    *length = with_nul - 1;
  }
  return result;
}

/// Rows of blank-padded strings, ended by a blank one, as C's null-ended array.
class Arguments {
 public:
  /// `step`: how many strings from one argument to the next.
  Arguments(const char* strings, size_t length, size_t step) {
    for (const char* at = strings;; at += step * length) {
      std::string one = trimmed(at, length, Trim::both);
      if (one.empty()) break;
      texts_.push_back(std::make_unique<std::string>(std::move(one)));
    }
    for (auto& text : texts_) pointers_.push_back(text->data());
    pointers_.push_back(nullptr);
  }
  char** data() { return pointers_.data(); }

 private:
  std::vector<std::unique_ptr<std::string>> texts_;
  std::vector<char*> pointers_;
};

int* error_codes(int* array) { return array == &mpi_fort_errcodes_ignore_ ? MPI_ERRCODES_IGNORE : array; }

/// MPI_X_detach_buffer: C says where the buffer is; only mpi_f08 can give that to the program.
template <typename Detach>
void detach(void** where, int* ierror, Detach run) {
  void* buffer = nullptr;
  int result = run(&buffer);
  if (result == MPI_SUCCESS && where) *where = buffer == MPI_BUFFER_AUTOMATIC ? &mpi_fort_buffer_automatic_ : buffer;
  finish(ierror, result);
}

/// What the program was started with. Not every C library finds that itself where a caller has no argc and argv.
std::vector<std::string> command_line() {
  std::vector<std::string> words;
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  for (std::string word; std::getline(file, word, '\0');) words.push_back(std::move(word));
  return words;
}

int after_init(int result) {
  if (result == MPI_SUCCESS && !told_about_fortran) tell_about_fortran();
  return result;
}

}  // namespace

#pragma GCC visibility push(default)
extern "C" void tern_fortran_flush_();  // flush.f90

extern "C" {

// --- Chapter 3: attached buffers.

void pmpi_buffer_detach_(void*, int* size, int* ierror) {
  detach(nullptr, ierror, [&](void* to) { return PMPI_Buffer_detach(to, size); });
}
void pmpi_buffer_detach_f08_(void** where, int* size, int* ierror) {
  detach(where, ierror, [&](void* to) { return PMPI_Buffer_detach(to, size); });
}
void pmpi_buffer_detach_c_f08_(void** where, MPI_Count* size, int* ierror) {
  detach(where, ierror, [&](void* to) { return PMPI_Buffer_detach_c(to, size); });
}
void pmpi_comm_detach_buffer_(int* comm, void*, int* size, int* ierror) {
  detach(nullptr, ierror, [&](void* to) { return PMPI_Comm_detach_buffer(from_int<MPI_Comm>(*comm), to, size); });
}
void pmpi_comm_detach_buffer_f08_(int* comm, void** where, int* size, int* ierror) {
  detach(where, ierror, [&](void* to) { return PMPI_Comm_detach_buffer(from_int<MPI_Comm>(*comm), to, size); });
}
void pmpi_comm_detach_buffer_c_f08_(int* comm, void** where, MPI_Count* size, int* ierror) {
  detach(where, ierror, [&](void* to) { return PMPI_Comm_detach_buffer_c(from_int<MPI_Comm>(*comm), to, size); });
}
void pmpi_session_detach_buffer_(int* session, void*, int* size, int* ierror) {
  detach(nullptr, ierror,
         [&](void* to) { return PMPI_Session_detach_buffer(from_int<MPI_Session>(*session), to, size); });
}
void pmpi_session_detach_buffer_f08_(int* session, void** where, int* size, int* ierror) {
  detach(where, ierror,
         [&](void* to) { return PMPI_Session_detach_buffer(from_int<MPI_Session>(*session), to, size); });
}
void pmpi_session_detach_buffer_c_f08_(int* session, void** where, MPI_Count* size, int* ierror) {
  detach(where, ierror,
         [&](void* to) { return PMPI_Session_detach_buffer_c(from_int<MPI_Session>(*session), to, size); });
}
TERN_FORTRAN_NAME(buffer_detach, void*, int*, int*)
TERN_FORTRAN_NAME(buffer_detach_f08, void**, int*, int*)
TERN_FORTRAN_NAME(buffer_detach_c_f08, void**, MPI_Count*, int*)
TERN_FORTRAN_NAME(comm_detach_buffer, int*, void*, int*, int*)
TERN_FORTRAN_NAME(comm_detach_buffer_f08, int*, void**, int*, int*)
TERN_FORTRAN_NAME(comm_detach_buffer_c_f08, int*, void**, MPI_Count*, int*)
TERN_FORTRAN_NAME(session_detach_buffer, int*, void*, int*, int*)
TERN_FORTRAN_NAME(session_detach_buffer_f08, int*, void**, int*, int*)
TERN_FORTRAN_NAME(session_detach_buffer_c_f08, int*, void**, MPI_Count*, int*)

// --- Chapter 10: info.

void pmpi_info_get_string_(int* info, const char* key, int* buflen, char* value, int* flag, int* ierror,
                           size_t key_length, size_t value_length) {
  std::string name = trimmed(key, key_length, Trim::both);
  finish(ierror, get_with_length(buflen, value, value_length, flag, [&](char* to, int* length) {
           return PMPI_Info_get_string(from_int<MPI_Info>(*info), name.c_str(), length, to, flag);
         }));
}
void pmpi_info_get_(int* info, const char* key, int* valuelen, char* value, int* flag, int* ierror, size_t key_length,
                    size_t value_length) {
  std::string name = trimmed(key, key_length, Trim::both);
  std::vector<char> buffer(static_cast<size_t>(*valuelen > 0 ? *valuelen : 0) + 1, '\0');
  int result = PMPI_Info_get(from_int<MPI_Info>(*info), name.c_str(), *valuelen, buffer.data(), flag);
  if (result == MPI_SUCCESS && *flag) put_string(buffer.data(), value, value_length);
  finish(ierror, result);
}
void pmpi_info_create_env_(int* info, int* ierror) {
  std::vector<std::string> words = command_line();
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  MPI_Info made = nullptr;
  int result = PMPI_Info_create_env(static_cast<int>(words.size()), words.empty() ? nullptr : argv.data(), &made);
  if (result == MPI_SUCCESS) *info = to_int(made);
  finish(ierror, result);
}
TERN_FORTRAN_NAMES(info_get_string, int*, const char*, int*, char*, int*, int*, size_t, size_t)
TERN_FORTRAN_NAMES(info_get, int*, const char*, int*, char*, int*, int*, size_t, size_t)
TERN_FORTRAN_NAMES(info_create_env, int*, int*)

// --- Chapter 11: beginning, and making processes.

// The program's own last words, which ending a job would lose: its units are Fortran's to flush.
void pmpi_abort_(int* comm, int* errorcode, int* ierror) {
  tern_fortran_flush_();
  finish(ierror, PMPI_Abort(from_int<MPI_Comm>(*comm), *errorcode));
}
void pmpi_init_(int* ierror) { finish(ierror, after_init(PMPI_Init(nullptr, nullptr))); }
void pmpi_init_thread_(int* required, int* provided, int* ierror) {
  finish(ierror, after_init(PMPI_Init_thread(nullptr, nullptr, *required, provided)));
}
void pmpi_session_get_nth_pset_(int* session, int* info, int* n, int* pset_len, char* pset_name, int* ierror,
                                size_t name_length) {
  const int always = 1;
  finish(ierror, get_with_length(pset_len, pset_name, name_length, &always, [&](char* to, int* length) {
           return PMPI_Session_get_nth_pset(from_int<MPI_Session>(*session), from_int<MPI_Info>(*info), *n, length, to);
         }));
}
void pmpi_comm_spawn_(const char* command, const char* argv, int* maxprocs, int* info, int* root, int* comm,
                      int* intercomm, int* codes, int* ierror, size_t command_length, size_t argv_length) {
  std::string name = trimmed(command, command_length, Trim::both);
  const bool none = argv == &mpi_fort_argv_null_;
  Arguments arguments(none ? " " : argv, none ? 1 : argv_length, 1);
  MPI_Comm made = nullptr;
  int result = PMPI_Comm_spawn(name.c_str(), none ? MPI_ARGV_NULL : arguments.data(), *maxprocs,
                               from_int<MPI_Info>(*info), *root, from_int<MPI_Comm>(*comm), &made, error_codes(codes));
  if (result == MPI_SUCCESS) *intercomm = to_int(made);
  finish(ierror, result);
}
void pmpi_comm_spawn_multiple_(int* count, const char* commands, const char* argvs, int* maxprocs, int* infos,
                               int* root, int* comm, int* intercomm, int* codes, int* ierror, size_t command_length,
                               size_t argv_length) {
  // Only the root has arrays.
  int rank = -1;
  PMPI_Comm_rank(from_int<MPI_Comm>(*comm), &rank);
  const size_t n = rank == *root && *count > 0 ? static_cast<size_t>(*count) : 0;
  const bool none = argvs == &mpi_fort_argvs_null_;
  std::vector<std::string> names;
  std::vector<std::unique_ptr<Arguments>> rows;
  std::vector<char*> name_pointers;
  std::vector<char**> row_pointers;
  for (size_t i = 0; i < n; ++i) {
    names.push_back(trimmed(commands + i * command_length, command_length, Trim::both));
    if (none) continue;
    rows.push_back(std::make_unique<Arguments>(argvs + i * argv_length, argv_length, n));
    row_pointers.push_back(rows.back()->data());
  }
  for (auto& name : names) name_pointers.push_back(name.data());
  Handles<MPI_Info> info(infos, static_cast<int64_t>(n));
  MPI_Comm made = nullptr;
  int result =
      PMPI_Comm_spawn_multiple(*count, name_pointers.data(), none ? MPI_ARGVS_NULL : row_pointers.data(), maxprocs,
                               info.data(), *root, from_int<MPI_Comm>(*comm), &made, error_codes(codes));
  if (result == MPI_SUCCESS) *intercomm = to_int(made);
  finish(ierror, result);
}
TERN_FORTRAN_NAMES(abort, int*, int*, int*)
TERN_FORTRAN_NAMES(init, int*)
TERN_FORTRAN_NAMES(init_thread, int*, int*, int*)
TERN_FORTRAN_NAMES(session_get_nth_pset, int*, int*, int*, int*, char*, int*, size_t)
TERN_FORTRAN_NAMES(comm_spawn, const char*, const char*, int*, int*, int*, int*, int*, int*, int*, size_t, size_t)
TERN_FORTRAN_NAMES(comm_spawn_multiple, int*, const char*, const char*, int*, int*, int*, int*, int*, int*, int*,
                   size_t, size_t)

// --- Chapters 5, 9, 15: what is no ordinary function.

void pmpi_pcontrol_(int* level) { PMPI_Pcontrol(*level); }
TERN_FORTRAN_NAMES(pcontrol, int*)

double pmpi_wtime_() { return PMPI_Wtime(); }
double pmpi_wtick_() { return PMPI_Wtick(); }
MPI_Aint pmpi_aint_add_(MPI_Aint* base, MPI_Aint* disp) { return PMPI_Aint_add(*base, *disp); }
MPI_Aint pmpi_aint_diff_(MPI_Aint* a, MPI_Aint* b) { return PMPI_Aint_diff(*a, *b); }
double mpi_wtime_() __attribute__((weak, alias("pmpi_wtime_")));
double mpi_wtime_f08_() __attribute__((weak, alias("pmpi_wtime_")));
double pmpi_wtime_f08_() __attribute__((weak, alias("pmpi_wtime_")));
double mpi_wtick_() __attribute__((weak, alias("pmpi_wtick_")));
double mpi_wtick_f08_() __attribute__((weak, alias("pmpi_wtick_")));
double pmpi_wtick_f08_() __attribute__((weak, alias("pmpi_wtick_")));
MPI_Aint mpi_aint_add_(MPI_Aint*, MPI_Aint*) __attribute__((weak, alias("pmpi_aint_add_")));
MPI_Aint mpi_aint_add_f08_(MPI_Aint*, MPI_Aint*) __attribute__((weak, alias("pmpi_aint_add_")));
MPI_Aint pmpi_aint_add_f08_(MPI_Aint*, MPI_Aint*) __attribute__((weak, alias("pmpi_aint_add_")));
MPI_Aint mpi_aint_diff_(MPI_Aint*, MPI_Aint*) __attribute__((weak, alias("pmpi_aint_diff_")));
MPI_Aint mpi_aint_diff_f08_(MPI_Aint*, MPI_Aint*) __attribute__((weak, alias("pmpi_aint_diff_")));
MPI_Aint pmpi_aint_diff_f08_(MPI_Aint*, MPI_Aint*) __attribute__((weak, alias("pmpi_aint_diff_")));

// --- Chapter 19: Fortran's own.

void pmpi_status_f2f08_(const MPI_Status* from, MPI_Status* to, int* ierror) {
  *to = *from;
  finish(ierror, MPI_SUCCESS);
}
void pmpi_status_f082f_(const MPI_Status* from, MPI_Status* to, int* ierror) {
  *to = *from;
  finish(ierror, MPI_SUCCESS);
}
TERN_FORTRAN_NAMES(status_f2f08, const MPI_Status*, MPI_Status*, int*)
TERN_FORTRAN_NAMES(status_f082f, const MPI_Status*, MPI_Status*, int*)

// The compiler must believe that the buffer is used here: that is all it does (19.1.8).
void pmpi_f_sync_reg_(void*) {}
void pmpi_f_sync_reg_f08ts_(const Descriptor*) {}
TERN_FORTRAN_NAME(f_sync_reg, void*)
TERN_FORTRAN_NAME(f_sync_reg_f08ts, const Descriptor*)

void pmpi_sizeof_fts_(const Descriptor* x, int* size, int* ierror) {
  *size = static_cast<int>(x->element_bytes);
  finish(ierror, MPI_SUCCESS);
}
TERN_FORTRAN_NAME(sizeof_fts, const Descriptor*, int*, int*)

}  // extern "C"
#pragma GCC visibility pop
