#include <algorithm>
#include <cstdlib>
#include <map>
#include <string_view>

#include "front.h"
#include "mpiexec/ranges.h"

namespace tern::debug {
namespace {

/// Numbers that differ between ranks without saying anything: behind these words.
std::string without_names(std::string_view text) {
  constexpr std::string_view kBefore[] = {"process ", "LWP ", "Thread 0x"};
  std::string plain;
  for (size_t at = 0; at < text.size();) {
    const auto found = std::find_if(std::begin(kBefore), std::end(kBefore),
                                    [&](std::string_view word) { return text.substr(at).starts_with(word); });
    if (found == std::end(kBefore)) {
      plain += text[at++];
      continue;
    }
    plain += *found;
    at += found->size();
    const size_t first = at;
    while (at < text.size() && std::isxdigit(static_cast<unsigned char>(text[at]))) ++at;
    if (at > first) plain += "...";
  }
  return plain;
}

}  // namespace

std::string folded(const std::vector<std::string>& texts) {
  struct Group {
    std::vector<int> ranks;
    std::string text;
  };
  std::vector<Group> groups;  // by their first ranks
  std::map<std::string, size_t> places;
  for (size_t rank = 0; rank < texts.size(); ++rank) {
    if (texts[rank].empty()) continue;
    const std::string plain = without_names(texts[rank]);
    const auto [place, is_new] = places.try_emplace(plain, groups.size());
    if (is_new) groups.push_back({{}, texts[rank]});
    else groups[place->second].text = plain;
    groups[place->second].ranks.push_back(int(rank));
  }
  std::string all;
  for (const Group& group : groups) {
    const std::string label = "[" + mpiexec::ranges(group.ranks) + "] ";
    for (size_t at = 0; at < group.text.size();) {
      const size_t end = std::min(group.text.find('\n', at), group.text.size());
      if (end > at) all += label + group.text.substr(at, end - at) + "\n";
      at = end + 1;
    }
  }
  return all;
}

bool parse_ranks(const std::string& text, int ranks, std::vector<int>& chosen) {
  std::vector<bool> in(size_t(ranks), text == "all");
  for (size_t at = 0; text != "all" && at <= text.size();) {
    const size_t comma = std::min(text.find(',', at), text.size());
    const std::string part = text.substr(at, comma - at);
    char* end = nullptr;
    const long first = std::strtol(part.c_str(), &end, 10);
    long last = first;
    if (end == part.c_str()) return false;
    if (*end == '-') {
      const char* begin = end + 1;
      last = std::strtol(begin, &end, 10);
      if (end == begin) return false;
    }
    if (*end != '\0' || first < 0 || last < first || last >= ranks) return false;
    for (long rank = first; rank <= last; ++rank) in[size_t(rank)] = true;
    at = comma + 1;
  }
  chosen.clear();
  for (int rank = 0; rank < ranks; ++rank) {
    if (in[size_t(rank)]) chosen.push_back(rank);
  }
  return true;
}

}  // namespace tern::debug
