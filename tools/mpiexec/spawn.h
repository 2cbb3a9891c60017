// How processes begin and how all of them end: the ranks, and a guard that outlives mpiexec.
//
// All ranks are in one process group, led by the guard, a child of mpiexec that does nothing but wait for the
// end of mpiexec. Ordinary ends are mpiexec's business; if mpiexec is killed hard, the guard kills the group,
// so that what ranks started in turn goes too. Each rank besides asks the kernel to be killed when mpiexec
// dies (PR_SET_PDEATHSIG).
#pragma once

#include <sched.h>
#include <sys/resource.h>
#include <sys/types.h>

#include <string>
#include <vector>

namespace tern::mpiexec {

class Guard {
 public:
  /// Starts the guard. Error: false, errno says why.
  bool start();
  pid_t group() const { return pid_; }
  /// Ends every process of the group that is left, the guard too, and waits for the guard.
  void end_group();

 private:
  pid_t pid_ = -1;
  int alive_ = -1;  ///< writing end of a pipe that only mpiexec holds: its closing is the guard's signal
};

/// Everything a child needs, prepared so that between fork and exec only system calls remain.
struct ChildSpec {
  std::string file;  ///< resolved path
  std::vector<std::string> arguments, environment;
  std::string directory;  ///< empty: stay
  int standard[3] = {0, 1, 2};
  int keep = -1;                     ///< further descriptor to hand down (PMI), with its number
  const cpu_set_t* cores = nullptr;  ///< null: not bound
  pid_t group = 0;
  rlimit descriptors{};    ///< limit on descriptors to restore
  int* failure = nullptr;  ///< in shared memory, 0 at first: the child's errno when it cannot become the program
};

/// Starts the process; -1: errno says why. Whether exec went well shows only when the child has ended: with
/// exit code 127 and `failure` set it did not. Signals are unblocked and at their defaults in the child.
pid_t start_child(const ChildSpec& spec);

/// Finds `program` as a shell would: a name with a slash relative to `directory`, then to where mpiexec is;
/// another along `search_path`. 0 and `file`, or the exit code for "not found" (127) or "not executable"
/// (126).
int find_program(const std::string& program, const std::string& directory, const std::string& search_path,
                 std::string& file);

}  // namespace tern::mpiexec
