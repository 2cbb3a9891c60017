#include "process/paths.h"

#include <cstdio>

namespace tern {

std::string Paths::names() const {
  std::string names;
  for (auto& path : all_) names += (names.empty() ? "" : ", ") + std::string(path->properties().name);
  return names;
}

std::string Paths::describe(int ranks) const {
  std::string text;
  for (auto& path : all_) {
    std::string its;
    int many = 0;
    for (int first = 0, next; first < ranks; first = next) {
      next = first + 1;
      if (to(PeerId(first)) != path.get()) continue;
      while (next < ranks && to(PeerId(next)) == path.get()) ++next;
      its += (many ? "," : "") + std::to_string(first) + (next - first > 1 ? "-" + std::to_string(next - 1) : "");
      many += next - first;
    }
    if (many == 0) continue;
    text += (text.empty() ? "paths: " : "; ") + std::string(path->properties().name) +
            (many > 1 ? " to ranks " : " to rank ") + its;
  }
  return text;
}

std::vector<std::string> Paths::on_the_way(int ranks) const {
  std::vector<InTransit> all;
  for (auto& path : all_) path->tell_on_the_way(all);
  for (Path* path : of_engines_) path->tell_on_the_way(all);
  std::vector<std::string> lines;
  for (const InTransit& way : all) {
    const bool ours = way.peer < PeerId(ranks);
    std::string line = std::string(way.path) + " to " +
                       (ours ? "rank " + std::to_string(way.peer) : std::string("a process of another job")) + ": ";
    if (way.bytes == InTransit::kUnknown) line += "something has not arrived";
    else if (way.bytes != 0) line += std::to_string(way.bytes) + " bytes have not arrived";
    if (way.arriving) line += std::string(way.bytes != 0 ? ", and " : "") + "a message from there has come in part";
    if (way.silent_ms != InTransit::kUnknown) {
      char time[64];
      std::snprintf(time, sizeof time, "; nothing was heard from its host for %.1f s", double(way.silent_ms) * 1e-3);
      line += time;
    }
    lines.push_back(std::move(line));
  }
  return lines;
}

}  // namespace tern
