#include "capi/simulated/run_mpi.h"

#include <stdexcept>
#include <vector>

#include "capi/world.h"
#include "sim/world.h"

namespace tern::sim {

Report run_mpi(WorldOptions options, int (*program)(int, char**),
               const std::function<void(Machine::Rank&, Process&)>& prepare) {
  std::vector<capi::World*> worlds(options.ranks);
  capi::World* outside = capi::exchange_current(nullptr);
  capi::exchange_current(outside);
  options.on_switch = [&](int rank) {
    capi::exchange_current(rank >= 0 && worlds[size_t(rank)] ? worlds[size_t(rank)] : outside);
  };
  World world(std::move(options));
  Report report = world.run_unstarted([&](Machine::Rank& rank) {
    // On the fiber's heap, not its stack: a rank that is stopped for ever (abort) leaves it where it is.
    auto mine = std::make_unique<capi::World>();
    mine->host.connect = [&rank, &prepare](const RankContext& context, Error& error) {
      std::unique_ptr<Process> process = World::make_process(rank, context.lock, context.counters);
      if (prepare) prepare(rank, *process);
      error = process->start();
      return process;
    };
    worlds[rank.index()] = mine.get();
    capi::exchange_current(mine.get());
    char name[] = "simulated";
    char* arguments[] = {name, nullptr};
    int code = program(1, arguments);
    worlds[rank.index()] = nullptr;
    if (code != 0) {
      static_cast<void>(mine.release());
      throw std::runtime_error("the program returned " + std::to_string(code));
    }
  });
  capi::exchange_current(outside);
  return report;
}

}  // namespace tern::sim
