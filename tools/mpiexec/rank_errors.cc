#include "rank_errors.h"

#include <fmt/format.h>

#include <algorithm>

#include "ranges.h"

namespace tern::mpiexec {
namespace {

// Takes " (rank 3 in MPI_COMM_WORLD)" away, which several ranks do not say alike, and their numbers say.
std::string without_rank(std::string text, int rank) {
  const std::string own = fmt::format(" (rank {} in MPI_COMM_WORLD)", rank);
  if (const size_t at = text.find(own); at != std::string::npos) text.erase(at, own.size());
  return text;
}

// Memory is at other addresses in each process.
std::string without_addresses(const std::string& text) {
  std::string words;
  for (size_t at = 0; at < text.size();) {
    const size_t number = text.find("0x", at);
    words += text.substr(at, number - at);
    if (number == std::string::npos) break;
    words += "0x";
    at = std::min(text.find_first_not_of("0123456789abcdef", number + 2), text.size());
  }
  return words;
}

std::string key_of(const RankError& error) {
  std::string key;
  for (const ErrorLine& line : error.lines) key += without_addresses(without_rank(line.text, error.rank)) + '\n';
  return key;
}

struct Group {
  std::string key;
  const RankError* first;
  std::vector<int> ranks{};
};

}  // namespace

std::string folded(const std::vector<RankError>& errors) {
  std::vector<Group> groups;
  for (const RankError& error : errors) {
    const std::string key = key_of(error);
    auto same = std::find_if(groups.begin(), groups.end(), [&](const Group& group) { return group.key == key; });
    if (same == groups.end()) same = groups.insert(groups.end(), {key, &error});
    same->ranks.push_back(error.rank);
  }
  std::string page;
  for (Group& group : groups) {
    std::sort(group.ranks.begin(), group.ranks.end());
    const bool one = group.ranks.size() == 1;
    const std::string name = one ? rank_prefix(group.ranks[0]) : fmt::format("[tern ranks {}] ", ranges(group.ranks));
    for (const ErrorLine& line : group.first->lines) {
      page += (line.head ? name : "") + (one ? line.text : without_rank(line.text, group.first->rank)) + '\n';
    }
  }
  return page;
}

}  // namespace tern::mpiexec
