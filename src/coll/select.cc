#include "coll/select.h"

#include <charconv>
#include <climits>
#include <string>

#include "coll/algorithms.h"

namespace tern {

namespace {
constexpr size_t kAny = SIZE_MAX;
constexpr size_t k1K = 1024;

// Within an operation the first record that applies and whose window holds is the default; the last of each operation has no window and
// needs nothing, so that there is always one. Windows: measured with bench/ on the machine in docs/benchmarks (2 cores,
// shared memory and TCP over loopback) where "why" says so, else from the counts of rounds and bytes in the drawings.
// clang-format off
constexpr Algorithm kTable[] = {
  {Operation::barrier, "node", barrier_node, Algorithm::kNodeMemory, 0, kAny, 2, INT_MAX,
   "flags and data in shared cache lines, one hand-over"},
  {Operation::barrier, "dissemination", barrier_dissemination, Algorithm::kNothing, 0, kAny, 1, 4,
   "fewest rounds; with more ranks the tree's fewer messages weigh more where ranks share cores"},
  {Operation::barrier, "tree", barrier_tree, Algorithm::kNothing, 0, kAny, 1, INT_MAX, "2 (p - 1) messages"},

  {Operation::bcast, "node", bcast_node, Algorithm::kNodeMemory, 0, kAny, 3, INT_MAX,
   "one hand-over for all; two ranks: a message does the same and lets the sender run further ahead"},
  {Operation::bcast, "scatter_allgather", bcast_scatter_allgather, Algorithm::kNothing, 64 * k1K, 512 * k1K, 8, INT_MAX,
   "twice the bytes per rank instead of log2 p times"},
  {Operation::bcast, "chain", bcast_chain, Algorithm::kNothing, 512 * k1K, kAny, 3, INT_MAX,
   "every rank forwards each part once, all links busy"},
  {Operation::bcast, "binomial", bcast_binomial, Algorithm::kNothing, 0, kAny, 1, INT_MAX, "log2 p rounds"},

  {Operation::gather, "binomial", gather_binomial, Algorithm::kNothing, 0, 2 * k1K, 4, INT_MAX,
   "log2 p messages at the root; blocks are small enough to be copied on the way"},
  {Operation::gather, "linear", gather_linear, Algorithm::kNothing, 0, kAny, 1, INT_MAX, "each block copied once"},
  {Operation::gatherv, "linear", gather_linear, Algorithm::kNothing, 0, kAny, 1, INT_MAX,
   "only the root knows the counts"},
  {Operation::scatter, "binomial", scatter_binomial, Algorithm::kNothing, 0, 2 * k1K, 4, INT_MAX, "as gather"},
  {Operation::scatter, "linear", scatter_linear, Algorithm::kNothing, 0, kAny, 1, INT_MAX, "each block copied once"},
  {Operation::scatterv, "linear", scatter_linear, Algorithm::kNothing, 0, kAny, 1, INT_MAX,
   "only the root knows the counts"},

  {Operation::allgather, "recursive_doubling", allgather_recursive_doubling, Algorithm::kPowerOfTwo, 0, 8 * k1K, 1,
   INT_MAX, "log2 p rounds without copies"},
  {Operation::allgather, "bruck", allgather_bruck, Algorithm::kNothing, 0, 1 * k1K, 4, INT_MAX,
   "log2 p rounds for any p; two more copies"},
  {Operation::allgather, "spread", allgather_spread, Algorithm::kNothing, 0, kAny, 1, 4, "one round"},
  {Operation::allgather, "ring", allgather_ring, Algorithm::kNothing, 0, kAny, 1, INT_MAX, "neighbours only"},
  {Operation::allgatherv, "bruck", allgather_bruck, Algorithm::kNothing, 0, 1 * k1K, 4, INT_MAX, "as allgather"},
  {Operation::allgatherv, "spread", allgather_spread, Algorithm::kNothing, 0, kAny, 1, 4, "one round"},
  {Operation::allgatherv, "ring", allgather_ring, Algorithm::kNothing, 0, kAny, 1, INT_MAX, "neighbours only"},

  {Operation::alltoall, "bruck", alltoall_bruck, Algorithm::kNothing, 0, 256, 8, INT_MAX,
   "log2 p messages instead of p - 1"},
  {Operation::alltoall, "spread", alltoall_spread, Algorithm::kNothing, 0, 32 * k1K, 1, INT_MAX, "no waiting in turn"},
  {Operation::alltoall, "pairwise", alltoall_pairwise, Algorithm::kNothing, 0, kAny, 1, INT_MAX,
   "one sender per receiver at a time"},
  {Operation::alltoallv, "spread", alltoall_spread, Algorithm::kNothing, 0, kAny, 1, INT_MAX, "sizes are not known"},
  {Operation::alltoallv, "pairwise", alltoall_pairwise, Algorithm::kNothing, 0, kAny, 1, INT_MAX, "as alltoall"},
  {Operation::alltoallw, "spread", alltoall_spread, Algorithm::kNothing, 0, kAny, 1, INT_MAX, "sizes are not known"},
  {Operation::alltoallw, "pairwise", alltoall_pairwise, Algorithm::kNothing, 0, kAny, 1, INT_MAX, "as alltoall"},

  {Operation::reduce, "node", reduce_node, Algorithm::kNodeMemory, 0, kAny, 3, INT_MAX,
   "one hand-over for all; two ranks: a message does the same and lets the sender run further ahead"},
  {Operation::reduce, "rabenseifner", reduce_rabenseifner, Algorithm::kCommutative, 16 * k1K, 1024 * k1K, 4, INT_MAX,
   "the work is shared, bytes per rank do not grow with log2 p"},
  {Operation::reduce, "chain", reduce_chain, Algorithm::kCommutative, 1024 * k1K, kAny, 3, INT_MAX,
   "combining and moving overlap"},
  {Operation::reduce, "binomial", reduce_binomial, Algorithm::kNothing, 0, kAny, 1, INT_MAX, "log2 p rounds; any operator"},

  {Operation::allreduce, "node", allreduce_node, Algorithm::kNodeMemory, 0, kAny, 2, INT_MAX,
   "flags and data in shared cache lines, one hand-over"},
  {Operation::allreduce, "recursive_doubling", allreduce_recursive_doubling, Algorithm::kNothing, 0, 8 * k1K, 1, INT_MAX,
   "log2 p rounds"},
  {Operation::allreduce, "rabenseifner", allreduce_rabenseifner, Algorithm::kCommutative, 8 * k1K, 512 * k1K, 1, INT_MAX,
   "2 log2 p rounds, twice the bytes whatever p"},
  {Operation::allreduce, "ring", allreduce_ring, Algorithm::kCommutative, 512 * k1K, kAny, 1, INT_MAX,
   "the same bytes, always between neighbours"},
  {Operation::allreduce, "reduce_bcast", allreduce_reduce_bcast, Algorithm::kNothing, 0, kAny, 3, INT_MAX,
   "any operator: the vector is combined p - 1 times, not p log2 p"},
  {Operation::allreduce, "recursive_doubling", allreduce_recursive_doubling, Algorithm::kNothing, 0, kAny, 1, INT_MAX,
   "two ranks: one exchange"},

  {Operation::reduce_scatter, "pairwise", reduce_scatter_pairwise, Algorithm::kCommutative, 256 * k1K, kAny, 1, INT_MAX,
   "each block moves once"},
  {Operation::reduce_scatter, "halving", reduce_scatter_halving, Algorithm::kCommutative, 0, kAny, 1, INT_MAX,
   "log2 p rounds"},
  {Operation::reduce_scatter, "by_root", reduce_scatter_by_root, Algorithm::kNothing, 0, kAny, 1, INT_MAX, "any operator"},
  {Operation::reduce_scatter_block, "pairwise", reduce_scatter_pairwise, Algorithm::kCommutative, 256 * k1K, kAny, 1,
   INT_MAX, "each block moves once"},
  {Operation::reduce_scatter_block, "halving", reduce_scatter_halving, Algorithm::kCommutative, 0, kAny, 1, INT_MAX,
   "log2 p rounds"},
  {Operation::reduce_scatter_block, "by_root", reduce_scatter_by_root, Algorithm::kNothing, 0, kAny, 1, INT_MAX,
   "any operator"},

  {Operation::scan, "recursive_doubling", scan_recursive_doubling, Algorithm::kNothing, 0, 64 * k1K, 1, INT_MAX,
   "log2 p rounds"},
  {Operation::scan, "tree", scan_tree, Algorithm::kNothing, 0, kAny, 1, INT_MAX, "2 p messages instead of p log2 p"},
  {Operation::exscan, "recursive_doubling", exscan_recursive_doubling, Algorithm::kNothing, 0, 64 * k1K, 1, INT_MAX,
   "log2 p rounds"},
  {Operation::exscan, "tree", exscan_tree, Algorithm::kNothing, 0, kAny, 1, INT_MAX, "2 p messages instead of p log2 p"},
};
// clang-format on

constexpr const char* kNames[kOperations] = {
    "barrier", "bcast", "gather", "gatherv", "scatter", "scatterv", "allgather", "allgatherv", "alltoall", "alltoallv",
    "alltoallw", "reduce", "allreduce", "reduce_scatter", "reduce_scatter_block", "scan", "exscan",
    "neighbor_allgather", "neighbor_allgatherv", "neighbor_alltoall", "neighbor_alltoallv", "neighbor_alltoallw"};

// "barrier=dissemination|tree, bcast=..." from the table.
std::string list_of_names() {
  std::string text;
  const Algorithm* previous = nullptr;
  for (const Algorithm& a : kTable) {
    bool again = previous && previous->operation == a.operation;
    if (again && text.find(std::string(name_of(a.operation)) + "=" + a.name) != std::string::npos) continue;
    text += again ? "|" : previous ? ", " : "";
    if (!again) text += std::string(name_of(a.operation)) + "=";
    text += a.name;
    previous = &a;
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

std::span<const Algorithm> algorithms() { return kTable; }

bool applies(const Algorithm& algorithm, const Situation& s) {
  if (algorithm.operation != s.operation) return false;
  if ((algorithm.needs & Algorithm::kCommutative) && !s.commutative) return false;
  if ((algorithm.needs & Algorithm::kNodeMemory) && !s.node_memory) return false;
  return !(algorithm.needs & Algorithm::kPowerOfTwo) || (s.ranks & (s.ranks - 1)) == 0;
}

const Algorithm& Selection::choose(const Situation& s) const {
  const Forced* best = nullptr;
  for (const Forced& forced : forced_) {
    if (!applies(*forced.algorithm, s) || s.bytes < forced.from_bytes || s.ranks < forced.from_ranks) continue;
    if (!best || forced.from_bytes > best->from_bytes ||
        (forced.from_bytes == best->from_bytes && forced.from_ranks >= best->from_ranks)) {
      best = &forced;
    }
  }
  if (best) return *best->algorithm;
  for (const Algorithm& a : kTable) {
    if (applies(a, s) && a.from_bytes <= s.bytes && (s.bytes < a.to_bytes || a.to_bytes == kAny) &&
        a.from_ranks <= s.ranks && s.ranks <= a.to_ranks) {
      return a;
    }
  }
  TERN_ASSERT(false);
  return kTable[0];
}

Error Selection::parse(std::string_view text) {
  while (!text.empty()) {
    size_t comma = text.find(',');
    std::string_view entry = text.substr(0, comma), whole = entry;
    text = comma == std::string_view::npos ? std::string_view() : text.substr(comma + 1);
    if (entry.empty()) continue;
    size_t bytes = 0, ranks = 0;
    bool good = true;
    if (size_t at = entry.find('@'); at != std::string_view::npos) {
      good = take_number(entry.substr(at + 1), ranks) && ranks <= INT_MAX;
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
                                        "' is not operation=algorithm[:bytes][@ranks]; there are " + list_of_names());
    }
    force(*found, bytes, int(ranks));
  }
  return {};
}

}  // namespace tern
