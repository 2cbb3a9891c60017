// Objects that exist only for the C API: sessions, matched messages, and files and windows with their error handlers.
// Source: MPI 5.0 sections 11.3, 3.8.2, 14.7 and 12.6. Thread rule: under the rank's lock.
#pragma once

#include "base/object.h"
#include "capi/attached_buffer.h"
#include "capi/error_handler.h"
#include "comm/communicator.h"
#include "comm/info.h"
#include "io/file.h"
#include "mpi.h"

namespace tern::rma {
class Window;
}

namespace tern::capi {

using tern::ErrorHandler;

/// MPI_Session: a reference to the running rank, with an error handler and a buffer of its own.
class Session final : public Object {
 public:
  explicit Session(Ref<ErrorHandler> handler) : error_handler(std::move(handler)) {}
  ~Session() = default;

  Ref<ErrorHandler> error_handler;
  AttachedBuffer buffer;
  Info info;  ///< hints in force
};

/// MPI_Message: matched and not yet received. `matched` is null for MPI_MESSAGE_NO_PROC.
class Message final : public Object {
 public:
  Message() = default;
  Message(MatchedMessage* message, PointToPoint& messages, Communicator* through)
      : matched(message), p2p(&messages), comm(through) {}
  ~Message() = default;

  MatchedMessage* matched = nullptr;
  PointToPoint* p2p = nullptr;   ///< which has found it
  Communicator* comm = nullptr;  ///< whose error handler hears of errors; a counted reference
};

/// MPI_File.
class File final : public Object {
 public:
  File(std::unique_ptr<io::File> opened, Ref<ErrorHandler> handler)
      : file(std::move(opened)), error_handler(std::move(handler)) {}
  ~File() = default;

  std::unique_ptr<io::File> file;
  Ref<ErrorHandler> error_handler;
  std::string memory_kinds;  ///< mpi_memory_alloc_kinds
};

/// MPI_Win.
class Window final : public Object {
 public:
  Window(std::unique_ptr<rma::Window> made, Ref<ErrorHandler> handler);
  ~Window();

  std::unique_ptr<rma::Window> window;
  Ref<ErrorHandler> error_handler;
  AttributeCache attributes;
  /// What the predefined attributes point to.
  MPI_Aint size = 0;
  int disp_unit = 1, flavor = 0, model = MPI_WIN_UNIFIED;
  std::string memory_kinds;  ///< mpi_memory_alloc_kinds
  /// TERN_CHECK: one begun since the last synchronisation (promises.h). Bytes of the target; `op` -1: compare-and-swap.
  struct Accumulate {
    int target;
    int64_t low, high;
    int op;
  };
  std::vector<Accumulate> accumulates;
};

}  // namespace tern::capi
