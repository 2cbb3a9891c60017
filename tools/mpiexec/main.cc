// mpiexec (also installed as mpirun): starts MPI programs on this machine, and on others by an engine that is there or
// by agents.
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>

#include "agent.h"
#include "agent_command.h"
#include "base/kernel_calls.h"
#include "debug_job.h"
#include "elsewhere.h"
#include "helper_program.h"
#include "hosts.h"
#include "job.h"
#include "keeper.h"
#include "plan.h"
#include "recording.h"
#include "simulated.h"
#include "streams.h"

namespace {

// Descriptors 0 to 2 must be in use, or one of ours would get such a number and be given to the ranks. Writing to one
// that was closed remains an error.
void fill_standard_descriptors() {
  int descriptor = 0;
  while (descriptor >= 0 && descriptor <= 2) descriptor = open("/dev/null", O_RDONLY | O_CLOEXEC);
  // Descriptors 0 to 2 are passed on nevertheless: the ranks get copies.
  if (descriptor > 2) close(descriptor);
}

}  // namespace

int main(int argc, char** argv) {
  using namespace tern::mpiexec;
  fill_standard_descriptors();
  signal(SIGPIPE, SIG_IGN);  // a reader that is gone is an error of write()
  signal(SIGXFSZ, SIG_IGN);  // and so is a file that may not grow
  if (argc == 2 && std::strcmp(argv[1], kAgentOption) == 0) return run_agent(argv);
  if (argc >= 2 && (std::strcmp(argv[1], "--top") == 0 || std::strcmp(argv[1], "-top") == 0)) return become_top(argv);
  if (const tern::Error error = tern::require_kernel_calls()) {
    say(error.text());
    return 1;
  }
  Plan plan;
  int exit_code = 0;
  if (!parse_command_line({argv + 1, argv + argc}, plan, exit_code)) return exit_code;
  if (plan.is_simulated()) return run_simulated(plan, argv);
  take_allocation(plan);
  if (const std::string mistake = settle_ranks(plan); !mistake.empty()) {
    say(mistake);
    return kMistakeExitCode;
  }
  const bool others = needs_other_hosts(plan, exit_code);
  if (exit_code != 0) return exit_code;
  if (plan.gdb && others) {
    say("-gdb: the ranks must be on this machine (-here)");
    return kMistakeExitCode;
  }
  const bool elsewhere = others && engine_is_there();
  if (elsewhere && !plan.records()) return run_elsewhere(plan);
  if (plan.gdb && !begin_debugging(plan)) return 1;
  Keeper keeper;
  if (!keeper.start(argv)) {
    say(std::string("cannot set up the job: ") + strerror(errno));
    return 1;
  }
  Recording recording;
  if (!recording.begin(plan, elsewhere, keeper)) return 1;
  const int code = elsewhere ? run_elsewhere(plan) : Job(plan, keeper, argv).run();
  return recording.end(plan) || code != 0 ? code : 1;
}
