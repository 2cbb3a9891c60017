#include "coll/select.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <climits>
#include <string>
#include <tuple>

#include "coll/algorithms.h"
#include "coll/node_team.h"

namespace tern {

namespace {
using A = Algorithm;
using O = Operation;
constexpr size_t kAny = SIZE_MAX;  // bytes
constexpr int kMax = INT_MAX;      // ranks
constexpr size_t k1K = 1024;

// Within an operation the first record that applies and whose window contains the call is the default. The last record
// of each operation has no window and no requirements, so there is always one. Windows without a figure follow from the
// counts of rounds and bytes in the drawings of the algorithms. Rows of messages: one rank on each node, 3 to 96
// nodes, on the machines `ndr` and `gigabit`, by what one call takes (bench/tune --collectives 8x1 --machine ndr.toml);
// where the two differ, the row that loses less. "leaders" and "lanes" (lanes.h) over nodes: bench/levels.c on `ndr`,
// 4 nodes of 24 ranks, beside the same written by hand with MPI calls. "node" applies if its data fit
// (NodeTeam::kBulkBytes): 2 ranks, 8 to 4096 bytes, it takes 0.1 to 0.9 of the time of messages; 4 and 8 ranks on 2
// cores 0.1 to 0.6. Rows for shared cores: 4, 8 and 16 ranks on 2 cores, 16 KiB to 4 MiB, all algorithms beside each
// other (bench/run --only node).
// clang-format off
constexpr Algorithm kTable[] = {
  {O::barrier, "node", barrier_node, 0, kAny, 2, kMax,
   "flags and data in shared cache lines, one hand-over"},
  {O::barrier, "leaders", barrier_leaders, A::kLevels, 0, kAny, 3, kMax,
   "one message each way for a node"},
  {O::barrier, "tree", barrier_tree, A::kSharedCores, 0, kAny, 5, kMax, "ranks share cores: 2 (p - 1) messages"},
  {O::barrier, "dissemination", barrier_dissemination, A::kNothing, 0, kAny, 1, kMax, "log2 p rounds"},

  {O::bcast, "node", bcast_node, 0, kAny, 2, kMax, "one hand-over for all"},
  {O::bcast, "lanes", bcast_lanes, A::kLevels, 16 * k1K, kAny, 3, kMax,
   "each byte enters a node once, all members share the work"},
  {O::bcast, "leaders", bcast_leaders, A::kLevels, 0, kAny, 3, kMax,
   "each byte enters a node once"},
  {O::bcast, "chain", bcast_chain, A::kSharedCores, 8 * k1K, 128 * k1K, 3, kMax, "few waits for each other"},
  {O::bcast, "linear", bcast_linear, A::kSharedCores, 128 * k1K, kAny, 3, 16,
   "ranks share cores: one wait for each, and no rank waits for another's copy"},
  {O::bcast, "binomial", bcast_binomial, A::kSharedCores, 8 * k1K, kAny, 3, kMax,
   "ranks share cores: each gets the vector as a whole, and waits once"},
  {O::bcast, "linear", bcast_linear, A::kNothing, 0, 2 * k1K, 5, 16,
   "p - 1 messages at once end sooner than log2 p hops"},
  {O::bcast, "spread", bcast_spread, A::kNothing, 16 * k1K, 64 * k1K, 6, 64,
   "each byte leaves the root once, and all others pass parts on at the same time"},
  {O::bcast, "spread", bcast_spread, A::kNothing, 64 * k1K, kAny, 4, 64,
   "each byte leaves the root once, and all others pass parts on at the same time"},
  {O::bcast, "scatter_allgather", bcast_scatter_allgather, A::kNothing, 64 * k1K, 512 * k1K, 8, kMax,
   "twice the bytes per rank instead of log2 p times"},
  {O::bcast, "chain", bcast_chain, A::kNothing, 512 * k1K, kAny, 3, kMax,
   "every rank forwards each part once, all links busy"},
  {O::bcast, "binomial", bcast_binomial, A::kNothing, 0, kAny, 1, kMax, "log2 p rounds"},

  {O::gather, "node", gather_node, 0, kAny, 2, kMax, "no request, no tree"},
  {O::gather, "leaders", gather_leaders, A::kLevels, 0, 64 * k1K, 3, kMax,
   "one message for a node"},
  {O::gather, "binomial", gather_binomial, A::kNothing, 0, 2 * k1K, 17, kMax,
   "log2 p messages at the root; blocks are small enough to be copied on the way"},
  {O::gather, "linear", gather_linear, A::kNothing, 0, kAny, 1, kMax, "each block copied once"},
  {O::gatherv, "linear", gather_linear, A::kNothing, 0, kAny, 1, kMax,
   "only the root knows the counts"},
  {O::scatter, "node", scatter_node, 0, kAny, 2, kMax, "as gather"},
  {O::scatter, "leaders", scatter_leaders, A::kLevels, 0, 64 * k1K, 3, kMax,
   "one message for a node"},
  {O::scatter, "binomial", scatter_binomial, A::kNothing, 0, 256, 33, kMax, "as gather"},
  {O::scatter, "binomial", scatter_binomial, A::kNothing, 256, 2 * k1K, 65, kMax, "as gather"},
  {O::scatter, "linear", scatter_linear, A::kNothing, 0, kAny, 1, kMax, "each block copied once"},
  {O::scatterv, "linear", scatter_linear, A::kNothing, 0, kAny, 1, kMax,
   "only the root knows the counts"},

  {O::allgather, "node", allgather_node, 0, kAny, 2, kMax, "one hand-over"},
  {O::allgather, "leaders", allgather_leaders, A::kLevels, 0, 512, 3, kMax,
   "one message each way for a node"},
  {O::allgather, "lanes", allgather_lanes, A::kLevels, 512, kAny, 3, kMax,
   "each block enters a node once, all members share the work"},
  {O::allgather, "spread", allgather_spread, A::kSharedCores, 8 * k1K, kAny, 3, 8,
   "ranks share cores: one wait instead of p - 1"},
  {O::allgather, "recursive_doubling", allgather_recursive_doubling, A::kPowerOfTwo | A::kSharedCores, 0,
   128 * k1K, 4, kMax, "ranks share cores: few messages, log2 p waits"},
  {O::allgather, "bruck", allgather_bruck, A::kSharedCores, 0, 1 * k1K, 5, kMax, "ranks share cores: few messages"},
  {O::allgather, "ring", allgather_ring, A::kSharedCores, 0, kAny, 9, kMax, "ranks share cores: few messages at once"},
  {O::allgather, "spread", allgather_spread, A::kNothing, 0, kAny, 1, 16,
   "one round; p - 1 messages at once end sooner than log2 p, one after the other"},
  {O::allgather, "recursive_doubling", allgather_recursive_doubling, A::kPowerOfTwo, 0, 512, 17, kMax,
   "log2 p rounds without copies"},
  {O::allgather, "recursive_doubling", allgather_recursive_doubling, A::kPowerOfTwo, 512, 8 * k1K, 33, kMax,
   "log2 p rounds without copies"},
  {O::allgather, "bruck", allgather_bruck, A::kNothing, 0, 512, 33, kMax,
   "log2 p rounds for any p; two more copies"},
  {O::allgather, "spread", allgather_spread, A::kNothing, 0, kAny, 17, 64, "one round"},
  {O::allgather, "bruck", allgather_bruck, A::kNothing, 512, 8 * k1K, 65, kMax,
   "log2 p rounds for any p; two more copies"},
  {O::allgather, "ring", allgather_ring, A::kNothing, 0, kAny, 1, kMax, "neighbours only"},
  {O::allgatherv, "node", allgather_node, 0, kAny, 2, kMax, "one hand-over"},
  {O::allgatherv, "leaders", allgather_leaders, A::kLevels, 0, 512, 3, kMax,
   "as allgather"},
  {O::allgatherv, "lanes", allgather_lanes, A::kLevels, 512, kAny, 3, kMax,
   "as allgather"},
  {O::allgatherv, "bruck", allgather_bruck, A::kNothing, 0, 512, 33, kMax, "as allgather"},
  {O::allgatherv, "spread", allgather_spread, A::kNothing, 0, kAny, 1, 64, "as allgather"},
  {O::allgatherv, "bruck", allgather_bruck, A::kNothing, 512, 8 * k1K, 65, kMax, "as allgather"},
  {O::allgatherv, "ring", allgather_ring, A::kNothing, 0, kAny, 1, kMax, "neighbours only"},

  {O::alltoall, "node", alltoall_node, 0, kAny, 2, kMax, "one hand-over"},
  {O::alltoall, "lanes", alltoall_lanes, A::kLevels, 0, 16 * k1K, 3, kMax,
   "a process speaks to one of each other node: few messages, few connections"},
  {O::alltoall, "bruck", alltoall_bruck, A::kSharedCores, 0, 256, 8, kMax, "ranks share cores: few messages"},
  {O::alltoall, "bruck", alltoall_bruck, A::kNothing, 0, 64, 25, kMax,
   "log2 p messages instead of p - 1"},
  {O::alltoall, "bruck", alltoall_bruck, A::kNothing, 64, 256, 49, kMax,
   "log2 p messages instead of p - 1"},
  {O::alltoall, "spread", alltoall_spread, A::kNothing, 0, 512 * k1K, 1, 128,
   "no waiting in turn (8 ranks on 2 cores, 32 KiB: 65 us, pairwise 120; 256 KiB: 690 and more)"},
  {O::alltoall, "spread", alltoall_spread, A::kNothing, 0, 32 * k1K, 1, kMax, "no waiting in turn"},
  {O::alltoall, "pairwise", alltoall_pairwise, A::kNothing, 0, kAny, 1, kMax,
   "one sender per receiver at a time"},
  {O::alltoallv, "spread", alltoall_spread, A::kNothing, 0, kAny, 1, kMax, "sizes are not known"},
  {O::alltoallv, "pairwise", alltoall_pairwise, A::kNothing, 0, kAny, 1, kMax, "as alltoall"},
  {O::alltoallw, "spread", alltoall_spread, A::kNothing, 0, kAny, 1, kMax, "sizes are not known"},
  {O::alltoallw, "pairwise", alltoall_pairwise, A::kNothing, 0, kAny, 1, kMax, "as alltoall"},

  {O::reduce, "node", reduce_node, 0, kAny, 2, kMax, "one hand-over for all"},
  {O::reduce, "lanes", reduce_lanes, A::kCommutative | A::kLevels, 8 * k1K, kAny, 3, kMax,
   "each part leaves a node once, all members share the work"},
  {O::reduce, "leaders", reduce_leaders, A::kCommutative | A::kLevels, 0, kAny, 3, kMax,
   "one message for a node"},
  {O::reduce, "chain", reduce_chain, A::kCommutative | A::kSharedCores, 8 * k1K, kAny, 3, kMax,
   "ranks share cores: fewest messages"},
  {O::reduce, "rabenseifner", reduce_rabenseifner, A::kCommutative | A::kPowerOfTwo, 16 * k1K, 4096 * k1K, 32, kMax,
   "the work is shared; a chain's time grows with p"},
  {O::reduce, "rabenseifner", reduce_rabenseifner, A::kCommutative | A::kPowerOfTwo, 16 * k1K, 2048 * k1K, 8, kMax,
   "the work is shared; a power of two needs no first step"},
  {O::reduce, "rabenseifner", reduce_rabenseifner, A::kCommutative, 16 * k1K, 1024 * k1K, 4, kMax,
   "the work is shared, bytes per rank do not grow with log2 p"},
  {O::reduce, "chain", reduce_chain, A::kCommutative, 1024 * k1K, kAny, 3, kMax,
   "combining and moving overlap"},
  {O::reduce, "binomial", reduce_binomial, A::kNothing, 0, kAny, 1, kMax, "log2 p rounds; any operator"},

  {O::allreduce, "node", allreduce_node, 0, kAny, 2, kMax,
   "flags and data in shared cache lines, one hand-over"},
  {O::allreduce, "lanes", allreduce_lanes, A::kCommutative | A::kLevels, 8 * k1K, kAny, 3, kMax,
   "each part leaves a node once, all members share the work"},
  {O::allreduce, "leaders", allreduce_leaders, A::kCommutative | A::kLevels, 0, kAny, 3, kMax,
   "one message for a node"},
  {O::allreduce, "recursive_doubling", allreduce_recursive_doubling, A::kSharedCores, 0, 8 * k1K, 3, kMax,
   "ranks share cores: few messages"},
  {O::allreduce, "spread", allreduce_spread, A::kNothing, 0, 2 * k1K, 3, 12,
   "one round; p - 1 messages at once end sooner than log2 p, one after the other"},
  {O::allreduce, "recursive_doubling", allreduce_recursive_doubling, A::kNothing, 0, 8 * k1K, 1, kMax,
   "log2 p rounds"},
  {O::allreduce, "reduce_bcast", allreduce_reduce_bcast, A::kSharedCores, 8 * k1K, 2048 * k1K, 3, kMax,
   "ranks share cores: the vector is combined p - 1 times, few waits"},
  {O::allreduce, "rabenseifner", allreduce_rabenseifner, A::kCommutative | A::kSharedCores, 2048 * k1K, kAny, 3, kMax,
   "few bytes, which weigh more than waits"},
  {O::allreduce, "rabenseifner", allreduce_rabenseifner, A::kCommutative | A::kPowerOfTwo, 8 * k1K, 4096 * k1K, 3, kMax,
   "2 log2 p rounds, twice the bytes whatever p; longer ones need new memory, which is page faults"},
  {O::allreduce, "ring", allreduce_ring, A::kCommutative, 32 * k1K, kAny, 3, 16,
   "the same bytes for any p, always between neighbours"},
  {O::allreduce, "rabenseifner", allreduce_rabenseifner, A::kCommutative, 8 * k1K, 512 * k1K, 3, kMax,
   "2 log2 p rounds; ranks beyond a power of two send everything first"},
  {O::allreduce, "ring", allreduce_ring, A::kCommutative, 512 * k1K, kAny, 3, kMax,
   "the same bytes for any p, always between neighbours"},
  {O::allreduce, "reduce_bcast", allreduce_reduce_bcast, A::kNothing, 0, kAny, 3, kMax,
   "any operator: the vector is combined p - 1 times, not p log2 p"},
  {O::allreduce, "recursive_doubling", allreduce_recursive_doubling, A::kNothing, 0, kAny, 1, kMax,
   "two ranks: one exchange"},

  {O::reduce_scatter, "node", reduce_scatter_node, 0, kAny, 2, kMax, "one hand-over"},
  {O::reduce_scatter, "leaders", reduce_scatter_leaders, A::kCommutative | A::kLevels, 0, 8 * k1K, 3, kMax,
   "one message for a node"},
  {O::reduce_scatter, "lanes", reduce_scatter_lanes, A::kCommutative | A::kLevels, 0, kAny, 3, kMax,
   "each block leaves a node once, all members share the work"},
  {O::reduce_scatter, "halving", reduce_scatter_halving, A::kCommutative | A::kSharedCores, 0, 512 * k1K, 8, kMax,
   "ranks share cores: fewest messages (16 ranks on 2 cores, 64 KiB: 170 us, pairwise 335)"},
  {O::reduce_scatter, "halving", reduce_scatter_halving, A::kCommutative | A::kSharedCores, 0, 32 * k1K, 4, 7,
   "ranks share cores: fewest messages"},
  {O::reduce_scatter, "pairwise", reduce_scatter_pairwise, A::kSharedCores, 0, kAny, 3, kMax,
   "ranks share cores: each block moves once, and little memory is used"},
  {O::reduce_scatter, "spread", reduce_scatter_spread, A::kNothing, 0, 2048 * k1K, 3, 16,
   "one round; p - 1 messages at once end sooner than log2 p, one after the other"},
  {O::reduce_scatter, "spread", reduce_scatter_spread, A::kNothing, 64 * k1K, 2048 * k1K, 17, 64,
   "one round, each block moves once; the memory that longer ones need is page faults"},
  {O::reduce_scatter, "halving", reduce_scatter_halving, A::kCommutative | A::kPowerOfTwo, 0, 4096 * k1K, 17, kMax,
   "log2 p rounds"},
  {O::reduce_scatter, "halving", reduce_scatter_halving, A::kCommutative, 0, 32 * k1K, 17, kMax,
   "log2 p rounds; ranks beyond a power of two send everything first"},
  {O::reduce_scatter, "by_root", reduce_scatter_by_root, A::kNothing, 0, 32 * k1K, 17, kMax,
   "any operator in 2 log2 p rounds"},
  {O::reduce_scatter, "pairwise", reduce_scatter_pairwise, A::kNothing, 0, kAny, 1, kMax,
   "each block moves once; any operator"},
  {O::reduce_scatter_block, "node", reduce_scatter_node, 0, kAny, 2, kMax, "one hand-over"},
  {O::reduce_scatter_block, "leaders", reduce_scatter_leaders, A::kCommutative | A::kLevels, 0, 8 * k1K, 3, kMax,
   "as reduce_scatter"},
  {O::reduce_scatter_block, "lanes", reduce_scatter_lanes, A::kCommutative | A::kLevels, 0, kAny, 3, kMax,
   "as reduce_scatter"},
  {O::reduce_scatter_block, "halving", reduce_scatter_halving, A::kCommutative | A::kSharedCores, 0, 512 * k1K, 8, kMax,
   "as reduce_scatter"},
  {O::reduce_scatter_block, "halving", reduce_scatter_halving, A::kCommutative | A::kSharedCores, 0, 32 * k1K, 4, 7,
   "as reduce_scatter"},
  {O::reduce_scatter_block, "pairwise", reduce_scatter_pairwise, A::kSharedCores, 0, kAny, 3, kMax,
   "as reduce_scatter"},
  {O::reduce_scatter_block, "spread", reduce_scatter_spread, A::kNothing, 0, 2048 * k1K, 3, 16,
   "as reduce_scatter"},
  {O::reduce_scatter_block, "spread", reduce_scatter_spread, A::kNothing, 64 * k1K, 2048 * k1K, 17, 64,
   "as reduce_scatter"},
  {O::reduce_scatter_block, "halving", reduce_scatter_halving, A::kCommutative | A::kPowerOfTwo, 0, 4096 * k1K, 17,
   kMax, "as reduce_scatter"},
  {O::reduce_scatter_block, "halving", reduce_scatter_halving, A::kCommutative, 0, 32 * k1K, 17, kMax,
   "as reduce_scatter"},
  {O::reduce_scatter_block, "by_root", reduce_scatter_by_root, A::kNothing, 0, 32 * k1K, 17, kMax,
   "as reduce_scatter"},
  {O::reduce_scatter_block, "pairwise", reduce_scatter_pairwise, A::kNothing, 0, kAny, 1, kMax,
   "each block moves once; any operator"},

  {O::scan, "node", scan_node, 0, kAny, 2, kMax, "one hand-over"},
  {O::scan, "linear", scan_linear, A::kNothing, 0, kAny, 2, 2, "one message"},
  {O::scan, "linear", scan_linear, A::kSharedCores, 8 * k1K, kAny, 3, kMax,
   "ranks share cores: p - 1 messages, each vector is combined once"},
  {O::scan, "recursive_doubling", scan_recursive_doubling, A::kNothing, 0, 64 * k1K, 1, kMax,
   "log2 p rounds"},
  {O::scan, "tree", scan_tree, A::kNothing, 0, kAny, 1, kMax, "2 p messages instead of p log2 p"},
  {O::exscan, "node", exscan_node, 0, kAny, 2, kMax, "one hand-over"},
  {O::exscan, "linear", exscan_linear, A::kNothing, 0, kAny, 2, 2, "one message"},
  {O::exscan, "linear", exscan_linear, A::kSharedCores, 8 * k1K, kAny, 3, kMax, "as scan"},
  {O::exscan, "recursive_doubling", exscan_recursive_doubling, A::kNothing, 0, 64 * k1K, 1, kMax,
   "log2 p rounds"},
  {O::exscan, "tree", exscan_tree, A::kNothing, 0, kAny, 1, kMax, "2 p messages instead of p log2 p"},
};
// clang-format on

// Where the records of each operation begin; they stand together.
constexpr auto kFirst = [] {
  std::array<uint8_t, kOperations + 1> first{};
  size_t at = 0;
  for (int operation = 0; operation <= kOperations; ++operation) {
    while (at < std::size(kTable) && int(kTable[at].operation) < operation) ++at;
    first[size_t(operation)] = uint8_t(at);
  }
  return first;
}();
static_assert(std::is_sorted(std::begin(kTable), std::end(kTable),
                             [](const A& a, const A& b) { return a.operation < b.operation; }));

// An algorithm that uses node memory is the first of its operation, and applies to all sizes and to two ranks or more:
// choose() looks at no other.
static_assert(std::all_of(std::begin(kTable), std::end(kTable), [](const A& a) {
  if (!(a.needs & A::kNodeMemory)) return true;
  return &a == &kTable[kFirst[size_t(a.operation)]] && a.needs == A::kNodeMemory && a.from_bytes == 0 &&
         a.to_bytes == kAny && a.from_ranks == 2 && a.to_ranks == kMax;
}));

constexpr const char* kNames[kOperations] = {"barrier",
                                             "bcast",
                                             "gather",
                                             "gatherv",
                                             "scatter",
                                             "scatterv",
                                             "allgather",
                                             "allgatherv",
                                             "alltoall",
                                             "alltoallv",
                                             "alltoallw",
                                             "reduce",
                                             "allreduce",
                                             "reduce_scatter",
                                             "reduce_scatter_block",
                                             "scan",
                                             "exscan",
                                             "neighbor_allgather",
                                             "neighbor_allgatherv",
                                             "neighbor_alltoall",
                                             "neighbor_alltoallv",
                                             "neighbor_alltoallw"};

// "barrier=node|dissemination|tree, bcast=..." from the table.
std::string list_of_names() {
  std::string text;
  for (int operation = 0; operation < kOperations; ++operation) {
    std::string names;
    for (const Algorithm& a : kTable) {
      if (int(a.operation) != operation ||
          ("|" + names + "|").find("|" + std::string(a.name) + "|") != std::string::npos) {
        continue;
      }
      names += (names.empty() ? "" : "|") + std::string(a.name);
    }
    if (!names.empty()) text += (text.empty() ? "" : ", ") + std::string(kNames[operation]) + "=" + names;
  }
  return text;
}

// A number with an optional K or M.
bool take_number(std::string_view text, size_t& value) {
  auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (failure != std::errc()) return false;
  std::string_view suffix(end, size_t(text.data() + text.size() - end));
  if (suffix.empty()) return true;
  if (suffix == "k" || suffix == "K") value <<= 10;
  else if (suffix == "m" || suffix == "M") value <<= 20;
  else return false;
  return true;
}
}  // namespace

const char* name_of(Operation operation) { return kNames[int(operation)]; }

std::string function_of(Operation operation) {
  std::string name = std::string("MPI_") + name_of(operation);
  name[4] = char(name[4] - 'a' + 'A');
  return name;
}

std::span<const Algorithm> algorithms() { return kTable; }

Situation situation_of(Operation operation, const Operands& o, int ranks) {
  Situation s;
  s.operation = operation;
  s.ranks = ranks;
  s.commutative = !o.op || o.op->commutative();
  auto bytes = [](const Side& side) { return size_t(side.count) * size_t(side.type->size()); };
  switch (operation) {
    case Operation::bcast:
    case Operation::reduce:
    case Operation::allreduce:
    case Operation::scan:
    case Operation::exscan:
    case Operation::allgather:
    case Operation::alltoall: s.bytes = bytes(o.receive); break;
    case Operation::gather:  // not in place, or not the root: both sides would be the same
      s.bytes = o.receive.type ? bytes(o.receive) : bytes(o.send);
      break;
    case Operation::scatter: s.bytes = o.send.type ? bytes(o.send) : bytes(o.receive); break;
    case Operation::allgatherv: {
      size_t total = 0;
      for (int i = 0; i < ranks; ++i) total += o.receive.block(i).bytes();
      s.bytes = total / size_t(ranks);
      break;
    }
    case Operation::reduce_scatter_block: s.bytes = bytes(o.receive) * size_t(ranks); break;
    case Operation::reduce_scatter: {
      Count total = 0;
      for (int i = 0; i < ranks; ++i) total += o.receive.counts[i];
      s.bytes = size_t(total * o.receive.type->size());
      break;
    }
    default: break;
  }
  return s;
}

bool combines(Operation operation) {
  switch (operation) {
    case Operation::reduce:
    case Operation::allreduce:
    case Operation::reduce_scatter:
    case Operation::reduce_scatter_block:
    case Operation::scan:
    case Operation::exscan: return true;
    default: return false;
  }
}

bool suits_node(const Situation& s, const Operands& o) {
  size_t bytes = s.bytes;  // of the longest contribution
  if (combines(s.operation)) {
    if (!o.receive.type->is_contiguous()) return false;
    return bytes != 0 && bytes <= NodeTeam::kBulkBytes;
  }
  switch (s.operation) {
    case Operation::barrier: return true;
    case Operation::bcast:
    case Operation::gather:
    case Operation::allgather: break;
    case Operation::scatter:
    case Operation::alltoall: bytes *= size_t(s.ranks - 1); break;
    case Operation::allgatherv:
      for (int i = 0; i < s.ranks; ++i) bytes = std::max(bytes, o.receive.block(i).bytes());
      break;
    default: return false;
  }
  return bytes != 0 && s.bytes <= NodeTeam::kBulkBytes && bytes <= NodeTeam::kBulkBytes;
}

bool applies(const Algorithm& algorithm, const Situation& s) {
  if (algorithm.operation != s.operation) return false;
  if ((algorithm.needs & Algorithm::kCommutative) && !s.commutative) return false;
  if ((algorithm.needs & Algorithm::kNodeMemory) && !s.node_memory) return false;
  if ((algorithm.needs & Algorithm::kLevels) && !s.has_levels()) return false;
  return !(algorithm.needs & Algorithm::kPowerOfTwo) || (s.ranks & (s.ranks - 1)) == 0;
}

const Algorithm& Selection::choose(const Situation& s) const {
  if (!forced_.empty()) [[unlikely]] {
    if (const Algorithm* forced = forced_choice(s)) return *forced;
  }
  const Algorithm& first = kTable[kFirst[size_t(s.operation)]];
  if (s.node_memory && s.ranks > 1 && (first.needs & Algorithm::kNodeMemory)) return first;
  for (size_t i = kFirst[size_t(s.operation)]; i < kFirst[size_t(s.operation) + 1]; ++i) {
    const Algorithm& a = kTable[i];
    if ((a.needs & Algorithm::kSharedCores) && !s.shares_cores) continue;
    if (a.from_bytes <= s.bytes && (s.bytes < a.to_bytes || a.to_bytes == kAny) && a.from_ranks <= s.ranks &&
        s.ranks <= a.to_ranks && applies(a, s)) {
      return a;
    }
  }
  TERN_ASSERT(false);
  return kTable[0];
}

const Algorithm* Selection::forced_choice(const Situation& s) const {
  const Forced* best = nullptr;
  for (const Forced& forced : forced_) {
    if (!applies(*forced.algorithm, s) || s.bytes < forced.from_bytes || s.ranks < forced.from_ranks ||
        s.nodes < forced.from_nodes)
      continue;
    auto order = [](const Forced& f) { return std::tuple(f.from_nodes, f.from_bytes, f.from_ranks); };
    if (!best || order(forced) >= order(*best)) best = &forced;
  }
  return best ? best->algorithm : nullptr;
}

Error Selection::parse(std::string_view text) {
  while (!text.empty()) {
    size_t comma = text.find(',');
    std::string_view entry = text.substr(0, comma), whole = entry;
    text = comma == std::string_view::npos ? std::string_view() : text.substr(comma + 1);
    if (entry.empty()) continue;
    size_t bytes = 0, ranks = 0, nodes = 1;
    bool good = true;
    if (size_t at = entry.find('@'); at != std::string_view::npos) {
      std::string_view shape = entry.substr(at + 1);
      if (size_t by = shape.find('x'); by != std::string_view::npos) {
        good = take_number(shape.substr(by + 1), nodes) && nodes >= 1 && nodes <= INT_MAX;
        shape = shape.substr(0, by);
      }
      good = good && take_number(shape, ranks) && ranks <= INT_MAX;
      entry = entry.substr(0, at);
    }
    if (size_t colon = entry.find(':'); colon != std::string_view::npos) {
      good = good && take_number(entry.substr(colon + 1), bytes);
      entry = entry.substr(0, colon);
    }
    size_t equals = entry.find('=');
    const Algorithm* found = nullptr;
    if (equals != std::string_view::npos) {
      for (const Algorithm& a : kTable) {
        if (entry.substr(0, equals) == name_of(a.operation) && entry.substr(equals + 1) == a.name) found = &a;
      }
    }
    if (!found || !good) {
      return Error(ErrorClass::arg, "TERN_COLL: '" + std::string(whole) +
                                        "' is not operation=algorithm[:bytes][@ranks[xnodes]]; there are " +
                                        list_of_names());
    }
    force({found, bytes, int(ranks), int(nodes)});
  }
  return {};
}

}  // namespace tern
