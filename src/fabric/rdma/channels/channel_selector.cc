#include "fabric/rdma/channels/channel_selector.h"
#include "base/assert.h"

#include <algorithm>
#include <bit>
#include <functional>

namespace tern {
namespace {
constexpr uint64_t kMaxCount = 0x7fffffff;  // FIND_MAP's sums are exact below it (find_map.h)
}

// The paper shrinks the table above 2^10 processes (Takagi et al. 2015, Table 2).
size_t statistics_rows(size_t rows, uint64_t ranks) {
  if (ranks <= 1024) return rows;
  const uint64_t above = uint64_t(std::bit_width(ranks - 1)) - 10;  // log2, rounded up
  return std::max<size_t>(1, rows / (above * 2));
}

void ChannelSelector::add(PeerId peer, uint32_t messages, bool paired) {
  if (messages != 0) next_.emplace_back(peer, messages);
  if (paired) paired_.insert(peer);
}

void ChannelSelector::Window::add(const Row& row) {
  for (const auto& [peer, number] : row) {
    sums[peer] += number;
    messages += number;
  }
}

void ChannelSelector::Window::subtract(const Row& row) {
  for (const auto& [peer, number] : row) {
    auto found = sums.find(peer);
    TERN_DEBUG_ASSERT(found != sums.end() && found->second >= number && messages >= number);
    if ((found->second -= number) == 0) sums.erase(found);
    messages -= number;
  }
}

// Adds the row of the unit that is over; without room the oldest one is dropped.
void ChannelSelector::take_row() {
  next_.shrink_to_fit();
  rows_.push_back(std::exchange(next_, {}));
  TERN_DEBUG_ASSERT(rows_.size() <= max_rows_ + 1);
  ++now_;
  for (Window* window : {&extended_, &shrunk_}) window->add(rows_.back());
  if (rows_.size() <= max_rows_) return;
  const uint64_t second = now_ - rows_.size() + 1;
  for (Window* window : {&extended_, &shrunk_}) move(*window, std::max(window->begin, second));
  rows_.pop_front();
  begin_ = std::max(begin_, second);
}

void ChannelSelector::move(Window& window, uint64_t begin) {
  for (; window.begin < begin; ++window.begin) window.subtract(row(window.begin));
  for (; window.begin > begin; --window.begin) window.add(row(window.begin - 1));
}

// Candidates for rings and connected queue pairs, in descending order.
ChannelSelector::Counts ChannelSelector::busiest(const Window& window) const {
  Counts counts;
  counts.reserve(window.sums.size());
  for (const auto& [peer, messages] : window.sums) counts.emplace_back(uint32_t(std::min(messages, kMaxCount)), peer);
  const auto most =
      counts.begin() + ptrdiff_t(std::min<size_t>(counts.size(), limits_.max_rings + limits_.max_connected));
  std::partial_sort(counts.begin(), most, counts.end(), std::greater<>());
  counts.erase(most, counts.end());
  return counts;
}

ChannelSelector::Map ChannelSelector::best_map(const Window& window, int64_t& gain) const {
  const Counts counts = busiest(window);
  std::vector<uint32_t> numbers;
  std::vector<uint8_t> paired;
  for (const auto& [messages, peer] : counts) {
    numbers.push_back(messages);
    paired.push_back(paired_.contains(peer));
  }
  MapLimits limits = limits_;
  limits.max_connected -= std::min(limits.max_connected, uint32_t(paired_.size()));
  const FoundMap found = find_map(numbers, costs_, limits, paired);
  gain = found.gain;
  Map map;
  for (uint32_t i = 0, unpaired = 0; i < found.rings; ++i) {
    const bool connected =
        paired[i] ? !limits_.dc || gain_of_connecting(numbers[i], costs_) > 0 : unpaired++ < found.connected;
    map[counts[i].second] = connected ? ChannelKind::rc_rdma : ChannelKind::dc_rdma;
  }
  for (uint32_t i = found.rings; i < found.rings + found.without_ring; ++i) map[counts[i].second] = ChannelKind::rc;
  return map;
}

// Adds channels of the current map that the new one does not need. What polling them costs a message stays below half
// of the threshold, so that they alone are no reason for a change.
void ChannelSelector::keep_current(Map& map, const Window& window) const {
  uint64_t most = 0;
  for (const auto& [peer, messages] : window.sums) most = std::max(most, messages);
  const double one = double(most) / double(window.messages) * double(costs_.empty_poll) / 2;
  const double budget = double(costs_.threshold) / 2;
  size_t rings = one * double(map_.size()) <= budget ? map_.size() : size_t(budget / one);
  rings = std::min<size_t>(rings, limits_.max_rings - std::min<size_t>(limits_.max_rings, map.size()));
  auto counted = [&](const Map::value_type& entry) {
    return entry.second != ChannelKind::dc_rdma && !paired_.contains(entry.first);
  };
  size_t connected = paired_.size() + size_t(std::count_if(map.begin(), map.end(), counted));
  for (const auto& entry : map_) {
    if (rings == 0) return;
    const size_t more = counted(entry);
    if (map.contains(entry.first) || connected + more > limits_.max_connected) continue;
    map.insert(entry);
    connected += more;
    --rings;
  }
}

// Rings of peers that have sent nothing are polled, too.
int64_t ChannelSelector::current_gain(const Window& window) const {
  std::vector<uint32_t> connected, others, without_ring;
  for (const auto& [peer, channel] : map_) {
    auto found = window.sums.find(peer);
    const uint64_t messages = found != window.sums.end() ? found->second : 0;
    std::vector<uint32_t>& counts = channel == ChannelKind::rc        ? without_ring
                                    : channel == ChannelKind::rc_rdma ? connected
                                                                      : others;
    counts.push_back(uint32_t(std::min(messages, kMaxCount)));
  }
  return gain_of_map(connected, others, without_ring, costs_, limits_);
}

ChannelSelector::Candidate ChannelSelector::consider(const Window& window) const {
  Candidate candidate;
  if (window.messages == 0) return candidate;
  int64_t gain = 0;
  candidate.map = best_map(window, gain);
  candidate.gain_of_message =
      double(gain - current_gain(window)) / (2.0 * limits_.ring_entries) / double(window.messages);
  return candidate;
}

bool ChannelSelector::end_of_unit() {
  take_row();
  const bool changed = now_ == 1 ? take_first() : take_better();
  paired_.clear();
  return changed;
}

// T1.
bool ChannelSelector::take_first() {
  int64_t gain = 0;
  map_ = best_map(extended_, gain);
  end_ = now_;
  TERN_DEBUG_ASSERT(begin_ <= end_);
  return !map_.empty();
}

// T2 to T4.
bool ChannelSelector::take_better() {
  const uint64_t half = std::max<uint64_t>(1, (end_ - std::min(begin_, end_)) / 2);
  const uint64_t oldest = now_ - rows_.size();
  move(extended_, begin_);
  move(shrunk_, std::max(now_ - std::min(half, now_), oldest));
  Candidate extended = consider(extended_), shrunk = consider(shrunk_);
  const bool shrinks = shrunk.gain_of_message > extended.gain_of_message;
  Candidate& better = shrinks ? shrunk : extended;
  if (better.gain_of_message <= double(costs_.threshold)) return false;
  if (shrinks) begin_ = shrunk_.begin;
  end_ = now_;
  TERN_DEBUG_ASSERT(begin_ <= end_);
  keep_current(better.map, shrinks ? shrunk_ : extended_);
  const bool changed = better.map != map_;
  map_ = std::move(better.map);
  return changed;
}

size_t ChannelSelector::table_bytes() const {
  size_t bytes = 0;
  for (const Row& row : rows_) bytes += row.capacity() * sizeof(Row::value_type);
  return bytes;
}

}  // namespace tern
