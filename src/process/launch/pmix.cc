// PMIx (standard version 4), the client: Open MPI's mpirun, PRRTE, Slurm's pmix. The library is loaded only
// when the environment shows a PMIx server, so that Tern runs where PMIx is not installed. Its functions
// are used by their stable C interface; values are filled in by hand rather than through the header's
// macros, which would call further functions of the library.
//
// The library keeps a thread of its own; all calls here are blocking, but for the barrier's.
#include <dlfcn.h>
#include <fmt/format.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "process/launch/clients.h"
#include "process/launch/pmi_text.h"
#include "process/launch/spawn_command.h"

#ifdef TERN_HAVE_PMIX
#include <pmix.h>
#endif

namespace tern {

#ifdef TERN_HAVE_PMIX
namespace {

/// The functions of libpmix that are used. The library stays loaded for the life of the process: it has a
/// thread.
struct PmixLibrary {
  decltype(&PMIx_Init) init = nullptr;
  decltype(&PMIx_Finalize) finalize = nullptr;
  decltype(&PMIx_Put) put = nullptr;
  decltype(&PMIx_Commit) commit = nullptr;
  decltype(&PMIx_Fence) fence = nullptr;
  decltype(&PMIx_Fence_nb) begin_fence = nullptr;
  decltype(&PMIx_Get) get = nullptr;
  decltype(&PMIx_Abort) abort = nullptr;
  decltype(&PMIx_Error_string) error_string = nullptr;
  decltype(&PMIx_Spawn_nb) begin_spawn = nullptr;

  Error load();

 private:
  template <typename Function>
  static bool find(void* library, const char* name, Function& function) {
    function = reinterpret_cast<Function>(dlsym(library, name));
    return function != nullptr;
  }
};

Error PmixLibrary::load() {
  void* library = dlopen("libpmix.so.2", RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    return Error(
        ErrorClass::other,
        fmt::format("PMIX_NAMESPACE={} says that a PMIx launcher (Open MPI's mpirun, PRRTE or srun --mpi=pmix) "
                    "started this program, but its library cannot be loaded: {}. Install libpmix2 (Debian), or "
                    "start the program with Tern's mpiexec",
                    getenv("PMIX_NAMESPACE"), dlerror()));
  }
  if (!find(library, "PMIx_Init", init) || !find(library, "PMIx_Finalize", finalize) ||
      !find(library, "PMIx_Put", put) || !find(library, "PMIx_Commit", commit) || !find(library, "PMIx_Fence", fence) ||
      !find(library, "PMIx_Fence_nb", begin_fence) || !find(library, "PMIx_Get", get) ||
      !find(library, "PMIx_Abort", abort) || !find(library, "PMIx_Error_string", error_string) ||
      !find(library, "PMIx_Spawn_nb", begin_spawn)) {
    return Error(ErrorClass::other, fmt::format("libpmix.so.2 is not a PMIx library: {}", dlerror()));
  }
  return {};
}

pmix_proc_t proc_of(const pmix_proc_t& me, pmix_rank_t rank) {
  pmix_proc_t proc = me;
  proc.rank = rank;
  return proc;
}

/// Where a spawned program finds the size of its universe and the port of its parents: "<size>:<port>". Its name has
/// not the form of a tunable's.
constexpr const char kParentVariable[] = "MPIEXEC_TERN_PARENT";

/// The program's file, as this host has it; empty: it has none. (Open MPI's mpirun ends the whole job when it is to
/// start a program that does not exist; it knows no search path either.)
std::string file_of(const SpawnProgram& program) {
  auto runs = [](const std::string& file) { return access(file.c_str(), X_OK) == 0; };
  if (program.command.find('/') != std::string::npos) {
    const bool absolute = program.command[0] == '/' || program.directory.empty();
    return runs(absolute ? program.command : program.directory + "/" + program.command) ? program.command : "";
  }
  const char* path = getenv("PATH");
  std::string_view folders = program.search_path;
  if (folders.empty()) folders = path ? path : "";
  while (!folders.empty()) {
    const size_t end = std::min(folders.find(':'), folders.size());
    std::string file = std::string(folders.substr(0, end)) + "/" + program.command;
    if (runs(file)) return file;
    folders.remove_prefix(std::min(end + 1, folders.size()));
  }
  return {};
}

/// The programs of a request as PMIx wants them; it copies them.
class PmixPrograms {
 public:
  explicit PmixPrograms(const SpawnRequest& request, int universe);
  const pmix_app_t* apps() const { return apps_.data(); }
  size_t size() const { return apps_.size(); }

 private:
  struct Texts {
    std::vector<std::string> words, environment;
    std::vector<char*> argv, env;  ///< ended by null
    std::vector<pmix_info_t> infos;
  };
  std::vector<Texts> texts_;
  std::vector<pmix_app_t> apps_;
};

PmixPrograms::PmixPrograms(const SpawnRequest& request, int universe) : texts_(request.programs.size()) {
  for (size_t i = 0; i < request.programs.size(); ++i) {
    const SpawnProgram& program = request.programs[i];
    Texts& texts = texts_[i];
    texts.words = {file_of(program)};
    texts.words.insert(texts.words.end(), program.arguments.begin(), program.arguments.end());
    texts.environment = program.environment;
    texts.environment.push_back(fmt::format("{}={}:{}", kParentVariable, universe, request.parent_port));
    for (std::string& word : texts.words) texts.argv.push_back(word.data());
    for (std::string& line : texts.environment) texts.env.push_back(line.data());
    texts.argv.push_back(nullptr);
    texts.env.push_back(nullptr);
    auto add = [&texts](const char* key, const std::string& value) {
      if (value.empty()) return;
      pmix_info_t info{};
      std::strncpy(info.key, key, sizeof info.key - 1);
      info.value.type = PMIX_STRING;
      info.value.data.string = const_cast<char*>(value.c_str());
      texts.infos.push_back(info);
    };
    add(PMIX_HOST, program.host);
    pmix_app_t app{};
    app.cmd = texts.words[0].data();
    app.argv = texts.argv.data();
    app.env = texts.env.data();
    app.cwd = program.directory.empty() ? nullptr : const_cast<char*>(program.directory.c_str());
    app.maxprocs = program.ranks;
    app.info = texts.infos.data();
    app.ninfo = texts.infos.size();
    apps_.push_back(app);
  }
}

// Whether the server offers the store "shmem" first, as PMIx 5.0.1 does (Ubuntu 24.04): a key that a rank has put
// there is found with the value of the one put before it, and the first not at all on other hosts. Later versions name
// theirs "shmem2".
bool offers_shifted_store() {
  const char* offered = getenv("PMIX_GDS_MODULE");
  const std::string_view stores = offered ? offered : "";
  return stores.substr(0, stores.find(',')) == "shmem";
}

class Pmix final : public Launcher {
 public:
  Pmix()
      : barrier_event_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)), spawn_event_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}
  ~Pmix() override {
    if (barrier_event_ >= 0) close(barrier_event_);
    if (spawn_event_ >= 0) close(spawn_event_);
  }
  Error open();

  int rank() const override { return int(me_.rank); }
  int size() const override { return size_; }
  int universe_size() const override { return universe_size_; }
  int app_number() const override { return app_number_; }
  std::string_view job_id() const override { return job_id_; }
  std::vector<int> local_ranks() const override { return local_ranks_; }
  int nodes() const override { return nodes_; }

  Error put(std::string_view key, std::string_view value) override;
  Error fence() override;
  Error get(int rank, std::string_view key, std::string& value) override;
  Error enter_barrier() override;
  bool barrier_is_over(Error& error) override;
  int descriptor() const override { return barrier_event_; }
  void abort(int code, std::string_view message) override;
  Error begin_spawn(const SpawnRequest& request) override;
  bool spawn_is_over(Error& error) override;
  int spawn_descriptor() const override { return spawn_event_; }
  std::string parent_port() const override {
    const char* parent = getenv(kParentVariable);
    const char* port = parent ? std::strchr(parent, ':') : nullptr;
    return port ? port + 1 : "";
  }
  Error finalize() override;

 private:
  Error failed(std::string_view what, pmix_status_t status) const {
    if (status == PMIX_ERR_PARTIAL_SUCCESS) {
      return Error(ErrorClass::other, fmt::format("the launcher (PMIx, job {}): {}: some rank has ended and takes no "
                                                  "part any more (PMIx status {})",
                                                  me_.nspace, what, status));
    }
    return Error(ErrorClass::other, fmt::format("the launcher (PMIx, job {}): {}: {} ({})", me_.nspace, what,
                                                library_.error_string(status), status));
  }
  pmix_status_t begin();
  /// A value of the job or of one rank that is already here. The caller frees it with drop().
  pmix_value_t* look_up(pmix_rank_t rank, const char* key);
  static void drop(pmix_value_t* value);
  int look_up_number(pmix_rank_t rank, const char* key, int otherwise);

  PmixLibrary library_;
  pmix_proc_t me_{};
  int size_ = 0;
  int universe_size_ = -1;
  int app_number_ = -1;
  std::string job_id_;
  std::vector<int> local_ranks_;
  int nodes_ = 0;
  int barrier_event_;                                        ///< readable when the barrier is over
  std::atomic<pmix_status_t> barrier_status_{PMIX_SUCCESS};  ///< set before that
  int spawn_event_;                                          ///< readable when begin_spawn has its answer
  std::atomic<pmix_status_t> spawn_status_{PMIX_SUCCESS};    ///< set before that
};

Error Pmix::open() {
  if (barrier_event_ < 0 || spawn_event_ < 0)
    return Error(ErrorClass::other, fmt::format("no descriptor is left: {}", strerror(errno)));
  if (Error error = library_.load()) return error;
  pmix_status_t status = begin();
  if (status != PMIX_SUCCESS) {
    return Error(
        ErrorClass::other,
        fmt::format("PMIX_NAMESPACE={} says that a PMIx launcher started this program, but its server does not "
                    "answer: {} ({}). Is the program in another network namespace or container than the server, "
                    "or was it started by a rank?",
                    getenv("PMIX_NAMESPACE"), library_.error_string(status), status));
  }
  size_ = look_up_number(PMIX_RANK_WILDCARD, PMIX_JOB_SIZE, 0);
  if (size_ < 1 || me_.rank >= pmix_rank_t(size_)) {
    return Error(ErrorClass::other, fmt::format("the launcher (PMIx, job {}) says rank {} of {}, which cannot be",
                                                me_.nspace, me_.rank, size_));
  }
  universe_size_ = look_up_number(PMIX_RANK_WILDCARD, PMIX_UNIV_SIZE, -1);
  if (const char* parent = getenv(kParentVariable)) universe_size_ = std::max(universe_size_, std::atoi(parent));
  app_number_ = look_up_number(me_.rank, PMIX_APPNUM, -1);
  // A namespace alone may be a small number that is reused; the server's address is new each time.
  const char* server = getenv("PMIX_SERVER_URI41");
  job_id_ = clean_name(me_.nspace);
  if (server) job_id_ += fmt::format("-{:08x}", uint32_t(std::hash<std::string_view>()(server)));

  pmix_value_t* peers = look_up(me_.rank, PMIX_LOCAL_PEERS);
  if (!peers) peers = look_up(PMIX_RANK_WILDCARD, PMIX_LOCAL_PEERS);
  const bool told = peers && peers->type == PMIX_STRING && peers->data.string;
  local_ranks_ = parse_rank_list(told ? peers->data.string : "", rank(), size_);
  drop(peers);
  nodes_ = look_up_number(PMIX_RANK_WILDCARD, PMIX_NUM_NODES, 0);
  return {};
}

pmix_status_t Pmix::begin() {
  // The client chooses among the stores; the user's choice stands. Programs that the rank starts do not inherit ours.
  constexpr const char kChoice[] = "PMIX_MCA_gds";
  const bool choose = offers_shifted_store() && !getenv(kChoice);
  if (choose) (void)setenv(kChoice, "hash", 1);
  const pmix_status_t status = library_.init(&me_, nullptr, 0);
  if (choose) (void)unsetenv(kChoice);
  return status;
}

pmix_value_t* Pmix::look_up(pmix_rank_t rank, const char* key) {
  pmix_proc_t proc = proc_of(me_, rank);
  pmix_value_t* value = nullptr;
  // Only values that are here: the library would wait for a key that the server lacks.
  bool yes = true;
  pmix_info_t optional{};
  std::strncpy(optional.key, PMIX_OPTIONAL, sizeof optional.key - 1);
  optional.value.type = PMIX_BOOL;
  optional.value.data.flag = yes;
  return library_.get(&proc, key, &optional, 1, &value) == PMIX_SUCCESS ? value : nullptr;
}

void Pmix::drop(pmix_value_t* value) {
  if (!value) return;
  // The types in use: numbers, strings, bytes.
  if (value->type == PMIX_STRING) free(value->data.string);
  if (value->type == PMIX_BYTE_OBJECT) free(value->data.bo.bytes);
  free(value);
}

int Pmix::look_up_number(pmix_rank_t rank, const char* key, int otherwise) {
  pmix_value_t* value = look_up(rank, key);
  int number = otherwise;
  if (value) {
    switch (value->type) {
      case PMIX_UINT32: number = int(value->data.uint32); break;
      case PMIX_INT: number = value->data.integer; break;
      case PMIX_INT32: number = value->data.int32; break;
      case PMIX_UINT: number = int(value->data.uint); break;
      case PMIX_SIZE: number = int(value->data.size); break;
      case PMIX_UINT64: number = int(value->data.uint64); break;
      case PMIX_UINT16: number = value->data.uint16; break;
      default: break;
    }
  }
  drop(value);
  return number;
}

Error Pmix::put(std::string_view key, std::string_view value) {
  std::string name = fmt::format("tern-{}", key);
  pmix_value_t wrapped{};
  wrapped.type = PMIX_BYTE_OBJECT;
  // PMIx copies the bytes; it takes an empty value for "no value", hence the mark in front.
  std::string bytes = "=" + std::string(value);
  wrapped.data.bo.bytes = bytes.data();
  wrapped.data.bo.size = bytes.size();
  pmix_status_t status = library_.put(PMIX_GLOBAL, name.c_str(), &wrapped);
  if (status != PMIX_SUCCESS) return failed(fmt::format("put of '{}'", key), status);
  return {};
}

Error Pmix::fence() {
  pmix_status_t status = library_.commit();
  if (status != PMIX_SUCCESS) return failed("commit", status);
  pmix_info_t collect{};
  std::strncpy(collect.key, PMIX_COLLECT_DATA, sizeof collect.key - 1);
  collect.value.type = PMIX_BOOL;
  collect.value.data.flag = true;
  status = library_.fence(nullptr, 0, &collect, 1);
  if (status != PMIX_SUCCESS) return failed("fence", status);
  return {};
}

Error Pmix::get(int rank, std::string_view key, std::string& value) {
  std::string name = fmt::format("tern-{}", key);
  pmix_proc_t proc = proc_of(me_, pmix_rank_t(rank));
  pmix_value_t* found = nullptr;
  pmix_info_t immediate{};
  std::strncpy(immediate.key, PMIX_IMMEDIATE, sizeof immediate.key - 1);
  immediate.value.type = PMIX_BOOL;
  immediate.value.data.flag = true;
  pmix_status_t status = library_.get(&proc, name.c_str(), &immediate, 1, &found);
  // PRRTE of Open MPI 5.0.7 does not collect what ranks of other hosts have put; it asks their hosts when it may.
  if (status == PMIX_ERR_NOT_FOUND) status = library_.get(&proc, name.c_str(), nullptr, 0, &found);
  if (status != PMIX_SUCCESS) return failed(fmt::format("key '{}' of rank {}", key, rank), status);
  bool good = found && found->type == PMIX_BYTE_OBJECT && found->data.bo.size >= 1;
  if (good) value.assign(found->data.bo.bytes + 1, found->data.bo.size - 1);
  drop(found);
  if (!good) return failed(fmt::format("spoilt value of key '{}' of rank {}", key, rank), PMIX_ERR_TYPE_MISMATCH);
  return {};
}

Error Pmix::enter_barrier() {
  // Called from the library's thread.
  pmix_op_cbfunc_t over = [](pmix_status_t status, void* self) {
    auto& launcher = *static_cast<Pmix*>(self);
    launcher.barrier_status_ = status;
    const uint64_t one = 1;
    static_cast<void>(!write(launcher.barrier_event_, &one, sizeof one));
  };
  pmix_status_t status = library_.begin_fence(nullptr, 0, nullptr, 0, over, this);
  if (status == PMIX_OPERATION_SUCCEEDED) {  // it is over, and there will be no callback
    over(PMIX_SUCCESS, this);
    return {};
  }
  if (status != PMIX_SUCCESS) return failed("barrier", status);
  return {};
}

bool Pmix::barrier_is_over(Error& error) {
  uint64_t count;
  if (read(barrier_event_, &count, sizeof count) != sizeof count) return false;
  if (pmix_status_t status = barrier_status_; status != PMIX_SUCCESS) error = failed("barrier", status);
  return true;
}

void Pmix::abort(int code, std::string_view message) {
  say_last_words(message);
  flush_standard_streams();
  // Slurm would return this code instead of that of the rank that has died, which it finds out by itself.
  await_kill(code);
  // Known: Open MPI 4.1's mpirun may crash or hang in PMIx_server_finalize when other ranks are in a fence just now.
  library_.abort(exit_status(code), nullptr, nullptr, 0);
  _exit(exit_status(code));
}

Error Pmix::begin_spawn(const SpawnRequest& request) {
  for (const SpawnProgram& program : request.programs) {
    if (file_of(program).empty())
      return Error(ErrorClass::spawn, fmt::format("there is no program '{}' on this host", program.command));
  }
  const PmixPrograms programs(request, universe_of_spawned(request, size_, universe_size_));
  // Called from the library's thread.
  pmix_spawn_cbfunc_t over = [](pmix_status_t status, pmix_nspace_t, void* self) {
    auto& launcher = *static_cast<Pmix*>(self);
    launcher.spawn_status_ = status;
    const uint64_t one = 1;
    static_cast<void>(!write(launcher.spawn_event_, &one, sizeof one));
  };
  const pmix_status_t status = library_.begin_spawn(nullptr, 0, programs.apps(), programs.size(), over, this);
  if (status == PMIX_SUCCESS) return {};
  Error error = failed("spawn", status);
  return Error(ErrorClass::spawn, std::string(error.text()));
}

bool Pmix::spawn_is_over(Error& error) {
  uint64_t count;
  if (read(spawn_event_, &count, sizeof count) != sizeof count) return false;
  const pmix_status_t status = spawn_status_;
  if (status != PMIX_SUCCESS) error = Error(ErrorClass::spawn, std::string(failed("spawn", status).text()));
  return true;
}

Error Pmix::finalize() {
  pmix_status_t status = library_.finalize(nullptr, 0);
  if (status != PMIX_SUCCESS) return failed("finalize", status);
  return {};
}

}  // namespace

std::unique_ptr<Launcher> connect_pmix(Error& error) {
  auto launcher = std::make_unique<Pmix>();
  error = launcher->open();
  if (error) return nullptr;
  return launcher;
}

#else  // the header was not found when Tern was built

std::unique_ptr<Launcher> connect_pmix(Error& error) {
  error = Error(ErrorClass::other,
                fmt::format("PMIX_NAMESPACE={} says that a PMIx launcher (Open MPI's mpirun, PRRTE or srun --mpi=pmix) "
                            "started this program, but this Tern was built without PMIx (libpmix-dev). Use mpiexec of "
                            "Tern or of MPICH, or srun --mpi=pmi2",
                            getenv("PMIX_NAMESPACE")));
  return nullptr;
}

#endif
}  // namespace tern
