#include "fabric/rdma/rdma_adapter.h"

#include <algorithm>
#include <utility>

#include "fabric/rdma/rdma_peer.h"
#include "wire/datagram.h"
#include "wire/rdma.h"

namespace tern {
namespace {

// The longest acknowledgement of the UD channel must fit (328 bytes behind the adapter's 40).
constexpr size_t kLeastSlotBytes = 512;
static_assert(rdma::kUdHeaderBytes + wire::kStreamOverhead + wire::kMaxAckRanges * sizeof(wire::AckRange) <=
              kLeastSlotBytes);
constexpr uint32_t kSendDepth = 256;        // of a queue pair, as TERN_RDMA_SENDS; the adapter may allow less
constexpr uint32_t kMaxOutstanding = 8192;  // of all queue pairs: 32 full ones; sizes the completion queue

uint32_t cached_queue_pairs(const Tunables& tunables, const rdma::Capabilities& able) {
  return tunables.rdma_queue_pair_cache != 0 ? uint32_t(tunables.rdma_queue_pair_cache) : able.queue_pair_cache;
}

}  // namespace

// With a queue pair for each pair of ranks, a node of r ranks uses r (p - r) of them. Nodes count as equally full: all
// ranks must come to the same answer, and none knows more of the other nodes.
std::string channels_in_use(const Tunables& tunables, const rdma::Capabilities& able, uint32_t ranks, uint32_t nodes) {
  if (!tunables.rdma_channels.empty()) return tunables.rdma_channels;
  const uint64_t cached = cached_queue_pairs(tunables, able);
  if (cached == 0 || nodes == 0) return "rc";
  const uint64_t here = (ranks + nodes - 1) / nodes;
  return here * (ranks - here) > cached ? "auto-rc" : "rc";
}

RdmaAdapter::RdmaAdapter(const RdmaOptions& its_options, const Tunables& tunables, std::unique_ptr<rdma::Hca> its_hca,
                         Clock& its_clock)
    : options(its_options),
      clock(its_clock),
      hca(std::move(its_hca)),
      share(cached_queue_pairs(tunables, hca->capabilities())),
      addressed_(tunables.rdma_channels == "xrc" || tunables.rdma_channels == "auto-xrc") {
  const rdma::Capabilities& able = hca->capabilities();
  auto at_most = [](int64_t wanted, uint32_t limit) {
    return uint32_t(limit ? std::min<int64_t>(wanted, limit) : wanted);
  };
  slot_bytes = std::max((size_t(tunables.rdma_eager_bytes) + wire::kRdmaMaxHeadBytes + 63) / 64 * 64, kLeastSlotBytes);
  receives = at_most(tunables.rdma_receives, able.max_srq_depth);
  sends = uint32_t(tunables.rdma_sends);
  window = std::min(uint32_t(tunables.rdma_window), receives);
  send_depth = at_most(kSendDepth, able.max_queue_depth);
  inline_bytes = std::min<size_t>(able.max_inline_bytes, kMaxInlineBytes);
  uint32_t others = (addressed_ ? 2 : 1) * receives + 2 * kRdmaGreetingSlots;
  max_outstanding = able.max_completions
                        ? std::min(kMaxOutstanding, able.max_completions - std::min(others, able.max_completions / 2))
                        : kMaxOutstanding;
  rnr_wait_ns_ = uint64_t(tunables.rdma_rnr_wait_us) * 1000;
  timeout_ns_ = uint64_t(tunables.rdma_timeout_ms) * 1'000'000;
  retries_ = uint8_t(tunables.rdma_retries);
}

Error RdmaAdapter::start() {
  const rdma::Capabilities& able = hca->capabilities();
  if (!able.rc || !able.ud || !able.shared_receive) {
    return Error(ErrorClass::unsupported_operation,
                 "the adapter " + able.device + " lacks RC, UD or shared receive queues, which the rdma path needs");
  }
  if (Error error = hca->make_channel(channel_)) return error;
  const uint32_t all_receives = addressed_ ? 2 * receives : receives;
  rdma::CompletionQueueOptions queue{all_receives + 2 * kRdmaGreetingSlots + max_outstanding, channel_.get()};
  if (Error error = hca->make_completion_queue(queue, completions_)) return error;
  if (Error error = hca->make_srq({.depth = receives}, receives_)) return error;
  if (addressed_) {
    const rdma::SharedReceiveQueueOptions with_number{
        .depth = receives, .addressed = true, .completions = completions_.get()};
    if (Error error = hca->make_srq(with_number, addressed_receives_)) return error;
  }
  if (Error error = slots.make(*hca, all_receives, sends, kRdmaGreetingSlots, slot_bytes)) return error;
  for (uint32_t i = 0; i < all_receives; ++i) taken_receives_.push_back(i);
  repost();
  return {};
}

rdma::QueuePairOptions RdmaAdapter::connected_options() const {
  rdma::QueuePairOptions result;
  result.kind = rdma::QueuePairKind::rc;
  result.sends = result.receives = completions_.get();
  result.srq = receives_.get();
  result.send_depth = send_depth;
  result.inline_bytes = uint32_t(inline_bytes);
  result.rnr_wait_ns = rnr_wait_ns_;
  result.timeout_ns = timeout_ns_;
  result.retries = retries_;
  return result;
}

bool RdmaAdapter::room(const RdmaPeer& peer, uint32_t requests) const {
  return peer.outstanding + requests <= send_depth && outstanding_ + requests <= max_outstanding;
}

bool RdmaAdapter::post(RdmaPeer& peer, rdma::QueuePair& pair, const rdma::WorkRequest& work) {
  if (!room(peer) || pair.post({&work, 1}) == 0) return false;
  sent(peer);
  return true;
}

void RdmaAdapter::sent(RdmaPeer& peer) {
  ++peer.outstanding;
  ++outstanding_;
}

void RdmaAdapter::returned(RdmaPeer& peer) {
  --peer.outstanding;
  --outstanding_;
}

void RdmaAdapter::forget(RdmaPeer& peer) { outstanding_ -= std::exchange(peer.outstanding, 0); }

void RdmaAdapter::block(RdmaPeer& peer) {
  if (std::exchange(peer.blocked, true)) return;
  blocked_.push_back(&peer);
}

std::vector<RdmaPeer*> RdmaAdapter::take_blocked() {
  for (RdmaPeer* peer : blocked_) peer->blocked = false;
  return std::exchange(blocked_, {});
}

size_t RdmaAdapter::take_stash(rdma::Completion* completions) {
  std::copy_n(stash_, stashed_, completions);
  return std::exchange(stashed_, 0);
}

void RdmaAdapter::put_back(std::span<const rdma::Completion> completions) {
  TERN_ASSERT(stashed_ == 0 && completions.size() <= kBatch);
  std::copy(completions.begin(), completions.end(), stash_);
  stashed_ = completions.size();
}

bool RdmaAdapter::arm() {
  if (failed_) return true;
  completions_->arm(false);
  armed_ = true;
  if (stashed_ == 0) stashed_ = completions_->poll(stash_, kBatch);
  return stashed_ == 0;
}

void RdmaAdapter::repost_slow() {
  constexpr size_t kAtOnce = kBatch;  // a poll takes no more
  rdma::Piece pieces[kAtOnce];
  rdma::ReceiveRequest requests[kAtOnce];
  while (!taken_receives_.empty()) {
    const bool addressed = taken_receives_.back() >= receives;
    size_t count = 0;
    for (size_t i = 0; i < std::min(kAtOnce, taken_receives_.size()); ++i, ++count) {
      uint32_t slot = taken_receives_[taken_receives_.size() - 1 - i];
      if ((slot >= receives) != addressed) break;
      pieces[i] = slots.piece(slot, slot_bytes);
      requests[i] = {id_of(RdmaTag::receive, slot), &pieces[i], 1};
    }
    size_t posted = (addressed ? addressed_receives_ : receives_)->post({requests, count});
    taken_receives_.resize(taken_receives_.size() - posted);
    if (posted < count) return;  // the next poll tries again
  }
}

void RdmaAdapter::fail() {
  failed_ = true;
  stashed_ = 0;
}

}  // namespace tern
