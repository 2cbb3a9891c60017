// AdapterShare: what the ranks of a node use of one RDMA adapter, all together. An adapter keeps the state of some
// queue pairs in its cache; beyond them every message fetches its state from memory. Takagi et al. (2015) bound the
// connected queue pairs of a process (h); but the cache belongs to the adapter, so they are counted here for the node:
// each rank keeps what it uses in a word of its own in the node's memory, and adds up the words of the others. A rank
// may have several of these objects, one for each path over the adapter (its own, its message engines'): all add to its
// word.
//
//   rank     0    1    2        a rank claims by writing its word, then reading all: two that claim the last place at
//   word    30   28   31        the same time may both be refused, but never both get it
//
// Units: queue pairs, rings. Thread rule: the path's; the words are atomic.
#pragma once

#include <atomic>
#include <cstdint>
#include <utility>
#include <vector>

namespace tern {

/// Of one rank, in memory that the node's ranks share; valid when zero.
struct AdapterUse {
  std::atomic<uint64_t> adapter;  ///< which one, a number that is equal for ranks on one adapter; 0: none
  std::atomic<uint32_t> queue_pairs;
  std::atomic<uint32_t> rings;
};
static_assert(sizeof(AdapterUse) == 16);

class AdapterShare {
 public:
  /// `capacity`: queue pairs that the adapter caches; 0: not known, so there is no limit.
  explicit AdapterShare(uint32_t capacity) : capacity_(capacity) { all_.push_back(&alone_); }
  AdapterShare(const AdapterShare&) = delete;
  AdapterShare& operator=(const AdapterShare&) = delete;

  /// Before any claim. `all`: the words of the node's ranks, `mine` among them; they outlive the last call of this.
  void join(std::vector<AdapterUse*> all, AdapterUse& mine, uint64_t adapter) {
    mine.queue_pairs.fetch_add(fixed_ + claimed_, std::memory_order_relaxed);
    mine.rings.fetch_add(rings_, std::memory_order_relaxed);
    all_ = std::move(all);
    mine_ = &mine;
    adapter_ = adapter;
    mine.adapter.store(adapter, std::memory_order_release);
  }

  /// Queue pairs that this path has whatever others use, beside those that it claims.
  void set_fixed(uint32_t pairs) {
    mine_->queue_pairs.fetch_add(pairs - fixed_, std::memory_order_seq_cst);
    fixed_ = pairs;
  }
  /// This path uses `pairs` queue pairs beside its fixed ones, whatever others use.
  void set_claimed(uint32_t pairs) {
    mine_->queue_pairs.fetch_add(pairs - claimed_, std::memory_order_seq_cst);
    claimed_ = pairs;
  }
  /// As set_claimed, if the adapter holds them beside the others. False: it does not, and nothing has changed.
  bool claim(uint32_t pairs) {
    const uint32_t before = claimed_;
    set_claimed(pairs);
    if (pairs <= before || capacity_ == 0 || queue_pairs() <= capacity_) return true;
    set_claimed(before);
    return false;
  }
  /// The most that `claim` would allow now.
  uint32_t most() const {
    if (capacity_ == 0) return ~uint32_t{0};
    const uint64_t used = queue_pairs();
    return claimed_ + uint32_t(used < capacity_ ? capacity_ - used : 0);
  }
  void set_rings(uint32_t rings) {
    mine_->rings.fetch_add(rings - rings_, std::memory_order_relaxed);
    rings_ = rings;
  }

  /// Of all ranks of the node on this adapter.
  uint64_t queue_pairs() const { return sum(&AdapterUse::queue_pairs); }
  uint64_t rings() const { return sum(&AdapterUse::rings); }
  uint32_t capacity() const { return capacity_; }

 private:
  uint64_t sum(std::atomic<uint32_t> AdapterUse::*what) const {
    uint64_t sum = 0;
    for (const AdapterUse* use : all_) {
      if (use == mine_ || use->adapter.load(std::memory_order_acquire) == adapter_)
        sum += (use->*what).load(std::memory_order_seq_cst);
    }
    return sum;
  }

  const uint32_t capacity_;
  AdapterUse alone_{};  ///< until `join`, and where no memory is shared
  std::vector<AdapterUse*> all_;
  AdapterUse* mine_ = &alone_;
  uint64_t adapter_ = 0;
  uint32_t fixed_ = 0, claimed_ = 0, rings_ = 0;
};

}  // namespace tern
