#include "hosts.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <ifaddrs.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <fstream>

#include "allocation.h"
#include "input_files.h"
#include "process/launch/spawn_command.h"
#include "spawn.h"
#include "streams.h"

namespace tern::mpiexec {
namespace {

bool is_own_address(const std::string& host) {
  in_addr v4;
  in6_addr v6;
  const bool is_v4 = inet_pton(AF_INET, host.c_str(), &v4) == 1, is_v6 = inet_pton(AF_INET6, host.c_str(), &v6) == 1;
  if (!is_v4 && !is_v6) return false;
  if ((is_v4 && host.starts_with("127.")) || (is_v6 && host == "::1")) return true;
  ifaddrs* interfaces = nullptr;
  if (getifaddrs(&interfaces) != 0) return false;
  bool own = false;
  for (ifaddrs* i = interfaces; i && !own; i = i->ifa_next) {
    if (!i->ifa_addr) continue;
    if (is_v4 && i->ifa_addr->sa_family == AF_INET) {
      own = memcmp(&reinterpret_cast<sockaddr_in*>(i->ifa_addr)->sin_addr, &v4, sizeof v4) == 0;
    } else if (is_v6 && i->ifa_addr->sa_family == AF_INET6) {
      own = memcmp(&reinterpret_cast<sockaddr_in6*>(i->ifa_addr)->sin6_addr, &v6, sizeof v6) == 0;
    }
  }
  freeifaddrs(interfaces);
  return own;
}

bool is_this_machine(const std::string& host) {
  if (host == "localhost" || is_own_address(host)) return true;
  const char* slurms_name = getenv("SLURMD_NODENAME");
  if (slurms_name && host == slurms_name) return true;
  char name[256] = "";
  if (gethostname(name, sizeof name - 1) != 0) return false;
  std::string own(name);
  return host == own || host == own.substr(0, own.find('.')) || own == host.substr(0, host.find('.'));
}

enum class Dialect { slurm, open_mpi, hydra };

struct Engine {
  const char* program;
  Dialect dialect;
};

// The one that owns the allocation first, then by how well PMIx or PMI is served.
std::vector<Engine> engines() {
  std::vector<Engine> list;
  if (getenv("SLURM_JOB_ID")) list.push_back({"srun", Dialect::slurm});
  list.push_back({"prterun", Dialect::open_mpi});
  list.push_back({"mpirun.openmpi", Dialect::open_mpi});
  list.push_back({"mpiexec.hydra", Dialect::hydra});
  list.push_back({"mpiexec.mpich", Dialect::hydra});
  return list;
}

void push(std::vector<std::string>& words, std::initializer_list<std::string> more) {
  words.insert(words.end(), more.begin(), more.end());
}

void split(const std::string& entry, std::string& name, std::string& value) {
  size_t equals = entry.find('=');
  name = entry.substr(0, equals);
  value = entry.substr(equals + 1);
}

void add_app(std::vector<std::string>& words, const App& app, const Plan& plan, Dialect dialect) {
  std::vector<std::string> names = app.hosts;
  if (dialect == Dialect::slurm) {
    // srun knows its allocation, and takes no numbers of ranks.
    if (!plan.batch_system.empty()) names.clear();
    for (std::string& name : names) name = without_slots(name);
  }
  const std::string hosts = fmt::format("{}", fmt::join(names, ","));
  push(words, {"-n", std::to_string(app.ranks)});
  if (!hosts.empty()) {
    switch (dialect) {
      case Dialect::slurm: push(words, {"-w", hosts}); break;
      case Dialect::open_mpi: push(words, {"--host", hosts}); break;
      case Dialect::hydra: push(words, {"-hosts", hosts}); break;
    }
  }
  if (!app.directory.empty()) push(words, {dialect == Dialect::slurm ? "--chdir" : "-wdir", app.directory});
  std::vector<std::string> environment = plan.environment;
  environment.insert(environment.end(), app.environment.begin(), app.environment.end());
  for (auto& entry : environment) {
    std::string name, value;
    split(entry, name, value);
    switch (dialect) {
      case Dialect::slurm: setenv(name.c_str(), value.c_str(), 1); break;  // srun passes its environment on
      case Dialect::open_mpi: push(words, {"-x", entry}); break;
      case Dialect::hydra: push(words, {"-env", name, value}); break;
    }
  }
  words.insert(words.end(), app.command.begin(), app.command.end());
}

std::vector<std::string> translate(const Plan& plan, const Engine& engine) {
  std::vector<std::string> words{engine.program};
  switch (engine.dialect) {
    case Dialect::slurm:
      push(words, {"--mpi=pmi2"});
      if (plan.label) push(words, {"--label"});
      if (plan.ranks_per_host > 0) push(words, {"--ntasks-per-node", std::to_string(plan.ranks_per_host)});
      if (!plan.host_file.empty()) push(words, {"--nodefile", plan.host_file});
      break;
    case Dialect::open_mpi:
      if (geteuid() == 0) push(words, {"--allow-run-as-root"});
      push(words, {"--oversubscribe"});
      if (plan.label) push(words, {"--tag-output"});
      if (plan.ranks_per_host > 0) push(words, {"--npernode", std::to_string(plan.ranks_per_host)});
      if (!plan.host_file.empty()) push(words, {"--hostfile", plan.host_file});
      break;
    case Dialect::hydra:
      if (plan.label) push(words, {"-l"});
      if (plan.ranks_per_host > 0) push(words, {"-ppn", std::to_string(plan.ranks_per_host)});
      if (!plan.host_file.empty()) push(words, {"-f", plan.host_file});
      break;
  }
  for (size_t i = 0; i < plan.apps.size(); ++i) {
    if (i > 0) words.push_back(":");
    add_app(words, plan.apps[i], plan, engine.dialect);
  }
  return words;
}

}  // namespace

void take_allocation(Plan& plan) {
  // A job that a rank spawns runs where the rank does.
  if (plan.here || !plan.host_file.empty() || getenv(kSpawnAnswerVariable)) return;
  if (std::any_of(plan.apps.begin(), plan.apps.end(), [](const App& app) { return !app.hosts.empty(); })) return;
  const std::optional<Allocation> allocation = read_allocation();
  if (!allocation) return;
  const bool counted = plan.apps.size() == 1 && plan.apps[0].ranks == 0;
  if (counted) plan.apps[0].ranks = allocation->ranks;
  const bool elsewhere = std::any_of(allocation->hosts.begin(), allocation->hosts.end(),
                                     [](const Host& host) { return !is_this_machine(host.name); });
  if (elsewhere) {
    plan.batch_system = allocation->system;
    for (App& app : plan.apps) {
      for (const Host& host : allocation->hosts) app.hosts.push_back(fmt::format("{}:{}", host.name, host.slots));
    }
  } else if (counted && allocation->ranks > 1) {
    say(fmt::format("{} ranks, as {}'s allocation says", allocation->ranks, allocation->system));
  }
}

bool needs_other_hosts(const Plan& plan, int& exit_code) {
  std::vector<std::string> hosts;
  if (!plan.host_file.empty()) {
    std::ifstream file(plan.host_file);
    if (!file) {
      say(fmt::format("host file '{}': {}", plan.host_file, strerror(errno)));
      exit_code = 2;
      return true;
    }
    hosts = read_hosts(file);
  }
  for (auto& app : plan.apps) {
    for (auto& host : app.hosts) hosts.push_back(without_slots(host));
  }
  return std::any_of(hosts.begin(), hosts.end(), [](auto& host) { return !is_this_machine(host); });
}

// Time for the engine to end its ranks after SIGTERM, on all hosts.
constexpr int kEngineGrace_s = 5;
constexpr int kTimeoutExitCode = 124;  // as timeout(1)

/// Waits for the engine, passing signals on to it; with a timeout, ends it then.
static int await_child(pid_t child, const sigset_t& signals, int timeout_s) {
  timespec left{timeout_s, 0};
  bool late = false;
  int status = 0;
  while (true) {
    siginfo_t signal{};
    timespec begin, end;
    clock_gettime(CLOCK_MONOTONIC, &begin);
    const int got = timeout_s > 0 ? sigtimedwait(&signals, &signal, &left) : sigwaitinfo(&signals, &signal);
    clock_gettime(CLOCK_MONOTONIC, &end);
    left.tv_sec = std::max<time_t>(0, left.tv_sec - (end.tv_sec - begin.tv_sec));
    if (got < 0 && errno == EAGAIN) {
      if (!late) say(fmt::format("time is up after {} s (MPIEXEC_TIMEOUT or -timeout); ending the job", timeout_s));
      kill(child, late ? SIGKILL : SIGTERM);
      left = {kEngineGrace_s, 0};
      late = true;
    }
    if (got < 0) continue;
    if (signal.si_signo != SIGCHLD) {
      if (signal.si_code <= 0) kill(child, signal.si_signo);  // it gets the terminal's signals itself
    } else if (waitpid(child, &status, WNOHANG) == child) {
      if (late) return kTimeoutExitCode;
      return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
    }
  }
}

/// Runs the engine as a child, because work is left when it has ended, or it may have to be ended.
static int run_child(const std::string& file, char* const* arguments, int timeout_s) {
  sigset_t signals;
  sigemptyset(&signals);
  for (int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGCHLD}) sigaddset(&signals, signal);
  sigprocmask(SIG_BLOCK, &signals, nullptr);
  const pid_t child = fork();
  if (child == 0) {
    sigprocmask(SIG_UNBLOCK, &signals, nullptr);
    execv(file.c_str(), arguments);
    say(fmt::format("{}: {}", file, strerror(errno)));
    _exit(126);
  }
  if (child < 0) {
    say(fmt::format("{}: {}", file, strerror(errno)));
    return 126;
  }
  return await_child(child, signals, timeout_s);
}

int run_elsewhere(const Plan& plan) {
  for (const Engine& engine : engines()) {
    if (engine.dialect == Dialect::slurm && plan.apps.size() > 1) continue;  // srun has no colon
    std::string file;
    if (find_program(engine.program, "", "", file) != 0) continue;
    std::vector<std::string> words = translate(plan, engine);
    if (plan.verbose) say(fmt::format("handing over to: {}", fmt::join(words, " ")));
    if (!plan.batch_system.empty()) {
      say(fmt::format("{} ranks on the {} hosts of {}'s allocation, started by {} (-here: on this machine)",
                      plan.ranks(), plan.apps[0].hosts.size(), plan.batch_system, engine.program));
    }
    std::vector<char*> arguments;
    for (auto& word : words) arguments.push_back(word.data());
    arguments.push_back(nullptr);
    ::signal(SIGPIPE, SIG_DFL);  // for the engine
    ::signal(SIGXFSZ, SIG_DFL);
    if (plan.records() || plan.timeout_s > 0) return run_child(file, arguments.data(), plan.timeout_s);
    execv(file.c_str(), arguments.data());
    say(fmt::format("{}: {}", file, strerror(errno)));
  }
  say("other hosts than this one are named, and Tern's mpiexec starts ranks on this machine "
      "only. It hands\n"
      "over to srun (inside an allocation), prterun, mpirun.openmpi or mpiexec.hydra, none of which "
      "is in PATH.\n"
      "Install one of them (Debian: openmpi-bin or mpich); Tern's programs run under each.");
  return 1;
}

}  // namespace tern::mpiexec
