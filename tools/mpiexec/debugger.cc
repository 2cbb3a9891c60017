#include "debugger.h"

#include <unistd.h>

#include <cstring>

// Debuggers find these by their names and types. They are the process's, as the interface wants them.
extern "C" {

struct MPIR_PROCDESC {
  char* host_name;
  char* executable_name;
  int pid;
};

MPIR_PROCDESC* MPIR_proctable = nullptr;
int MPIR_proctable_size = 0;
volatile int MPIR_being_debugged = 0;
volatile int MPIR_debug_state = 0;
char* MPIR_debug_abort_string = nullptr;
volatile int MPIR_i_am_starter = 0;       // that it exists says: mpiexec is no rank
volatile int MPIR_partial_attach_ok = 1;  // ranks that no debugger holds go on by themselves
volatile int MPIR_acquired_pre_main = 0;  // ranks have reached MPI_Init, or will soon

[[gnu::noinline, gnu::used]] void MPIR_Breakpoint() { asm volatile("" ::: "memory"); }
}

namespace tern::mpiexec {
namespace {
constexpr int kSpawned = 1;  // MPIR_DEBUG_SPAWNED
}

void ProcessTable::add(int rank, pid_t process, const std::string& program) {
  if (rows_.size() == ranks_) return;  // a job that was spawned
  rows_.try_emplace(rank, Row{process, program});
  if (rows_.size() != ranks_) return;
  char host[256] = "";
  gethostname(host, sizeof host - 1);
  MPIR_proctable = new MPIR_PROCDESC[ranks_];  // until the process ends
  MPIR_PROCDESC* next = MPIR_proctable;
  for (const auto& [number, row] : rows_) *next++ = {strdup(host), strdup(row.program.c_str()), int(row.process)};
  MPIR_proctable_size = int(ranks_);
  MPIR_debug_state = kSpawned;
  if (MPIR_being_debugged != 0) MPIR_Breakpoint();
}

}  // namespace tern::mpiexec
