#include "fabric/rdma/channels/channel_selector.h"

#include <algorithm>
#include <bit>
#include <functional>

namespace tern {

size_t statistics_rows(size_t rows, uint64_t ranks) {
  if (ranks <= 1024) return rows;
  const uint64_t above = uint64_t(std::bit_width(ranks - 1)) - 10;  // log2, rounded up
  return std::max<size_t>(1, rows / (above * 2));
}

void ChannelSelector::add(PeerId peer, uint32_t messages) {
  if (messages != 0) next_.emplace_back(peer, messages);
}

ChannelSelector::Counts ChannelSelector::count_since(uint64_t unit) const {
  std::unordered_map<PeerId, uint64_t> sums;
  const uint64_t oldest = now_ - rows_.size();
  for (uint64_t u = std::max(unit, oldest); u < now_; ++u) {
    for (const auto& [peer, messages] : rows_[size_t(u - oldest)]) sums[peer] += messages;
  }
  constexpr uint64_t kMaxCount = 0x7fffffff;
  Counts counts;
  for (const auto& [peer, messages] : sums) counts.emplace_back(uint32_t(std::min(messages, kMaxCount)), peer);
  std::sort(counts.begin(), counts.end(), std::greater<>());
  return counts;
}

ChannelSelector::Map ChannelSelector::best_map(const Counts& counts, int64_t& gain) const {
  std::vector<uint32_t> numbers;
  for (const auto& [messages, peer] : counts) numbers.push_back(messages);
  const FoundMap found = find_map(numbers, costs_, limits_);
  gain = found.gain;
  Map map;
  for (uint32_t i = 0; i < found.rings; ++i) map[counts[i].second] = i < found.connected;
  return map;
}

int64_t ChannelSelector::current_gain(const Counts& counts) const {
  // Rings of peers that have sent nothing are looked at, too.
  std::vector<uint32_t> connected, others;
  size_t seen = 0;
  for (const auto& [messages, peer] : counts) {
    auto found = map_.find(peer);
    if (found == map_.end()) continue;
    ++seen;
    (found->second ? connected : others).push_back(messages);
  }
  others.resize(others.size() + map_.size() - seen, 0);
  return gain_of_map(connected, others, costs_, limits_);
}

ChannelSelector::Candidate ChannelSelector::consider(uint64_t since) const {
  Candidate candidate;
  const Counts counts = count_since(since);
  uint64_t messages = 0;
  for (const auto& [number, peer] : counts) messages += number;
  if (messages == 0) return candidate;
  int64_t gain = 0;
  candidate.map = best_map(counts, gain);
  candidate.gain_of_message = double(gain - current_gain(counts)) / (2.0 * limits_.ring_entries) / double(messages);
  return candidate;
}

bool ChannelSelector::end_of_unit() {
  rows_.push_back(std::exchange(next_, {}));
  if (rows_.size() > max_rows_) rows_.pop_front();
  ++now_;
  begin_ = std::max(begin_, now_ - rows_.size());
  if (now_ == 1) {  // T1
    int64_t gain = 0;
    map_ = best_map(count_since(0), gain);
    end_ = now_;
    return !map_.empty();
  }
  const uint64_t half = std::max<uint64_t>(1, (end_ - std::min(begin_, end_)) / 2);
  const uint64_t shrunk_begin = now_ - std::min(half, now_);
  Candidate extended = consider(begin_), shrunk = consider(shrunk_begin);
  const bool shrinks = shrunk.gain_of_message > extended.gain_of_message;
  Candidate& better = shrinks ? shrunk : extended;
  if (better.gain_of_message <= double(costs_.threshold)) return false;
  if (shrinks) begin_ = shrunk_begin;
  end_ = now_;
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
