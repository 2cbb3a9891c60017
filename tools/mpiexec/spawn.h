// How a process of the job starts: its properties, and the steps between fork and exec.
#pragma once

#include <sched.h>
#include <sys/resource.h>
#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

namespace tern::mpiexec {

/// Everything a child needs, prepared so that between fork and exec only system calls remain.
struct ChildSpec {
  std::string file;  ///< resolved path
  std::vector<std::string> arguments, environment;
  std::string directory;             ///< empty: stay
  int standard[3] = {-1, -1, -1};    ///< become the descriptors 0 to 2
  int keep = -1;                     ///< a further descriptor to pass on; -1: none
  int keep_as = 3;                   ///< its number in the child
  std::optional<cpu_set_t> cores{};  ///< none: not bound
  rlimit descriptors{};              ///< limit on descriptors to restore
};

/// Starts the process in the process group `group`; -1: errno says why. All descriptors of `spec` are
/// above 2. `failure`, in memory shared with the child, is 0: when the child cannot become the program it ends with
/// exit code 127 and its errno is there. Signals are unblocked and at their defaults in the child.
pid_t start_child(const ChildSpec& spec, pid_t group, int* failure);

/// Finds `program` as a shell would: a name with a slash relative to `directory`, then to where mpiexec is;
/// another along `search_path`. 0 and `file`, or the exit code for "not found" (127) or "not executable"
/// (126).
int find_program(const std::string& program, const std::string& directory, const std::string& search_path,
                 std::string& file);

}  // namespace tern::mpiexec
