// World: the state of one rank's C API: its handles, whether MPI runs, error handlers, attached buffers.
// One per rank; found through current.h. Source: MPI 5.0 chapters 9, 11, 20.
// Thread rule: `lock` guards it (taken by entry points). Without it are read: `running`, `models.stage`, and objects by
// their handles (handles.h), of which only what never changes (Call::enter_reading).
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/rank_page.h"
#include "capi/current.h"
#include "capi/error_table.h"
#include "capi/handles.h"
#include "capi/objects.h"
#include "capi/tool.h"
#include "comm/attributes.h"
#include "datatype/op.h"
#include "datatype/predefined.h"
#include "mpi.h"
#include "process/connect.h"
#include "process/process.h"

namespace tern::capi {

class Checks;         // capi/checks.h
class Continuations;  // capi/continuations.h

/// Is told of all calls that the program makes, also of those inside of its callbacks (the simulator: what passes
/// between calls is computation). `function`: the name's number among function_names().
class CallObserver {
 public:
  virtual void call_begins(uint16_t function) = 0;
  virtual void call_ends(uint16_t function) = 0;

 protected:
  ~CallObserver() = default;
};

/// What the handles stand for. Reserved ranges: MPI 5.0 section 20.5.
struct Handles {
  HandleTable<Communicator, 0x100, 8> comms;
  HandleTable<Group, 0x108, 8> groups;
  HandleTable<Window, 0x110, 8> windows;
  HandleTable<File, 0x118, 8> files;
  HandleTable<Session, 0x120, 8> sessions;
  HandleTable<Message, 0x128, 8> messages;
  HandleTable<Info, 0x130, 16> infos;
  HandleTable<ErrorHandler, 0x140, 64> error_handlers;
  HandleTable<Request, 0x180, 128> requests;
  /// Those of message engines: part number + 1 of engine `number`, which guards it.
  using EngineRequests = HandleTable<Request, 0x180, 128, true>;
  std::vector<std::unique_ptr<EngineRequests>> engine_requests;
  HandleTable<Datatype, 0x200, 256> types;
  HandleTable<Op, 0x20, 32> ops;
  HandleTable<Keyval, 500, 128> keyvals;  ///< ints to users
};

/// What predefined handles stand for, beside the Process's communicators and the error handlers.
struct PredefinedObjects {
  PredefinedTypes types;  ///< made on first use, then tied into the handles, as the operators
  PredefinedOps ops;
  Info environment;        ///< MPI_INFO_ENV
  Message no_proc;         ///< MPI_MESSAGE_NO_PROC
  Ref<Group> empty_group;  ///< MPI_GROUP_EMPTY
  int attributes[8] = {};  ///< values that MPI_Comm_get_attr points to, by keyval - 500
};

/// The predefined error handlers, and the ones that objects have until the program sets others. This struct holds one
/// reference to each, so they are never freed.
struct DefaultHandlers {
  ErrorHandler fatal{ErrorHandler::Kind::fatal}, abort{ErrorHandler::Kind::abort},
      errors_return{ErrorHandler::Kind::errors_return};
  ErrorHandler* initial = &fatal;                                         ///< before MPI_Init and without one
  Ref<ErrorHandler> of_files = Ref<ErrorHandler>::share(&errors_return);  ///< of MPI_FILE_NULL, which new files inherit
};

/// Where this rank counts, and what it shows of that.
struct Counts {
  Counters own;
  RankPage* page = nullptr;             ///< of the process's own world: what mpiexec --top reads; null: none
  Counters* rank = &own;                ///< the rank's: valid before initialisation and after finalisation
  std::unique_ptr<Counters[]> engines;  ///< of the message engines, where there is no page
  Counters sum;
};

/// How far MPI's process models are.
struct Models {
  enum class Stage { before, initialised, finalized };
  std::atomic<Stage> stage = Stage::before;  ///< of the World Model
  int thread_level = MPI_THREAD_SINGLE;
  std::thread::id main_thread;
  int process_id = 0;                       ///< whose Process it is; a forked child has another
  bool sessions_used = false;               ///< the Process stays until exit, for sessions to come
  std::unique_ptr<Session> failed_session;  ///< kept until its error handler was asked
};

/// What a simulated job sets: it stands for the machine.
struct WorldHost {
  /// Builds the Process on the first initialisation. The default connects to the launcher.
  std::function<std::unique_ptr<Process>(const RankContext&, Error&)> connect;
  std::string node_name;             ///< of a simulated node; empty: the host's
  CallObserver* observer = nullptr;  ///< not owned; null unless a simulated job sets it, with World::observed
};

/// With MPI_THREAD_MULTIPLE: in which collectives threads are (leftovers.h).
struct CollectivesOfThreads {
  std::vector<const Communicator*> inside;
  bool told = false;
};

/// Attached buffers (MPI 5.0, 3.6); sessions have their own.
struct AttachedBuffers {
  AttachedBuffer rank;
  std::map<Communicator*, std::unique_ptr<AttachedBuffer>> comms;
};

/// What Fortran's interfaces have told (MPI 5.0, 20.4.1).
struct FortranState {
  Ref<Info> info;
  struct Booleans {
    bool set = false;
    int size = 0;
    unsigned char yes[16] = {}, no[16] = {};
  } booleans;
};

struct World {
  using Stage = Models::Stage;
  World();
  ~World();
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  Handles handles;
  PredefinedObjects predefined;
  Models models;

  // What nearly every call reads: one cache line.
  alignas(64) std::atomic<int> running{0};       ///< World Model (1) plus sessions; MPI works while > 0
  bool threads = false;                          ///< lock->enabled(), cached
  bool locking = false;                          ///< the same, or an event thread helps
  bool checking = true;                          ///< TERN_CHECK_ARGUMENTS
  bool observed = false;                         ///< `recorder`, `checks` or `host.observer` is there
  bool forked = false;                           ///< this process is a child that the rank has forked: no rank
  Engines* engines = nullptr;                    ///< the Process's; null: none, or no more
  const char* call_name = nullptr;               ///< the function called last, for the hang report
  std::shared_ptr<Driving> lock;                 ///< also the Process's
  std::unique_ptr<Process> process;              ///< null before initialisation and after finalisation
  std::unique_ptr<Recorder> recorder;            ///< null unless mpiexec wants to know
  std::unique_ptr<Checks> checks;                ///< null unless TERN_CHECK wants them; the process refers to it
  std::unique_ptr<Continuations> continuations;  ///< null: the program has made no continuation request

  WorldHost host;
  CollectivesOfThreads collectives;
  Counts counts;
  /// The rank's counts, those of its message engines included, which are closed. Valid until the next call.
  const Counters& counted();
  ToolState tools;  ///< MPI_T

  ErrorTable errors;
  DefaultHandlers handlers;
  AttachedBuffers buffers;
  std::map<void*, size_t> allocations;  ///< MPI_Alloc_mem
  Communicator* parent = nullptr;       ///< of MPI_Comm_get_parent; null: this process was not spawned, or it is freed
  FortranState fortran;

  /// A rank of the simulated world, not this operating-system process.
  bool simulated() const;
  bool is_running() const { return running.load(std::memory_order_relaxed) > 0; }
  /// Builds the Process if there is none and ties the predefined handles to its objects.
  Error start(int required_level);
  /// Ends the Process when it is not in use and cannot be used again.
  Error stop();
  /// Ends the Process (also at exit, for sessions).
  Error leave();
  /// The error handler that mpiexec or MPI_Comm_spawn were asked for (mpi_initial_errhandler). Before anything is
  /// called.
  void set_initial_handler();
  /// Records as mpiexec says in the environment (--summary, --trace). Before anything is called.
  void record_if_asked();
  /// Makes `counts.page`, and counts there from now on. Before the Process is made.
  void show_to_top();
  /// Updates `threads` and `locking`, after anything that may have made a helper or enabled the lock.
  void note_lock();
  /// Makes `engines`, if it may. After `process`, with the thread level MPI_THREAD_MULTIPLE.
  void make_engines();
  /// Makes `checks` as TERN_CHECK says. After `process`.
  void check_if_asked();
  /// The rank in MPI_COMM_WORLD, -1 without a Process.
  int rank() const { return process ? process->world_rank() : -1; }
  /// These return what a user's handler leaves in the code that it gets (9.3.1).
  /// Tells the error handler that is responsible: the communicator's, the session's (null: none), else the
  /// initial one.
  int raise(int error_class, const std::string& text, Communicator* comm, Session* session);
  /// Tells the file's error handler; null: the default one of files (MPI 5.0, 14.7).
  int raise(int error_class, const std::string& text, File* file);
  /// Tells the window's error handler.
  int raise(int error_class, const std::string& text, Window& window);
  /// Ends all ranks.
  /// `why`: the end of the text.
  [[noreturn]] void abort_job(int code, std::string_view text, const char* why = "");
  /// The error handler of a communicator; never null.
  ErrorHandler& handler_of(Communicator& comm) {
    return comm.error_handler ? *static_cast<ErrorHandler*>(comm.error_handler) : *handlers.initial;
  }
  /// The engine that a request's handle belongs to; null: none, or it is no handle of a request.
  Engine* engine_of(MPI_Request handle) const;
  Engine* engine_of(const Request& request) const {
    return engine_of(reinterpret_cast<MPI_Request>(intptr_t{request.handle}));
  }
  Handles::EngineRequests& requests_of(const Engine& engine) { return *handles.engine_requests[engine.number]; }
  /// The request of a handle, also of an engine's, which this thread has.
  Request* find_request(uintptr_t handle);
  /// The communicator that a request of an engine's belongs to; null: it is freed, or the request is none.
  Communicator* comm_of(const Request& request);

  /// The datatype of a handle: like types.find, and makes predefined types on their first use.
  Datatype* find_type(uintptr_t handle) {
    Datatype* type = handles.types.find(handle);
    return type || handle > 0x2ff ? type : find_predefined_type(handle);
  }
  /// As find_type, without the lock.
  Datatype* find_type_unlocked(uintptr_t handle) {
    Datatype* type = handles.types.find_unlocked(handle);
    return type || handle > 0x2ff ? type : find_predefined_type(handle);
  }
  Op* find_op(uintptr_t handle) {
    Op* op = handles.ops.find(handle);
    return op || handle > 0x3f ? op : find_predefined_op(handle);
  }

 private:
  bool raise_predefined(const ErrorHandler& handler, int error_class, const std::string& text);
  Datatype* find_predefined_type(uintptr_t handle);
  Op* find_predefined_op(uintptr_t handle);
};

/// The value of a handle as a number.
template <typename Handle>
uintptr_t value_of(Handle handle) {
  return reinterpret_cast<uintptr_t>(handle);
}

}  // namespace tern::capi
