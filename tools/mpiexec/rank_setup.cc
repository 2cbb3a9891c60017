#include "rank_setup.h"

#include <fmt/format.h>

#include <algorithm>

#include "process/launch/rank_report.h"
#include "process/launch/spawn_command.h"
#include "process/launch/start_info.h"

namespace tern::mpiexec {
namespace {

// Variables that a launcher around us set for us are not for our ranks; what the ranks need is set anew.
constexpr std::string_view kNotPassedOn[] = {"PMI_FD",
                                             "PMI_RANK",
                                             "PMI_SIZE",
                                             "PMI_PORT",
                                             "PMI_ID",
                                             "PMI_JOBID",
                                             "PMI_SPAWNED",
                                             "PMI_KVS",
                                             "PMI_APPNUM",
                                             "PMI_UNIVERSE_SIZE",
                                             "MPI_LOCALRANKID",
                                             "MPI_LOCALNRANKS",
                                             "TERN_JOB_ID",
                                             "TERN_JOB_KEY",
                                             "TERN_CORES",
                                             "TERN_LOCAL_SIZE",
                                             "TERN_LOCAL_RANK",
                                             "TERN_RECORD",
                                             "TERN_RECORD_EVENTS",
                                             kSpawnAnswerVariable,
                                             kStandardErrorVariable,
                                             kParentPortVariable,
                                             kStartInfoVariable};
constexpr std::string_view kNotPassedOnPrefixes[] = {"PMIX_NAMESPACE", "PMIX_RANK", "PMIX_SERVER_", "PMIX_VERSION",
                                                     "OMPI_COMM_WORLD_"};

constexpr std::string_view kOfOneHost[] = {"_",
                                           "PWD",
                                           "OLDPWD",
                                           "HOSTNAME",
                                           "SHLVL",
                                           "TMPDIR",
                                           "HOME",
                                           "USER",
                                           "LOGNAME",
                                           "SHELL",
                                           "MAIL",
                                           "DISPLAY",
                                           "TTY",
                                           "WAYLAND_DISPLAY",
                                           "TMUX",
                                           "STY",
                                           "DBUS_SESSION_BUS_ADDRESS"};
constexpr std::string_view kOfOneHostPrefixes[] = {"SSH_", "XDG_RUNTIME_", "XDG_SESSION_", "SYSTEMD_", "GPG_AGENT_"};

template <size_t N, size_t M>
bool is_among(std::string_view name, const std::string_view (&names)[N], const std::string_view (&prefixes)[M]) {
  return std::find(std::begin(names), std::end(names), name) != std::end(names) ||
         std::any_of(std::begin(prefixes), std::end(prefixes),
                     [&](std::string_view prefix) { return name.starts_with(prefix); });
}

}  // namespace

std::string_view name_of_variable(std::string_view entry) { return entry.substr(0, entry.find('=')); }

bool has_variable(const std::vector<std::string>& environment, std::string_view name) {
  return std::any_of(environment.begin(), environment.end(),
                     [&](const std::string& entry) { return name_of_variable(entry) == name; });
}

void set_variable(std::vector<std::string>& environment, std::string entry) {
  const std::string_view name = name_of_variable(entry);
  for (auto& old : environment) {
    if (name_of_variable(old) == name) {
      old = std::move(entry);
      return;
    }
  }
  environment.push_back(std::move(entry));
}

bool is_passed_on(std::string_view name) { return !is_among(name, kNotPassedOn, kNotPassedOnPrefixes); }

bool belongs_to_one_host(std::string_view name) { return is_among(name, kOfOneHost, kOfOneHostPrefixes); }

void add_identity(std::vector<std::string>& environment, const RankIdentity& identity) {
  environment.push_back(fmt::format("PMI_FD={}", identity.kept_descriptor));
  environment.push_back(fmt::format("PMI_RANK={}", identity.rank));
  environment.push_back(fmt::format("PMI_SIZE={}", identity.size));
  // Variables of other launchers with which scripts distribute devices and files among the ranks of a node.
  environment.push_back(fmt::format("MPI_LOCALRANKID={}", identity.local_rank));
  environment.push_back(fmt::format("MPI_LOCALNRANKS={}", identity.local_size));
  environment.push_back("TERN_JOB_ID=" + identity.job_id);
  environment.push_back("TERN_JOB_KEY=" + identity.job_key);
  environment.push_back(fmt::format("TERN_LOCAL_RANK={}", identity.local_rank));
  environment.push_back(fmt::format("TERN_LOCAL_SIZE={}", identity.local_size));
  environment.push_back(fmt::format("TERN_CORES={}", identity.cores));
}

int kept_descriptor(const rlimit& limit) {
  constexpr rlim_t kWanted = 100;  // see rank_setup.h
  return int(std::max<rlim_t>(3, std::min(kWanted, limit.rlim_cur - 1)));
}

std::string core_list(const cpu_set_t& set) {
  std::string list;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(cpu, &set)) list += fmt::format("{}{}", list.empty() ? "" : ",", cpu);
  }
  return list;
}

}  // namespace tern::mpiexec
