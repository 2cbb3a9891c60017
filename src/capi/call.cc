// The messages of failed checks, and how an error leaves the library. Everything here is off the fast path.
// Source: MPI 5.0 section 9.3 (which error handler), 20.5 (handles). Thread rule: under the rank's lock.
#include "capi/call.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>
#include <stdexcept>
#include <system_error>

#include "base/limits.h"
#include "capi/call_site.h"
#include "capi/checks.h"
#include "capi/requests.h"
#include "capi/tool_events.h"
#include "fmt/format.h"
#include "names.gen.h"

namespace tern::capi {

namespace {

// "main (a.c:9)"; empty: unknown.
std::string place_of(uintptr_t address) {
  char place[200] = "";
  if (address != 0) call_sites().symbols().describe(address, false, place, sizeof place);
  return place;
}

// "0-3,8"; of any order.
std::string rank_ranges(std::vector<int> ranks) {
  constexpr size_t kMost = 8;  // pieces; further ones say little
  std::sort(ranks.begin(), ranks.end());
  std::string text;
  size_t pieces = 0;
  for (size_t i = 0; i < ranks.size(); ++i) {
    const size_t first = i;
    while (i + 1 < ranks.size() && ranks[i + 1] == ranks[i] + 1) ++i;
    if (++pieces > kMost) return text + ",...";
    text += (text.empty() ? "" : ",") + std::to_string(ranks[first]);
    if (i > first) text += "-" + std::to_string(ranks[i]);
  }
  return text;
}

/// Short enough for a string that allocates nothing.
constexpr const char* kNoMemory = "out of memory";

/// "NAME: problem (rank 2 in MPI_COMM_WORLD). Remedy."
std::string sentence(const World& world, const char* name, std::string_view text) {
  size_t stop = text.find(". ");
  bool remedy = stop != std::string_view::npos;
  std::string_view what = text.substr(0, stop), rest = remedy ? text.substr(stop) : std::string_view();
  if (!remedy && !what.empty() && what.back() == '.') what.remove_suffix(1);
  std::string where = world.rank() >= 0 ? fmt::format(" (rank {} in MPI_COMM_WORLD)", world.rank()) : "";
  return fmt::format("{}: {}{}{}", name, what, where, remedy ? rest : ".");
}

template <typename Table, typename Handle>
std::string handle_text(const Table& table, Handle handle, Handle null, const char* noun, const char* argument,
                        const char* gone = "freed") {
  uintptr_t value = value_of(handle);
  if (value == 0) {
    return fmt::format("argument '{}' is 0, which is never a handle. Was the variable initialised?", argument);
  }
  if (const char* name = handle_name(value); name && value < 4096) {
    if (handle == null) return fmt::format("argument '{}' is {}. Pass a valid {}.", argument, name, noun);
    if (value >= Table::kFirstPredefined && value <= Table::kLastPredefined) {
      return fmt::format(
          "argument '{}' is {}, which does not exist here (MPI_COMM_WORLD and MPI_COMM_SELF need MPI_Init)", argument,
          name);
    }
    return fmt::format("argument '{}' is {}, which is no {}", argument, name, noun);
  }
  if (table.was_freed(value)) {
    return fmt::format("argument '{}' is a {} that was {} (handle {:#x})", argument, noun, gone, value);
  }
  return fmt::format("argument '{}' is {:#x}, which is no {}. Was the variable initialised?", argument, value, noun);
}

}  // namespace

void Call::begin_observed(uintptr_t from) {
  if (world_.tools.events) state_ |= kListened;
  if (world_.host.observer) {
    world_.host.observer->call_begins(function_);
    state_ |= kTold;
  }
  if (!world_.recorder) return;
  began_ns_ = Recorder::now_ns();
  from_ = from;
  state_ |= kTimed;
}

void Call::made_observed(Request& request, MPI_Request* handle) {
  if (state_ & kVisits) give_to_engine(request, handle);
  if (timed()) record_request(*handle);
  Checks* const checks = this->checks();
  if (!checks) return;
  made_handle(&world_.handles.requests, value_of(*handle));
  checks->bind(request);
}

void Call::made_handle(const void* table, uintptr_t handle) const { world_.checks->given(table, handle); }

void Call::enter_observed(bool any_time) {
  if (state_ & kTimed) begin_record();
  if (!world_.checks) return;
  state_ |= kChecked;
  world_.checks->enter(name_, any_time);
}

// Calls of Fortran programs come through the bindings, whose caller is meant.
void Call::begin_record() {
  state_ |= kRecorded;
  uintptr_t from = from_;
  if (!world_.simulated() && world_.recorder->tracing() && call_sites().in_library(from)) {
    const CallStack stack = walk_stack();
    const size_t site = call_sites().first_outside(stack);
    from = site != 0 && site < stack.depth ? stack.frames[site] : 0;
  }
  world_.recorder->enter(function_, began_ns_, from);
}

void Call::record_arguments(CallArguments arguments, const Communicator* comm, const Datatype* type) {
  if (comm) {
    arguments.context = comm->context();
    arguments.given |= record::kComm;
  }
  if (type && (arguments.given & record::kCount)) {
    arguments.bytes = arguments.count * uint64_t(type->size());
    arguments.given |= record::kBytes;
  }
  world_.recorder->describe(arguments);
}

void Call::record_request(MPI_Request request) {
  if (request != MPI_REQUEST_NULL) world_.recorder->describe_request(uint32_t(value_of(request)));
}

void Call::check_session(const Group& group) {
  if (group.size() != 0) world_.checks->use_session(comm_ ? &comm_->from_session : nullptr, group.session);
}

void Call::leave() {
  if (state_ & kRecorded) world_.recorder->leave(function_, began_ns_);
  if (state_ & kVisitsWindow) end_window_visit();
  if (state_ & kTrouble) delete trouble_;
  if (Checks* checks = this->checks()) checks->leave();
  if (state_ & kVisits) end_visits();
  if (state_ & kEntered) world_.lock->leave();
  if (state_ & kLocked) world_.lock->release();
  if (state_ & kListened) deliver_events(world_);
  if (state_ & kTold) world_.host.observer->call_ends(function_);
}

Call::Trouble& Call::trouble() {
  if (!(state_ & kTrouble)) {
    trouble_ = new Trouble;
    state_ |= kTrouble;
  }
  return *trouble_;
}

void Call::lock_to_tell() {
  if ((state_ & (kLocked | kEntered)) || !world_.locking) return;
  if (!world_.is_running()) return lock();
  world_.lock->enter();
  state_ |= kEntered;
}

bool Call::refuse(ErrorClass error_class, std::string text) {
  trouble().error = Error(error_class, std::move(text));
  return false;
}

bool Call::not_running() {
  const char* why = world_.models.stage == World::Stage::finalized ? "called after MPI_Finalize. MPI_Finalize must "
                                                                     "be the last call, besides the few that are "
                                                                     "always allowed."
                                                                   : "called before MPI_Init. Call MPI_Init, "
                                                                     "MPI_Init_thread or MPI_Session_init first.";
  return refuse(ErrorClass::other, why);
}

bool Call::tools_not_ready() {
  trouble().error =
      Error(MPI_T_ERR_NOT_INITIALIZED, "the tools interface is not initialised. Call MPI_T_init_thread first");
  return false;
}

bool Call::bad_handle(MPI_Comm handle, const char* argument) {
  lock_to_tell();
  return refuse(ErrorClass::comm, handle_text(world_.handles.comms, handle, MPI_COMM_NULL, "communicator", argument));
}
bool Call::bad_handle(MPI_Datatype handle, const char* argument) {
  lock_to_tell();
  return refuse(ErrorClass::type, handle_text(world_.handles.types, handle, MPI_DATATYPE_NULL, "datatype", argument));
}
bool Call::bad_handle(MPI_Op handle, const char* argument) {
  return refuse(ErrorClass::op, handle_text(world_.handles.ops, handle, MPI_OP_NULL, "reduction operator", argument));
}
bool Call::bad_handle(MPI_Request handle, const char* argument) {
  lock_to_tell();
  return refuse(ErrorClass::request, handle_text(world_.handles.requests, handle, MPI_REQUEST_NULL, "request", argument,
                                                 "completed or freed before, perhaps by another thread"));
}
bool Call::bad_handle(MPI_Session handle, const char* argument) {
  return refuse(ErrorClass::session,
                handle_text(world_.handles.sessions, handle, MPI_SESSION_NULL, "session", argument));
}
bool Call::bad_handle(MPI_Group handle, const char* argument) {
  lock_to_tell();
  return refuse(ErrorClass::group, handle_text(world_.handles.groups, handle, MPI_GROUP_NULL, "group", argument));
}
bool Call::bad_handle(MPI_Info handle, const char* argument) {
  return refuse(ErrorClass::info, handle_text(world_.handles.infos, handle, MPI_INFO_NULL, "info object", argument));
}
bool Call::bad_handle(MPI_Errhandler handle, const char* argument) {
  return refuse(ErrorClass::errhandler,
                handle_text(world_.handles.error_handlers, handle, MPI_ERRHANDLER_NULL, "error handler", argument));
}
bool Call::bad_handle(MPI_Message handle, const char* argument) {
  return refuse(ErrorClass::request,
                handle_text(world_.handles.messages, handle, MPI_MESSAGE_NULL, "matched message", argument));
}

bool Call::bad_handle(MPI_File handle, const char* argument) {
  return refuse(ErrorClass::file, handle_text(world_.handles.files, handle, MPI_FILE_NULL, "file", argument));
}

bool Call::bad_handle(MPI_Win handle, const char* argument) {
  return refuse(ErrorClass::win, handle_text(world_.handles.windows, handle, MPI_WIN_NULL, "window", argument));
}

void Call::blame_last(Ref<Window> window) {
  Trouble& trouble = this->trouble();
  blame(window.get());
  trouble.kept_window = std::move(window);
}

// The event thread comes inside only when the application is out, which this call has not said if nobody helped so far.
void Call::help() {
  Process& process = *world_.process;
  if (!world_.locking && !(state_ & kLocked)) {
    world_.lock->enter();
    state_ |= kEntered;
  }
  process.helper().begin();
  world_.note_lock();  // a helper without membarrier has enabled the mutex
}

void Call::blame_last(Ref<File> file) {
  Trouble& trouble = this->trouble();
  state_ |= kAboutFiles;
  file_ = file.get();
  trouble.kept_file = std::move(file);
}

bool Call::type_for_null_process(int peer, MPI_Datatype handle, Datatype*& object) {
  if (peer != kProcNull || handle != MPI_DATATYPE_NULL) return false;
  object = &world_.predefined.types.get(type_id::kByte);
  return true;
}

bool Call::null_pointer(const char* argument) {
  return refuse(ErrorClass::arg,
                fmt::format("argument '{}' is a null pointer. Pass the address of a variable.", argument));
}

bool Call::negative(Count count, const char* argument) {
  return refuse(ErrorClass::count, fmt::format("argument '{}' is {}. A count cannot be negative.", argument, count));
}

bool Call::uncommitted(const Datatype& type, const char* argument) {
  std::string name = type.name().empty() ? "" : fmt::format(" ('{}')", type.name());
  return refuse(ErrorClass::type, fmt::format("argument '{}'{} is a datatype that is not committed. Call "
                                              "MPI_Type_commit before communicating.",
                                              argument, name));
}

bool Call::bad_rank(int rank, const Communicator& comm, const char* argument, bool source) {
  return refuse(ErrorClass::rank,
                fmt::format("argument '{}' is {}, but the {} {} has ranks 0..{}. Pass a rank in range{} or "
                            "MPI_PROC_NULL.",
                            argument, rank, comm.is_inter() ? "remote group of the communicator" : "communicator",
                            describe(comm), comm.peer_group().size() - 1, source ? ", MPI_ANY_SOURCE" : ""));
}

bool Call::bad_tag(int tag, const char* argument, bool any) {
  if (any && tag == kAnyTag)
    return refuse(ErrorClass::tag,
                  fmt::format("argument '{}' is MPI_ANY_TAG, but the communicator {} was made with the info key "
                              "mpi_assert_no_any_tag, and its messages are spread over message engines by their tags. "
                              "Name a tag, or make the communicator without that key.",
                              argument, describe(*comm_)));
  return refuse(ErrorClass::tag, fmt::format("argument '{}' is {}. Tags are 0..{} (MPI_TAG_UB){}.", argument, tag,
                                             PointToPoint::kTagUpperBound, any ? " or MPI_ANY_TAG" : ""));
}

bool Call::root(int root, const Communicator& comm, const char* argument) {
  if (!comm.is_inter()) {
    if (static_cast<unsigned>(root) < static_cast<unsigned>(comm.size())) return true;
    return refuse(ErrorClass::root, fmt::format("argument '{}' is {}, but the communicator {} has ranks "
                                                "0..{}. Pass a rank in range.",
                                                argument, root, describe(comm), comm.size() - 1));
  }
  if (root == MPI_ROOT || root == MPI_PROC_NULL) return true;
  if (static_cast<unsigned>(root) < static_cast<unsigned>(comm.remote_size())) return true;
  return refuse(ErrorClass::root, fmt::format("argument '{}' is {}, but the remote group of {} has ranks "
                                              "0..{}. In the root's group pass MPI_ROOT or "
                                              "MPI_PROC_NULL.",
                                              argument, root, describe(comm), comm.remote_size() - 1));
}

bool Call::role(int root, const Communicator& comm, Role& role) {
  role.inter = comm.is_inter();
  if (role.inter) {
    role.root = root == MPI_ROOT;
    role.leaf = root >= 0;
    role.takes_part = root != MPI_PROC_NULL;
  } else {
    role.root = root == comm.rank();
    role.leaf = role.takes_part = true;
  }
  return true;
}

bool Call::odd_buffer(const void* buffer, Count count, const Datatype& type, const char* argument) {
  if (buffer == MPI_BOTTOM) {
    // Absolute addresses are what MPI_BOTTOM is for; a type that starts at 0 would touch address 0.
    if (count == 0 || type.size() == 0 || type.true_lower_bound() != 0) return true;
    return refuse(ErrorClass::buffer, fmt::format("argument '{}' is a null pointer, but the count is {}. "
                                                  "Pass an address, or a datatype "
                                                  "with absolute addresses for MPI_BOTTOM.",
                                                  argument, count));
  }
  if (buffer == MPI_IN_PLACE) return in_place_allowed(false, argument);
  return refuse(ErrorClass::buffer, fmt::format("argument '{}' is MPI_BUFFER_AUTOMATIC, which only the "
                                                "functions that attach buffers take",
                                                argument));
}

bool Call::in_place_allowed(bool allowed, const char* argument) {
  if (allowed) return true;
  return refuse(ErrorClass::buffer, fmt::format("argument '{}' is MPI_IN_PLACE, which is not allowed for "
                                                "this argument here",
                                                argument));
}

template <typename T>
static std::string bad_element(const char* argument, Count i, T value) {
  return fmt::format("argument '{}'[{}] is {}. A count cannot be negative.", argument, i, value);
}

bool Call::counts(const int* counts, Count n, const char* argument) {
  if (!counts && n > 0) return null_pointer(argument);
  for (Count i = 0; i < n; ++i) {
    if (counts[i] < 0) return refuse(ErrorClass::count, bad_element(argument, i, counts[i]));
  }
  return true;
}

bool Call::counts(const MPI_Count* counts, Count n, const char* argument) {
  if (!counts && n > 0) return null_pointer(argument);
  for (Count i = 0; i < n; ++i) {
    if (counts[i] < 0) return refuse(ErrorClass::count, bad_element(argument, i, counts[i]));
  }
  return true;
}

bool Call::types(const MPI_Datatype* types, Count n, const char* argument) {
  if (!types && n > 0) return null_pointer(argument);
  for (Count i = 0; i < n; ++i) {
    if (TERN_LIKELY(find(types[i]))) continue;
    return bad_handle(types[i], fmt::format("{}[{}]", argument, i).c_str());
  }
  return true;
}

bool Call::committed_types(const MPI_Datatype* types, Count n, const char* argument) {
  if (!types && n > 0) return null_pointer(argument);
  for (Count i = 0; i < n; ++i) {
    const Datatype* type = find(types[i]);
    if (TERN_LIKELY(type && type->committed())) continue;
    const std::string element = fmt::format("{}[{}]", argument, i);
    return type ? committed(*type, element.c_str()) : bad_handle(types[i], element.c_str());
  }
  return true;
}

bool Call::refuse_op(const Op& op, const Datatype& type, const char* argument) {
  if (op.id() == OpId::replace || op.id() == OpId::no_op) {
    return refuse(ErrorClass::op,
                  fmt::format("argument '{}' is {}, which is for one-sided accumulates only", argument, op.name()));
  }
  std::string what = type.name().empty() ? std::string("a derived datatype") : "the datatype " + type.name();
  return refuse(ErrorClass::op, fmt::format("argument '{}' is {}, which is not defined for {}. See MPI 5.0, "
                                            "6.9.2, for the datatypes "
                                            "of each operator; derived datatypes need an operator of "
                                            "MPI_Op_create.",
                                            argument, op.name(), what));
}

bool Call::refuse_user_op(const char* argument) {
  return refuse(ErrorClass::op, fmt::format("argument '{}' is an operator of MPI_Op_create. One-sided accumulates take "
                                            "predefined operators only (MPI 5.0, 12.3.4)",
                                            argument));
}

int Call::fail() {
  TERN_ASSERT(trouble().error);
  return fail(std::move(trouble().error));
}

int Call::fail_quietly(Error error) {
  int error_class = error.error_class(), known = 0;
  if (world_.errors.class_of(error_class, known)) world_.errors.remember(known, sentence(world_, name_, error.text()));
  return error_class;
}

Error Call::caught() {
  try {
    throw;
  } catch (const std::bad_alloc&) {
    return Error(ErrorClass::no_mem, "memory has run out; " + errno_text(ENOMEM));
  } catch (const std::length_error&) {
    return Error(ErrorClass::no_mem, "more memory is needed than there can be: an argument is much too large");
  } catch (const std::system_error& error) {
    return Error(ErrorClass::other, errno_text(error.code().value()));
  }
}

int Call::fail_tool() { return fail_tool(std::move(trouble().error)); }

int Call::fail_tool(Error error) {
  const bool own = error.error_class() > MPI_T_ERR_CANNOT_INIT - 1;
  return fail_quietly(own ? std::move(error) : Error(MPI_T_ERR_INVALID, std::string(error.text())));
}

int Call::fail_caught() {
  Error error;
  try {
    error = caught();
  } catch (const std::bad_alloc&) {
    return tell(MPI_ERR_NO_MEM, kNoMemory);
  }
  return fail(std::move(error));
}

int Call::fail_tool_caught() {
  try {
    return fail_tool(caught());
  } catch (const std::bad_alloc&) {
    return MPI_T_ERR_MEMORY;
  }
}

int Call::fail(Error error) {
  lock_to_tell();
  std::string text;
  int error_class = error.error_class();
  try {
    text = sentence(world_, name_, error.text());
    error_class = fail_quietly(std::move(error));
  } catch (const std::bad_alloc&) {
    text = kNoMemory;
  }
  return tell(error_class, text);
}

// What the call returns: what a user's error handler has put in place of the code, else the call's own.
int Call::returned(int error_class, int left_by_handler) const {
  if (left_by_handler != error_class) return left_by_handler;
  return state_ & kTrouble && trouble_->returned ? trouble_->returned : error_class;
}

int Call::tell(int error_class, const std::string& text) {
  lock_to_tell();
  if (state_ & kAboutFiles) {
    return returned(error_class, world_.raise(error_class, text, file_));
  }
  if (state_ & kAboutWindow) {
    return returned(error_class, world_.raise(error_class, text, *window_));
  }
  // Nobody to ask: MPI_COMM_SELF's handler while the World Model runs, else the initial one (9.3). A program that has
  // set one on MPI_COMM_WORLD only follows the rule before MPI 4.0 and gets what it expects.
  if (!comm_ && !session_ && world_.process && world_.models.stage == World::Stage::initialised) {
    Process& process = *world_.process;
    comm_ = process.self().error_handler ? &process.self() : &process.world();
    if (!comm_->error_handler) comm_ = &process.self();
  }
  return returned(error_class, world_.raise(error_class, text, comm_, session_));
}

int incoming(const Communicator& comm) {
  if (!comm.topology) return 0;
  std::vector<int> in, out;
  comm.topology->neighbors(comm.rank(), in, out);
  return static_cast<int>(in.size());
}

int outgoing(const Communicator& comm) {
  if (!comm.topology) return 0;
  std::vector<int> in, out;
  comm.topology->neighbors(comm.rank(), in, out);
  return static_cast<int>(out.size());
}

std::string describe(const Communicator& comm) {
  if (!comm.name.empty()) return "'" + comm.name + "'";
  if (const char* name = handle_name(static_cast<uintptr_t>(comm.handle))) return fmt::format("'{}'", name);
  const std::string place = comm.made_by ? place_of(comm.made_at) : "";
  if (!place.empty()) return fmt::format("'{} at {}'", comm.made_by, place);
  return fmt::format("'{}'", comm.made_by ? comm.made_by : "unnamed");
}

std::string report_name(const Communicator& comm) {
  const char* predefined = handle_name(static_cast<uintptr_t>(comm.handle));
  if (predefined && (comm.name.empty() || comm.name == predefined)) return predefined;
  std::vector<int> members;
  for (int rank = 0; rank < comm.size(); ++rank) members.push_back(int(comm.group().peer(rank)));
  const std::string ranks = fmt::format("rank{} {}", members.size() == 1 ? "" : "s", rank_ranges(members));
  if (!comm.name.empty()) return fmt::format("'{}' ({})", comm.name, ranks);
  const std::string place = place_of(comm.made_at);
  return fmt::format("the communicator of {}{}{}{}{}", ranks, comm.made_by ? " that " : "",
                     comm.made_by ? fmt::format("{} made", comm.made_by) : "", place.empty() ? "" : " at ", place);
}

void note_origin(Communicator& comm, const char* function) {
  comm.made_by = function;
  if (current().simulated()) return;  // the program's code is a copy there, and a fiber's stack has no end to walk to
  const CallStack stack = walk_stack();
  const size_t site = call_sites().first_outside(stack);
  if (site != 0 && site < stack.depth) comm.made_at = stack.frames[site];
}

}  // namespace tern::capi
