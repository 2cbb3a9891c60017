#include "coll/describe.h"

#include <algorithm>
#include <charconv>
#include <climits>
#include <vector>

#include "coll/node_team.h"

namespace tern {

namespace {

// Beyond the largest window of the table, and of any message.
constexpr size_t kEnd = SIZE_MAX;

Situation situation_at(const CommunicatorShape& shape, Operation operation, size_t bytes) {
  Situation s;
  s.operation = operation;
  s.ranks = shape.ranks();
  s.nodes = shape.nodes;
  s.bytes = bytes;
  s.shares_cores = shape.nodes == 1 && shape.cores != 0 && shape.cores < shape.ranks_per_node;
  const bool sums = operation == Operation::scatter || operation == Operation::alltoall;
  const size_t longest = sums && s.ranks > 1 ? bytes * size_t(s.ranks - 1) : bytes;
  s.node_memory = shape.nodes == 1 && s.ranks > 1 && s.ranks <= NodeTeam::kMaxMembers &&
                  (operation == Operation::barrier || (bytes != 0 && longest <= NodeTeam::kBulkBytes));
  return s;
}

// Where the choice may change.
std::vector<size_t> edges_of(const Selection& selection, const CommunicatorShape& shape, Operation operation) {
  std::vector<size_t> edges{1, NodeTeam::kBulkBytes + 1};
  if (shape.ranks() > 1) edges.push_back(NodeTeam::kBulkBytes / size_t(shape.ranks() - 1) + 1);
  for (const Algorithm& row : algorithms()) {
    if (row.operation != operation) continue;
    edges.push_back(row.from_bytes);
    edges.push_back(row.to_bytes);
  }
  for (const Selection::Forced& forced : selection.forced()) {
    if (forced.algorithm->operation == operation) edges.push_back(forced.from_bytes);
  }
  std::sort(edges.begin(), edges.end());
  edges.erase(std::unique(edges.begin(), edges.end()), edges.end());
  std::erase_if(edges, [](size_t edge) { return edge == 0 || edge == kEnd; });
  return edges;
}

std::string number(size_t bytes) {
  if (bytes >= 1 << 20 && bytes % (1 << 20) == 0) return std::to_string(bytes >> 20) + "M";
  if (bytes >= 1 << 10 && bytes % (1 << 10) == 0) return std::to_string(bytes >> 10) + "K";
  return std::to_string(bytes);
}

std::string padded(std::string text, size_t width) {
  text.resize(std::max(width, text.size()), ' ');
  return text;
}

std::string line(Operation operation, size_t from, size_t to, const Algorithm& row, bool forced) {
  const bool everywhere = from == 1 && to == kEnd;
  const std::string window = everywhere   ? "any"
                             : to == kEnd ? "from " + number(from)
                                          : number(from) + " to " + number(to - 1);
  return padded(name_of(operation), 22) + padded(window, 18) + padded(row.name, 20) + (forced ? "TERN_COLL" : row.why) +
         "\n";
}

std::string describe(const Selection& selection, const CommunicatorShape& shape, Operation operation) {
  std::string text;
  std::vector<std::string_view> used;
  std::vector<size_t> edges{1};
  // Operations whose bytes not all processes know are chosen as if there were none.
  const bool sized = operation != Operation::barrier && operation != Operation::gatherv &&
                     operation != Operation::scatterv && operation != Operation::alltoallv &&
                     operation != Operation::alltoallw;
  if (sized) edges = edges_of(selection, shape, operation);
  auto choice = [&](size_t bytes) { return situation_at(shape, operation, sized ? bytes : 0); };
  for (size_t i = 0; i < edges.size();) {
    const Situation at = choice(edges[i]);
    const Algorithm& row = selection.choose(at);
    const bool forced = selection.forced_choice(at) != nullptr;
    size_t next = i + 1;
    for (; next < edges.size(); ++next) {
      const Situation there = choice(edges[next]);
      if (&selection.choose(there) != &row || (selection.forced_choice(there) != nullptr) != forced) break;
    }
    text += line(operation, edges[i], next < edges.size() ? edges[next] : kEnd, row, forced);
    used.push_back(row.name);
    i = next;
  }
  std::string others;
  for (const Algorithm& row : algorithms()) {
    Situation s = situation_at(shape, operation, 1);
    if (!applies(row, s) || std::find(used.begin(), used.end(), row.name) != used.end()) continue;
    used.push_back(row.name);
    others += (others.empty() ? "" : ", ") + std::string(row.name);
  }
  if (!others.empty()) text += padded("", 22) + padded("others", 18) + others + "\n";
  return text;
}

}  // namespace

bool parse_shape(std::string_view text, CommunicatorShape& shape) {
  auto take = [](std::string_view digits, int& value) {
    const auto [end, failure] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    return failure == std::errc() && end == digits.data() + digits.size() && value >= 1;
  };
  const size_t slash = text.find('/');
  shape = {};
  if (slash != std::string_view::npos && !take(text.substr(slash + 1), shape.cores)) return false;
  text = text.substr(0, slash);
  const size_t by = text.find('x');
  if (by != std::string_view::npos && !take(text.substr(0, by), shape.nodes)) return false;
  if (!take(by == std::string_view::npos ? text : text.substr(by + 1), shape.ranks_per_node)) return false;
  return int64_t{shape.nodes} * shape.ranks_per_node <= INT_MAX;
}

std::string describe_choice(const Selection& selection, const CommunicatorShape& shape) {
  std::string text;
  // The neighbourhood operations have one way only.
  for (int operation = 0; operation <= int(Operation::exscan); ++operation)
    text += describe(selection, shape, Operation(operation));
  return text;
}

}  // namespace tern
