#include "comm/group.h"

#include <algorithm>
#include <string>

namespace tern {

namespace {

std::string out_of_range(int rank, int size) {
  if (size == 0) return "rank " + std::to_string(rank) + " is named, but the group is empty";
  return "rank " + std::to_string(rank) + " is not in the group's ranks 0.." + std::to_string(size - 1);
}

}  // namespace

Group::Group(PeerId me, PeerId first, int64_t stride, int size, std::vector<PeerId> table)
    : me_(me), size_(size), rank_(kUndefined), first_(first), stride_(stride), table_(std::move(table)) {
  if (!table_.empty()) {
    sorted_.reserve(table_.size());
    for (int rank = 0; rank < size_; ++rank) sorted_.push_back({table_[size_t(rank)], rank});
    std::sort(sorted_.begin(), sorted_.end(), [](const Place& a, const Place& b) { return a.peer < b.peer; });
  }
  rank_ = rank_of(me_);
}

Ref<Group> Group::strided(PeerId me, PeerId first, int64_t stride, int size) {
  TERN_ASSERT(stride != 0 && size >= 0);
  return Ref<Group>::adopt(new Group(me, first, stride, size, {}));
}

Ref<Group> Group::of(PeerId me, std::vector<PeerId> peers) {
  int size = int(peers.size());
  if (size == 0) return empty(me);
  int64_t stride = size == 1 ? 1 : int64_t(peers[1]) - int64_t(peers[0]);
  bool regular = true;
  for (int i = 2; regular && i < size; ++i)
    regular = int64_t(peers[size_t(i)]) - int64_t(peers[size_t(i - 1)]) == stride;
  if (regular) return strided(me, peers[0], stride, size);
  return Ref<Group>::adopt(new Group(me, 0, 1, size, std::move(peers)));
}

int Group::rank_of(PeerId peer) const {
  if (table_.empty()) {
    int64_t distance = int64_t(peer) - int64_t(first_);
    if (distance % stride_ != 0) return kUndefined;
    int64_t rank = distance / stride_;
    return rank >= 0 && rank < size_ ? int(rank) : kUndefined;
  }
  auto place = std::lower_bound(sorted_.begin(), sorted_.end(), peer,
                                [](const Place& a, PeerId wanted) { return a.peer < wanted; });
  return place != sorted_.end() && place->peer == peer ? place->rank : kUndefined;
}

Comparison Group::compare(const Group& other) const {
  if (this == &other) return Comparison::identical;
  if (size_ != other.size_) return Comparison::unequal;
  bool same_order = true;
  for (int rank = 0; rank < size_; ++rank) {
    if (same_order && peer(rank) == other.peer(rank)) continue;
    same_order = false;
    if (!other.contains(peer(rank))) return Comparison::unequal;
  }
  return same_order ? Comparison::identical : Comparison::similar;
}

Error Group::translate(std::span<const int> ranks, const Group& to, int* result) const {
  for (size_t i = 0; i < ranks.size(); ++i) {
    if (ranks[i] == kProcNull) {
      result[i] = kProcNull;
      continue;
    }
    if (ranks[i] < 0 || ranks[i] >= size_) return Error(ErrorClass::rank, out_of_range(ranks[i], size_));
    result[i] = to.rank_of(peer(ranks[i]));
  }
  return {};
}

Ref<Group> Group::join(const Group& other) const {
  std::vector<PeerId> members = peers();
  for (int rank = 0; rank < other.size_; ++rank)
    if (!contains(other.peer(rank))) members.push_back(other.peer(rank));
  return of(me_, std::move(members));
}

Ref<Group> Group::intersect(const Group& other) const {
  std::vector<PeerId> members;
  for (int rank = 0; rank < size_; ++rank)
    if (other.contains(peer(rank))) members.push_back(peer(rank));
  return of(me_, std::move(members));
}

Ref<Group> Group::subtract(const Group& other) const {
  std::vector<PeerId> members;
  for (int rank = 0; rank < size_; ++rank)
    if (!other.contains(peer(rank))) members.push_back(peer(rank));
  return of(me_, std::move(members));
}

bool Group::disjoint(const Group& other) const {
  for (int rank = 0; rank < size_; ++rank)
    if (other.contains(peer(rank))) return false;
  return true;
}

Error Group::check_members(std::span<const int> ranks) const {
  std::vector<bool> seen(size_t(size_), false);
  for (int rank : ranks) {
    if (rank < 0 || rank >= size_) return Error(ErrorClass::rank, out_of_range(rank, size_));
    if (seen[size_t(rank)]) return Error(ErrorClass::rank, "rank " + std::to_string(rank) + " is named twice");
    seen[size_t(rank)] = true;
  }
  return {};
}

Error Group::include(std::span<const int> ranks, Ref<Group>& result) const {
  if (Error error = check_members(ranks)) return error;
  std::vector<PeerId> members;
  members.reserve(ranks.size());
  for (int rank : ranks) members.push_back(peer(rank));
  result = of(me_, std::move(members));
  return {};
}

Error Group::exclude(std::span<const int> ranks, Ref<Group>& result) const {
  if (Error error = check_members(ranks)) return error;
  std::vector<bool> out(size_t(size_), false);
  for (int rank : ranks) out[size_t(rank)] = true;
  std::vector<PeerId> members;
  members.reserve(size_t(size_) - ranks.size());
  for (int rank = 0; rank < size_; ++rank)
    if (!out[size_t(rank)]) members.push_back(peer(rank));
  result = of(me_, std::move(members));
  return {};
}

// Range (first, last, stride) names first, first + stride, ..., first + floor((last - first) / stride) *
// stride; a range that runs the wrong way names nothing, which the standard calls an error only for stride 0.
Error Group::expand(std::span<const Range> ranges, std::vector<int>& ranks) const {
  for (const Range& range : ranges) {
    if (range.stride == 0) return Error(ErrorClass::arg, "a range has stride 0");
    for (int end : {range.first, range.last})
      if (end < 0 || end >= size_) return Error(ErrorClass::rank, out_of_range(end, size_));
    int64_t stride = range.stride;
    for (int64_t rank = range.first; stride > 0 ? rank <= range.last : rank >= range.last; rank += stride)
      ranks.push_back(int(rank));
  }
  return {};
}

Error Group::include_ranges(std::span<const Range> ranges, Ref<Group>& result) const {
  std::vector<int> ranks;
  if (Error error = expand(ranges, ranks)) return error;
  return include(ranks, result);
}

Error Group::exclude_ranges(std::span<const Range> ranges, Ref<Group>& result) const {
  std::vector<int> ranks;
  if (Error error = expand(ranges, ranks)) return error;
  return exclude(ranks, result);
}

std::vector<PeerId> Group::peers() const {
  std::vector<PeerId> members;
  members.reserve(size_t(size_));
  for (int rank = 0; rank < size_; ++rank) members.push_back(peer(rank));
  return members;
}

}  // namespace tern
