#include "coll/levels.h"

#include <algorithm>
#include <unordered_map>

namespace tern {

Levels::Levels(std::span<const uint64_t> names) {
  std::unordered_map<uint64_t, int> numbers;
  std::vector<int> counts;
  places_.reserve(names.size());
  bool blocks = true;
  for (const uint64_t name : names) {
    const auto [at, added] = numbers.try_emplace(name, int(counts.size()));
    if (added) counts.push_back(0);
    const int node = at->second;
    blocks = blocks && node + 1 == int(counts.size());
    places_.push_back({node, counts[size_t(node)]++});
  }
  starts_.assign(1, 0);
  for (const int count : counts) starts_.push_back(starts_.back() + count);
  if (!counts.empty()) {
    fewest_ = *std::min_element(counts.begin(), counts.end());
    most_ = *std::max_element(counts.begin(), counts.end());
  }
  if (blocks) {
    places_.clear();
    places_.shrink_to_fit();
    return;
  }
  ranks_.resize(names.size());
  for (size_t rank = 0; rank < names.size(); ++rank) {
    const Place& place = places_[rank];
    ranks_[size_t(starts_[size_t(place.node)] + place.index)] = int(rank);
  }
}

}  // namespace tern
