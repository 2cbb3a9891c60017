// Runs a benchmark program of this folder on a simulated machine (machines/*.toml), two ranks on two nodes (or N on N),
// in virtual time:
//
//   simulated MACHINE.toml latency|oneway|progress|overlap|background|world|patterns|availability|sp|headofline|locks|
//             channel_costs|FILE.so [ranks=N] [ranks_per_node=N] [cores=N] [atomic_swap=0|1] [xrc=0|1] [dc=0|1]
//             [node_path=0|1] [shm=0|1] [calls=free] [seed=N] [faults=N] [latency_us=N] [channels=RANK]
//             [TUNABLE=VALUE]... [-- ARGUMENTS...]
//
// or any MPI program, named with its folder, as mpiexec --simulate runs them (capi/simulated/simulated_job.h); its
// computation takes no virtual time.
//
// Prints what the program prints; with channels=RANK also a line `CHANNEL from to microseconds channel` each time that
// another channel carries messages to or from that rank. faults=N: faults of the adapters, drawn from N: datagrams
// lost, doubled and late, receivers that seem to have no receives, writes out of order, rings that do not wake. The
// programs are plain MPI and the same as on real machines; only their computation is told to the simulator
// (BENCH_SIMULATED in bench.h). Over the RDMA path where the machine has adapters, else over a network that costs what
// its file says of TCP (a model of the whole path). path=tcp: by Tern's own TCP path over simulated sockets, path=udp:
// by datagrams, also where the machine has adapters. socket_bytes=N: their buffers. progress=event: beside an event
// thread, on the same core unless the node has more (cores=N). Registrations of user memory are kept, as the library
// does. node_path=1: ranks of a node reach each other through its memory (copies by the processor, cross-memory
// attach), as real ones do; 0: through their adapter, as the papers' machines with a rank on each node. shm=1: by the
// code of real ranks (ShmPath).
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "base/rng.h"
#include "capi/simulated/run_mpi.h"
#include "capi/simulated/simulated_job.h"
#include "capi/world.h"
#include "sim/adapter.h"
#include "sim/machine_file.h"
#include "sim/rank_time.h"

extern "C" {
int bench_latency(int argc, char** argv);
int bench_oneway(int argc, char** argv);
int bench_progress(int argc, char** argv);
int bench_overlap(int argc, char** argv);
int bench_background(int argc, char** argv);
int bench_availability(int argc, char** argv);
int bench_sp(int argc, char** argv);
int bench_headofline(int argc, char** argv);
int bench_patterns(int argc, char** argv);
int bench_world(int argc, char** argv);
int bench_locks(int argc, char** argv);
int bench_channel_costs(int argc, char** argv);
void simulated_work(long loops);
double simulated_cpu_us(void);
void simulated_begin_counting(void);
void simulated_print_counts(int x);
}

namespace {

struct Program {
  std::string_view name;
  int (*main)(int, char**);
};
constexpr Program kPrograms[] = {{"latency", bench_latency},
                                 {"oneway", bench_oneway},
                                 {"progress", bench_progress},
                                 {"overlap", bench_overlap},
                                 {"background", bench_background},
                                 {"world", bench_world},
                                 {"patterns", bench_patterns},
                                 {"availability", bench_availability},
                                 {"sp", bench_sp},
                                 {"headofline", bench_headofline},
                                 {"locks", bench_locks},
                                 {"channel_costs", bench_channel_costs}};

// What follows `--`, for the program; one simulation runs at a time.
std::vector<char*> arguments;
int (*program_main)(int, char**);
tern::sim::Machine* machine_of_run;  // set while ranks run

// What all adapters have done, and the one of rank 0.
struct AdapterCounts {
  uint64_t misses = 0, connects = 0, refusals = 0, misses_of_0 = 0, connects_of_0 = 0;
};
AdapterCounts counted_before;

AdapterCounts count_adapters() {
  AdapterCounts sum;
  auto& adapters = machine_of_run->adapters();
  for (uint32_t node = 0; node < machine_of_run->options().ranks; ++node) {
    const auto& adapter = adapters.node(node);
    sum.misses += adapter.cache.misses();
    sum.connects += adapter.dc_connects;
    sum.refusals += adapter.dc_nacks;
    if (node != 0) continue;
    sum.misses_of_0 = adapter.cache.misses();
    sum.connects_of_0 = adapter.dc_connects;
  }
  return sum;
}

void draw_faults(uint64_t seed, tern::sim::WorldOptions& options) {
  tern::Rng rng(seed * 71);
  tern::sim::AdapterFaults& faults = options.adapter_faults;
  faults.datagram_loss_in_1024 = uint32_t(rng.below(2) * rng.below(100));
  faults.datagram_double_in_1024 = uint32_t(rng.below(2) * rng.below(300));
  faults.datagram_late_in_1024 = uint32_t(rng.below(2) * rng.below(300));
  faults.datagram_late_ns = 20'000;
  faults.storm_in_1024 = uint32_t(rng.below(2) * rng.below(30));
  faults.storm_ns = 100'000;
  options.adapter.ordered_writes = rng.chance(1, 2);
  options.adapter.polled_wakes = rng.chance(1, 2);
}

int fail(const std::string& text) {
  std::fprintf(stderr, "simulated: %s\n", text.c_str());
  return 2;
}

int run_file(tern::sim::WorldOptions options) {
  tern::sim::SimulatedJobOptions job_options;
  job_options.programs.push_back({arguments[0], {arguments.begin(), arguments.end()}, options.ranks});
  job_options.world = std::move(options);
  job_options.compute.kind = tern::sim::ComputeKind::none;
  job_options.observe = false;
  tern::sim::SimulatedJob job(std::move(job_options));
  if (tern::Error error = job.load()) return fail(std::string(error.text()));
  const tern::sim::SimulatedJobReport report = job.run();
  return report.failure.empty() ? report.exit_code : fail(report.failure);
}

}  // namespace

void simulated_work(long loops) {
  tern::Process& process = *tern::capi::current().process;
  static_cast<tern::sim::SimClock&>(process.clock()).compute_ns(uint64_t(loops));
}

double simulated_cpu_us(void) {
  tern::Process& process = *tern::capi::current().process;
  return double(static_cast<tern::sim::SimClock&>(process.clock()).busy_ns()) / 1000;
}

void simulated_begin_counting(void) { counted_before = count_adapters(); }

void simulated_print_counts(int x) {
  const AdapterCounts now = count_adapters(), &before = counted_before;
  std::printf("POINT adapters_cache_misses %d %llu\n", x, (unsigned long long)(now.misses - before.misses));
  std::printf("POINT adapters_dc_connects %d %llu\n", x, (unsigned long long)(now.connects - before.connects));
  std::printf("POINT adapters_dc_refusals %d %llu\n", x, (unsigned long long)(now.refusals - before.refusals));
  std::printf("POINT adapter0_cache_misses %d %llu\n", x, (unsigned long long)(now.misses_of_0 - before.misses_of_0));
  std::printf("POINT adapter0_dc_connects %d %llu\n", x,
              (unsigned long long)(now.connects_of_0 - before.connects_of_0));
}

int main(int argc, char** argv) {
  if (argc < 3) return fail("MACHINE.toml PROGRAM [TUNABLE=VALUE]... [-- ARGUMENTS...]");
  tern::sim::MachineModel machine;
  if (tern::Error error = tern::sim::load_machine(argv[1], machine)) return fail(std::string(error.text()));
  for (const Program& program : kPrograms) {
    if (program.name == argv[2]) program_main = program.main;
  }
  const bool from_file = std::strchr(argv[2], '/') != nullptr;
  if (!program_main && !from_file) return fail(std::string("there is no program ") + argv[2]);
  tern::sim::WorldOptions options;
  options.network = machine.network;
  options.adapter = machine.adapter;
  options.rdma = machine.has_adapter;
  options.keep_registrations = true;
  if (from_file) options.stack_bytes = size_t{1} << 20;  // it knows nothing of simulations
  options.tunables.rdma_keepalive_ms = 0;
  arguments.push_back(argv[2]);
  int i = 3;
  for (; i < argc && std::strcmp(argv[i], "--") != 0; ++i) {
    std::string_view setting(argv[i]);
    const size_t equals = setting.find('=');
    if (equals == std::string_view::npos) return fail(std::string("not TUNABLE=VALUE: ") + argv[i]);
    if (setting.starts_with("ranks_per_node=")) {
      options.ranks_per_node = uint32_t(std::strtoul(setting.data() + equals + 1, nullptr, 10));
      if (options.ranks_per_node == 0) return fail(std::string("not a number of ranks: ") + argv[i]);
      continue;
    }
    if (setting.starts_with("cores=")) {
      options.cores_per_node = uint32_t(std::strtoul(setting.data() + equals + 1, nullptr, 10));
      if (options.cores_per_node == 0) return fail(std::string("not a number of cores: ") + argv[i]);
      continue;
    }
    if (setting == "calls=free") {  // what is left of an overhead is not the calls' own
      options.adapter.post_ns = options.adapter.doorbell_ns = options.adapter.poll_ns = 0;
      options.adapter.completion_ns = 0;
      continue;
    }
    if (setting.starts_with("atomic_swap=")) {
      options.adapter.atomic_swap = setting[equals + 1] != '0';
      continue;
    }
    if (setting.starts_with("xrc=") || setting.starts_with("dc=")) {
      (setting[0] == 'x' ? options.adapter.xrc : options.adapter.dc) = setting[equals + 1] != '0';
      continue;
    }
    if (setting.starts_with("seed=")) {
      options.seed = std::strtoull(setting.data() + equals + 1, nullptr, 10);
      continue;
    }
    if (setting.starts_with("node_path=")) {
      if (setting.substr(equals + 1) == "1") {
        options.node_path = options.network.put = true;
        options.network.get = tern::sim::NetworkModel::Get::cpu;
      }
      continue;
    }
    if (setting.starts_with("shm=")) {
      options.shm = setting[equals + 1] != '0';
      continue;
    }
    if (setting.starts_with("latency_us=")) {
      options.network.latency_ns = 1000 * std::strtoull(setting.data() + equals + 1, nullptr, 10);
      continue;
    }
    if (setting.starts_with("faults=")) {
      draw_faults(std::strtoull(setting.data() + equals + 1, nullptr, 10), options);
      continue;
    }
    if (setting.starts_with("socket_bytes=")) {
      options.streams.send_bytes = options.streams.receive_bytes = options.datagrams.buffer_bytes =
          std::strtoull(setting.data() + equals + 1, nullptr, 10);
      continue;
    }
    if (setting.starts_with("ranks=")) {
      options.ranks = uint32_t(std::strtoul(setting.data() + equals + 1, nullptr, 10));
      if (options.ranks == 0) return fail(std::string("not a number of ranks: ") + argv[i]);
      continue;
    }
    if (setting.starts_with("channels=")) {
      options.channel_changed = [rank = tern::PeerId(std::strtoul(setting.data() + equals + 1, nullptr, 10))](
                                    tern::PeerId told, tern::PeerId peer, const char* channel, uint64_t now_ns) {
        if (told != rank && peer != rank) return;
        std::printf("CHANNEL %u %u %.3f %s\n", unsigned(peer), unsigned(told), double(now_ns) / 1000, channel);
      };
      continue;
    }
    if (tern::Error error = options.tunables.set(setting.substr(0, equals), setting.substr(equals + 1))) {
      return fail(std::string(error.text()));
    }
  }
  options.udp = options.tunables.path == "udp";
  options.tcp = options.tunables.path == "tcp";
  if (options.udp || options.tcp) options.rdma = false;
  options.streams.call_ns = options.network.call_ns;
  // Kernels ask silent connections whether they live; closing ones may take minutes. That costs few events.
  if (options.tcp) options.limits.virtual_ns = 3'600'000'000'000;
  options.datagrams.call_ns = 0;  // the machine's poll_ns has it
  // The papers' experiments are without a thread unless they ask for one, and it has the rank's own core.
  if (options.tunables.progress == "auto") options.tunables.progress = "polling";
  if (options.cores_per_node == 0) options.cores_per_node = options.ranks_per_node;
  for (++i; i < argc; ++i) arguments.push_back(argv[i]);
  if (from_file) return run_file(std::move(options));
  arguments.push_back(nullptr);
  tern::sim::Report report = tern::sim::run_mpi(
      options, [](int, char**) { return program_main(int(arguments.size()) - 1, arguments.data()); },
      [](tern::sim::Machine::Rank& rank, tern::Process&) { machine_of_run = &rank.machine; });
  return report.ok() ? 0 : fail(report.failure);
}
