// Runs a benchmark program of this folder on a simulated machine (machines/*.toml), two ranks on two nodes (or N on N),
// in virtual time:
//
//   simulated MACHINE.toml latency|oneway|progress|overlap|background|world|patterns|availability|sp|headofline|locks|
//             channel_costs|FILE.so [ranks=N] [ranks_per_node=N] [cores=N] [atomic_swap=0|1] [calls=free]
//             [channels=RANK] [TUNABLE=VALUE]... [-- ARGUMENTS...]
//
// or any MPI program that is built as a shared object and named with its folder (capi/simulated/program_file.h); its
// computation takes no virtual time.
//
// Prints what the program prints; with channels=RANK also a line `CHANNEL peer microseconds channel` each time that
// another channel carries a peer's messages to that rank. The programs are plain MPI and the same as on real machines;
// only their computation is told to the simulator (BENCH_SIMULATED in bench.h). Over the RDMA path where the machine
// has adapters, else over a network that costs what its file says of TCP, or by datagrams (path=udp). progress=event:
// beside an event thread, on the same core unless the node has more (cores=N). Registrations of user memory are kept,
// as the library does.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "capi/simulated/program_file.h"
#include "capi/simulated/run_mpi.h"
#include "capi/world.h"
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
tern::sim::ProgramFile program_file;

int fail(const std::string& text) {
  std::fprintf(stderr, "simulated: %s\n", text.c_str());
  return 2;
}

}  // namespace

void simulated_work(long loops) {
  tern::Process& process = *tern::capi::current().process;
  static_cast<tern::sim::SimClock&>(process.clock()).compute_ns(uint64_t(loops));
}

int main(int argc, char** argv) {
  if (argc < 3) return fail("MACHINE.toml PROGRAM [TUNABLE=VALUE]... [-- ARGUMENTS...]");
  tern::sim::MachineModel machine;
  if (tern::Error error = tern::sim::load_machine(argv[1], machine)) return fail(std::string(error.text()));
  for (const Program& program : kPrograms) {
    if (program.name == argv[2]) program_main = program.main;
  }
  if (std::strchr(argv[2], '/')) {
    if (tern::Error error = program_file.read(argv[2])) return fail(std::string(error.text()));
    program_main = [](int count, char** strings) { return program_file.run(count, strings); };
  }
  if (!program_main) return fail(std::string("there is no program ") + argv[2]);
  tern::sim::WorldOptions options;
  options.network = machine.network;
  options.adapter = machine.adapter;
  options.rdma = machine.has_adapter;
  options.keep_registrations = true;
  if (std::strchr(argv[2], '/')) options.stack_bytes = size_t{1} << 20;  // it knows nothing of simulations
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
    if (setting.starts_with("ranks=")) {
      options.ranks = uint32_t(std::strtoul(setting.data() + equals + 1, nullptr, 10));
      if (options.ranks == 0) return fail(std::string("not a number of ranks: ") + argv[i]);
      continue;
    }
    if (setting.starts_with("channels=")) {
      options.channel_changed = [rank = tern::PeerId(std::strtoul(setting.data() + equals + 1, nullptr, 10))](
                                    tern::PeerId told, tern::PeerId peer, const char* channel, uint64_t now_ns) {
        if (told == rank) std::printf("CHANNEL %u %.3f %s\n", unsigned(peer), double(now_ns) / 1000, channel);
      };
      continue;
    }
    if (tern::Error error = options.tunables.set(setting.substr(0, equals), setting.substr(equals + 1))) {
      return fail(std::string(error.text()));
    }
  }
  options.udp = options.tunables.path == "udp";
  options.datagrams.call_ns = 0;  // the machine's poll_ns has it
  // The papers' experiments are without a thread unless they ask for one, and it has the rank's own core.
  if (options.tunables.progress == "auto") options.tunables.progress = "polling";
  if (options.cores_per_node == 0) options.cores_per_node = options.ranks_per_node;
  for (++i; i < argc; ++i) arguments.push_back(argv[i]);
  arguments.push_back(nullptr);
  tern::sim::Report report = tern::sim::run_mpi(
      options, [](int, char**) { return program_main(int(arguments.size()) - 1, arguments.data()); });
  return report.ok() ? 0 : fail(report.failure);
}
