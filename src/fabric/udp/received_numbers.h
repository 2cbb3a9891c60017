// The numbers of the datagrams that have arrived from a peer. A number that is there already is a replay; the numbers
// here are what acknowledgements to the peer state (RFC 9000, 13.2.3). At most kMax ranges are kept, newest first;
// everything below the oldest one counts as received. A datagram that comes so late is dropped, and its sender repeats
// its content under a new number.
//
//   ranges_:  [ 95..97 ]  [ 40..93 ]  [ 3..38 ]   below 3: all received
//
// Thread rule: a value of its peer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace tern {

class ReceivedNumbers {
 public:
  struct Range {
    uint64_t first, last;
  };
  static constexpr size_t kMax = 128;  ///< four times what an acknowledgement states (wire::kMaxAckRanges)

  /// Marks it as received. False: it was before, or is too old to know.
  bool add(uint64_t number) {
    if (!ranges_.empty() && number == ranges_.front().last + 1) [[likely]] {  // the usual case
      ranges_.front().last = number;
      if (ranges_.size() > 1 && ranges_[1].last + 1 == ranges_[0].first) join(0);
      return true;
    }
    return add_slow(number);
  }
  bool contains(uint64_t number) const {
    if (number < floor_) return true;
    for (const Range& range : ranges_) {
      if (number > range.last) return false;
      if (number >= range.first) return true;
    }
    return false;
  }
  uint64_t largest() const { return ranges_.empty() ? 0 : ranges_.front().last; }
  /// Newest first.
  const std::vector<Range>& ranges() const { return ranges_; }

 private:
  bool add_slow(uint64_t number) {
    if (number < floor_) return false;
    size_t i = 0;
    while (i < ranges_.size() && number < ranges_[i].first) ++i;
    // Range i, if there is one, begins at or below the number; range i - 1 lies above it.
    if (i < ranges_.size() && number <= ranges_[i].last) return false;
    const bool touches_lower = i < ranges_.size() && ranges_[i].last + 1 == number;
    const bool touches_upper = i > 0 && ranges_[i - 1].first == number + 1;
    if (touches_lower) {
      ranges_[i].last = number;
      if (touches_upper) join(i - 1);
    } else if (touches_upper) {
      ranges_[i - 1].first = number;
    } else {
      ranges_.insert(ranges_.begin() + ptrdiff_t(i), {number, number});
      if (ranges_.size() > kMax) {
        ranges_.pop_back();
        floor_ = ranges_.back().first;
      }
    }
    return true;
  }
  // Joins ranges i and i + 1.
  void join(size_t i) {
    ranges_[i].first = ranges_[i + 1].first;
    ranges_.erase(ranges_.begin() + ptrdiff_t(i) + 1);
  }

  std::vector<Range> ranges_;
  uint64_t floor_ = 1;
};

}  // namespace tern
