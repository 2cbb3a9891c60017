// Error handlers: the three predefined ones and the user's. Source: MPI 5.0 section 9.3.
// Thread rule: under the rank's lock.
#pragma once

#include "base/object.h"
#include "mpi.h"

namespace tern {

class ErrorHandler final : public Object {
 public:
  /// Predefined ones fit every object; a user's fits the kind of object it was created for.
  enum class Kind { fatal, abort, errors_return, communicator, session, window, file };

  explicit ErrorHandler(Kind kind) : kind_(kind) {}
  explicit ErrorHandler(MPI_Comm_errhandler_function* function) : kind_(Kind::communicator) { comm = function; }
  explicit ErrorHandler(MPI_Session_errhandler_function* function) : kind_(Kind::session) { session = function; }
  explicit ErrorHandler(MPI_Win_errhandler_function* function) : kind_(Kind::window) { window = function; }
  explicit ErrorHandler(MPI_File_errhandler_function* function) : kind_(Kind::file) { file = function; }
  ~ErrorHandler() = default;

  Kind kind() const { return kind_; }
  bool predefined() const { return kind_ <= Kind::errors_return; }
  bool fits(Kind object) const { return predefined() || kind_ == object; }

  /// The user's function; which member is valid follows from kind().
  union {
    MPI_Comm_errhandler_function* comm = nullptr;
    MPI_Session_errhandler_function* session;
    MPI_Win_errhandler_function* window;
    MPI_File_errhandler_function* file;
  };

 private:
  Kind kind_;
};

}  // namespace tern
