// The launchers that reach other hosts, and how each is told what mpiexec was told: Slurm's srun, flux run, PRRTE's
// prterun and Open MPI's mpirun, Hydra (MPICH's mpiexec).
// Thread rule: pure functions, but for those that say that they read the environment.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "plan.h"

namespace tern::mpiexec {

enum class Dialect { slurm, flux, open_mpi, hydra };

struct Engine {
  const char* program;
  Dialect dialect;
};

/// Those to look for in PATH, in this order. Reads the environment (an allocation of Slurm or Flux).
std::vector<Engine> engines();

struct EngineCommand {
  std::vector<std::string> words{};        ///< the engine first, as it is called in PATH
  std::vector<std::string> environment{};  ///< "NAME=VALUE", for the engine itself
  std::vector<std::string> ignored{};      ///< options that were given and that this engine does not offer
};

/// `own_name`: where programs run that have no host. `inherited`: the names of all variables that mpiexec has itself.
/// `root`: Open MPI's mpirun must be told.
EngineCommand translate(const Plan& plan, const Engine& engine, const std::string& own_name,
                        const std::vector<std::string>& inherited, bool root);

/// A line of labelled output of this engine as mpiexec's own would be: "[rank] text". `line` ends without newline; one
/// that the engine has not labelled stays as it is.
std::string with_our_label(Dialect dialect, std::string_view line);

/// The exit code that a line of srun's own messages tells of a rank that has failed (128 + n for signal n); 0: none.
/// srun itself ends with the largest code of all ranks, that of the ones it has killed included.
int failure_told_by_slurm(std::string_view line);

/// One word of a shell's command line.
std::string shell_word(std::string_view word);

}  // namespace tern::mpiexec
