#include "hosts.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <ifaddrs.h>
#include <netdb.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <sstream>

#include "allocation.h"
#include "input_files.h"
#include "output_of.h"
#include "process/launch/spawn_command.h"
#include "streams.h"
#include "users_file.h"

namespace tern::mpiexec {
namespace {

bool is_own_address(const std::string& host) {
  in_addr v4;
  in6_addr v6;
  const bool is_v4 = inet_pton(AF_INET, host.c_str(), &v4) == 1, is_v6 = inet_pton(AF_INET6, host.c_str(), &v6) == 1;
  if (!is_v4 && !is_v6) return false;
  if ((is_v4 && host.starts_with("127.")) || (is_v6 && host == "::1")) return true;
  ifaddrs* interfaces = nullptr;
  if (getifaddrs(&interfaces) != 0) return false;
  bool own = false;
  for (ifaddrs* i = interfaces; i && !own; i = i->ifa_next) {
    if (!i->ifa_addr) continue;
    if (is_v4 && i->ifa_addr->sa_family == AF_INET) {
      own = memcmp(&reinterpret_cast<sockaddr_in*>(i->ifa_addr)->sin_addr, &v4, sizeof v4) == 0;
    } else if (is_v6 && i->ifa_addr->sa_family == AF_INET6) {
      own = memcmp(&reinterpret_cast<sockaddr_in6*>(i->ifa_addr)->sin6_addr, &v6, sizeof v6) == 0;
    }
  }
  freeifaddrs(interfaces);
  return own;
}

// Variables by which other MPIs are told their hosts. The MPI Operator of Kubernetes says them in no other way.
constexpr const char* kHostFileVariables[] = {"HYDRA_HOST_FILE", "I_MPI_HYDRA_HOST_FILE",
                                              "OMPI_MCA_orte_default_hostfile", "PRTE_MCA_prte_default_hostfile"};

// The file that such a variable names, its hosts, and their slots as the number of ranks that was not given.
void take_named_host_file(Plan& plan) {
  for (const char* variable : kHostFileVariables) {
    const char* path = getenv(variable);
    if (!path || !*path) continue;
    plan.host_file = path;
    std::ifstream file(plan.host_file);
    int slots = 0;
    for (const Host& host : read_hosts(file)) slots += std::max(1, host.slots);
    if (plan.apps.size() != 1 || plan.apps[0].ranks != 0 || slots == 0) return;
    plan.apps[0].ranks = slots;
    say(fmt::format("{} rank{}, as {}={} says", slots, slots == 1 ? "" : "s", variable, path));
    return;
  }
}

}  // namespace

bool is_this_machine(const std::string& host) {
  if (host == "localhost" || is_own_address(host)) return true;
  const char* slurms_name = getenv("SLURMD_NODENAME");
  if (slurms_name && host == slurms_name) return true;
  char name[256] = "";
  if (gethostname(name, sizeof name - 1) != 0) return false;
  std::string own(name);
  return host == own || host == own.substr(0, own.find('.')) || own == host.substr(0, host.find('.'));
}

namespace {

// All that the plan names, each once.
std::vector<std::string> host_names(const Plan& plan) {
  std::vector<std::string> names;
  const auto add = [&names](const std::vector<Host>& hosts) {
    for (const Host& host : hosts) {
      if (std::find(names.begin(), names.end(), host.name) == names.end()) names.push_back(host.name);
    }
  };
  add(plan.hosts);
  for (const App& app : plan.apps) add(app.hosts);
  return names;
}

bool hosts_are_in_allocation(const Plan& plan) {
  const char* list = getenv("SLURM_JOB_NODELIST");
  const std::vector<std::string> nodes = expand_host_list(list ? list : "");
  if (nodes.empty()) return true;  // srun knows better
  for (const std::string& name : host_names(plan)) {
    if (std::find(nodes.begin(), nodes.end(), name) != nodes.end()) continue;
    say(fmt::format("host '{}' is not in this Slurm allocation ({}); no rank was started", name, list));
    return false;
  }
  return true;
}

// "Host NAME" with another "HostName" in ssh's configuration. Asks ssh, which connects to nobody for that.
bool is_alias_of_ssh(const std::string& name) {
  if (name.starts_with('-')) return false;
  const std::string text = output_of({"ssh", "-G", name});
  const std::string key = "\nhostname ";
  const size_t at = ("\n" + text).find(key);
  if (at == std::string::npos) return false;
  const size_t begin = at + key.size() - 1;
  return text.substr(begin, text.find('\n', begin) - begin) != name;
}

}  // namespace

void take_allocation(Plan& plan) {
  // A job that a rank spawns runs where the rank does.
  if (plan.here || !plan.host_file.empty() || getenv(kSpawnAnswerVariable)) return;
  if (std::any_of(plan.apps.begin(), plan.apps.end(), [](const App& app) { return !app.hosts.empty(); })) return;
  const std::optional<Allocation> allocation = read_allocation();
  if (!allocation) return take_named_host_file(plan);
  const bool counted = plan.apps.size() == 1 && plan.apps[0].ranks == 0;
  if (counted) plan.apps[0].ranks = allocation->ranks;
  const bool elsewhere = std::any_of(allocation->hosts.begin(), allocation->hosts.end(),
                                     [](const Host& host) { return !is_this_machine(host.name); });
  if (elsewhere) {
    plan.batch_system = allocation->system;
    plan.hosts = allocation->hosts;
  } else if (counted && allocation->ranks > 1) {
    say(fmt::format("{} ranks, as {}'s allocation says", allocation->ranks, allocation->system));
  }
}

bool needs_other_hosts(Plan& plan, int& exit_code) {
  if (!plan.host_file.empty()) {
    std::string text, why;
    if (!read_users_file(plan.host_file, text, why)) {
      say(fmt::format("host file '{}': {}", plan.host_file, why));
      exit_code = 2;
      return true;
    }
    std::istringstream file(text);
    plan.hosts = read_hosts(file);
  }
  const std::vector<std::string> names = host_names(plan);
  return std::any_of(names.begin(), names.end(), [](auto& name) { return !is_this_machine(name); });
}

bool hosts_are_known(const Plan& plan, Dialect dialect) {
  // Slurm has given the names, and may know them by others than the network does.
  if (!plan.batch_system.empty()) return true;
  if (dialect == Dialect::slurm) return hosts_are_in_allocation(plan);
  if (dialect == Dialect::flux) return true;  // it names those that its instance has not
  // With a program in the place of ssh, names are that program's.
  for (const char* agent :
       {"HYDRA_LAUNCHER_EXEC", "HYDRA_LAUNCHER", "OMPI_MCA_plm_rsh_agent", "PRTE_MCA_plm_ssh_agent"})
    if (getenv(agent)) return true;
  for (const std::string& name : host_names(plan)) {
    if (is_this_machine(name)) continue;
    addrinfo* found = nullptr;
    const int failure = getaddrinfo(name.c_str(), nullptr, nullptr, &found);
    if (failure == 0) freeaddrinfo(found);
    if (failure == 0 || is_alias_of_ssh(name)) continue;
    say(fmt::format("host '{}' is not known here: {}. It comes from {}; no rank was started", name,
                    gai_strerror(failure), plan.host_file.empty() ? "-host" : "the file " + plan.host_file));
    return false;
  }
  return true;
}

}  // namespace tern::mpiexec
