// How a rank's C API starts, ends, and gives up. Source: MPI 5.0 chapters 9.3, 11.2-11.4.
#include "capi/world.h"

#include <pthread.h>
#include <strings.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>

#include "base/fatal.h"
#include "base/limits.h"
#include "capi/call.h"
#include "capi/call_site.h"
#include "capi/checks.h"
#include "capi/continuations.h"
#include "capi/crash_report.h"
#include "capi/debug_view.h"
#include "capi/leftovers.h"
#include "capi/questions.h"
#include "coll/difference.h"
#include "fmt/format.h"
#include "names.gen.h"
#include "process/compare_clocks.h"
#include "process/launch/start_info.h"

namespace tern::capi {

namespace {

/// Ends the process if even this much memory is missing. With less, std::bad_alloc cannot be thrown, either: the C++
/// library could not reserve the room for it (73 KiB, when it was loaded), and ends in std::terminate.
void require_memory_for_errors() {
  constexpr size_t kMin = 256 << 10;  // those 73 KiB, and the library's own first allocations
  void* memory = std::malloc(kMin);
  if (!memory) end_without_memory("the MPI library is loaded");
  std::free(memory);
}

/// Never destroyed: user code may call MPI_Finalized from its own destructors.
World& process_world() {
  static World* world = [] {
    require_memory_for_errors();
    auto* made = new World;
    made->set_initial_handler();
    made->record_if_asked();
    return made;
  }();
  return *world;
}

/// Ends a Process that was kept for sessions to come. A forked child that exits leaves it alone: the connections are
/// its parent's.
void leave_at_exit() {
  World& world = process_world();
  if (!world.process || world.is_running() || getpid() != world.models.process_id) return;
  world.lock->enter();  // the event thread is still there
  Error error = world.leave();
  world.lock->leave();
  if (error) std::fprintf(stderr, "[tern] at exit: %s\n", std::string(error.text()).c_str());
}

/// In a child that a rank has forked: it has one thread, so no lock is needed, and one that another thread held stays
/// locked. Questions that need no other rank are still answered.
void become_forked_child() {
  World& world = process_world();
  world.forked = true;
  world.locking = world.threads = world.observed = false;
}

/// After the exit handlers of the program, one of which may call MPI_Finalize. Our mpiexec says so itself, with the
/// exit code.
[[gnu::destructor]] void tell_of_missing_finalize() {
  const World& world = process_world();
  if (world.models.stage != World::Stage::initialised || !world.process || getpid() != world.models.process_id) return;
  const char* const job = secure_getenv("TERN_JOB_ID");
  if (job && job == world.process->launcher().job_id()) return;
  std::fprintf(stderr, "[tern rank %d] the program ends without MPI_Finalize\n", world.rank());
}

}  // namespace

World* current_world = &process_world();

bool World::simulated() const { return this != &process_world(); }

World::World() : lock(std::make_shared<Driving>()) {
  host.connect = connect_process;
  handles.error_handlers.set_predefined(value_of(MPI_ERRORS_ARE_FATAL), &handlers.fatal);
  handles.error_handlers.set_predefined(value_of(MPI_ERRORS_ABORT), &handlers.abort);
  handles.error_handlers.set_predefined(value_of(MPI_ERRORS_RETURN), &handlers.errors_return);
  handles.messages.set_predefined(value_of(MPI_MESSAGE_NO_PROC), &predefined.no_proc);
}

World::~World() = default;

void World::set_initial_handler() {
  const StartInfo info = start_info();
  const std::string* name = find_key(info, "mpi_initial_errhandler");
  if (!name) return;
  if (strcasecmp(name->c_str(), "mpi_errors_return") == 0) handlers.initial = &handlers.errors_return;
  if (strcasecmp(name->c_str(), "mpi_errors_abort") == 0) handlers.initial = &handlers.abort;
}

// A variable of mpiexec's own: the folder for records, and how many bytes of events each rank may write (0: totals
// only).
void World::record_if_asked() {
  const char* folder = secure_getenv("TERN_RECORD");
  if (!folder || !*folder) return;
  const char* room = secure_getenv("TERN_RECORD_EVENTS");
  Error error;
  recorder = Recorder::create(folder, room ? std::strtoull(room, nullptr, 10) : 0, function_names(), error);
  if (recorder) {
    observed = true;
    counts.rank = &recorder->counters();
  } else {
    std::fprintf(stderr, "[tern] %s\n", std::string(error.text()).c_str());
  }
}

// Without it the rank is not seen by mpiexec --top, which is no reason to say anything.
void World::show_to_top() {
  if (recorder || counts.page) return;  // a record has the counters
  const int file = memfd_create(RankPage::kName, MFD_CLOEXEC);
  if (file < 0) return;
  void* mapped = MAP_FAILED;
  if (resize_file(file, sizeof(RankPage)) == 0)
    mapped = mmap(nullptr, sizeof(RankPage), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (mapped == MAP_FAILED) {
    close(file);
    return;
  }
  counts.page = new (mapped) RankPage{};  // until the process ends, as the descriptor
  counts.page->bytes = sizeof(RankPage);
  counts.page->process = getpid();
  counts.page->rank = counts.page->size = -1;
  gethostname(counts.page->host, sizeof counts.page->host - 1);
  counts.page->counters = *counts.rank;
  counts.rank = &counts.page->counters;
  std::memcpy(counts.page->magic, RankPage::kMagic, sizeof counts.page->magic);
}

// TERN_CHECK: 1 or 2, see Checks.
static bool wants_checks() {
  const char* wish = secure_getenv("TERN_CHECK");
  return wish && *wish != '\0' && std::string_view(wish) != "0";
}

void World::check_if_asked() {
  if (!wants_checks()) return;
  const char* wish = secure_getenv("TERN_CHECK");
  checks = std::make_unique<Checks>(*this, std::string_view(wish) == "2");
  observed = true;
  // The first place takes long, since debug information is read. Later, threads would go on meanwhile.
  static_cast<void>(checks->place());
}

// Also called by those who have not taken the lock.
Datatype* World::find_predefined_type(uintptr_t handle) {
  struct Inside {
    explicit Inside(World& its_world) : world(its_world) {
      if (world.locking) world.lock->enter();
    }
    ~Inside() {
      if (world.locking) world.lock->leave();
    }
    World& world;
  } inside(*this);
  Datatype* type = predefined.types.find(static_cast<int>(handle));
  if (type) handles.types.set_predefined(handle, type);
  return type;
}

Op* World::find_predefined_op(uintptr_t handle) {
  Op* op = predefined.ops.find(static_cast<int>(handle));
  if (op) handles.ops.set_predefined(handle, op);
  return op;
}

Error World::start(int required_level) {
  if (!process) {
    Error error;
    if (!simulated()) show_to_top();
    process =
        host.connect(RankContext{lock, counts.rank, recorder && recorder->tracing() ? recorder.get() : nullptr,
                                 required_level == MPI_THREAD_MULTIPLE && !observed && !simulated() && !wants_checks(),
                                 tools.settings},
                     error);
    if (!process) return error;
    models.process_id = getpid();
    if (counts.page) {
      counts.page->rank = process->world_rank();
      counts.page->size = process->world_size();
    }
    if (recorder) {
      recorder->header().rank = process->world_rank();
      recorder->header().size = process->world_size();
      recorder->header().samples[0] = compare_clocks(*process, Recorder::clock_domain());
    }
    checking = process->tunables().check_arguments != 0;
    check_if_asked();
    process->hang_watch().set_call(&call_name);
    process->p2p().report().name_contexts([this](uint64_t context) {
      std::string name;
      handles.comms.for_each([&](const Communicator& comm) {
        if (comm.context() >> 2 == context >> 2) name = report_name(comm);
      });
      return name;
    });
    if (this == &process_world()) {
      show_to_debuggers(*this);
      begin_to_answer(*this);
      begin_to_report_crashes(process->world_rank(), process->launcher().report_descriptor());
      static const int registered = pthread_atfork(nullptr, nullptr, become_forked_child);
      (void)registered;
    }
    predefined.empty_group = Group::empty(static_cast<PeerId>(process->world_rank()));
    handles.groups.set_predefined(value_of(MPI_GROUP_EMPTY), predefined.empty_group.get());
  }
  if (models.sessions_used && this == &process_world()) {
    static const int registered = std::atexit(leave_at_exit);
    (void)registered;
  }
  if (required_level > models.thread_level) models.thread_level = required_level;
  if (models.thread_level == MPI_THREAD_MULTIPLE && !lock->enabled()) {
    process->helper().end();
    lock->enable();
  }
  if (lock->enabled()) make_engines();
  process->helper().begin();
  note_lock();
  running.fetch_add(1, std::memory_order_relaxed);
  return {};
}

// Written once: other threads read it without the lock.
void World::note_lock() {
  if (!threads && lock->enabled()) threads = true;
  if (!locking && (threads || process->helper().is_there())) locking = true;
}

// Records, checks and listeners want to know of every call: they keep all calls under the rank's lock.
void World::make_engines() {
  const bool unasked = simulated() && process->tunables().engines <= 0;
  if (engines || unasked || (observed && !process->has_engine_memory())) return;
  if (!counts.page && !counts.engines) counts.engines = std::make_unique<Counters[]>(Engines::kMost);
  static_assert(RankPage::kEngines == Engines::kMost);
  if (!handles.requests.leave_room_for_parts()) return;
  engines = process->make_engines(counts.page ? counts.page->engines : counts.engines.get());
  if (engines && observed) engines->retire();
  for (uint32_t i = uint32_t(handles.engine_requests.size()); engines && i < engines->count(); ++i)
    handles.engine_requests.push_back(std::make_unique<Handles::EngineRequests>(i + 1));
  if (engines && this == &process_world()) show_engines_to_debuggers(*this);
}

Engine* World::engine_of(MPI_Request handle) const {
  const uint32_t part = Handles::EngineRequests::part_of(reinterpret_cast<uintptr_t>(handle));
  Engines* all = part != 0 && process ? process->engines() : nullptr;
  return all && part <= all->count() ? &(*all)[part - 1] : nullptr;
}

Request* World::find_request(uintptr_t handle) {
  if (Request* request = handles.requests.find_user(handle)) return request;
  const Engine* engine = engine_of(reinterpret_cast<MPI_Request>(handle));
  return engine ? requests_of(*engine).find_user(handle) : nullptr;
}

Communicator* World::comm_of(const Request& request) {
  const Engine* engine = engine_of(request);
  const uint64_t context = engine ? engine->p2p.context_of(request) : 0;
  Communicator* found = nullptr;
  if (context != 0) {
    handles.comms.for_each([&](Communicator& comm) {
      if (comm.context() == context) found = &comm;
    });
  }
  return found;
}

const Counters& World::counted() {
  counts.sum = Counters();
  if (process && process->engines()) {
    process->engines()->close();
    process->close_window_gates();
    process->engines()->add_counters(counts.sum);
  }
  add_counters(counts.sum, *counts.rank);
  return counts.sum;
}

Error World::stop() {
  running.fetch_sub(1, std::memory_order_relaxed);
  if (is_running()) return {};
  if (!models.sessions_used) return leave();
  // A later MPI_Session_init uses this Process again; it ends at exit. Messages that wait leave now.
  process->progress().wait_until([&] { return process->p2p().quiet(); });
  return {};
}

Error World::leave() {
  if (!process) return {};
  handles.groups.set_predefined(value_of(MPI_GROUP_EMPTY), nullptr);
  predefined.empty_group.reset();
  if (recorder) recorder->finish();
  if (recorder) recorder->header().samples[1] = compare_clocks(*process, Recorder::clock_domain());
  Error error = process->finish();
  if (!error && !checks) tell_of_messages(*this);
  if (this == &process_world()) {
    hide_from_debuggers();
    end_answers();
    end_of_mpiexec();
  }
  observed = recorder || host.observer || tools.events;
  if (process->engines()) {
    // The counts remain.
    process->engines()->add_counters(*counts.rank);
    std::fill_n(counts.page ? counts.page->engines : counts.engines.get(), Engines::kMost, Counters());
  }
  engines = nullptr;
  process.reset();
  continuations.reset();
  checks.reset();  // the process refers to it until its end
  if (recorder && !error) recorder->header().finished = 1;
  return error;
}

// When a rank has ended, its neighbours find out before the launcher does. What they say is a consequence: the launcher
// has this time to see the cause, and to end them.
void let_launcher_see_the_cause(int error_class) {
  constexpr useconds_t kCauseFirst_us = 300'000;  // a process is seen to end some ms after its connections close
  if (error_class == int(ErrorClass::proc_aborted)) usleep(kCauseFirst_us);
}

// The action of the predefined handlers. False: it is a user's handler.
bool World::raise_predefined(const ErrorHandler& handler, int error_class, const std::string& text) {
  if (handler.kind() == ErrorHandler::Kind::fatal || handler.kind() == ErrorHandler::Kind::abort) {
    let_launcher_see_the_cause(error_class);
    if (this == &process_world() && text.find(kDifferentCollectives) != std::string::npos) tell_of_difference();
  }
  switch (handler.kind()) {
    case ErrorHandler::Kind::errors_return: return true;
    case ErrorHandler::Kind::fatal:
      abort_job(error_class, text, "\nThe error handler is MPI_ERRORS_ARE_FATAL: the job ends.");
    case ErrorHandler::Kind::abort:
      abort_job(error_class, text, "\nThe error handler is MPI_ERRORS_ABORT: the job ends.");
    default: return false;
  }
}

int World::raise(int error_class, const std::string& text, Communicator* comm, Session* session) {
  ErrorHandler& handler = comm ? handler_of(*comm) : session ? *session->error_handler : *handlers.initial;
  // The user's function may replace the handler or free the object.
  Ref<ErrorHandler> kept = Ref<ErrorHandler>::share(&handler);
  if (raise_predefined(handler, error_class, text)) return error_class;
  if (handler.kind() == ErrorHandler::Kind::communicator) {
    MPI_Comm handle = comm ? handle_of(*comm) : MPI_COMM_NULL;
    handler.comm(&handle, &error_class, text.c_str());
  } else if (handler.kind() == ErrorHandler::Kind::session) {
    auto handle = reinterpret_cast<MPI_Session>(intptr_t{session ? session->handle : 0});
    handler.session(&handle, &error_class, text.c_str());
  }
  return error_class;
}

int World::raise(int error_class, const std::string& text, File* file) {
  ErrorHandler& handler = file ? *file->error_handler : *handlers.of_files;
  Ref<ErrorHandler> kept = Ref<ErrorHandler>::share(&handler);
  if (raise_predefined(handler, error_class, text)) return error_class;
  MPI_File handle = file ? reinterpret_cast<MPI_File>(intptr_t{file->handle}) : MPI_FILE_NULL;
  handler.file(&handle, &error_class, text.c_str());
  return error_class;
}

int World::raise(int error_class, const std::string& text, Window& window) {
  ErrorHandler& handler = *window.error_handler;
  Ref<ErrorHandler> kept = Ref<ErrorHandler>::share(&handler);
  if (raise_predefined(handler, error_class, text)) return error_class;
  MPI_Win handle = reinterpret_cast<MPI_Win>(intptr_t{window.handle});
  handler.window(&handle, &error_class, text.c_str());
  return error_class;
}

// Where the program called MPI: "\nCalled at main (a.c:7)."; nothing if `text` says it already.
std::string place_of_fault(std::string_view text) {
  char place[200];
  if (!call_sites().describe(walk_stack(), false, place, sizeof place) || place[0] == '\0') return {};
  return text.find(place) != std::string_view::npos ? std::string() : fmt::format("\nCalled at {}.", place);
}

void World::abort_job(int code, std::string_view text, const char* why) {
  try {
    std::string message = rank() >= 0 ? "[tern rank " + std::to_string(rank()) + "] " : "[tern] ";
    message.append(text);
    if (this == &process_world()) {
      tell_of_failure();
      message.append(place_of_fault(text));
    }
    message.append(why);
    tern_fatal_error(message.c_str());
    if (process) process->launcher().abort(code, message);
    std::fprintf(stderr, "%s\n", message.c_str());
  } catch (const std::bad_alloc&) {
    end_without_memory(call_name ? call_name : "abort");
  }
  std::fflush(nullptr);
  _exit(code == 0 ? 1 : code & 0xff ? code & 0xff : 1);
}

LentType::LentType(World& world, Datatype& type) : world_(world), lent_(false) {
  if (type.is_named()) {
    world.find_type(static_cast<uintptr_t>(type.predefined_id()));
    handle = handle_of(type);
    return;
  }
  lent_ = true;
  handle = reinterpret_cast<MPI_Datatype>(world.handles.types.give(&type));
}

LentType::~LentType() {
  if (lent_) world_.handles.types.retire(value_of(handle));
}

}  // namespace tern::capi
