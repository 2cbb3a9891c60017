// Which interfaces are used, and which of a peer's addresses are tried in which order: tables.
#include <arpa/inet.h>
#include <gtest/gtest.h>

#include "fabric/ip/interfaces.h"

namespace tern {
namespace {

using wire::CardAddress;

CardAddress address(const std::string& text, int prefix, uint32_t megabits = 0) {
  CardAddress out;
  out.family = text.find(':') == std::string::npos ? 4 : 6;
  out.prefix_length = uint8_t(prefix);
  out.megabits = megabits;
  out.port = 1;
  EXPECT_EQ(inet_pton(out.family == 4 ? AF_INET : AF_INET6, text.c_str(), out.bytes.data()), 1);
  if (text == "127.0.0.1" || text == "::1") out.flags = CardAddress::kLoopback;
  if (text.starts_with("fe80:")) out.flags = CardAddress::kLinkLocal;
  return out;
}

LocalAddress local(const std::string& interface, const std::string& text, int prefix, uint32_t megabits = 0,
                   uint32_t index = 2) {
  return {interface, index, address(text, prefix, megabits)};
}

struct Case {
  const char* what;
  bool same_host;
  std::vector<LocalAddress> ours;
  std::vector<CardAddress> theirs;
  std::vector<std::string> expected;  ///< "address" or "address%scope"
};

TEST(TcpInterfaces, OrderOfCandidates) {
  const LocalAddress lo = local("lo", "127.0.0.1", 8, 0, 1);
  const CardAddress their_lo = address("127.0.0.1", 8);
  const std::vector<Case> cases = {
      {"same host: loopback first",
       true,
       {lo, local("eth0", "10.0.0.1", 24)},
       {address("10.0.0.1", 24), their_lo},
       {"127.0.0.1", "10.0.0.1"}},
      {"other host: never loopback",
       false,
       {lo, local("eth0", "10.0.0.1", 24)},
       {their_lo, address("10.0.0.2", 24)},
       {"10.0.0.2"}},
      {"two networks: the shared one",
       false,
       {lo, local("eth0", "10.0.0.1", 24)},
       {address("192.168.7.2", 24), address("10.0.0.2", 24)},
       {"10.0.0.2", "192.168.7.2"}},
      {"both shared: the faster",
       false,
       {local("eth0", "10.0.0.1", 24), local("ib0", "10.1.0.1", 24)},
       {address("10.0.0.2", 24, 1000), address("10.1.0.2", 24, 100'000)},
       {"10.1.0.2", "10.0.0.2"}},
      {"the container bridge is everywhere the same",
       false,
       {local("br7", "172.20.0.1", 16), local("eth0", "10.0.0.1", 24)},
       {address("172.20.0.1", 16), address("10.0.0.2", 24)},
       {"10.0.0.2"}},
      {"IPv6 only",
       false,
       {local("eth0", "fd00::1", 64)},
       {address("fd00::2", 64), address("10.0.0.2", 24)},
       {"fd00::2"}},
      {"IPv4 before IPv6 on one network",
       false,
       {local("eth0", "fd00::1", 64), local("eth0", "10.0.0.1", 24)},
       {address("fd00::2", 64), address("10.0.0.2", 24)},
       {"10.0.0.2", "fd00::2"}},
      {"link-local only, through every interface",
       false,
       {local("eth0", "fe80::1", 64, 0, 2), local("eth1", "fe80::1", 64, 0, 3)},
       {address("fe80::2", 64)},
       {"fe80::2%2", "fe80::2%3"}},
      {"link-local last",
       false,
       {local("eth0", "fe80::1", 64), local("eth0", "fd01::1", 64)},
       {address("fe80::2", 64), address("fd00::2", 64)},
       {"fd00::2", "fe80::2%2"}},
      {"public to public before private to public",
       false,
       {local("eth0", "10.0.0.1", 24), local("eth1", "8.8.4.1", 24)},
       {address("10.9.0.2", 24), address("9.9.9.9", 24)},
       {"9.9.9.9", "10.9.0.2"}},
      {"same prefix bits, another length: not the same network",
       false,
       {local("eth0", "10.0.0.1", 8), local("eth1", "10.7.0.1", 24)},
       {address("10.0.0.9", 24), address("10.7.0.2", 24)},
       {"10.7.0.2", "10.0.0.9"}},
      {"no common family", false, {local("eth0", "10.0.0.1", 24)}, {address("fd00::2", 64)}, {}},
      {"no one's addresses",
       false,
       {local("eth0", "10.0.0.1", 24), local("eth0", "fd00::1", 64)},
       {address("0.0.0.0", 0), address("224.0.0.1", 24), address("ff02::1", 64), address("::", 64),
        address("255.255.255.255", 32)},
       {}},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.what);
    wire::HostIdentity here{};
    wire::Card card;
    card.addresses = c.theirs;
    if (!c.same_host) card.host[0] = 1;
    std::vector<std::string> got;
    for (const TcpCandidate& candidate : rank_candidates(c.ours, here, card)) {
      std::string text = wire::to_text(candidate.address);
      text.resize(text.rfind(':'));
      if (text.starts_with("[")) text = text.substr(1, text.size() - 2);
      got.push_back(text + (candidate.scope ? "%" + std::to_string(candidate.scope) : ""));
    }
    EXPECT_EQ(got, c.expected);
  }
}

TEST(TcpInterfaces, Selection) {
  const std::vector<LocalAddress> all = {
      local("lo", "127.0.0.1", 8),  local("eth0", "10.0.0.1", 24),      local("eth1", "192.168.0.1", 24),
      local("eth1", "fd00::1", 64), local("docker0", "172.17.0.1", 16), local("br-0123456789ab", "172.18.0.1", 16)};
  auto chosen = [&](const char* wanted) {
    std::vector<LocalAddress> out;
    std::string names;
    if (Error error = select_interfaces(wanted, all, out)) return "error: " + std::string(error.text());
    for (auto& entry : out) names += (names.empty() ? "" : " ") + entry.interface;
    return names;
  };
  EXPECT_EQ(chosen(""), "lo eth0 eth1 eth1");
  EXPECT_EQ(chosen("eth1"), "lo eth1 eth1");
  EXPECT_EQ(chosen("192.168.0.0/16, docker0"), "lo eth1 docker0");
  EXPECT_EQ(chosen("fd00::/16"), "lo eth1");
  EXPECT_EQ(chosen("10.0.0.1"), "lo eth0");
  EXPECT_NE(chosen("eth7").find(
                "TERN_TCP_INTERFACES=eth7 matches none of this host's addresses: lo 127.0.0.1, eth0 10.0.0.1"),
            std::string::npos);
  EXPECT_NE(chosen("10.0.0.0/33").find("neither an interface nor a network"), std::string::npos);
  EXPECT_NE(chosen("10.0.0/8").find("neither"), std::string::npos);
}

TEST(TcpInterfaces, NamesOfContainers) {
  for (const char* name :
       {"docker0", "virbr0", "cni0", "veth1a2b3c4", "br-0123456789ab", "flannel.1", "cali12345678901"}) {
    EXPECT_TRUE(belongs_to_containers(name)) << name;
  }
  for (const char* name : {"eth0", "br0", "bond0", "ib0", "enp3s0", "wlan0", "br-mgmt", "veth0", "hsn0", "eno1"}) {
    EXPECT_FALSE(belongs_to_containers(name)) << name;
  }
}

TEST(TcpInterfaces, ThisHost) {
  std::vector<LocalAddress> out;
  Error error = usable_interfaces("", out);
  ASSERT_FALSE(error) << error.text();
  bool loopback = false;
  for (const LocalAddress& entry : out) {
    loopback = loopback || entry.address.loopback();
    EXPECT_NE(entry.index, 0u);
    EXPECT_NE(entry.address.prefix_length, 0);
  }
  EXPECT_TRUE(loopback);
  EXPECT_EQ(host_identity(), host_identity());
  EXPECT_NE(host_identity(), wire::HostIdentity{});
}

}  // namespace
}  // namespace tern
