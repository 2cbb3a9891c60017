#include "shares.h"

#include <algorithm>
#include <charconv>

namespace tern::mpiexec {
namespace {

// Each name once, in the order of first mention, with the slots of all mentions. 0 slots: no mention has said any.
std::vector<Host> merged(const std::vector<Host>& hosts) {
  const bool any_says = std::any_of(hosts.begin(), hosts.end(), [](const Host& host) { return host.slots > 0; });
  const bool repeated = any_says || std::any_of(hosts.begin(), hosts.end(), [&](const Host& host) {
                          return std::count(hosts.begin(), hosts.end(), host) > 1;
                        });
  std::vector<Host> list;
  for (const Host& host : hosts) {
    const int slots = repeated ? std::max(1, host.slots) : 0;
    auto known = std::find_if(list.begin(), list.end(), [&](const Host& other) { return other.name == host.name; });
    if (known == list.end()) list.push_back({host.name, slots});
    else known->slots = std::min(kMaxSlots, known->slots + slots);
  }
  return list;
}

}  // namespace

Host parse_host(const std::string& text) {
  const size_t colon = text.find(':');
  if (colon == std::string::npos || text.find(':', colon + 1) != std::string::npos) return {text, 0};
  int slots = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, failure] = std::from_chars(text.data() + colon + 1, end, slots);
  if (failure != std::errc() || stop != end || slots < 1 || slots > kMaxSlots) return {text, 0};
  return {text.substr(0, colon), slots};
}

Shares share_ranks(const std::vector<Host>& hosts, int ranks, int per_host) {
  std::vector<Host> list = merged(hosts);
  if (list.empty()) return {};
  const int number = int(list.size());
  Shares shares;
  for (int i = 0; i < number; ++i) {
    Host& host = list[size_t(i)];
    if (per_host > 0) host.slots = per_host;
    else if (host.slots == 0) host.slots = std::max(1, ranks / number + (i < ranks % number));
    shares.push_back({host.name, 0});
  }
  while (ranks > 0) {
    for (size_t i = 0; i < list.size() && ranks > 0; ++i) {
      const int more = std::min(ranks, list[i].slots);
      shares[i].slots += more;
      ranks -= more;
    }
  }
  std::erase_if(shares, [](const Host& host) { return host.slots == 0; });
  return shares;
}

Shares take_front(Shares& shares, int ranks) {
  Shares taken;
  while (ranks > 0 && !shares.empty()) {
    const int here = std::min(ranks, shares.front().slots);
    taken.push_back({shares.front().name, here});
    ranks -= here;
    if ((shares.front().slots -= here) == 0) shares.erase(shares.begin());
  }
  return taken;
}

}  // namespace tern::mpiexec
