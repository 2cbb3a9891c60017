// How ranks are distributed over hosts. The distribution is made here and not left to the launcher that is called, so
// that it is the same with each of them.
// Thread rule: pure functions.
#pragma once

#include <string>
#include <vector>

namespace tern::mpiexec {

/// Slots of a host. More is a mistake: no machine has as many processors.
inline constexpr int kMaxSlots = 1'000'000;

/// A host and how many ranks it is meant for.
struct Host {
  std::string name;
  int slots = 0;  ///< 0: not said

  bool operator==(const Host&) const = default;
};

/// Hosts in the order of the ranks; `slots` consecutive ranks are on each, never 0. A host may come twice.
using Shares = std::vector<Host>;

/// Reads "node1" and "node1:4"; an IPv6 address keeps its colons, and so does what is no number from 1 to a million.
Host parse_host(const std::string& text);

/// Each host gets as many ranks as it has slots, one after the other, and further rounds while ranks are left. A host
/// that is named twice has the slots of both. `per_host` is the slots of every host; 0: as the hosts say. Hosts that
/// say nothing have one slot, or, when none of them says anything, an equal share. Empty without hosts.
Shares share_ranks(const std::vector<Host>& hosts, int ranks, int per_host);

/// Takes the first `ranks` ranks away from the front of `shares`.
Shares take_front(Shares& shares, int ranks);

}  // namespace tern::mpiexec
