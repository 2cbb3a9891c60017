// By which address a RoCE port is reached, and what is said where there is no adapter.
#include <arpa/inet.h>
#include <gtest/gtest.h>

#include "fabric/rdma/verbs/ibv.h"

namespace tern::rdma {
namespace {

IbvGid gid(int index, const char* address, IbvGid::Type type = IbvGid::Type::roce_v2) {
  IbvGid made;
  EXPECT_EQ(inet_pton(AF_INET6, address, made.bytes), 1);
  made.index = index;
  made.type = type;
  return made;
}

int chosen(std::vector<IbvGid> gids) {
  const IbvGid* best = choose_roce_gid(gids);
  return best ? best->index : -1;
}

constexpr auto kOld = IbvGid::Type::roce_v1;

TEST(IbvPorts, RoceAddress) {
  EXPECT_EQ(chosen({}), -1);
  // What an mlx5 port with one IPv4 address shows.
  EXPECT_EQ(
      chosen({gid(0, "fe80::1", kOld), gid(1, "fe80::1"), gid(2, "::ffff:10.1.2.3", kOld), gid(3, "::ffff:10.1.2.3")}),
      3);
  // Version 2 passes routers; version 1 does not, whatever its address.
  EXPECT_EQ(chosen({gid(0, "::ffff:10.1.2.3", kOld), gid(1, "fe80::1")}), 1);
  EXPECT_EQ(chosen({gid(0, "fe80::1"), gid(1, "2001:db8::5"), gid(2, "fe80::2")}), 1);
  EXPECT_EQ(chosen({gid(0, "2001:db8::5"), gid(1, "::ffff:10.1.2.3")}), 1);
  // Of equals (a virtual network's address beside the port's own) the first.
  EXPECT_EQ(chosen({gid(4, "::ffff:10.1.2.3"), gid(6, "::ffff:10.9.9.9")}), 4);
  EXPECT_EQ(chosen({gid(0, "fe80::1", kOld)}), 0);
}

TEST(IbvPorts, Text) { EXPECT_EQ(gid(0, "::ffff:10.1.2.3").text(), "::ffff:10.1.2.3"); }

TEST(IbvPorts, AbsentAdaptersAreNamed) {
  std::unique_ptr<Hca> hca;
  Tunables tunables;
  tunables.rdma_devices = "no_such_adapter";
  const Error error = open_ibv({}, tunables, hca);
  ASSERT_TRUE(error);
  EXPECT_EQ(hca, nullptr);
  std::string why_none;
  if (find_ibv_ports(tunables, why_none).empty()) {
    EXPECT_FALSE(why_none.empty());
    EXPECT_EQ(error.text(), why_none);
  } else {
    EXPECT_NE(error.text().find("no_such_adapter"), std::string_view::npos);
  }
}

}  // namespace
}  // namespace tern::rdma
