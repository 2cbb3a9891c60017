// The simulator behind mpiexec --simulate: ordinary MPI programs on a machine that one does not have
// (docs/simulate.md). A program of its own, since it is linked with the whole library, whose MPI functions it gives to
// the programs.
#include <fmt/format.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "capi/simulated/simulated_job.h"
#include "options.h"
#include "output.h"
#include "report.h"
#include "sim/machine_file.h"

namespace tern::simulate {
namespace {

void say(const std::string& text) { std::fprintf(stderr, "mpiexec: %s\n", text.c_str()); }

// Addresses decide where copies and registrations of memory coincide: they must be the same in every run.
void fix_addresses(char** argv) {
  const int now = personality(0xffffffff);
  if (now < 0 || (now & ADDR_NO_RANDOMIZE)) return;
  // Where that is forbidden, only the addresses differ.
  if (personality(unsigned(now) | ADDR_NO_RANDOMIZE) < 0 || !(personality(0xffffffff) & ADDR_NO_RANDOMIZE)) return;
  execv("/proc/self/exe", argv);
}

std::filesystem::path machines_folder() {
  std::error_code unknown;
  const auto self = std::filesystem::read_symlink("/proc/self/exe", unknown);
  return self.parent_path().parent_path().parent_path() / TERN_DATADIR / "tern" / "machines";
}

Error find_machine(const std::string& name, std::string& path) {
  path = name;
  if (name.find('/') != std::string::npos || std::filesystem::exists(name)) return {};
  const std::filesystem::path folder = machines_folder();
  path = (folder / (name + ".toml")).string();
  if (std::filesystem::exists(path)) return {};
  std::vector<std::string> names;
  std::error_code unknown;
  for (const auto& entry : std::filesystem::directory_iterator(folder, unknown)) {
    if (entry.path().extension() == ".toml") names.push_back(entry.path().stem().string());
  }
  std::sort(names.begin(), names.end());
  return Error(ErrorClass::no_such_file,
               fmt::format("there is no machine '{}'. Give a file (machines/README.md) or one of: {}", name,
                           fmt::join(names, ", ")));
}

uint64_t stack_bytes(const Options& options) {
  if (options.stack_bytes != 0) return options.stack_bytes;
  constexpr uint64_t kUsual = 8 << 20;  // where the limit is none
  rlimit limit{};
  getrlimit(RLIMIT_STACK, &limit);
  return limit.rlim_cur == RLIM_INFINITY ? kUsual : limit.rlim_cur;
}

Error world_options(const Options& options, const sim::MachineModel& machine, sim::WorldOptions& world) {
  for (const sim::SimulatedProgram& program : options.programs) world.ranks += program.ranks;
  world.ranks -= sim::WorldOptions().ranks;
  world.network = machine.network;
  world.adapter = machine.adapter;
  world.cores_per_node = options.cores_per_node ? options.cores_per_node : machine.cores_per_node;
  world.ranks_per_node =
      options.ranks_per_node ? options.ranks_per_node : std::max(1u, std::min(world.cores_per_node, world.ranks));
  world.keep_registrations = true;
  world.seed = options.seed;
  world.stack_bytes = stack_bytes(options);
  world.limits = {options.most_virtual_s > 0 ? uint64_t(options.most_virtual_s * 1e9) : kNever_ns,
                  options.most_events ? options.most_events : kNever_ns};
  world.tunables.rdma_keepalive_ms = 0;
  std::vector<std::string> warnings;
  if (Error error = world.tunables.read_environment(environ, &warnings)) return error;
  for (const std::string& warning : warnings) say(warning);
  return {};
}

/// Whether TERN_PATH names this path; `unset`: what holds where it names none.
bool names(const std::string& paths, std::string_view wanted, bool unset) {
  if (paths.empty()) return unset;
  return ("," + paths + ",").find("," + std::string(wanted) + ",") != std::string::npos;
}

// As on real machines: ranks of a node reach each other through its memory (copies by their processors, cross-memory
// attach), unless TERN_PATH leaves out shm; the others by the adapters, where there are some. Without adapters, and
// where TERN_PATH names neither tcp nor udp, a model of the whole of TCP, whose costs the machine's file has.
void choose_paths(sim::WorldOptions& world, bool has_adapter) {
  const std::string& paths = world.tunables.path;
  world.rdma = has_adapter && (names(paths, "rdma", true) || paths == "shm");
  world.tcp = !world.rdma && names(paths, "tcp", false);
  world.udp = !world.rdma && !world.tcp && names(paths, "udp", false);
  const bool node_memory = world.ranks_per_node > 1 && names(paths, "shm", true);
  world.node_path = (world.rdma || world.tcp || world.udp) && node_memory;
  if (node_memory) {
    world.network.get = sim::NetworkModel::Get::cpu;
    world.network.put = true;
  }
  world.streams.call_ns = world.network.call_ns;
}

/// What a simulation of many says to the first.
struct Result {
  int exit_code = 1;
  uint64_t time_ns = 0, mpi_ns = 0, messages = 0;
};

struct Run {
  const Options& options;
  const sim::MachineModel& machine;
  sim::WorldOptions world;
  sim::ComputeKind compute;
  bool tables = true, silent = false;
};

Result simulate(Run run, sim::BurstRecord* record) {
  const Options& options = run.options;
  choose_paths(run.world, run.machine.has_adapter);
  Output output(options.files, options.label, run.world.ranks);
  sim::SimulatedJobOptions job_options;
  job_options.world = run.world;
  job_options.programs = options.programs;
  job_options.compute = {run.compute, options.constant_ns, options.compute_factor > 0 ? options.compute_factor : 1,
                         record};
  job_options.record = std::getenv("TERN_RECORD") != nullptr;
  job_options.output = [&](uint32_t rank, int stream, std::string_view text) {
    if (!run.silent) output.write(rank, stream, text);
  };
  sim::SimulatedJob job(std::move(job_options));
  if (Error error = job.load()) {
    say(std::string(error.text()));
    return {126};
  }
  const auto began = std::chrono::steady_clock::now();
  const sim::SimulatedJobReport report = job.run();
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - began;
  output.finish();
  if (!report.failure.empty()) say(report.failure);
  if (output.lost() != 0) say(std::string("output is lost: ") + std::strerror(output.lost()));
  if (run.tables && !options.quiet) {
    const std::string text =
        headline(report, run.world, run.machine.name, run.compute, took.count()) + tables(report, run.world.ranks);
    std::fputs(text.c_str(), stderr);
  }
  if (options.print_hash) std::fprintf(stderr, "trace %016llx\n", (unsigned long long)report.run.trace_hash);
  const bool failed = report.exit_code == 0 && (!report.failure.empty() || output.lost() != 0);
  return {failed ? 1 : report.exit_code, report.time_ns, report.mpi_ns, messages_sent(report.counters)};
}

// In a process of its own: every simulation finds the same memory.
Result simulate_apart(const Run& run, sim::BurstRecord* record, const std::string& record_to) {
  int pipe_ends[2];
  if (pipe(pipe_ends) != 0) return {};
  const pid_t child = fork();
  if (child == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);  // a timeout ends both
    close(pipe_ends[0]);
    const Result result = simulate(run, record);
    if (!record_to.empty() && result.exit_code == 0) {
      if (Error error = record->write(record_to)) say(std::string(error.text()));
    }
    [[maybe_unused]] const ssize_t written = write(pipe_ends[1], &result, sizeof result);
    std::fflush(nullptr);
    _exit(result.exit_code);
  }
  close(pipe_ends[1]);
  Result result;
  const bool told = child > 0 && read(pipe_ends[0], &result, sizeof result) == ssize_t(sizeof result);
  close(pipe_ends[0]);
  int status = 0;
  if (child > 0) waitpid(child, &status, 0);
  if (!told) result.exit_code = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : std::max(1, WEXITSTATUS(status));
  return result;
}

int simulate_once(Run run) {
  const Options& options = run.options;
  sim::BurstRecord record;
  const bool recorded = run.compute == sim::ComputeKind::recorded, wanted = !options.record.empty();
  if (recorded) {
    if (Error error = record.read(options.record)) {
      say(std::string(error.text()));
      return 1;
    }
  }
  const Result result = simulate(run, recorded || wanted ? &record : nullptr);
  if (wanted && !recorded && result.exit_code == 0) {
    if (Error error = record.write(options.record)) {
      say(std::string(error.text()));
      return 1;
    }
  }
  return result.exit_code;
}

// Every combination of the settings' values. Only the first run measures computation: all have the same.
int simulate_what_if(Run run) {
  const Options& options = run.options;
  std::vector<std::string> names;
  std::vector<const std::vector<std::string>*> values;
  size_t count = 1;
  for (const auto& [name, list] : options.settings) {
    if (list.size() == 1) continue;
    names.push_back(name);
    values.push_back(&list);
    count *= list.size();
  }
  std::vector<WhatIf> rows;
  sim::BurstRecord record;
  const std::string kept =
      options.record.empty() ? fmt::format("/proc/self/fd/{}", memfd_create("bursts", MFD_CLOEXEC)) : options.record;
  int exit_code = 0;
  for (size_t i = 0; i < count; ++i) {
    WhatIf row;
    size_t rest = i;
    for (size_t j = names.size(); j-- > 0; rest /= values[j]->size()) {
      row.values.insert(row.values.begin(), (*values[j])[rest % values[j]->size()]);
    }
    for (size_t j = 0; j < names.size(); ++j) {
      if (Error error = run.world.tunables.set(names[j], row.values[j])) {
        say(std::string(error.text()));
        return 1;
      }
    }
    const bool measures = run.compute == sim::ComputeKind::measured;
    if (run.compute == sim::ComputeKind::recorded) {
      if (Error error = record.read(kept)) {
        say(std::string(error.text()));
        return 1;
      }
    }
    const Result result = simulate_apart(run, &record, measures ? kept : "");
    row.time_s = double(result.time_ns) * 1e-9;
    row.mpi_percent = result.time_ns ? 100.0 * double(result.mpi_ns) / (double(result.time_ns) * run.world.ranks) : 0;
    row.messages = double(result.messages);
    row.exit_code = result.exit_code;
    if (exit_code == 0) exit_code = result.exit_code;
    rows.push_back(std::move(row));
    if (measures && result.exit_code == 0) run.compute = sim::ComputeKind::recorded;
    run.tables = false;
    run.silent = true;
  }
  std::fputs(what_if_table(names, rows).c_str(), stderr);
  return exit_code;
}

void on_timeout(int) {
  constexpr char kText[] = "mpiexec: the timeout has passed; the simulation ends\n";
  [[maybe_unused]] const ssize_t written = write(2, kText, sizeof kText - 1);
  _exit(mpiexec::Plan::kTimeoutExitCode);
}

int main(int argc, char** argv) {
  fix_addresses(argv);
  Options options;
  sim::MachineModel machine;
  std::string file;
  sim::WorldOptions world;
  Error error = read_options({argv + 1, argv + argc}, options);
  if (!error) error = find_machine(options.machine, file);
  if (!error) error = sim::load_machine(file, machine);
  if (!error) error = world_options(options, machine, world);
  bool many = false;
  for (const auto& [name, values] : options.settings) {
    if (!error && values.size() == 1) error = world.tunables.set(name, values[0]);
    many |= values.size() > 1;
  }
  if (error) {
    say(std::string(error.text()));
    return 2;
  }
  if (options.timeout_s > 0) {
    signal(SIGALRM, on_timeout);
    alarm(unsigned(options.timeout_s));
  }
  const Run run{options, machine, world, options.compute};
  return many ? simulate_what_if(run) : simulate_once(run);
}

}  // namespace
}  // namespace tern::simulate

int main(int argc, char** argv) { return tern::simulate::main(argc, argv); }
