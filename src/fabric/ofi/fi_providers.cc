// Which provider, on which device. fi_getinfo is asked for what every provider must have, then, for each provider and
// device, for one capability more at a time: providers state what was asked for only.
#include "fabric/ofi/ofi.h"

#if __has_include(<rdma/fi_endpoint.h>)
#include <dirent.h>
#include <netinet/in.h>
#include <sched.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <utility>

#include "fabric/ofi/fi_port.h"
#include "fabric/ofi/filter_port.h"
#include "fabric/ofi/ofi_adapter.h"
#include "wire/ofi.h"

namespace tern::ofi {
namespace {

using FreeInfo = void (*)(fi_info*);
using Info = std::unique_ptr<fi_info, FreeInfo>;

// Providers whose hardware or driver moves messages faster than Tern's own TCP, the best first. (Verbs comes last:
// EFA's devices appear as verbs devices, too.)
constexpr const char* kFast[] = {"cxi", "efa", "opx", "psm3", "psm2", "verbs"};

std::string_view core_name(std::string_view provider) { return provider.substr(0, provider.find(';')); }

// The place in kFast; their number: not there.
size_t rank_of(std::string_view provider) {
  for (size_t i = 0; i < std::size(kFast); ++i) {
    if (core_name(provider) == kFast[i]) return i;
  }
  return std::size(kFast);
}

std::string text(const char* maybe) { return maybe ? maybe : ""; }

// Of ofi_rxm: rounded up to a cache line, the head of a frame; and what stands in it, over adapters and over TCP.
constexpr size_t kHeadBytes = 64, kRxmPieceBytes = 16 * 1024 + kHeadBytes,
                 kRxmStreamedBytes = kStreamedPartBytes + kHeadBytes;
static_assert(wire::kOfiMaxHeadBytes <= kHeadBytes);

uint32_t api_of(const FiLibrary& library) { return std::min(library.version(), kNewestApi); }

Info make_hints(const FiLibrary& library) {
  Info hints(library.dupinfo(nullptr), library.freeinfo);
  hints->caps = FI_MSG;
  hints->mode = FI_CONTEXT | FI_CONTEXT2;
  hints->ep_attr->type = FI_EP_RDM;
  hints->domain_attr->threading = FI_THREAD_DOMAIN;
  hints->domain_attr->resource_mgmt = FI_RM_ENABLED;
  hints->domain_attr->mr_mode = FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY | FI_MR_ENDPOINT;
  return hints;
}

// What one more wish may be.
struct Wish {
  uint64_t caps = 0, order = 0, operation = 0;
};
constexpr Wish kWishes[] = {
    {0, FI_ORDER_SAS, 0},         {FI_MULTI_RECV, 0, 0}, {FI_RMA, 0, 0},       {FI_TAGGED | FI_DIRECTED_RECV, 0, 0},
    {0, 0, FI_DELIVERY_COMPLETE}, {FI_ATOMIC, 0, 0},     {0, FI_ORDER_SAW, 0}, {0, 0, FI_MATCH_COMPLETE},
    {0, 0, FI_INJECT_COMPLETE},
};

bool same_way(const fi_info& a, const fi_info& b) {
  return text(a.fabric_attr->prov_name) == text(b.fabric_attr->prov_name) &&
         text(a.domain_attr->name) == text(b.domain_attr->name) && a.addr_format == b.addr_format &&
         a.src_addrlen == b.src_addrlen && text(a.fabric_attr->name) == text(b.fabric_attr->name);
}

// All infos for these hints; null: none.
std::unique_ptr<FiInfos> ask(const std::shared_ptr<const FiLibrary>& library, const fi_info& hints) {
  fi_info* list = nullptr;
  if (library->getinfo(api_of(*library), nullptr, nullptr, 0, &hints, &list) != 0) return nullptr;
  return std::make_unique<FiInfos>(library, list);
}

// That provider on that device with as much as it offers together.
Info best_of(const std::shared_ptr<const FiLibrary>& library, const fi_info& plain) {
  Info hints = make_hints(*library);
  hints->fabric_attr->prov_name = strdup(text(plain.fabric_attr->prov_name).c_str());
  hints->domain_attr->name = strdup(text(plain.domain_attr->name).c_str());
  hints->addr_format = plain.addr_format;
  Info best(library->dupinfo(&plain), library->freeinfo);
  for (const Wish& wish : kWishes) {
    const fi_tx_attr before = *hints->tx_attr;
    const uint64_t caps = hints->caps;
    hints->caps |= wish.caps;
    hints->tx_attr->msg_order |= wish.order;
    hints->rx_attr->msg_order = hints->tx_attr->msg_order;
    hints->tx_attr->op_flags |= wish.operation;
    bool granted = false;
    if (auto infos = ask(library, *hints)) {
      for (fi_info* info = infos->first(); info && !granted; info = info->next) {
        granted = same_way(*info, plain);
        if (granted) best.reset(library->dupinfo(info));
      }
    }
    if (granted) {
      best->tx_attr->op_flags |= hints->tx_attr->op_flags;
      continue;
    }
    hints->caps = caps;
    hints->tx_attr->msg_order = hints->rx_attr->msg_order = before.msg_order;
    hints->tx_attr->op_flags = before.op_flags;
  }
  return best;
}

// Whether this address leads out of the host, and not only to the next one.
bool leads_out(const fi_info& info) {
  if (info.addr_format == FI_SOCKADDR_IN && info.src_addr)
    return (ntohl(static_cast<const sockaddr_in*>(info.src_addr)->sin_addr.s_addr) >> 24) != IN_LOOPBACKNET;
  if (info.addr_format == FI_SOCKADDR_IN6 && info.src_addr) {
    const in6_addr& address = static_cast<const sockaddr_in6*>(info.src_addr)->sin6_addr;
    return !IN6_IS_ADDR_LOOPBACK(&address) && !IN6_IS_ADDR_LINKLOCAL(&address);
  }
  return true;
}

std::string pci_of(const fi_info& info) {
  if (!info.nic || !info.nic->bus_attr || info.nic->bus_attr->bus_type != FI_BUS_PCI) return {};
  const fi_pci_attr& pci = info.nic->bus_attr->attr.pci;
  char name[16];
  std::snprintf(name, sizeof name, "%04x:%02x:%02x.%x", pci.domain_id, pci.bus_id, pci.device_id, pci.function_id);
  return name;
}

// Whether a core that this process may use is beside that adapter, by the list that the kernel keeps ("0-7,16-23").
bool is_near(const std::string& pci) {
  std::ifstream file("/sys/bus/pci/devices/" + pci + "/local_cpulist");
  cpu_set_t mine;
  if (pci.empty() || !file || sched_getaffinity(0, sizeof mine, &mine) != 0) return false;
  std::string range;
  while (std::getline(file, range, ',')) {
    unsigned first = 0, last = 0;
    const int fields = std::sscanf(range.c_str(), "%u-%u", &first, &last);
    if (fields < 1) continue;
    for (unsigned core = first; core <= (fields == 2 ? last : first) && core < CPU_SETSIZE; ++core) {
      if (CPU_ISSET(core, &mine)) return true;
    }
  }
  return false;
}

struct Candidate {
  Choice choice;
  Info info;
  bool out = true;  ///< leads to other hosts
};

bool link_is_down(const fi_info& info) {
  return info.nic && info.nic->link_attr && info.nic->link_attr->state == FI_LINK_DOWN;
}

bool named(const std::string& wanted, const std::string& provider) {
  return wanted == provider || wanted == core_name(provider);
}

void judge(Candidate& candidate, const fi_info& info, const Tunables& tunables) {
  Choice& choice = candidate.choice;
  const std::string& provider = choice.capabilities.provider;
  if (!tunables.ofi_provider.empty() && !named(tunables.ofi_provider, provider)) {
    choice.why_not = "TERN_OFI_PROVIDER names " + tunables.ofi_provider;
  } else if (!tunables.ofi_domain.empty() && tunables.ofi_domain != choice.capabilities.domain) {
    choice.why_not = "TERN_OFI_DOMAIN names " + tunables.ofi_domain;
  } else if (link_is_down(info)) {
    choice.why_not = "the link is down";
  }
  if (is_fast(provider)) return;
  choice.why_last = core_name(provider) == "shm"
                        ? "it reaches this host only, as Tern's own shm does, which is faster"
                        : "it works in software over the host's network, where Tern's own tcp is faster";
}

std::vector<Candidate> find_candidates(const std::shared_ptr<const FiLibrary>& library, const Tunables& tunables) {
  std::vector<Candidate> found;
  Info hints = make_hints(*library);
  auto infos = ask(library, *hints);
  for (const fi_info* info = infos ? infos->first() : nullptr; info; info = info->next) {
    const bool known =
        std::any_of(found.begin(), found.end(), [&](const Candidate& other) { return same_way(*other.info, *info); });
    if (known) continue;
    Candidate candidate{{capabilities_of(*info, library->version()), {}, {}, pci_of(*info), false},
                        Info(library->dupinfo(info), library->freeinfo),
                        leads_out(*info)};
    candidate.choice.near = is_near(candidate.choice.pci);
    judge(candidate, *info, tunables);
    found.push_back(std::move(candidate));
  }
  std::stable_sort(found.begin(), found.end(), [](const Candidate& a, const Candidate& b) {
    auto key = [](const Candidate& c) {
      // IPv4 first: providers differ in what they make of IPv6.
      return std::tuple(!c.choice.why_not.empty(), rank_of(c.choice.capabilities.provider), !c.out, !c.choice.near,
                        c.info->addr_format == FI_SOCKADDR_IN6);
    };
    return key(a) < key(b);
  });
  return found;
}

// Of those as good as the first: adapters of one provider, near ones before far ones. Ranks of a node take turns.
const Candidate& pick(const std::vector<Candidate>& found, int local_rank) {
  const Candidate& first = found.front();
  std::vector<const Candidate*> equal;
  for (const Candidate& candidate : found) {
    const Choice& its = candidate.choice;
    const bool other_adapter = !its.pci.empty() && std::none_of(equal.begin(), equal.end(), [&](const Candidate* e) {
      return e->choice.pci == its.pci;
    });
    if (&candidate == &first || (other_adapter && its.why_not.empty() && its.near == first.choice.near &&
                                 its.capabilities.provider == first.choice.capabilities.provider &&
                                 candidate.info->addr_format == first.info->addr_format)) {
      equal.push_back(&candidate);
    }
  }
  return *equal[size_t(std::max(local_rank, 0)) % equal.size()];
}

// libfabric counts on 256 processes, for which ofi_rxm asks for a completion queue that small adapters (Soft-RoCE) do
// not have. A rank has a connection to each rank, and both ends of the one to itself.
//
// ofi_rxm sends 16 KiB in one piece, anything longer in several, and slowly: a frame of that length has a head, too.
// Over TCP it may be told a larger limit, which costs no memory: there is no buffer for each message. (Numbers that no
// tunable changes, since ranks that differ in them refuse each other.)
//
// The thread of the provider sockets polls for 10 ms before it sleeps: time that a rank on its core does not have.
void tell_libfabric(const Surroundings& surroundings) {
  (void)setenv("FI_UNIVERSE_SIZE", std::to_string(surroundings.ranks + 1).c_str(), 0);
  (void)setenv("FI_OFI_RXM_BUFFER_SIZE", std::to_string(kRxmPieceBytes).c_str(), 0);
  (void)setenv("FI_OFI_RXM_EAGER_LIMIT", std::to_string(kRxmStreamedBytes).c_str(), 0);
  if (surroundings.cores_shared) (void)setenv("FI_SOCKETS_PE_WAITTIME", "0", 0);
}

std::string names_of(const std::vector<Candidate>& found) {
  std::string names;
  for (const Candidate& candidate : found) {
    const std::string& name = candidate.choice.capabilities.provider;
    if (names.find(name) == std::string::npos) names += (names.empty() ? "" : ", ") + name;
  }
  return names.empty() ? "none" : names;
}

}  // namespace

std::vector<Choice> find_choices(const Tunables& tunables, std::string& why_none) {
  std::vector<Choice> result;
  std::shared_ptr<const FiLibrary> library = FiLibrary::load(why_none);
  if (!library) return result;
  for (Candidate& candidate : find_candidates(library, tunables)) {
    Info best = best_of(library, *candidate.info);
    candidate.choice.capabilities = capabilities_of(*best, library->version());
    result.push_back(std::move(candidate.choice));
  }
  if (result.empty()) why_none = "libfabric has no provider with reliable datagrams (FI_EP_RDM) here";
  return result;
}

bool is_fast(std::string_view provider) { return rank_of(provider) < std::size(kFast); }

bool may_have_fast_provider() {
  // Devices of cxi, Omni-Path (opx, psm2), and of what has verbs (EFA, PSM3 and verbs).
  for (const auto& [folder, prefix] : {std::pair{"/dev", "cxi"}, {"/dev", "hfi1_"}, {"/dev/infiniband", "uverbs"}}) {
    DIR* entries = opendir(folder);
    if (!entries) continue;
    bool found = false;
    while (const dirent* entry = readdir(entries))
      found = found || std::strncmp(entry->d_name, prefix, std::strlen(prefix)) == 0;
    closedir(entries);
    if (found) return true;
  }
  return false;
}

Error open_port(const Surroundings& surroundings, Wanted wanted, const Tunables& tunables,
                std::unique_ptr<Port>& result) {
  auto unusable = [](std::string reason) { return Error(ErrorClass::unsupported_operation, std::move(reason)); };
  FilterKind filter;
  if (!parse_filter(tunables.ofi_filter, filter))
    return Error(ErrorClass::arg, "TERN_OFI_FILTER is '" + tunables.ofi_filter + "'; it can be efa, cxi or psm3");
  std::string why_not;
  std::shared_ptr<const FiLibrary> library = FiLibrary::load(why_not);
  if (!library) return unusable(why_not);
  tell_libfabric(surroundings);
  std::vector<Candidate> found = find_candidates(library, tunables);
  if (found.empty()) return unusable("libfabric has no provider with reliable datagrams (FI_EP_RDM) here");
  const Choice& best = found.front().choice;
  const std::string& name = tunables.ofi_provider;
  if (std::none_of(found.begin(), found.end(),
                   [&](const Candidate& its) { return name.empty() || named(name, its.choice.capabilities.provider); }))
    return unusable("libfabric has no provider " + name + " here (there are " + names_of(found) + ")" +
                    device_of(name));
  if (!best.why_not.empty()) {
    return unusable("no provider of libfabric can be used: " + best.capabilities.provider + ": " + best.why_not +
                    " (there are " + names_of(found) + ")");
  }
  if (!best.why_last.empty() && tunables.ofi_provider.empty()) {
    return unusable("libfabric has no fast provider here (there are " + names_of(found) +
                    "). Use TERN_PATH=shm,tcp; or name a provider by TERN_OFI_PROVIDER");
  }
  if (wanted == Wanted::fast_without_verbs && core_name(best.capabilities.provider) == "verbs")
    return unusable("its best provider is verbs, whose adapters TERN_PATH=shm,rdma uses");
  const Candidate& candidate = pick(found, surroundings.local_rank);
  const Info info = best_of(library, *candidate.info);
  Error error;
  const size_t longest = ofi_frame_bytes(tunables, capabilities_of(*info, library->version()));
  result = FiPort::open(library, *info, surroundings.cores_shared, longest, error);
  if (!error && filter != FilterKind::none) result = std::make_unique<FilterPort>(std::move(result), filter);
  return error;
}

}  // namespace tern::ofi

#else

namespace tern::ofi {

constexpr const char* kNotBuilt = "this build of Tern has no libfabric path: libfabric-dev was not installed";

std::vector<Choice> find_choices(const Tunables&, std::string& why_none) {
  why_none = kNotBuilt;
  return {};
}

bool may_have_fast_provider() { return false; }

Error open_port(const Surroundings&, Wanted, const Tunables&, std::unique_ptr<Port>&) {
  return Error(ErrorClass::unsupported_operation, kNotBuilt);
}

}  // namespace tern::ofi
#endif
