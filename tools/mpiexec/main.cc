// mpiexec (also installed as mpirun): starts MPI programs on this machine, or hands over to an engine that
// reaches others. DESIGN.md 10.
#include <fcntl.h>
#include <unistd.h>

#include "hosts.h"
#include "job.h"
#include "plan.h"
#include "recording.h"

int main(int argc, char** argv) {
  using namespace tern::mpiexec;
  // Descriptors 0 to 2 must be taken, or one of ours would land there and be given to the ranks.
  while (true) {
    int descriptor = open("/dev/null", O_RDWR);
    if (descriptor > 2) {
      close(descriptor);
      break;
    }
    if (descriptor < 0) break;
  }
  Plan plan;
  int exit_code = 0;
  if (!parse_command_line({argv + 1, argv + argc}, plan, exit_code)) return exit_code;
  const bool elsewhere = needs_other_hosts(plan, exit_code);
  if (exit_code != 0) return exit_code;
  Recording recording;
  if (!recording.begin(plan, elsewhere)) return 1;
  const int code = elsewhere ? run_elsewhere(plan) : Job(plan).run();
  return recording.end(plan) || code != 0 ? code : 1;
}
