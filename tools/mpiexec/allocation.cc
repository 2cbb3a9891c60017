#include "allocation.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <fstream>
#include <sstream>

#include "output_of.h"

namespace tern::mpiexec {
namespace {

// More is a mistake or an attack: no machine has as many.
constexpr size_t kMaxHosts = 1'000'000;

std::string variable(const char* name) {
  const char* value = getenv(name);
  return value ? value : "";
}

// A whole number from 0 to kMaxSlots; -1: it is none.
int count_of(std::string_view text) {
  int value = -1;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), value);
  return failure == std::errc() && end == text.data() + text.size() && value <= kMaxSlots ? value : -1;
}

// At the commas outside of brackets.
std::vector<std::string> split_outside_brackets(const std::string& list) {
  std::vector<std::string> parts(1);
  int depth = 0;
  for (char c : list) {
    depth += (c == '[') - (c == ']');
    if (c == ',' && depth == 0) parts.emplace_back();
    else parts.back() += c;
  }
  return parts;
}

// "08-11" with what stands before and behind it. False: not understood, or too many.
bool add_range(const std::string& before, std::string_view range, const std::string& behind,
               std::vector<std::string>& names) {
  const size_t dash = range.find('-');
  const std::string_view first = range.substr(0, dash), last = dash == range.npos ? first : range.substr(dash + 1);
  const int from = count_of(first), to = count_of(last);
  if (from < 0 || to < from || names.size() + size_t(to - from) >= kMaxHosts) return false;
  for (int number = from; number <= to; ++number) {
    std::string digits = std::to_string(number);
    if (digits.size() < first.size()) digits.insert(0, first.size() - digits.size(), '0');
    names.push_back(before + digits + behind);
  }
  return true;
}

std::optional<Allocation> read_slurm() {
  if (variable("SLURM_JOB_ID").empty()) return std::nullopt;
  std::string list = variable("SLURM_JOB_NODELIST");
  if (list.empty()) list = variable("SLURM_NODELIST");
  Allocation found{"Slurm", variable("SLURMD_NODENAME")};
  const std::vector<int> counts = expand_counts(variable("SLURM_TASKS_PER_NODE"));
  for (const std::string& name : expand_host_list(list)) {
    const size_t at = found.hosts.size();
    found.hosts.push_back({name, at < counts.size() ? std::max(1, counts[at]) : 1});
  }
  found.ranks = std::max(0, count_of(variable("SLURM_NTASKS")));
  return found;
}

std::optional<Allocation> read_pbs() {
  std::ifstream file(variable("PBS_NODEFILE"));
  if (!file) return std::nullopt;
  return Allocation{"PBS", {}, read_pbs_nodes(file)};
}

std::optional<Allocation> read_sge() {
  std::ifstream file(variable("PE_HOSTFILE"));
  if (!file) return std::nullopt;
  return Allocation{"SGE", {}, read_sge_hosts(file), std::max(0, count_of(variable("NSLOTS")))};
}

// Cores are what Flux gives to ranks, evenly here: it says how many there are in all.
std::optional<Allocation> read_flux() {
  if (variable("FLUX_URI").empty()) return std::nullopt;
  Allocation found{"Flux"};
  const std::vector<std::string> names = expand_host_list(first_line(output_of({"flux", "getattr", "hostlist"})));
  const int cores = count_of(first_line(output_of({"flux", "resource", "list", "-n", "-o", "{ncores}"})));
  for (size_t i = 0; i < names.size(); ++i) {
    const int slots =
        int(size_t(std::max(0, cores)) * (i + 1) / names.size() - size_t(std::max(0, cores)) * i / names.size());
    found.hosts.push_back({names[i], std::max(1, slots)});
  }
  return found;
}

}  // namespace

std::vector<std::string> expand_host_list(const std::string& list) {
  std::vector<std::string> names;
  for (const std::string& part : split_outside_brackets(list)) {
    const size_t open = part.find('['), close = part.find(']');
    if (open == std::string::npos && close == std::string::npos && !part.empty() && names.size() < kMaxHosts) {
      names.push_back(part);
      continue;
    }
    if (open == std::string::npos || close == std::string::npos || close < open) return {};
    std::istringstream ranges(part.substr(open + 1, close - open - 1));
    for (std::string range; std::getline(ranges, range, ',');) {
      if (!add_range(part.substr(0, open), range, part.substr(close + 1), names)) return {};
    }
  }
  return names;
}

std::vector<int> expand_counts(const std::string& counts) {
  std::vector<int> all;
  std::istringstream parts(counts);
  for (std::string part; std::getline(parts, part, ',');) {
    const size_t times_at = part.find("(x");
    const int count = count_of(std::string_view(part).substr(0, times_at));
    int times = 1;
    if (times_at != std::string::npos) {
      if (!part.ends_with(')')) return {};
      times = count_of(std::string_view(part).substr(times_at + 2, part.size() - times_at - 3));
    }
    if (count < 0 || times < 1 || all.size() + size_t(times) > kMaxHosts) return {};
    all.insert(all.end(), size_t(times), count);
  }
  return all;
}

std::vector<Host> read_pbs_nodes(std::istream& file) {
  std::vector<Host> hosts;
  for (std::string name; file >> name && hosts.size() < kMaxHosts;) {
    auto known = std::find_if(hosts.begin(), hosts.end(), [&](const Host& host) { return host.name == name; });
    if (known == hosts.end()) hosts.push_back({name, 1});
    else ++known->slots;
  }
  return hosts;
}

std::vector<Host> read_sge_hosts(std::istream& file) {
  std::vector<Host> hosts;
  for (std::string line; std::getline(file, line) && hosts.size() < kMaxHosts;) {
    std::istringstream words(line);
    std::string name, slots;
    if (words >> name >> slots) hosts.push_back({name, std::max(1, count_of(slots))});
  }
  return hosts;
}

std::optional<Allocation> read_allocation() {
  for (auto read : {read_flux, read_slurm, read_pbs, read_sge}) {
    std::optional<Allocation> found = read();
    if (!found || found->hosts.empty()) continue;
    int slots = 0;
    for (const Host& host : found->hosts) slots += host.slots;
    if (found->ranks == 0) found->ranks = slots;
    return found;
  }
  return std::nullopt;
}

}  // namespace tern::mpiexec
