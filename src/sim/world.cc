#include "sim/world.h"

#include <stdexcept>
#include <string>

namespace tern::sim {
namespace {

void throw_if(const Error& error, const char* where) {
  if (error) throw std::runtime_error(std::string(where) + ": " + std::string(error.text()));
}

}  // namespace

std::unique_ptr<Process> World::make_process(Machine::Rank& rank, std::shared_ptr<RankLock> lock) {
  ProcessParts parts;
  parts.tunables = rank.machine.options().tunables;
  parts.clock = rank.make_clock();
  parts.idle = rank.make_idle();
  parts.launcher = rank.make_launcher();
  parts.lock = std::move(lock);
  parts.seed = rank.seed;
  auto process = std::make_unique<Process>(std::move(parts));
  process->add_path(rank.make_path(process->sink(), process->clock(), true));
  // As after a real wire-up: nobody sends before everybody can receive.
  throw_if(process->launcher().fence(), "wire-up");
  return process;
}

Report World::run(const std::function<void(Process&)>& body) {
  return machine_.run([&](Machine::Rank& rank) {
    std::unique_ptr<Process> process = make_process(rank, std::make_shared<RankLock>());
    try {
      throw_if(process->start(), "start");
      body(*process);
      throw_if(process->finish(), "finish");
    } catch (...) {
      // What is still in flight refers to the body's unwound memory: the Process is not torn down but left where it is.
      static_cast<void>(process.release());
      throw;
    }
  });
}

}  // namespace tern::sim
