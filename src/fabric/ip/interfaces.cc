#include "fabric/ip/interfaces.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>

#include "wire/bytes.h"

namespace tern {
namespace {

using wire::CardAddress;

bool same_network(const uint8_t* a, const uint8_t* b, unsigned bits) {
  if (std::memcmp(a, b, bits / 8) != 0) return false;
  unsigned rest = bits % 8;
  if (rest == 0) return true;
  uint8_t mask = uint8_t(0xff << (8 - rest));
  return (a[bits / 8] & mask) == (b[bits / 8] & mask);
}

uint8_t prefix_of(const sockaddr* netmask) {
  if (!netmask) return 0;
  const uint8_t* bytes = nullptr;
  size_t n = 0;
  if (netmask->sa_family == AF_INET) {
    bytes = reinterpret_cast<const uint8_t*>(&reinterpret_cast<const sockaddr_in*>(netmask)->sin_addr);
    n = 4;
  } else if (netmask->sa_family == AF_INET6) {
    bytes = reinterpret_cast<const uint8_t*>(&reinterpret_cast<const sockaddr_in6*>(netmask)->sin6_addr);
    n = 16;
  }
  int bits = 0;
  for (size_t i = 0; i < n; ++i) bits += __builtin_popcount(bytes[i]);
  return uint8_t(bits);
}

// Megabits per second; 0 when the driver does not say (most virtual interfaces).
uint32_t speed_of(int fd, const char* interface) {
  ethtool_cmd command{};
  command.cmd = ETHTOOL_GSET;
  ifreq request{};
  std::snprintf(request.ifr_name, sizeof request.ifr_name, "%s", interface);
  request.ifr_data = reinterpret_cast<char*>(&command);
  if (ioctl(fd, SIOCETHTOOL, &request) != 0) return 0;
  uint32_t speed = ethtool_cmd_speed(&command);
  return speed == uint32_t(SPEED_UNKNOWN) || speed == 0xffff ? 0 : speed;
}

// An address that is reachable only within its site: RFC 1918, RFC 6598 (carrier NAT), RFC 4193 (unique local
// IPv6).
bool is_private(const CardAddress& address) {
  const uint8_t* b = address.bytes.data();
  if (address.family == 6) return (b[0] & 0xfe) == 0xfc;
  return b[0] == 10 || (b[0] == 172 && (b[1] & 0xf0) == 16) || (b[0] == 192 && b[1] == 168) ||
         (b[0] == 100 && (b[1] & 0xc0) == 64);
}

// Multicast, unspecified, IPv4 in IPv6 and the like are addresses of no host.
bool is_unicast(const CardAddress& address) {
  static constexpr uint8_t kZero[16] = {};
  const uint8_t* b = address.bytes.data();
  if (address.family == 4) return b[0] != 0 && b[0] < 224;
  return b[0] != 0xff && std::memcmp(b, kZero, 16) != 0 && (std::memcmp(b, kZero, 10) != 0 || address.loopback());
}

struct Selector {
  std::string_view interface;  ///< empty: a network
  CardAddress network;
  bool matches(const LocalAddress& local) const {
    if (!interface.empty()) return local.interface == interface;
    return local.address.family == network.family &&
           same_network(local.address.bytes.data(), network.bytes.data(), network.prefix_length);
  }
};

// "eth0", "10.0.0.0/8", "fd00::/64", "10.1.2.3"
bool parse_selector(std::string_view text, Selector& out) {
  size_t slash = text.find('/');
  std::string address(text.substr(0, slash));
  if (inet_pton(AF_INET, address.c_str(), out.network.bytes.data()) == 1) {
    out.network.family = 4;
  } else if (inet_pton(AF_INET6, address.c_str(), out.network.bytes.data()) == 1) {
    out.network.family = 6;
  } else if (slash == std::string_view::npos && text.size() < IFNAMSIZ) {
    out.interface = text;
    return true;
  } else {
    return false;
  }
  unsigned bits = out.network.family == 4 ? 32 : 128, limit = bits;
  if (slash != std::string_view::npos) {
    std::string_view digits = text.substr(slash + 1);
    auto [end, failure] = std::from_chars(digits.data(), digits.data() + digits.size(), bits);
    if (failure != std::errc() || end != digits.data() + digits.size() || bits > limit) return false;
  }
  out.network.prefix_length = uint8_t(bits);
  return true;
}

std::string names_of(const std::vector<LocalAddress>& all) {
  std::string out;
  for (const LocalAddress& local : all) {
    CardAddress plain = local.address;
    std::string text = wire::to_text(plain);
    text.resize(text.rfind(':'));  // without the port
    out += (out.empty() ? "" : ", ") + local.interface + " " + text;
  }
  return out;
}

// Lower is better; -1: cannot be reached. `scope` is set for link-local addresses.
int rank_of(const LocalAddress& our, const CardAddress& their, bool same_host, uint32_t& scope) {
  const CardAddress& mine = our.address;
  scope = 0;
  if (mine.family != their.family || !is_unicast(their)) return -1;
  if (their.loopback() || mine.loopback()) return same_host && their.loopback() && mine.loopback() ? 0 : -1;
  if (their.link_local() || mine.link_local()) {
    if (!their.link_local() || !mine.link_local()) return -1;
    scope = our.index;
    return 6;
  }
  if (!same_host && mine.bytes == their.bytes) return -1;
  if (mine.prefix_length == their.prefix_length &&
      same_network(mine.bytes.data(), their.bytes.data(), mine.prefix_length)) {
    return 1;
  }
  if (!is_private(mine) && !is_private(their)) return 2;
  if (is_private(mine) && is_private(their)) return 3;
  return is_private(mine) ? 4 : 5;  // out through a translating router; into a private network from outside
}

}  // namespace

wire::HostIdentity host_identity() {
  wire::HostIdentity identity{};
  // The boot id identifies a running kernel; host names and machine ids may be the same on several (cloned images).
  if (FILE* file = std::fopen("/proc/sys/kernel/random/boot_id", "re")) {
    char text[64] = "";
    size_t n = std::fread(text, 1, sizeof text - 1, file);
    std::fclose(file);
    uint8_t* out = identity.data();
    unsigned half = 0;
    for (size_t i = 0; i < n && out < identity.data() + 16; ++i) {
      int digit = text[i] >= '0' && text[i] <= '9'   ? text[i] - '0'
                  : text[i] >= 'a' && text[i] <= 'f' ? text[i] - 'a' + 10
                                                     : -1;
      if (digit < 0) continue;
      *out = uint8_t(*out << 4 | digit);
      if (half++ & 1) ++out;
    }
  }
  struct stat netns {};
  if (stat("/proc/self/ns/net", &netns) == 0) {
    uint64_t device = netns.st_dev, inode = netns.st_ino;
    std::memcpy(identity.data() + 16, &device, 8);
    std::memcpy(identity.data() + 24, &inode, 8);
  }
  return identity;
}

bool belongs_to_containers(std::string_view interface) {
  static constexpr std::string_view kPrefixes[] = {
      "docker", "virbr", "cni",   "podman",  "lxcbr", "lxdbr",   "vnet", "flannel", "cali", "cilium",
      "lxc",    "kube-", "weave", "nerdctl", "vmnet", "vboxnet", "tunl", "dummy",   "ifb",  "nodelocaldns"};
  for (std::string_view prefix : kPrefixes) {
    if (interface.starts_with(prefix)) return true;
  }
  // Docker's networks: br- and twelve hexadecimal digits. (A plain br0 is often the host's own.)
  if (interface.size() == 15 && interface.starts_with("br-")) {
    return std::all_of(interface.begin() + 3, interface.end(),
                       [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
  }
  // The host's end of a container's virtual cable ("veth1a2b3c4"); the end inside the container is called eth0.
  return interface.starts_with("veth") && interface.size() >= 11;
}

Error select_interfaces(std::string_view wanted, const std::vector<LocalAddress>& all, std::vector<LocalAddress>& out) {
  out.clear();
  std::vector<Selector> selectors;
  for (std::string_view rest = wanted; !rest.empty();) {
    size_t end = std::min(rest.find(','), rest.size());
    std::string_view item = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    while (item.starts_with(' ')) item.remove_prefix(1);
    while (item.ends_with(' ')) item.remove_suffix(1);
    if (item.empty()) continue;
    Selector selector;
    if (!parse_selector(item, selector)) {
      return Error(ErrorClass::arg, "TERN_TCP_INTERFACES names '" + std::string(item) +
                                        "', which is neither an interface nor a network like 10.0.0.0/8");
    }
    selectors.push_back(selector);
  }
  size_t matched = 0;
  for (const LocalAddress& local : all) {
    bool named = std::any_of(selectors.begin(), selectors.end(), [&](auto& s) { return s.matches(local); });
    matched += named;
    // Loopback serves the ranks of this host, whichever networks are chosen.
    if (local.address.loopback() || named || (selectors.empty() && !belongs_to_containers(local.interface))) {
      out.push_back(local);
    }
  }
  if (!selectors.empty() && matched == 0) {
    return Error(ErrorClass::arg,
                 "TERN_TCP_INTERFACES=" + std::string(wanted) +
                     " matches none of this host's addresses: " + (all.empty() ? "it has none" : names_of(all)));
  }
  return {};
}

Error usable_interfaces(std::string_view wanted, std::vector<LocalAddress>& out) {
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0)
    return Error(ErrorClass::other, "cannot list this host's network addresses: " + errno_text(errno));
  Descriptor control(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  std::vector<LocalAddress> all;
  for (const ifaddrs* entry = list; entry; entry = entry->ifa_next) {
    if (!entry->ifa_addr || !(entry->ifa_flags & IFF_UP) || !(entry->ifa_flags & IFF_RUNNING)) continue;
    LocalAddress local;
    local.interface = entry->ifa_name;
    local.index = if_nametoindex(entry->ifa_name);
    CardAddress& address = local.address;
    if (entry->ifa_addr->sa_family == AF_INET) {
      std::memcpy(address.bytes.data(), &reinterpret_cast<const sockaddr_in*>(entry->ifa_addr)->sin_addr, 4);
      if (address.bytes[0] == 169 && address.bytes[1] == 254) continue;  // self-assigned (RFC 3927), not routed
    } else if (entry->ifa_addr->sa_family == AF_INET6) {
      address.family = 6;
      std::memcpy(address.bytes.data(), &reinterpret_cast<const sockaddr_in6*>(entry->ifa_addr)->sin6_addr, 16);
      if (address.bytes[0] == 0xfe && (address.bytes[1] & 0xc0) == 0x80) address.flags |= CardAddress::kLinkLocal;
    } else {
      continue;
    }
    if (entry->ifa_flags & IFF_LOOPBACK) {
      bool standard = address.family == 4 ? address.bytes[0] == 127 : address.bytes[15] == 1 && address.bytes[0] == 0;
      if (!standard) continue;
      address.flags = CardAddress::kLoopback;
    }
    address.prefix_length = prefix_of(entry->ifa_netmask);
    if (!address.loopback()) address.megabits = speed_of(control.get(), entry->ifa_name);
    all.push_back(std::move(local));
  }
  freeifaddrs(list);
  if (Error error = select_interfaces(wanted, all, out)) return error;
  // The card has room for a limited number; the kernel lists interfaces in the order of creation, loopback first.
  if (out.size() > wire::kMaxCardAddresses) out.resize(wire::kMaxCardAddresses);
  return {};
}

uint32_t network_of(const std::vector<LocalAddress>& ours, const SocketAddress& local) {
  const bool six = local.storage.ss_family == AF_INET6;
  for (const LocalAddress& our : ours) {
    const void* bytes = six ? static_cast<const void*>(&reinterpret_cast<const sockaddr_in6&>(local.storage).sin6_addr)
                            : &reinterpret_cast<const sockaddr_in&>(local.storage).sin_addr;
    if (our.address.family == (six ? 6 : 4) && std::memcmp(our.address.bytes.data(), bytes, six ? 16 : 4) == 0)
      return our.index;
  }
  return 0;
}

std::vector<TcpCandidate> rank_candidates(const std::vector<LocalAddress>& ours, const wire::HostIdentity& our_host,
                                          const wire::Card& theirs) {
  bool same_host = our_host == theirs.host;
  std::vector<TcpCandidate> out;
  for (const CardAddress& their : theirs.addresses) {
    // An address that this host has, too, leads back to this host.
    bool ours_too =
        !same_host && !their.link_local() && std::any_of(ours.begin(), ours.end(), [&](const LocalAddress& our) {
          return our.address.family == their.family && our.address.bytes == their.bytes;
        });
    if (ours_too) continue;
    TcpCandidate best;
    best.rank = -1;
    for (const LocalAddress& our : ours) {
      uint32_t scope;
      int rank = rank_of(our, their, same_host, scope);
      if (rank < 0) continue;
      if (scope != 0) {
        out.push_back({their, scope, rank, our.index});  // through each of this host's interfaces in turn
      } else if (best.rank < 0 || rank < best.rank) {
        best = {their, 0, rank, rank <= 1 ? our.index : 0};
      }
    }
    if (best.rank >= 0) out.push_back(best);
  }
  std::stable_sort(out.begin(), out.end(), [](const TcpCandidate& a, const TcpCandidate& b) {
    if (a.rank != b.rank) return a.rank < b.rank;
    if (a.address.megabits != b.address.megabits) return a.address.megabits > b.address.megabits;
    return a.address.family < b.address.family;
  });
  return out;
}

}  // namespace tern
