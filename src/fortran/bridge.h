// What every entry point of the Fortran bindings uses: handles, strings, and memory whose address has a meaning.
// Fortran knows a handle as an INTEGER, which MPI_X_toint gives (numbers.h). Source: MPI 5.0 sections 19.1, 19.3, 20.4.
// Thread rule: stateless.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <type_traits>

#include "fortran/numbers.h"
#include "mpi.h"

// Defined by the modules mpi and mpi_f08 and by the COMMON blocks of mpif.h. The program's copies win over the
// library's, so they are always asked for through the dynamic linker.
extern "C" {
extern int mpi_fort_bottom_, mpi_fort_in_place_, mpi_fort_buffer_automatic_, mpi_fort_errcodes_ignore_;
extern int mpi_fort_unweighted_, mpi_fort_weights_empty_;
extern MPI_Status mpi_fort_status_ignore_, mpi_fort_statuses_ignore_;          // mpif.h, mpi
extern MPI_Status mpi_fort_f08_status_ignore_, mpi_fort_f08_statuses_ignore_;  // mpi_f08, where they have a type
extern char mpi_fort_argv_null_, mpi_fort_argvs_null_;
}

namespace tern::fortran {

/// `ierror` is null where mpi_f08's optional argument was left out.
inline void finish(int* ierror, int result) {
  if (ierror) *ierror = result;
}

/// MPI_File_close, which MPICH 5.0's library of the ABI has under this name alone.
extern "C" int PMPI_File_close(MPI_File* file) __attribute__((weak));
inline int close_file(MPI_File* file) { return PMPI_File_close ? PMPI_File_close(file) : MPI_File_close(file); }

/// What a choice buffer means to C.
inline void* c_address(void* buffer) {
  if (buffer == &mpi_fort_in_place_) return MPI_IN_PLACE;
  if (buffer == &mpi_fort_bottom_) return MPI_BOTTOM;
  if (buffer == &mpi_fort_buffer_automatic_) return MPI_BUFFER_AUTOMATIC;
  return buffer;
}
template <typename Int>
Int* c_weights(Int* array) {
  if (array == &mpi_fort_unweighted_) return MPI_UNWEIGHTED;
  if (array == &mpi_fort_weights_empty_) return MPI_WEIGHTS_EMPTY;
  return array;
}
inline MPI_Status* one_status(MPI_Status* given) {
  bool ignored = given == &mpi_fort_status_ignore_ || given == &mpi_fort_f08_status_ignore_;
  return ignored ? MPI_STATUS_IGNORE : given;
}
inline MPI_Status* all_statuses(MPI_Status* given) {
  bool ignored = given == &mpi_fort_statuses_ignore_ || given == &mpi_fort_f08_statuses_ignore_;
  return ignored ? MPI_STATUSES_IGNORE : given;
}

/// Fortran counts positions from 1.
inline void one_based(int* indices, int n) {
  for (int i = 0; i < n; ++i) {
    if (indices[i] != MPI_UNDEFINED) ++indices[i];
  }
}
/// Whether MPI_Waitsome and its sisters wrote their indices.
inline bool some_completed(int result) { return result == MPI_SUCCESS || result == MPI_ERR_IN_STATUS; }

/// Nonblocking operations whose buffers are copies to be spread at their end (section.h).
extern std::atomic<int> deferred_operations;
void land_slow(int request);
/// For the calls that complete requests: a request that has become null is over.
inline void land(int before, int after) {
  if (deferred_operations.load(std::memory_order_acquire) != 0 && before != after) land_slow(before);
}

/// An array of handles as C has it; on the stack when it is short.
template <typename Handle>
class Handles {
 public:
  /// An array that C writes.
  explicit Handles(int64_t n) : n_(n > 0 ? static_cast<size_t>(n) : 0) {
    if (n_ > kShort) long_ = new Handle[n_]();
  }
  Handles(const int* values, int64_t n) : Handles(n) {
    Handle* to = data();
    for (size_t i = 0; i < n_; ++i) to[i] = from_int<Handle>(values[i]);
  }
  Handles(const Handles&) = delete;
  Handles& operator=(const Handles&) = delete;
  ~Handles() { delete[] long_; }
  Handle* data() { return long_ ? long_ : short_; }
  void give(int* values) { give(values, static_cast<int64_t>(n_)); }
  /// The first `n` of an array that C has written.
  void give(int* values, int64_t n) {
    const Handle* from = data();
    for (int64_t i = 0; i < n; ++i) {
      int value = to_int(from[i]);
      if constexpr (std::is_same_v<Handle, MPI_Request>) land(values[i], value);
      values[i] = value;
    }
  }

 private:
  static constexpr size_t kShort = 32;  // elements without an allocation
  size_t n_;
  Handle* long_ = nullptr;
  Handle short_[kShort] = {};
};

/// Which blanks around a CHARACTER do not belong to the string.
enum class Trim { right, both };

inline std::string trimmed(const char* text, size_t length, Trim trim = Trim::right) {
  while (length > 0 && text[length - 1] == ' ') --length;
  if (trim == Trim::both) {
    while (length > 0 && *text == ' ') ++text, --length;
  }
  return std::string(text, length);
}
/// A C string into a CHARACTER: cut to its length, or padded with blanks.
void put_string(const char* from, char* to, size_t length);

class InString {
 public:
  InString(const char* text, size_t length, Trim trim) : text_(trimmed(text, length, trim)) {}
  const char* c_str() const { return text_.c_str(); }

 private:
  std::string text_;
};

template <size_t kLength>
class OutString {
 public:
  char* c_str() { return text_; }
  void give(char* to, size_t length) const { put_string(text_, to, length); }

 private:
  char text_[kLength] = {};
};

/// How many ranks the arrays of a collective operation describe.
int peers(int comm);
int incoming(int comm);
int outgoing(int comm);
/// How many datatypes this one was made of.
int64_t contained_types(int type);

inline int first_error(std::initializer_list<int> errors) {
  for (int error : errors) {
    if (error != MPI_SUCCESS) return error;
  }
  return MPI_SUCCESS;
}
/// Tells the error handler of the object; returns the error.
int report(MPI_Comm comm, int error);
int report(MPI_Win win, int error);
int report(MPI_File file, int error);
int report(MPI_Session session, int error);

}  // namespace tern::fortran
