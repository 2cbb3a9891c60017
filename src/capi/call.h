// Call: one call of the C API on the stack. The entry points (generated from api/) use it to get in, to check
// and turn arguments into objects, and to report errors; the bodies use it to reach their rank. Checks return
// true when all is well; else they keep the error, and the entry point leaves with `fail()`. Thread rule:
// takes the rank's lock in enter(), gives it up at the end. Calls that only read what never changes (enter_reading)
// take it when they fail.
#pragma once

#include <cstdint>
#include <type_traits>
#include <utility>

#include "base/error.h"
#include "capi/arrays.h"
#include "capi/world.h"

namespace tern::capi {

#define TERN_LIKELY(condition) __builtin_expect(!!(condition), 1)

/// A rank's part in a collective with a root (MPI 5.0, chapter 6).
struct Role {
  bool root = false;        ///< the root itself
  bool leaf = false;        ///< sends to or receives from the root
  bool takes_part = false;  ///< not a bystander of the root's group in an intercommunicator
  bool inter = false;
};

/// As reports name it, the same at all its members: "MPI_COMM_WORLD", "'solver' (ranks 0-3)", "the communicator of
/// ranks 0-3 that MPI_Comm_split made at main (a.c:9)"; the ranks are those in MPI_COMM_WORLD.
std::string report_name(const Communicator& comm);
/// Keeps which function made it, and where it was called.
[[gnu::cold]] void note_origin(Communicator& comm, const char* function);

/// The communicator that it was made on, as traces name it.
[[gnu::cold]] const Communicator& comm_of(const Window& win);
[[gnu::cold]] const Communicator& comm_of(const File& file);

class Call {
 public:
  /// `function`: the name's number among the generated function_names().
  // Inlined, so that the return address is that of the entry point: the place in the program.
  [[gnu::always_inline]] Call(const char* name, uint16_t function)
      : world_(current()), name_(name), function_(function) {
    if (world_.observed) [[unlikely]]
      begin_observed(reinterpret_cast<uintptr_t>(__builtin_return_address(0)));
  }
  // Most calls have nothing to undo; that is all they pay for.
  [[gnu::always_inline]] ~Call() {
    const unsigned undo = state_ & ~unsigned{kAboutFiles | kAboutWindow | kDone};
    if (undo == 0) [[likely]]
      return;
    if (undo == kEntered) {
      world_.lock->leave();
    } else {
      leave();
    }
  }
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

  // --- For bodies.
  World& world() { return world_; }
  Handles& handles() { return world_.handles; }
  /// Only while MPI runs.
  Process& process() { return *world_.process; }
  /// From now on others may need this rank while it computes (windows): begins to help, if it does not yet.
  void help();
  const char* name() const { return name_; }
  /// Sets the object whose error handler is called for an error that the body returns (arguments set theirs).
  void blame(Communicator* comm) { comm_ = comm; }
  void blame(Session* session) { session_ = session; }
  /// Sets the communicator whose error handler is called, and keeps it until then: this may be its last reference.
  void blame_last(Ref<Communicator> comm) {
    Trouble& trouble = this->trouble();  // nothing is blamed that goes because there is no memory for this
    comm_ = comm.get();
    trouble.kept = std::move(comm);
  }
  /// Errors go to a file's error handler: that of the first file among the arguments, or the default one.
  void blame_files() {
    state_ |= kAboutFiles;
    file_ = nullptr;
  }
  /// To that of this file, which may have no other reference.
  void blame_last(Ref<File> file);
  /// Errors go to the window's error handler.
  void blame(Window* window) {
    state_ |= kAboutWindow;
    window_ = window;
  }
  /// Sets the window whose error handler is called, and keeps it until then.
  void blame_last(Ref<Window> window);
  /// The entry point returns this class instead of the error's own (MPI_ERR_IN_STATUS).
  void return_instead(int error_class) { trouble().returned = error_class; }

  // --- Getting in.
  /// Of functions that have a short call (without_lock.h): `short_call` says whether it has done all there is to do.
  /// Then the entry point leaves with end(), as it does with an error. Below MPI_THREAD_MULTIPLE as enter. `comm`,
  /// `tag`: of its message; MPI_COMM_NULL: it names requests.
  template <typename ShortCall>
  [[gnu::always_inline]] bool enter_shortly(MPI_Comm comm, int tag, ShortCall&& short_call) {
    if (!TERN_LIKELY(world_.is_running())) return not_running();
    if (world_.locking) [[unlikely]] {
      if (!world_.threads) {
        world_.lock->enter_helped();
      } else if (world_.engines && world_.engines->in_use() && short_call()) {
        state_ |= kDone;
        return false;
      } else {
        enter_to_visit(comm, tag);
      }
      state_ |= kEntered;
    }
    world_.call_name = name_;
    if (world_.observed) [[unlikely]]
      enter_observed(false);
    return true;
  }
  int end() { return state_ & kDone ? MPI_SUCCESS : fail(); }
  [[gnu::always_inline]] bool enter() {
    if (!TERN_LIKELY(world_.is_running())) return not_running();
    if (world_.locking) {
      world_.lock->enter();
      state_ |= kEntered;
    }
    world_.call_name = name_;
    if (world_.observed) [[unlikely]]
      enter_observed(false);
    return true;
  }
  /// Functions that read of objects only what never changes: no lock. Handles of other objects may be made and freed by
  /// other threads meanwhile (handles.h).
  [[gnu::always_inline]] bool enter_reading() {
    if (world_.observed) [[unlikely]]
      return enter();
    return TERN_LIKELY(world_.is_running()) || not_running();
  }
  /// After enter_reading, and perhaps after all of the call's work that needs no lock: takes the lock, once.
  void enter_after_all() {
    if (state_ & (kLocked | kEntered)) return;
    if (world_.locking) {
      world_.lock->enter();
      state_ |= kEntered;
    }
    world_.call_name = name_;
  }
  bool enter_reading_any_time() { return TERN_LIKELY(!world_.observed) || enter_any_time(); }
  /// Functions that may be called at any time, from any thread.
  bool enter_any_time() {
    lock();
    if (world_.observed) [[unlikely]]
      enter_observed(true);
    return true;
  }
  /// For functions of the tools interface: it must be initialised.
  bool tools_ready() { return TERN_LIKELY(world_.tools.users > 0) || tools_not_ready(); }
  bool checking() const { return world_.checking; }
  /// mpiexec --trace or --summary: what the call was given is recorded.
  bool timed() const { return (state_ & kTimed) != 0; }
  /// `comm`, `type`: null when there is none. `type`: what the count is of.
  [[gnu::cold]] void record_arguments(CallArguments arguments, const Communicator* comm, const Datatype* type);
  /// The request that the call waits for, or made.
  [[gnu::cold]] void record_request(MPI_Request request);
  /// The seam of TERN_CHECK (checks.h): null without it; else this call has told it that it has begun.
  Checks* checks() const { return (state_ & kChecked) ? world_.checks.get() : nullptr; }
  /// Neither that, nor does this call visit a message engine: one question for the most frequent calls.
  bool is_plain() const { return (state_ & (kChecked | kVisits)) == 0; }
  /// Objects of two sessions must not meet in one call (MPI 5.0, 11.3).
  [[gnu::cold]] void check_session(const Group& group);
  /// The communicator's ranks call the same collective; null: no communicator, no question.
  [[gnu::cold]] Error check_collective(Communicator& comm);

  // --- Handles to objects.
  bool get(MPI_Comm handle, Communicator*& object, const char* argument) {
    if (!get_visited(handle, object, argument)) return false;
    if (object->has_engine()) [[unlikely]]
      visit_all(*object);
    return true;
  }
  /// After enter_shortly, which has visited its engine.
  bool get_visited(MPI_Comm handle, Communicator*& object, const char* argument) {
    object = handles().comms.find(value_of(handle));
    if (!comm_) comm_ = object;
    return TERN_LIKELY(object) || bad_handle(handle, argument);
  }
  bool get(MPI_Datatype handle, Datatype*& object, const char* argument) {
    object = world_.find_type(value_of(handle));
    return TERN_LIKELY(object) || bad_handle(handle, argument);
  }
  /// Of a message whose peer is MPI_PROC_NULL no datatype is used: the null handle passes, as bytes.
  [[gnu::always_inline]] bool get_unless_null_process(int peer, MPI_Datatype handle, Datatype*& object,
                                                      const char* argument) {
    object = world_.find_type(value_of(handle));
    return TERN_LIKELY(object) || type_for_null_process(peer, handle, object) || bad_handle(handle, argument);
  }
  bool get(MPI_Op handle, Op*& object, const char* argument) {
    object = world_.find_op(value_of(handle));
    return TERN_LIKELY(object) || bad_handle(handle, argument);
  }
  bool get(MPI_Request handle, Request*& object, const char* argument) {
    object = find(handle);
    return TERN_LIKELY(object) || bad_handle(handle, argument);
  }
  bool get(MPI_Session handle, Session*& object, const char* argument) {
    object = handles().sessions.find(value_of(handle));
    if (!session_) session_ = object;
    return TERN_LIKELY(object) || bad_handle(handle, argument);
  }
  bool get(MPI_Group handle, Group*& object, const char* argument) {
    object = handles().groups.find(value_of(handle));
    // "A group contains a reference to the session from which it was derived, and procedures on groups invoke the error
    // handler from that session" (9.3).
    if (!session_ && object && object->session != 0) session_ = handles().sessions.find(uintptr_t(object->session));
    if (object && checks()) [[unlikely]]
      check_session(*object);
    return TERN_LIKELY(object) || bad_handle(handle, argument);
  }
  bool get(MPI_Info handle, Info*& object, const char* argument) {
    object = handles().infos.find(value_of(handle));
    return TERN_LIKELY(object) || bad_handle(handle, argument);
  }
  bool get(MPI_Errhandler handle, ErrorHandler*& object, const char* argument) {
    object = handles().error_handlers.find(value_of(handle));
    return TERN_LIKELY(object) || bad_handle(handle, argument);
  }
  bool get(MPI_Message handle, Message*& object, const char* argument) {
    object = handles().messages.find(value_of(handle));
    if (object && object->comm) visit_all(*object->comm);
    return TERN_LIKELY(object) || bad_handle(handle, argument);
  }
  /// Only after blame_files.
  bool get(MPI_File handle, File*& object, const char* argument) {
    object = handles().files.find(value_of(handle));
    if (object) file_ = object;
    return TERN_LIKELY(object) || bad_handle(handle, argument);
  }
  bool get(MPI_Win handle, Window*& object, const char* argument) {
    object = handles().windows.find(value_of(handle));
    if (object) {
      blame(object);
      if (world_.threads) [[unlikely]]
        visit(*object);
    }
    return TERN_LIKELY(object) || bad_handle(handle, argument);
  }
  /// Of functions that read (enter_reading).
  bool get_unlocked(MPI_Comm handle, Communicator*& object, const char* argument) {
    object = handles().comms.find_unlocked(value_of(handle));
    if (!comm_) comm_ = object;
    return TERN_LIKELY(object) || bad_handle(handle, argument);
  }
  bool get_unlocked(MPI_Datatype handle, Datatype*& object, const char* argument) {
    object = world_.find_type_unlocked(value_of(handle));
    return TERN_LIKELY(object) || bad_handle(handle, argument);
  }
  bool get_unlocked(MPI_Group handle, Group*& object, const char* argument) {
    object = handles().groups.find_unlocked(value_of(handle));
    if (!session_ && object && object->session != 0)
      session_ = handles().sessions.find_unlocked(uintptr_t(object->session));
    if (object && checks()) [[unlikely]]
      check_session(*object);
    return TERN_LIKELY(object) || bad_handle(handle, argument);
  }
  bool get_unlocked(MPI_Request handle, Request*& object, const char* argument) {
    object = handles().requests.find_unlocked(value_of(handle));
    return TERN_LIKELY(object) || bad_handle(handle, argument);
  }
  bool get_or_null_unlocked(MPI_Request handle, Request*& object, const char* argument) {
    return handle == MPI_REQUEST_NULL || get_unlocked(handle, object, argument);
  }
  bool get_or_null(MPI_File handle, File*& object, const char* argument) {
    return handle == MPI_FILE_NULL || get(handle, object, argument);
  }
  bool get_or_null(MPI_Win handle, Window*& object, const char* argument) {
    return handle == MPI_WIN_NULL || get(handle, object, argument);
  }
  bool get_or_null(MPI_Comm handle, Communicator*& object, const char* argument) {
    return handle == MPI_COMM_NULL || get(handle, object, argument);
  }
  bool get_or_null(MPI_Datatype handle, Datatype*& object, const char* argument) {
    return handle == MPI_DATATYPE_NULL || get(handle, object, argument);
  }
  bool get_or_null(MPI_Info handle, Info*& object, const char* argument) {
    return handle == MPI_INFO_NULL || get(handle, object, argument);
  }
  bool get_or_null(MPI_Request handle, Request*& object, const char* argument) {
    return handle == MPI_REQUEST_NULL || get(handle, object, argument);
  }
  /// Null without an error when the handle is none.
  Communicator* find(MPI_Comm handle) { return handles().comms.find(value_of(handle)); }
  Group* find(MPI_Group handle) { return handles().groups.find(value_of(handle)); }
  /// No request is predefined.
  Request* find(MPI_Request handle) {
    Request* request = handles().requests.find_user(value_of(handle));
    return TERN_LIKELY(request) ? request : find_in_engine(handle);
  }
  /// The request of a handle will be touched by calls that do not name it.
  [[gnu::cold]] void keep_from_short_calls(MPI_Request handle);
  Datatype* find(MPI_Datatype handle) { return world_.find_type(value_of(handle)); }
  Keyval* find_keyval(int keyval) { return handles().keyvals.find(static_cast<unsigned>(keyval)); }

  // --- Objects to handles. `give` takes over one reference; null gives the null handle.
  void give(MPI_Comm* handle, Communicator* object) {
    if (object && !object->made_by) note_origin(*object, name_);
    *handle = given(handles().comms, object, MPI_COMM_NULL);
  }
  void give(MPI_Group* handle, Group* object) { *handle = given(handles().groups, object, MPI_GROUP_NULL); }
  void give(MPI_Datatype* handle, Datatype* object) { *handle = given(handles().types, object, MPI_DATATYPE_NULL); }
  void give(MPI_Op* handle, Op* object) { *handle = given(handles().ops, object, MPI_OP_NULL); }
  void give(MPI_Info* handle, Info* object) { *handle = given(handles().infos, object, MPI_INFO_NULL); }
  void give(MPI_Session* handle, Session* object) { *handle = given(handles().sessions, object, MPI_SESSION_NULL); }
  void give(MPI_Message* handle, Message* object) { *handle = given(handles().messages, object, MPI_MESSAGE_NULL); }
  void give(MPI_File* handle, File* object) { *handle = given(handles().files, object, MPI_FILE_NULL); }
  void give(MPI_Win* handle, Window* object) {
    if (world_.engines) world_.engines->note_use();
    *handle = given(handles().windows, object, MPI_WIN_NULL);
  }
  void give(MPI_Errhandler* handle, ErrorHandler* object) {
    *handle = given(handles().error_handlers, object, MPI_ERRHANDLER_NULL);
  }
  /// A request in which an error may still be found also remembers its communicator, or file.
  [[gnu::always_inline]] void give(MPI_Request* handle, Request* object) {
    const bool over = object && object->complete() && !object->persistent() && !object->error;
    if (object && !over && !object->error_object) {
      if (comm_) {
        comm_->add_ref();
        object->error_object = comm_;
      } else if (object->kind() == Request::Kind::file) {
        file_->add_ref();
        object->error_object = file_;
      } else if (object->kind() == Request::Kind::window) {
        window_->add_ref();
        object->error_object = window_;
      }
    }
    *handle = handle_of(handles().requests, object, MPI_REQUEST_NULL);
    if ((state_ & (kTimed | kChecked | kVisits)) && object) [[unlikely]]
      made_observed(*object, handle);
  }
  /// After a body: a null object means that the handle dies. The object is not touched.
  void retire(MPI_Comm* handle, Communicator* object) { retired(handles().comms, handle, object, MPI_COMM_NULL); }
  void retire(MPI_Group* handle, Group* object) { retired(handles().groups, handle, object, MPI_GROUP_NULL); }
  void retire(MPI_Datatype* handle, Datatype* object) { retired(handles().types, handle, object, MPI_DATATYPE_NULL); }
  void retire(MPI_Op* handle, Op* object) { retired(handles().ops, handle, object, MPI_OP_NULL); }
  void retire(MPI_Info* handle, Info* object) { retired(handles().infos, handle, object, MPI_INFO_NULL); }
  void retire(MPI_Session* handle, Session* object) { retired(handles().sessions, handle, object, MPI_SESSION_NULL); }
  void retire(MPI_Message* handle, Message* object) { retired(handles().messages, handle, object, MPI_MESSAGE_NULL); }
  void retire(MPI_File* handle, File* object) { retired(handles().files, handle, object, MPI_FILE_NULL); }
  void retire(MPI_Win* handle, Window* object) { retired(handles().windows, handle, object, MPI_WIN_NULL); }
  void retire(MPI_Errhandler* handle, ErrorHandler* object) {
    retired(handles().error_handlers, handle, object, MPI_ERRHANDLER_NULL);
  }
  void retire(MPI_Request* handle, Request* object) {
    if (object) return;
    if (!handles().requests.try_retire(value_of(*handle))) [[unlikely]]
      retire_in_engine(*handle);
    *handle = MPI_REQUEST_NULL;
  }

  /// The request of a handle, to be finished: the handle dies unless the request is persistent. Null: none.
  Request* take(MPI_Request* handle) {
    Request* request =
        handles().requests.take_user(value_of(*handle), [](const Request& r) { return !r.persistent(); });
    if (!request) [[unlikely]]
      return take_from_engine(handle);
    if (!request->persistent()) *handle = MPI_REQUEST_NULL;
    return request;
  }

  // --- Values.
  bool not_null(const void* pointer, const char* argument) { return TERN_LIKELY(pointer) || null_pointer(argument); }
  bool count(Count count, const char* argument) { return TERN_LIKELY(count >= 0) || negative(count, argument); }
  bool committed(const Datatype& type, const char* argument) {
    return TERN_LIKELY(type.committed()) || uncommitted(type, argument);
  }
  bool dest(int rank, const Communicator& comm, const char* argument) {
    return TERN_LIKELY(static_cast<unsigned>(rank) < static_cast<unsigned>(comm.peer_group().size())) ||
           rank == kProcNull || bad_rank(rank, comm, argument, false);
  }
  bool source(int rank, const Communicator& comm, const char* argument) {
    return TERN_LIKELY(static_cast<unsigned>(rank) < static_cast<unsigned>(comm.peer_group().size())) ||
           rank == kProcNull || rank == kAnySource || bad_rank(rank, comm, argument, true);
  }
  bool tag(int tag, const char* argument) { return TERN_LIKELY(tag >= 0) || bad_tag(tag, argument, false); }
  bool any_tag(int tag, const char* argument) {
    return TERN_LIKELY(tag >= 0) || (tag == kAnyTag && !comm_->is_spread_by_tag()) || bad_tag(tag, argument, true);
  }
  bool root(int root, const Communicator& comm, const char* argument);
  bool role(int root, const Communicator& comm, Role& role);
  /// Addresses 0 to 2 are MPI_BOTTOM (and null), MPI_IN_PLACE and MPI_BUFFER_AUTOMATIC.
  bool buffer(const void* buffer, Count count, const Datatype& type, const char* argument) {
    return TERN_LIKELY(value_of(buffer) > 2) || odd_buffer(buffer, count, type, argument);
  }
  bool no_place(const void* buffer, const char* argument) {
    return TERN_LIKELY(buffer != MPI_IN_PLACE) || in_place_allowed(false, argument);
  }
  bool in_place_allowed(bool allowed, const char* argument);
  bool array(const void* array, Count n, const char* argument) {
    return TERN_LIKELY(array || n == 0) || null_pointer(argument);
  }
  bool counts(const int* counts, Count n, const char* argument);
  bool counts(const MPI_Count* counts, Count n, const char* argument);
  bool types(const MPI_Datatype* types, Count n, const char* argument);
  bool committed_types(const MPI_Datatype* types, Count n, const char* argument);
  bool op_applies(const Op& op, const Datatype& type, const char* argument) {
    return TERN_LIKELY(op.valid_for(type)) || refuse_op(op, type, argument);
  }
  /// Accumulates take predefined operators only (12.3.4).
  bool op_accumulates(const Op& op, const char* argument) {
    return TERN_LIKELY(op.is_predefined()) || refuse_user_op(argument);
  }

  /// Before a communicator is freed: sends what is in its attached buffer.
  bool drop_buffer(Communicator& comm) { return TERN_LIKELY(world_.buffers.comms.empty()) || flush_and_drop(comm); }

  // --- Getting out with an error: tells the error handler, returns the class.
  [[gnu::cold]] int fail();
  [[gnu::cold]] int fail(Error error);
  /// Only remembers the text and returns the class.
  [[gnu::cold]] int fail_quietly(Error error);
  /// As fail_quietly, for functions of the tools interface, whose invalid arguments have a code of their own (15.3.10).
  [[gnu::cold]] int fail_tool();
  [[gnu::cold]] int fail_tool(Error error);
  /// In a handler of exceptions: those of the library (memory, threads) become errors; others, of the program's own
  /// functions, go on. Where there is no memory for an error either, its class alone is returned.
  [[gnu::cold]] int fail_caught();
  [[gnu::cold]] int fail_tool_caught();

 private:
  template <typename Table, typename Object, typename Handle>
  static Handle handle_of(Table& table, Object* object, Handle null) {
    return object ? reinterpret_cast<Handle>(table.give(object)) : null;
  }
  template <typename Table, typename Object, typename Handle>
  Handle given(Table& table, Object* object, Handle null) {
    const Handle handle = handle_of(table, object, null);
    if (checks() && object) [[unlikely]]
      made_handle(&table, value_of(handle));
    return handle;
  }
  template <typename Table, typename Object, typename Handle>
  static void retired(Table& table, Handle* handle, Object* object, Handle null) {
    if (object) return;
    table.retire(value_of(*handle));
    *handle = null;
  }
  void lock() {
    world_.lock->acquire();
    state_ |= kLocked;
  }
  /// A call that has got in without the lock takes it, to tell an error.
  [[gnu::cold]] void lock_to_tell();
  /// Keeps an error for fail().
  [[gnu::cold]] bool refuse(ErrorClass error_class, std::string text);
  [[gnu::cold]] bool refuse_op(const Op& op, const Datatype& type, const char* argument);
  [[gnu::cold]] bool refuse_user_op(const char* argument);
  [[gnu::cold]] bool flush_and_drop(Communicator& comm);
  [[gnu::cold]] bool not_running();
  [[gnu::cold]] bool tools_not_ready();
  [[gnu::cold]] bool bad_handle(MPI_Comm handle, const char* argument);
  [[gnu::cold]] bool bad_handle(MPI_Datatype handle, const char* argument);
  [[gnu::cold]] bool bad_handle(MPI_Op handle, const char* argument);
  [[gnu::cold]] bool bad_handle(MPI_Request handle, const char* argument);
  [[gnu::cold]] bool bad_handle(MPI_Session handle, const char* argument);
  [[gnu::cold]] bool bad_handle(MPI_Group handle, const char* argument);
  [[gnu::cold]] bool bad_handle(MPI_Info handle, const char* argument);
  [[gnu::cold]] bool bad_handle(MPI_Errhandler handle, const char* argument);
  [[gnu::cold]] bool bad_handle(MPI_Message handle, const char* argument);
  [[gnu::cold]] bool bad_handle(MPI_File handle, const char* argument);
  [[gnu::cold]] bool bad_handle(MPI_Win handle, const char* argument);
  [[gnu::cold]] bool type_for_null_process(int peer, MPI_Datatype handle, Datatype*& object);
  [[gnu::cold]] bool null_pointer(const char* argument);
  [[gnu::cold]] bool negative(Count count, const char* argument);
  [[gnu::cold]] bool uncommitted(const Datatype& type, const char* argument);
  [[gnu::cold]] bool bad_rank(int rank, const Communicator& comm, const char* argument, bool source);
  [[gnu::cold]] bool bad_tag(int tag, const char* argument, bool any);
  [[gnu::cold]] bool odd_buffer(const void* buffer, Count count, const Datatype& type, const char* argument);

  /// This call has the rank's lock and uses the engine, until its end. `is_short`: as EngineGate.
  void visit(Engine& engine, bool is_short);
  [[gnu::noinline]] Request* find_in_engine(MPI_Request handle);
  [[gnu::noinline]] Request* take_from_engine(MPI_Request* handle);
  [[gnu::noinline]] void retire_in_engine(MPI_Request handle);
  [[gnu::noinline]] void give_to_engine(Request& request, MPI_Request* handle);
  /// All engines of its messages: the call may name any tag.
  [[gnu::noinline]] void visit_all(const Communicator& comm);
  [[gnu::noinline]] void enter_to_visit(MPI_Comm handle, int tag);
  void end_visits();
  /// This call has the rank's lock and uses the window, until its end (rma/window_gate.h).
  [[gnu::noinline]] void visit(Window& window);
  void end_window_visit();
  [[gnu::cold]] void begin_observed(uintptr_t from);
  [[gnu::cold]] void made_observed(Request& request, MPI_Request* handle);
  [[gnu::cold]] void made_handle(const void* table, uintptr_t handle) const;
  [[gnu::cold]] void begin_record();
  [[gnu::cold]] void enter_observed(bool any_time);
  /// Undoes what `state_` records.
  void leave();

  [[gnu::cold]] static Error caught();
  /// Calls the error handler; returns the class, or its replacement.
  [[gnu::cold]] int tell(int error_class, const std::string& text);
  [[gnu::cold]] int returned(int error_class, int left_by_handler) const;

  /// Fields that only failing calls use.
  struct Trouble {
    Error error;
    int returned = 0;  ///< instead of the error's class; 0: that
    Ref<Communicator> kept;
    Ref<File> kept_file;
    Ref<Window> kept_window;
  };
  [[gnu::cold]] Trouble& trouble();

  enum State : uint16_t {
    kEntered = 1,          ///< through the rank's lock
    kLocked = 2,           ///< the rank's lock, which this call holds
    kTimed = 4,            ///< began_ns_ is set
    kRecorded = 8,         ///< and the recorder knows that it has got in
    kTrouble = 16,         ///< trouble_ is set
    kAboutFiles = 32,      ///< file_ is set
    kAboutWindow = 64,     ///< window_ is set
    kChecked = 128,        ///< World::checks knows that it has got in
    kTold = 256,           ///< World::observer knows that it has begun
    kListened = 512,       ///< events were listened to when it began: some may await its end
    kVisits = 1024,        ///< engines_ is set
    kDone = 2048,          ///< a short call has done all
    kVisitsWindow = 4096,  ///< window_ is visited
  };

  World& world_;
  const char* name_;
  uint16_t function_;
  uint16_t state_ = 0;            ///< of State
  Communicator* comm_ = nullptr;  ///< the object whose error handler is called
  Session* session_ = nullptr;
  File* file_;        ///< whose error handler is called; null: the default one of files
  Window* window_;    ///< whose error handler is called
  uint32_t engines_;  ///< a bit for each message engine that it visits
  uint64_t began_ns_;
  uintptr_t from_;    ///< with kTimed: the return address of the entry point
  Trouble* trouble_;  ///< owned
};

/// The array of datatypes of MPI_Alltoallw and MPI_Type_create_struct; checked before.
class TypeArray {
 public:
  TypeArray(Call& call, const MPI_Datatype* handles) : world_(&call.world()), handles_(handles) {}
  Datatype& operator[](size_t i) const { return *world_->find_type(value_of(handles_[i])); }
  bool null() const { return handles_ == nullptr; }

 private:
  World* world_;
  const MPI_Datatype* handles_;
};

inline bool in_place(const void* buffer) { return buffer == MPI_IN_PLACE; }
/// How many blocks the arrays of a collective describe.
inline int peer_count(const Communicator& comm) { return comm.peer_group().size(); }
/// Neighbours in the communicator's topology; 0 without one.
int incoming(const Communicator& comm);
int outgoing(const Communicator& comm);

/// The name of a communicator for messages: 'MPI_COMM_WORLD', or the user's name for it.
std::string describe(const Communicator& comm);

// --- Statuses.
/// Writes all fields but MPI_ERROR; null (MPI_STATUS_IGNORE) is passed over.
void put_status(MPI_Status* to, const Status& from);
Status get_status(const MPI_Status& from);
/// Bytes and cancelled sit in MPI_internal: words 0 and 1 the bytes, word 2 the flag.
Count status_bytes(const MPI_Status& status);
void set_status_bytes(MPI_Status& status, Count bytes);

// --- Handles outside of a call, for callbacks: of objects that have one.
inline MPI_Comm handle_of(const Communicator& comm) { return reinterpret_cast<MPI_Comm>(intptr_t{comm.handle}); }
inline MPI_Datatype handle_of(const Datatype& type) { return reinterpret_cast<MPI_Datatype>(intptr_t{type.handle}); }

/// Lends a handle to a datatype that has none while a user's callback sees it.
class LentType {
 public:
  LentType(World& world, Datatype& type);
  ~LentType();
  MPI_Datatype handle;

 private:
  World& world_;
  bool lent_;
};

/// A handle and its number (MPI_X_toint, MPI_X_fromint).
template <typename To, typename From>
To handle_cast(From from) {
  if constexpr (std::is_pointer_v<From>) {
    return static_cast<To>(reinterpret_cast<intptr_t>(from));
  } else {
    return reinterpret_cast<To>(static_cast<intptr_t>(from));
  }
}

}  // namespace tern::capi
