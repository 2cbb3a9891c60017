// What batch systems say about their allocations (tools/mpiexec/allocation.h).
#include "tools/mpiexec/allocation.h"

#include <gtest/gtest.h>

#include <sstream>

namespace tern::mpiexec {
namespace {

using Names = std::vector<std::string>;

TEST(Allocation, SlurmsHostLists) {
  EXPECT_EQ(expand_host_list("node1"), Names({"node1"}));
  EXPECT_EQ(expand_host_list("node[1-3,07],login,gpu[008-011].x"),
            Names({"node1", "node2", "node3", "node07", "login", "gpu008.x", "gpu009.x", "gpu010.x", "gpu011.x"}));
  for (const char* wrong : {"", "node[", "node]1[", "node[3-1]", "node[a]", "node[1-]", "node[1-99999999]", "a,,b"}) {
    EXPECT_EQ(expand_host_list(wrong), Names()) << wrong;
  }
}

TEST(Allocation, SlurmsCounts) {
  EXPECT_EQ(expand_counts("2(x3),1"), (std::vector<int>{2, 2, 2, 1}));
  for (const char* wrong : {"2(x", "2(x0)", "x", "-1", "2(x99999999)"})
    EXPECT_TRUE(expand_counts(wrong).empty()) << wrong;
}

TEST(Allocation, FilesOfPbsAndSge) {
  std::istringstream pbs("a\na\nb\na\n");
  const std::vector<Host> hosts = read_pbs_nodes(pbs);
  ASSERT_EQ(hosts.size(), 2u);
  EXPECT_EQ(hosts[0].slots, 3);
  EXPECT_EQ(hosts[1].name, "b");
  std::istringstream sge("n1.x 4 all.q@n1.x UNDEFINED\n\nn2.x 2 all.q@n2.x <NULL>\n");
  const std::vector<Host> nodes = read_sge_hosts(sge);
  ASSERT_EQ(nodes.size(), 2u);
  EXPECT_EQ(nodes[0].slots, 4);
  EXPECT_EQ(nodes[1].name, "n2.x");
}

}  // namespace
}  // namespace tern::mpiexec
