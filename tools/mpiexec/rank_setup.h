// What the processes of ranks get beside their program: variables, descriptors. The same on mpiexec's own machine
// (job_start.cc) and on others (agent.cc).
// Thread rule: pure functions.
#pragma once

#include <sched.h>
#include <sys/resource.h>

#include <string>
#include <string_view>
#include <vector>

namespace tern::mpiexec {

/// Of "NAME=VALUE".
std::string_view name_of_variable(std::string_view entry);
/// Sets "NAME=VALUE" in the environment.
void set_variable(std::vector<std::string>& environment, std::string entry);
bool has_variable(const std::vector<std::string>& environment, std::string_view name);

/// False: a launcher around us has set it, and it is not for our ranks.
bool is_passed_on(std::string_view name);
/// It says something of one host or one session (HOME, PWD, DISPLAY, SSH_CONNECTION ...): ranks on another host get
/// that host's own.
bool belongs_to_one_host(std::string_view name);

struct RankIdentity {
  int rank, size;
  int local_rank, local_size;  ///< on its host
  int cores;                   ///< that the ranks of its host may use together (host_cores.h)
  int kept_descriptor;         ///< its connection to mpiexec
  const std::string &job_id, &job_key;
};
/// Adds the variables by which the rank finds itself and the others.
void add_identity(std::vector<std::string>& environment, const RankIdentity& identity);

/// The number of the ranks' PMI socket: one that neither scripts (exec 3>file) nor shells (10 and up) use for their
/// own.
int kept_descriptor(const rlimit& limit);

/// "0,1,5".
std::string core_list(const cpu_set_t& set);

}  // namespace tern::mpiexec
