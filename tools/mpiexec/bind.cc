#include "bind.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <optional>

#include "hwloc_library.h"
#include "process/launch/cores.h"
#include "ranges.h"

namespace tern::mpiexec {
namespace {

struct PartName {
  const char* name;
  Part part;
};

// The names of Open MPI and of Hydra. A slot is a core here; the only node is this machine.
constexpr PartName kPartNames[] = {
    {"auto", Part::automatic}, {"none", Part::none},       {"hwthread", Part::hwthread}, {"core", Part::core},
    {"slot", Part::core},      {"l3cache", Part::l3cache}, {"numa", Part::numa},         {"socket", Part::socket},
    {"package", Part::socket}, {"node", Part::machine},    {"machine", Part::machine},   {"board", Part::machine},
};

std::optional<Part> part_named(const std::string& name) {
  for (auto& entry : kPartNames) {
    if (name == entry.name) return entry.part;
  }
  return std::nullopt;
}

/// A number of ranks or cores; 0: not a number.
int count_of(const std::string& text) {
  if (text.empty() || text.size() > 6 || text.find_first_not_of("0123456789") != std::string::npos) return 0;
  return atoi(text.c_str());
}

/// The machine, or the one that HWLOC_SYNTHETIC and HWLOC_XMLFILE describe.
class Machine {
 public:
  Machine();
  ~Machine() {
    if (good_) hwloc_->topology_destroy(topology_);
  }
  Machine(const Machine&) = delete;
  Machine& operator=(const Machine&) = delete;

  /// Whether hwloc is there to tell; else there are no parts.
  bool known() const { return hwloc_ != nullptr; }
  /// The allowed processors of each part, in hwloc's order (neighbours share caches and packages); parts without any
  /// are left out.
  std::vector<cpu_set_t> parts(Part part) const;
  /// "socket 0, cores 0-3: [BBBB/....], processors 0-3".
  std::string describe(const cpu_set_t& mask) const;

 private:
  static hwloc_obj_type_t type_of(Part part);
  cpu_set_t allowed(hwloc_const_cpuset_t processors) const;
  std::string drawing(const cpu_set_t& mask) const;
  std::string numbers(Part part, const cpu_set_t& mask) const;

  const Hwloc* hwloc_ = load_hwloc();
  hwloc_topology_t topology_{};
  bool good_ = false;
  bool real_ = true;
  cpu_set_t mine_;
};

hwloc_obj_type_t Machine::type_of(Part part) {
  switch (part) {
    case Part::hwthread: return HWLOC_OBJ_PU;
    case Part::l3cache: return HWLOC_OBJ_L3CACHE;
    case Part::numa: return HWLOC_OBJ_NUMANODE;
    case Part::socket: return HWLOC_OBJ_PACKAGE;
    case Part::machine: return HWLOC_OBJ_MACHINE;
    default: return HWLOC_OBJ_CORE;
  }
}

Machine::Machine() {
  CPU_ZERO(&mine_);
  if (!hwloc_ || sched_getaffinity(0, sizeof mine_, &mine_) != 0 || hwloc_->topology_init(&topology_) != 0) return;
  // Without devices and other caches reading the machine takes 3 ms instead of 12.
  hwloc_->topology_set_all_types_filter(topology_, HWLOC_TYPE_FILTER_KEEP_NONE);
  for (hwloc_obj_type_t type : {HWLOC_OBJ_CORE, HWLOC_OBJ_PACKAGE, HWLOC_OBJ_L3CACHE}) {
    hwloc_->topology_set_type_filter(topology_, type, HWLOC_TYPE_FILTER_KEEP_ALL);
  }
  // A NUMA node that is a part of a socket is attached to a group.
  hwloc_->topology_set_type_filter(topology_, HWLOC_OBJ_GROUP, HWLOC_TYPE_FILTER_KEEP_STRUCTURE);
  hwloc_->topology_set_components(topology_, HWLOC_TOPOLOGY_COMPONENTS_FLAG_BLACKLIST, "pci");
  good_ = hwloc_->topology_load(topology_) == 0;
  if (!good_) hwloc_->topology_destroy(topology_);
  real_ = good_ && hwloc_->topology_is_thissystem(topology_);
}

cpu_set_t Machine::allowed(hwloc_const_cpuset_t processors) const {
  cpu_set_t set;
  CPU_ZERO(&set);
  for (int cpu = hwloc_->bitmap_next(processors, -1); cpu >= 0 && cpu < CPU_SETSIZE;
       cpu = hwloc_->bitmap_next(processors, cpu)) {
    CPU_SET(cpu, &set);
  }
  if (real_) CPU_AND(&set, &set, &mine_);
  return set;
}

std::vector<cpu_set_t> Machine::parts(Part part) const {
  std::vector<cpu_set_t> sets;
  if (!good_) return sets;
  const int depth = hwloc_->get_type_depth(topology_, type_of(part));
  if (depth == HWLOC_TYPE_DEPTH_UNKNOWN || depth == HWLOC_TYPE_DEPTH_MULTIPLE) return sets;
  hwloc_obj_t object = hwloc_->get_obj_by_depth(topology_, depth, 0);
  for (; object; object = object->next_cousin) {
    const cpu_set_t set = allowed(object->cpuset);
    if (CPU_COUNT(&set) > 0) sets.push_back(set);
  }
  return sets;
}

bool meet(const cpu_set_t& a, const cpu_set_t& b) {
  cpu_set_t both;
  CPU_AND(&both, &a, &b);
  return CPU_COUNT(&both) > 0;
}

std::string Machine::numbers(Part part, const cpu_set_t& mask) const {
  std::vector<int> met;
  const std::vector<cpu_set_t> all = parts(part);
  for (size_t i = 0; i < all.size(); ++i) {
    if (meet(all[i], mask)) met.push_back(int(i));
  }
  return fmt::format("{} {}", met.size() == 1 ? "" : "s", ranges(met));
}

// As Open MPI prints it: a letter for each hardware thread, cores side by side, a slash between sockets.
std::string Machine::drawing(const cpu_set_t& mask) const {
  std::string text;
  for (const cpu_set_t& socket : parts(Part::socket)) {
    if (!text.empty()) text += '/';
    for (const cpu_set_t& thread : parts(Part::hwthread)) {
      if (meet(thread, socket)) text += meet(thread, mask) ? 'B' : '.';
    }
  }
  return text;
}

std::string Machine::describe(const cpu_set_t& mask) const {
  std::vector<int> processors;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(cpu, &mask)) processors.push_back(cpu);
  }
  return fmt::format("socket{}, core{}: [{}], processors {}", numbers(Part::socket, mask), numbers(Part::core, mask),
                     drawing(mask), ranges(processors));
}

cpu_set_t joined(const std::vector<cpu_set_t>& units, size_t first, size_t last) {
  cpu_set_t mask;
  CPU_ZERO(&mask);
  for (size_t i = first; i < last; ++i) CPU_OR(&mask, &mask, &units[i]);
  return mask;
}

/// What each rank gets, before it is widened to the part to which it is bound.
struct Deal {
  std::vector<cpu_set_t> masks{};
  std::string lack{};  ///< not empty: the reason why it is not possible
};

/// The ranks of each part; -1: too many ranks.
std::vector<int> part_of_each(const Placement& wish, int ranks, size_t parts) {
  std::vector<int> part(static_cast<size_t>(ranks));
  for (int rank = 0; rank < ranks; ++rank) {
    const int in_turn = wish.per_part > 0 ? rank / wish.per_part : rank % int(parts);
    part[size_t(rank)] = in_turn < int(parts) ? in_turn : -1;
  }
  return part;
}

Deal deal_out(const Machine& machine, const Placement& wish, int ranks) {
  Deal deal;
  const Part unit = wish.bind == Part::hwthread || wish.map == Part::hwthread ? Part::hwthread : Part::core;
  const bool one_part = wish.map <= Part::core && wish.per_part == 0;  // filled from one end to the other
  const std::vector<cpu_set_t> units = machine.parts(unit);
  const std::vector<cpu_set_t> parts = machine.parts(one_part ? Part::machine : std::max(wish.map, unit));
  if (parts.empty()) {
    deal.lack = "this machine has no such parts";
    return deal;
  }
  const std::vector<int> part_of = part_of_each(wish, ranks, parts.size());
  // Ranks may share a whole cache or socket; they share cores only if a wider part, or several on a core, were asked
  // for.
  const bool may_share = (wish.bind > Part::core || (!one_part && wish.map <= Part::core)) && wish.cores_per_rank == 0;
  const bool even = wish.cores_per_rank == 0 && wish.bind != Part::core && wish.bind != Part::hwthread && !one_part;
  for (int rank = 0; rank < ranks; ++rank) {
    const int part = part_of[size_t(rank)];
    if (part < 0) {
      deal.lack = fmt::format("{} ranks, {} on each of {} parts", ranks, wish.per_part, parts.size());
      return deal;
    }
    std::vector<cpu_set_t> mine;
    for (const cpu_set_t& one : units) {
      if (meet(one, parts[size_t(part)])) mine.push_back(one);
    }
    const size_t here = size_t(std::count(part_of.begin(), part_of.end(), part));
    const size_t place = size_t(std::count(part_of.begin(), part_of.begin() + rank, part));
    const size_t each = size_t(std::max(1, wish.cores_per_rank));
    if (here * each > mine.size() && !may_share) {
      deal.lack = fmt::format("{} rank{} with {} core{} each, but there {} {}", here, here == 1 ? "" : "s", each,
                              each == 1 ? "" : "s", mine.size() == 1 ? "is" : "are", mine.size());
      return deal;
    }
    if (even && here <= mine.size()) {
      deal.masks.push_back(joined(mine, place * mine.size() / here, (place + 1) * mine.size() / here));
    } else {
      const size_t first = place * each % mine.size();
      deal.masks.push_back(joined(mine, first, first + each));
    }
  }
  return deal;
}

// Ranks that were distributed explicitly are bound to what they got, or to a wider part around it.
void widen(const Machine& machine, Part bind, std::vector<cpu_set_t>& masks) {
  if (bind <= Part::core) return;
  const std::vector<cpu_set_t> parts = machine.parts(bind);
  for (cpu_set_t& mask : masks) {
    cpu_set_t wide = mask;
    for (const cpu_set_t& part : parts) {
      if (meet(part, mask)) CPU_OR(&wide, &wide, &part);
    }
    mask = wide;
  }
}

std::string shares(const std::vector<cpu_set_t>& masks, size_t cores) {
  const size_t each = cores / masks.size();
  return fmt::format("bound, {} core{} each", each, each == 1 ? "" : "s or more");
}

Binding by_shares(const Machine& machine, int ranks, int threads) {
  const std::vector<cpu_set_t> cores = machine.parts(Part::core);
  const size_t n = size_t(ranks);
  if (cores.size() < n * size_t(threads)) {
    return {{},
            fmt::format("not bound: {} ranks{} share {} cores", ranks,
                        threads > 1 ? fmt::format(" with {} threads each", threads) : "", cores.size())};
  }
  Binding binding;
  for (size_t rank = 0; rank < n; ++rank) {
    binding.masks.push_back(joined(cores, rank * cores.size() / n, (rank + 1) * cores.size() / n));
  }
  binding.reason = shares(binding.masks, cores.size());
  return binding;
}

Binding as_asked(const Machine& machine, const Placement& wish, int ranks) {
  Deal deal = deal_out(machine, wish, ranks);
  if (!deal.lack.empty()) return {{}, "not bound: " + deal.lack};
  widen(machine, wish.bind, deal.masks);
  return {std::move(deal.masks), "bound, as asked"};
}

// Errors that can be found without hwloc; empty: none.
std::string no_need(const Placement& wish, int ranks, int threads, int cores) {
  if (wish.bind == Part::none) return "not bound, as asked";
  if (wish.map != Part::automatic || wish.bind != Part::automatic || wish.cores_per_rank > 0) return {};
  if (ranks == 1) return "not bound: one rank may use the whole machine";
  const bool real = !getenv("HWLOC_SYNTHETIC") && !getenv("HWLOC_XMLFILE");
  if (real && ranks * threads > cores_in_mask()) {
    return fmt::format("not bound: {} ranks{} share {} processors", ranks,
                       threads > 1 ? fmt::format(" with {} threads each", threads) : "", cores_in_mask());
  }
  if (real && ranks * threads > cores && cores < usable_cores())
    return "not bound: the ranks of other hosts use the same processors";
  if (cores_in_quota() > 0) {
    return fmt::format("not bound: the control group has a quota of {} processors", cores_in_quota());
  }
  return {};
}

}  // namespace

bool read_map(const std::string& text, Placement& placement) {
  std::string rest = text;
  auto next = [&rest] {
    const size_t colon = std::min(rest.find(':'), rest.size());
    std::string word = rest.substr(0, colon);
    rest.erase(0, colon + 1);
    return word;
  };
  std::string word = next();
  if (word == "ppr") {
    placement.per_part = count_of(next());
    if (placement.per_part == 0) return false;
    word = next();
  }
  // ":pe=2" alone means slots.
  const std::optional<Part> part = part_named(word.empty() ? "slot" : word);
  if (!part || *part == Part::none) return false;
  placement.map = *part;
  while (!rest.empty()) {
    for (std::string modifier = next(); !modifier.empty();) {
      const size_t comma = std::min(modifier.find(','), modifier.size());
      const std::string one = modifier.substr(0, comma);
      modifier.erase(0, comma + 1);
      if (one.starts_with("pe=") || one.starts_with("PE=")) {
        placement.cores_per_rank = count_of(one.substr(3));
        if (placement.cores_per_rank == 0) return false;
      } else if (one != "oversubscribe" && one != "OVERSUBSCRIBE" && one != "span" && one != "SPAN") {
        return false;
      }
    }
  }
  return true;
}

bool read_bind(const std::string& text, Placement& placement) {
  const size_t colon = std::min(text.find(':'), text.size());
  const std::optional<Part> part = part_named(text.substr(0, colon));
  if (!part) return false;
  placement.bind = *part;
  if (colon == text.size()) return true;
  const std::string modifier = text.substr(colon + 1);
  if (modifier == "overload-allowed" || modifier == "if-supported") return true;
  placement.cores_per_rank = count_of(modifier);
  return placement.cores_per_rank > 0 && (*part == Part::core || *part == Part::hwthread);
}

Binding choose_binding(const Placement& wish, int ranks, int threads, int cores) {
  if (std::string reason = no_need(wish, ranks, threads, cores); !reason.empty()) return {{}, std::move(reason)};
  const Machine machine;
  if (!machine.known()) {
    return {{}, fmt::format("not bound: {} is not here (Debian: libhwloc15)", kHwlocFile)};
  }
  const bool asked = wish.map != Part::automatic || wish.bind != Part::automatic || wish.cores_per_rank > 0;
  Binding binding = asked ? as_asked(machine, wish, ranks) : by_shares(machine, ranks, threads);
  if (wish.report) {
    for (const cpu_set_t& mask : binding.masks) binding.places.push_back(machine.describe(mask));
  }
  return binding;
}

}  // namespace tern::mpiexec
