// What the command line of mpiexec requests: mpiexec [global and local options] program arguments : [local]
// program ... MPI 5.0 section 11.6 (Portable MPI process startup) names -n, -host, -wdir, -path, -configfile and the
// colon; most other options are those of Hydra and of Open MPI's mpirun. The options themselves: options.h.
#pragma once

#include <string>
#include <vector>

#include "bind.h"
#include "process/launch/start_info.h"
#include "shares.h"

namespace tern::mpiexec {

inline constexpr int kMistakeExitCode = 2;  ///< for wrong arguments, as of shells and GNU tools

/// Which of mpiexec's own variables are passed on.
struct Inheritance {
  bool all = true;
  std::vector<std::string> names{};  ///< when not all
};

/// One program of the (MPMD) command.
struct App {
  std::vector<std::string> command{};      ///< program and arguments, never empty
  int ranks = 0;                           ///< 0: not given
  std::vector<std::string> environment{};  ///< "NAME=VALUE", for these ranks only
  bool own_inheritance = false;            ///< `inheritance` replaces the plan's
  Inheritance inheritance{};
  std::string directory{};    ///< working directory; empty: mpiexec's own
  std::string search_path{};  ///< where to look for the program instead of PATH
  std::vector<Host> hosts{};  ///< those that the user has named for this program
  std::string soft{};         ///< the numbers of ranks that will do (11.8.4); empty: `ranks` only
  StartInfo start_info{};     ///< for the ranks
};

/// Files for the ranks' output, besides or instead of mpiexec's own. In patterns %r is the rank, %h the host, %% a %.
struct OutputFiles {
  std::string out_pattern{}, err_pattern{};  ///< empty: none; instead
  std::string folder{};                      ///< empty: none; FOLDER/1/rank.N/stdout and stderr
  bool copy = true;                          ///< of the folder: besides, else instead
};

struct Plan {
  std::vector<App> apps{};
  std::vector<std::string> environment{};  ///< "NAME=VALUE", for all ranks
  Inheritance inheritance{};
  bool label = false;  ///< "[rank] " before each line of output
  OutputFiles files{};
  Placement placement{};
  int timeout_s = 0;                            ///< 0: none
  static constexpr int kTimeoutExitCode = 124;  ///< as timeout(1)
  bool verbose = false;
  bool print_exit_codes = false;
  int input_rank = 0;     ///< gets the standard input; -1: none
  int universe_size = 0;  ///< 0: not given; -1: without limit
  std::string host_file{};
  std::vector<Host> hosts{};   ///< of the programs that name none: from the host file, or an allocation
  int ranks_per_host = 0;      ///< 0: not given
  bool here = false;           ///< on this machine, even inside an allocation
  std::string batch_system{};  ///< whose allocation gives the hosts; empty: the user names them
  bool gdb = false;  ///< each rank under gdb
  bool summary = false;
  bool explain = false;
  std::string trace_file{};                     ///< empty: no trace
  int trace_mib = 256;                          ///< of events, for each rank
  std::string simulated_machine{};              ///< empty: on real ones
  std::vector<std::string> simulate_options{};  ///< further words for the simulator (simulated.h)

  /// Ranks must leave records (recording.h).
  bool records() const { return summary || events(); }
  /// The records have single events, not only totals.
  bool events() const { return explain || !trace_file.empty(); }

  bool is_simulated() const { return !simulated_machine.empty(); }
  int ranks() const {
    int sum = 0;
    for (auto& app : apps) sum += app.ranks;
    return sum;
  }
  const Inheritance& inheritance_of(const App& app) const {
    return app.own_inheritance ? app.inheritance : inheritance;
  }
};

/// Reads the command line. True: run `plan`. False: everything is printed already (help, version, or a mistake
/// on stderr), and mpiexec ends with `exit_code`.
bool parse_command_line(const std::vector<std::string>& words, Plan& plan, int& exit_code);

/// When it is known how many ranks each program is to have: how many it gets, where `soft` says what will do, and what
/// the ranks are told of their start. Returns what is wrong.
std::string settle_ranks(Plan& plan);

}  // namespace tern::mpiexec
