// How mpiexec is started on another host, and what is said when that fails: one line with the remedy.
// Thread rule: pure functions, but for those that say that they read the environment.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "channel_messages.h"

namespace tern::mpiexec {

/// The option (not for users) that makes mpiexec an agent.
inline constexpr const char kAgentOption[] = "--tern-agent";

/// Who is asked for a variable: getenv, or a test's.
using Variables = std::function<const char*(const char*)>;

/// ssh, or what TERN_AGENT names, or another MPI's variable (HYDRA_LAUNCHER_EXEC, I_MPI_HYDRA_BOOTSTRAP_EXEC,
/// OMPI_MCA_plm_rsh_agent, PRTE_MCA_plm_ssh_agent), with its options. `own`: this program, which is expected at the
/// same place there unless TERN_AGENT_MPIEXEC says another. `mistake`: what is wrong with a variable; else empty.
AgentCommand agent_command(const Variables& variable, const std::string& own, std::string& mistake);

/// The variable that names a program in the place of ssh; null: none does.
const char* agent_variable(const Variables& variable);

/// How often ssh is told to try (ConnectionAttempts=N, as by the MPI Operator), at most 100; 1: it is told nothing.
int connection_attempts(const AgentCommand& command);

/// The words with which the agent on `host` is started.
std::vector<std::string> command_for(const AgentCommand& command, const std::string& host);

/// How an agent has ended.
struct AgentEnd {
  std::string host{};
  bool greeted = false;                ///< it had answered
  bool silent = false;                 ///< it did not answer for long
  std::optional<int> status{};         ///< of waitpid, of ssh
  int error = 0;                       ///< not 0: the errno with which ssh could not be started
  std::string said{};                  ///< its standard error, and what it has said instead of the protocol
  std::optional<std::string> other{};  ///< it has greeted as this version of Tern
};

/// One line: what has happened, and what to do.
std::string why_lost(const AgentEnd& end, const AgentCommand& command, const std::string& version);

}  // namespace tern::mpiexec
