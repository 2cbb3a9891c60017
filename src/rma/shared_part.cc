#include "rma/shared_part.h"

#include <sched.h>

#include <algorithm>
#include <new>

#include "base/assert.h"
#include "base/looks.h"
#include "fabric/shm/node_memory.h"

namespace tern::rma {

namespace {
constexpr size_t kPageBytes = 4096, kLineBytes = 64;
/// Larger parts (of words alone from 12 members on) have a segment: to make so much memory zero takes some us, a
/// segment hundreds.
constexpr size_t kMaxNodeBytes = size_t{128} << 10;
/// Windows leave so much of a rank's 4 MiB of node memory to collectives: more than the largest team's 2.1 MiB.
constexpr size_t kLeftBytes = size_t{5} << 19;

size_t up_to(size_t bytes, size_t unit) { return (bytes + unit - 1) / unit * unit; }
}  // namespace

void SharedPart::plan(std::vector<int> ranks, std::vector<PeerId> peers, const std::vector<int64_t>& sizes, bool apart,
                      size_t alignment_bytes, size_t lock_words, bool cells) {
  ranks_ = std::move(ranks);
  TERN_DEBUG_ASSERT(std::is_sorted(ranks_.begin(), ranks_.end()) && ranks_.size() == peers.size() &&
                    ranks_.size() == sizes.size());
  TERN_DEBUG_ASSERT(ranks_.size() <= kMaxMembers && segment_.empty());
  peers_ = std::move(peers);
  counts_start_ = ranks_.size() * sizeof(Control);
  // Two members have all their counts in one line, which an epoch moves there and back: bare 0.27 us, with a line for
  // each direction 0.49. More members have a line of their own each for what the others write.
  const size_t rows = 2 * ranks_.size();
  counts_each_ = rows == 4 ? ranks_.size() : up_to(ranks_.size() * sizeof(uint32_t), kLineBytes) / sizeof(uint32_t);
  words_start_ = up_to(counts_start_ + rows * counts_each_ * sizeof(uint32_t), kLineBytes);
  words_each_ = up_to(lock_words * sizeof(uint64_t), kLineBytes) / sizeof(uint64_t);
  cells_start_ = words_start_ + ranks_.size() * words_each_ * sizeof(uint64_t);
  has_cells_ = cells;
  const size_t cells_bytes = cells ? ranks_.size() * ranks_.size() * sizeof(NodeCell) : 0;
  alignment_bytes_ = std::max(alignment_bytes, kPageBytes);
  size_t at = up_to(cells_start_ + cells_bytes, alignment_bytes_);
  starts_.clear();
  for (int64_t size : sizes) {
    starts_.push_back(at);
    at += apart ? up_to(size_t(size), std::max(alignment_bytes, kLineBytes)) : size_t(size);
  }
  bytes_ = at;
  TERN_DEBUG_ASSERT(starts_.size() == ranks_.size() && starts_[0] >= cells_start_ + cells_bytes);
}

Error SharedPart::allocate(NodeSegments& segments, NodeMemory* node) {
  TERN_DEBUG_ASSERT(bytes_ != 0 && segment_.empty());
  const auto in_node = [node](PeerId peer) { return node->shares(peer); };
  if (node && bytes_ <= kMaxNodeBytes && alignment_bytes_ == kPageBytes &&
      std::all_of(peers_.begin(), peers_.end(), in_node) && node->free_bytes() >= kLeftBytes + bytes_ &&
      node->allocate(bytes_, node_offset_)) {
    segment_ = {node->at(node_offset_), bytes_, {}};
    node_ = node;
    first_ = true;
  } else if (Error error = segments.allocate(bytes_, segment_, alignment_bytes_)) {
    return error;
  }
  segments_ = &segments;
  for (size_t i = 0; i < ranks_.size(); ++i) new (segment_.data + i * sizeof(Control)) Control;
  return {};
}

Error SharedPart::attach(NodeSegments& segments, NodeMemory* node, const PartKey& key) {
  TERN_DEBUG_ASSERT(segment_.empty());
  if (key.node_offset != 0) {
    TERN_ASSERT(node);
    node_ = node;
    node_offset_ = key.node_offset;
    segment_ = {node->at(node_offset_), bytes_, {}};
  } else if (Error error = segments.attach(key.segment, segment_, alignment_bytes_)) {
    return error;
  }
  segments_ = &segments;
  return {};
}

void SharedPart::release() {
  if (segment_.empty()) return;
  if (!node_) {
    segments_->release(segment_);
    return;
  }
  std::atomic<uint32_t>& left = control(0).left;
  segment_ = {};
  if (first_ && !given_) {
    node_->release(node_offset_);
    return;
  }
  left.fetch_add(1, std::memory_order_acq_rel);
  if (first_) node_->release_when(node_offset_, left, uint32_t(ranks_.size()));
}

int SharedPart::place_of(int rank) const {
  const auto found = std::lower_bound(ranks_.begin(), ranks_.end(), rank);
  return found != ranks_.end() && *found == rank ? int(found - ranks_.begin()) : -1;
}

void AccumulateGuard::wait(const SharedPart& part, uint32_t mine) {
  std::atomic<uint32_t>& word = control_->accumulating;
  TERN_DEBUG_ASSERT(mine != 0 && mine <= part.ranks().size());
  const auto take = [&](bool asks) {
    uint32_t owner = word.load(std::memory_order_relaxed);
    const bool gone = owner != 0 && asks && part.has_ended(int(owner) - 1);
    return (owner == 0 || gone) && word.compare_exchange_strong(owner, mine, std::memory_order_acquire);
  };
  if (look_at<Look::accumulate>([&] { return take(false); })) return;
  // Now and then: whether the other one still lives.
  for (uint32_t yields = 1; !take(yields % limits_of(Look::owner).looks == 0); ++yields) sched_yield();
}

}  // namespace tern::rma
