// AdapterCache: the contexts of queue pairs that a simulated adapter has in its own memory: those used last.
// Thread rule: as AdapterNode.
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <unordered_map>

namespace tern::sim {

class AdapterCache {
 public:
  /// Of `most` contexts.
  explicit AdapterCache(size_t most) : most_(most) {}
  /// Loads a queue pair's context. False: it was here already.
  bool load(uint32_t number) {
    if (auto found = at_.find(number); found != at_.end()) {
      last_used_.splice(last_used_.begin(), last_used_, found->second);
      return false;
    }
    last_used_.push_front(number);
    at_[number] = last_used_.begin();
    if (last_used_.size() > most_) {
      at_.erase(last_used_.back());
      last_used_.pop_back();
    }
    ++misses_;
    return true;
  }
  void drop(uint32_t number) {
    auto found = at_.find(number);
    if (found == at_.end()) return;
    last_used_.erase(found->second);
    at_.erase(found);
  }
  uint64_t misses() const { return misses_; }

 private:
  const size_t most_;
  std::list<uint32_t> last_used_;  ///< the last first
  std::unordered_map<uint32_t, std::list<uint32_t>::iterator> at_;
  uint64_t misses_ = 0;
};

}  // namespace tern::sim
