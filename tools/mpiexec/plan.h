// What the command line of mpiexec asks for: mpiexec [global and local options] program arguments : [local]
// program ... MPI 5.0 section 11.6 (Portable MPI process startup) names -n, -host, -wdir, -path and the
// colon.
#pragma once

#include <string>
#include <vector>

namespace tern::mpiexec {

/// One program of the (MPMD) command.
struct App {
  std::vector<std::string> command;  ///< program and arguments, never empty
  int ranks = 1;
  std::vector<std::string> environment;  ///< "NAME=VALUE", for these ranks only
  std::string directory;                 ///< working directory; empty: mpiexec's own
  std::string search_path;               ///< where to look for the program instead of PATH
  std::vector<std::string> hosts;
};

enum class Binding { automatic, core, none };

struct Plan {
  std::vector<App> apps;
  std::vector<std::string> environment;  ///< "NAME=VALUE", for all ranks
  std::vector<std::string> inherited;    ///< names to pass on when `inherit_all` is false
  bool inherit_all = true;
  bool label = false;  ///< "[rank] " before each line of output
  Binding binding = Binding::automatic;
  int timeout_s = 0;  ///< 0: none
  bool verbose = false;
  std::string host_file;
  int ranks_per_host = 0;  ///< 0: not said
  bool summary = false;
  std::string trace_file;  ///< empty: no trace
  int trace_mib = 256;     ///< of events, for each rank

  /// Ranks shall leave records (recording.h).
  bool records() const { return summary || !trace_file.empty(); }

  int ranks() const {
    int sum = 0;
    for (auto& app : apps) sum += app.ranks;
    return sum;
  }
};

/// Reads the command line. True: `plan` is to be run. False: all is said already (help, version, or a mistake
/// on stderr), and mpiexec ends with `exit_code`.
bool parse_command_line(const std::vector<std::string>& words, Plan& plan, int& exit_code);

}  // namespace tern::mpiexec
