// Runs a benchmark program of this folder on a simulated machine (machines/*.toml), two ranks on two nodes, over the RDMA
// path, in virtual time:
//
//   simulated MACHINE.toml latency|progress|overlap [TUNABLE=VALUE]... [-- ARGUMENTS...]
//
// Prints what the program prints. The programs are plain MPI and the same as on real machines; only their computation is
// told to the simulator (BENCH_SIMULATED in bench.h). Registrations of user memory are kept, as the library does.
#include <cstdio>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "capi/world.h"
#include "sim/machine_file.h"
#include "tests/sim/run_mpi.h"

extern "C" {
int bench_latency(int argc, char** argv);
int bench_progress(int argc, char** argv);
int bench_overlap(int argc, char** argv);
void simulated_work(long loops) { tern::capi::current().process->clock().charge_ns(uint64_t(loops)); }
}

namespace {

struct Program {
  std::string_view name;
  int (*main)(int, char**);
};
constexpr Program kPrograms[] = {{"latency", bench_latency}, {"progress", bench_progress}, {"overlap", bench_overlap}};

// What follows `--`, for the program; one simulation runs at a time.
std::vector<char*> arguments;
int (*program_main)(int, char**);

int fail(const std::string& text) {
  std::fprintf(stderr, "simulated: %s\n", text.c_str());
  return 2;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) return fail("MACHINE.toml PROGRAM [TUNABLE=VALUE]... [-- ARGUMENTS...]");
  tern::sim::MachineModel machine;
  if (tern::Error error = tern::sim::load_machine(argv[1], machine)) return fail(std::string(error.text()));
  if (!machine.has_adapter) return fail("the machine has no RDMA adapter");
  for (const Program& program : kPrograms) {
    if (program.name == argv[2]) program_main = program.main;
  }
  if (!program_main) return fail(std::string("there is no program ") + argv[2]);
  tern::sim::WorldOptions options;
  options.network = machine.network;
  options.adapter = machine.adapter;
  options.rdma = true;
  options.keep_registrations = true;
  options.tunables.rdma_keepalive_ms = 0;
  arguments.push_back(argv[2]);
  int i = 3;
  for (; i < argc && std::strcmp(argv[i], "--") != 0; ++i) {
    std::string_view setting(argv[i]);
    const size_t equals = setting.find('=');
    if (equals == std::string_view::npos) return fail(std::string("not TUNABLE=VALUE: ") + argv[i]);
    if (tern::Error error = options.tunables.set(setting.substr(0, equals), setting.substr(equals + 1))) {
      return fail(std::string(error.text()));
    }
  }
  for (++i; i < argc; ++i) arguments.push_back(argv[i]);
  arguments.push_back(nullptr);
  tern::sim::Report report = tern::sim::run_mpi(options, [](int, char**) {
    return program_main(int(arguments.size()) - 1, arguments.data());
  });
  return report.ok() ? 0 : fail(report.failure);
}
