// EventQueue: events by time, of equal times in the order of their scheduling. A heap with four children a node: with
// the 100,000 events of a simulation of 65,536 ranks it has half the levels, and takes half the time, of one with two.
// Thread rule: as the scheduler's.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/assert.h"

namespace tern::sim {

/// Event has time_ns and sequence, which no two events share.
template <typename Event>
class EventQueue {
 public:
  bool empty() const { return heap_.empty(); }
  /// The next one.
  const Event& front() const { return heap_.front(); }

  void push(const Event& event) {
    size_t place = heap_.size();
    heap_.push_back(event);
    while (place != 0) {
      const size_t parent = (place - 1) / kChildren;
      if (!before(event, heap_[parent])) break;
      heap_[place] = heap_[parent];
      place = parent;
    }
    heap_[place] = event;
  }

  Event pop() {
    TERN_DEBUG_ASSERT(!heap_.empty());
    const Event next = heap_.front(), last = heap_.back();
    heap_.pop_back();
    if (!heap_.empty()) put_down(last);
    return next;
  }

 private:
  static constexpr size_t kChildren = 4;  // two rounds of comparisons find the first of them, as of two levels of two

  // Without branches: which of two events comes first cannot be predicted.
  static bool before(const Event& a, const Event& b) {
    return (a.time_ns < b.time_ns) | ((a.time_ns == b.time_ns) & (a.sequence < b.sequence));
  }
  size_t earlier(size_t a, size_t b) const { return a + size_t(before(heap_[b], heap_[a])) * (b - a); }

  // From the top, which is free, to its place.
  void put_down(const Event& event) {
    size_t place = 0;
    for (size_t child = 1; child < heap_.size(); child = kChildren * place + 1) {
      size_t first = child;
      if (child + kChildren <= heap_.size()) {
        first = earlier(earlier(child, child + 1), earlier(child + 2, child + 3));
      } else {
        for (size_t other = child + 1; other < heap_.size(); ++other) first = earlier(first, other);
      }
      if (!before(heap_[first], event)) break;
      heap_[place] = heap_[first];
      place = first;
    }
    heap_[place] = event;
  }

  std::vector<Event> heap_;
};

}  // namespace tern::sim
