// The beginning of a job: everything until all ranks run.
#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <fstream>

#include "bind.h"
#include "elsewhere.h"
#include "hosts.h"
#include "job.h"
#include "out_of_memory.h"
#include "output_files.h"
#include "own_library.h"
#include "process/launch/spawn_command.h"
#include "rank_setup.h"
#include "spawn.h"
#include "streams.h"

extern char** environ;

namespace tern::mpiexec {
namespace {

std::string random_hex(size_t bytes) {
  std::vector<unsigned char> random(bytes);
  size_t got = 0;
  while (got < bytes) {
    ssize_t n = getrandom(random.data() + got, bytes - got, 0);
    if (n > 0) got += size_t(n);
    if (n < 0 && errno != EINTR) break;
  }
  if (got < bytes) {  // the call is forbidden here
    std::ifstream file("/dev/urandom", std::ios::binary);
    if (!file.read(reinterpret_cast<char*>(random.data()), std::streamsize(bytes))) {
      say(fmt::format("no random numbers can be had: getrandom: {}, and /dev/urandom cannot be read", strerror(errno)));
      exit(1);
    }
  }
  return fmt::format("{:02x}", fmt::join(random, ""));
}

// As a spawned job: the descriptor on which the parent job gets its answer. Not for the ranks.
int answer_descriptor() {
  const char* number = getenv(kSpawnAnswerVariable);
  const int descriptor = number && *number ? atoi(number) : -1;
  if (descriptor > 2 && fcntl(descriptor, F_SETFD, FD_CLOEXEC) == 0) return descriptor;
  return -1;
}

// TERN_LAUNCHER names a launcher for mpiexec (elsewhere.h), or for programs: those know other values.
bool is_for_mpiexec(std::string_view entry) {
  return name_of_variable(entry) == kLauncherVariable && names_launcher(entry.substr(entry.find('=') + 1));
}

}  // namespace

Job::Job(const Plan& plan, Keeper& keeper, char** argv)
    : plan_(plan),
      keeper_(keeper),
      parents_(answer_descriptor()),
      killed_before_(killed_for_memory()),
      ranks_(size_t(plan.ranks())),
      activity_(size_t(plan.ranks())),
      pmi_write_watched_(ranks_.size()),
      argv_(argv),
      places_(place_ranks(plan, is_this_machine)),
      remote_looks_(ranks_.size()) {
  // Unique while we live by the process id, afterwards by the random part.
  job_id_ = fmt::format("tern-{}-{}", getpid(), random_hex(4));
  job_key_ = random_hex(32);
  size_t rank = 0;
  for (size_t app = 0; app < plan.apps.size(); ++app) {
    for (int i = 0; i < plan.apps[app].ranks; ++i) ranks_[rank++].app = int(app);
  }
}

Job::~Job() {
  for (int descriptor : {epoll_, signals_, null_}) {
    if (descriptor >= 0) close(descriptor);
  }
}

int Job::find_programs() {
  for (size_t number = 0; number < plan_.apps.size(); ++number) {
    const App& app = plan_.apps[number];
    std::string file;
    if (!runs_here(number)) {  // agents look for it on their hosts; here it may tell which library it has
      if (find_program(app.command[0], app.directory, app.search_path, file) != 0) file.clear();
      files_.push_back(std::move(file));
      continue;
    }
    if (!app.directory.empty() && access(app.directory.c_str(), X_OK) != 0) {
      return refuse(1, fmt::format("working directory '{}': {}", app.directory, strerror(errno)));
    }
    int verdict = find_program(app.command[0], app.directory, app.search_path, file);
    if (verdict != 0) {
      const bool path = app.command[0].find('/') != std::string::npos;
      return refuse(
          verdict,
          fmt::format(
              "{} '{}'{}", verdict == 127 ? "there is no program" : "not an executable program:", app.command[0],
              verdict == 127 && !path ? " in PATH (for one in this directory, write ./" + app.command[0] + ")" : ""));
    }
    files_.push_back(std::move(file));
  }
  return 0;
}

bool Job::open_descriptors() {
  // A rank costs up to three of our descriptors.
  getrlimit(RLIMIT_NOFILE, &descriptor_limit_);
  rlimit raised = descriptor_limit_;
  raised.rlim_cur = raised.rlim_max;
  setrlimit(RLIMIT_NOFILE, &raised);

  sigset_t handled;
  sigemptyset(&handled);
  for (int signal : {SIGINT, SIGTERM, SIGQUIT, SIGCHLD, SIGUSR1, SIGTSTP, SIGCONT}) sigaddset(&handled, signal);
  struct sigaction hangup;
  if (sigaction(SIGHUP, nullptr, &hangup) == 0 && hangup.sa_handler != SIG_IGN) sigaddset(&handled, SIGHUP);  // nohup
  sigprocmask(SIG_BLOCK, &handled, &signals_before_);
  ::signal(SIGTTOU, SIG_IGN);
  null_ = open("/dev/null", O_RDWR | O_CLOEXEC);
  signals_ = signalfd(-1, &handled, SFD_CLOEXEC | SFD_NONBLOCK);
  epoll_ = epoll_create1(EPOLL_CLOEXEC);
  if (null_ < 0 || signals_ < 0 || epoll_ < 0) return false;
  epoll_event nothing{};  // forbidden, mpiexec would hear of nothing
  if (epoll_ctl(epoll_, EPOLL_CTL_ADD, signals_, &nothing) != 0) return false;
  epoll_ctl(epoll_, EPOLL_CTL_DEL, signals_, nullptr);
  watch(signals_, Source::signals, 0, EPOLLIN);
  watch(keeper_.descriptor(), Source::keeper, 0, EPOLLIN);
  return true;
}

constexpr const char* kUnbuffered = "GFORTRAN_UNBUFFERED_PRECONNECTED";

std::vector<std::string> Job::base_environment(const App& app) const {
  const Inheritance& inheritance = plan_.inheritance_of(app);
  std::vector<std::string> base;
  for (char** entry = environ; *entry; ++entry) {
    std::string_view name = name_of_variable(*entry);
    const bool listed = inheritance.all ||
                        std::find(inheritance.names.begin(), inheritance.names.end(), name) != inheritance.names.end();
    if (listed && is_passed_on(name) && !is_for_mpiexec(*entry)) base.emplace_back(*entry);
  }
  // A rank that is killed because another failed cannot write what it has buffered. Under launchers that collect the
  // output gfortran does not buffer, since standard output is a pipe; our ranks inherit ours, which may be a
  // file.
  if (!getenv(kUnbuffered)) base.push_back(fmt::format("{}=y", kUnbuffered));
  for (auto& entry : plan_.environment) set_variable(base, entry);
  for (auto& entry : app.environment) set_variable(base, entry);
  return base;
}

std::vector<std::string> Job::rank_environment(int rank, const std::vector<std::string>& base) const {
  std::vector<std::string> environment = base;
  const auto here = int(std::count(places_.of_rank.begin(), places_.of_rank.begin() + rank, 0U));
  add_identity(environment, {rank, int(ranks_.size()), here, places_.ranks_on(0), cores_.of_host[0],
                             kept_descriptor(descriptor_limit_), job_id_, job_key_});
  if (const char* port = parents_ >= 0 ? getenv(kParentPortVariable) : nullptr)
    environment.push_back(fmt::format("{}={}", kParentPortVariable, port));
  return environment;
}

// One rank gets our own input; a terminal's passes through us, since the ranks are not in its foreground
// process group.
int Job::standard_input(int rank) {
  if (rank != plan_.input_rank) return null_;
  return isatty(STDIN_FILENO) ? input_.open() : STDIN_FILENO;
}

bool Job::is_in_file_alone(int stream) const {
  if (!has_output_file(plan_.files, stream)) return false;
  return !(stream == 1 ? plan_.files.out_pattern : plan_.files.err_pattern).empty() || !plan_.files.copy;
}

// The descriptor that becomes the rank's `stream`. -1: errno says why.
int Job::standard_output(int rank, int stream) {
  int file = -1;
  if (has_output_file(plan_.files, stream)) {
    std::string path, why;
    file = open_output_file(plan_.files, rank, int(ranks_.size()), stream, host_name(rank), path, why);
    if (file < 0) {
      tell(fmt::format("output file '{}': {}", path, why));
      errno = EACCES;
      return -1;
    }
    if (is_in_file_alone(stream)) return file;
  }
  if (!passes_through()) return stream;
  pipes_.emplace_back(plan_.label ? fmt::format("[{}] ", rank) : "", stream == 1 ? &out_ : &err_, file);
  return pipes_.back().open();
}

// The number of threads that a hybrid program will use.
int Job::threads_per_rank() const {
  constexpr std::string_view kVariable = "OMP_NUM_THREADS=";
  int most = 1;
  for (auto& app : plan_.apps) {
    for (auto& entry : base_environment(app)) {
      if (entry.starts_with(kVariable)) most = std::max(most, atoi(entry.c_str() + kVariable.size()));
    }
  }
  return most;
}

void Job::report_bindings(const Binding& binding) {
  if (places_.ranks_on(0) == 0) return;
  if (binding.masks.empty()) return tell(fmt::format("ranks are {}", binding.reason));
  size_t here = 0;
  for (size_t rank = 0; rank < ranks_.size() && here < binding.places.size(); ++rank) {
    if (!is_remote(int(rank))) tell(fmt::format("rank {} bound to {}", rank, binding.places[here++]));
  }
}

// False: it is not possible, and the job was ended.
bool Job::start_rank(int rank, const std::vector<std::string>& base, const cpu_set_t* cores) {
  const int app_number = ranks_[size_t(rank)].app;
  const App& app = plan_.apps[size_t(app_number)];
  ChildSpec spec;
  spec.file = files_[size_t(app_number)];
  spec.arguments = app.command;
  spec.directory = app.directory;
  spec.descriptors = descriptor_limit_;
  spec.keep_as = kept_descriptor(descriptor_limit_);
  if (cores) spec.cores = *cores;
  // The first error is the reason; later ones are consequences.
  int why = 0;
  auto begun = [&why](int result) {
    if (result < 0 && why == 0) why = errno;
    return result;
  };
  spec.keep = begun(server_->open(rank));
  spec.standard[0] = begun(standard_input(rank));
  for (int stream = 1; stream <= 2; ++stream) {
    spec.standard[stream] = why == 0 ? begun(standard_output(rank, stream)) : stream;
  }
  if (why == 0) {
    spec.environment = rank_environment(rank, base);
    // What the rank would write there as it ends, we may write for all ranks that say the same.
    if (!has_output_file(plan_.files, STDERR_FILENO)) {
      spec.environment.push_back(fmt::format("{}={}", kStandardErrorVariable, file_name_of(spec.standard[2])));
    }
    if (!keeper_.start_child(rank, spec)) why = errno;
  }
  for (int descriptor : {spec.keep, spec.standard[0], spec.standard[1], spec.standard[2]}) {
    if (descriptor > 2 && descriptor != null_) close(descriptor);
  }
  if (why != 0) {
    not_started_ = true;
    fail(1, fmt::format("rank {} ({}) cannot be started: {}", rank, app.command[0], strerror(why)));
    return false;
  }
  ranks_[size_t(rank)].live = true;
  ++live_;
  watch(server_->descriptor(rank), Source::pmi, rank, EPOLLIN);
  if (plan_.verbose) {
    described_[size_t(rank)] = fmt::format("{}{}, {}", cores ? ", processors " : "", cores ? core_list(*cores) : "",
                                           fmt::join(app.command, " "));
  }
  return true;
}

void Job::on_started(int rank, pid_t pid) {
  if (processes_ && rank < int(ranks_.size())) processes_->add(rank, pid, files_[size_t(ranks_[size_t(rank)].app)]);
  if (plan_.verbose && rank < int(ranks_.size()))
    tell(fmt::format("rank {}: process {}{}", rank, pid, described_[size_t(rank)]));
}

void Job::learn_cores() {
  std::vector<int> ranks;
  for (uint32_t host = 0; host < places_.names.size(); ++host) ranks.push_back(places_.ranks_on(host));
  const HostCores own = own_cores();
  cores_ = share_cores(hosts_ ? hosts_->cores(own) : std::vector{own}, ranks);
}

void Job::start_ranks() {
  learn_cores();
  const int here = places_.ranks_on(0);
  const Binding binding =
      here == 0 ? Binding() : choose_binding(plan_.placement, here, threads_per_rank(), cores_.of_host[0]);
  const std::vector<cpu_set_t>& masks = binding.masks;
  if (plan_.verbose) tell(fmt::format("job {}, {} ranks, {}", job_id_, ranks_.size(), binding.reason));
  if (plan_.placement.report) report_bindings(binding);
  const int universe = plan_.universe_size != 0 ? plan_.universe_size : std::max(cores_.all, int(ranks_.size()));
  server_->set_universe_size(universe);
  if (here != 0) processes_.emplace(size_t(here));
  if (hosts_) start_remote_ranks(universe);
  if (passes_through()) pipes_.reserve(2 * ranks_.size());
  if (plan_.verbose) described_.resize(ranks_.size());
  std::vector<std::vector<std::string>> base;
  for (size_t app = 0; app < plan_.apps.size(); ++app) {
    base.push_back(base_environment(plan_.apps[app]));
    if (runs_here(app)) choose_own_library(base.back(), files_[app]);
  }
  size_t started = 0;
  for (int rank = 0; rank < int(ranks_.size()); ++rank) {
    if (is_remote(rank)) continue;
    const cpu_set_t* cores_of_rank = masks.empty() ? nullptr : &masks[started++];
    if (!start_rank(rank, base[size_t(ranks_[size_t(rank)].app)], cores_of_rank)) break;
  }
  for (size_t i = 0; i < pipes_.size(); ++i) {
    if (pipes_[i].descriptor() >= 0) watch(pipes_[i].descriptor(), Source::pipe, int(i), EPOLLIN);
  }
}

int Job::run() {
  if (int code = find_programs()) return code;
  if (!open_descriptors()) {
    say(fmt::format("cannot set up the job: {}", strerror(errno)));
    return 1;
  }
  if (plan_.timeout_s > 0 && parents_ < 0) timeout_at_ms_ = now_ms() + uint64_t(plan_.timeout_s) * 1000;
  std::vector<int> app_of;
  for (auto& rank : ranks_) app_of.push_back(rank.app);
  server_.emplace(job_id_, std::move(app_of), int(ranks_.size()), process_mapping(places_.of_rank));
  if (places_.names.size() == 1 || start_hosts()) start_ranks();
  loop();
  if (parents_ >= 0 && !parents_answered_) refuse(0, "the programs have ended without calling MPI_Init");
  finish();
  return exit_code_.value_or(output_lost_ ? 1 : 0);
}

}  // namespace tern::mpiexec
