#include "fabric/rdma/channels/dc_endpoint.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/assert.h"
#include "fabric/rdma/rdma_peer.h"

namespace tern {
namespace {

// With 4 targets for 1,023 senders of one byte seven of ten attempts to connect are refused, and a message takes four
// times as long as with enough of them (docs/rdma.md; machines/connect-ib.toml: 16 connections a target).
constexpr uint32_t kRanksOfATarget = 16, kMaxTargets = 64;

bool usable(const RdmaPeer& peer) {
  return peer.state != RdmaPeer::State::broken && peer.state != RdmaPeer::State::lost;
}

}  // namespace

uint32_t DcEndpoint::targets_of(uint32_t initiators, uint32_t ranks) {
  return std::max(initiators, std::min(kMaxTargets, (ranks + kRanksOfATarget - 1) / kRanksOfATarget));
}

Error DcEndpoint::start(uint32_t initiators) {
  rdma::QueuePairOptions options = adapter_.connected_options();
  options.kind = rdma::QueuePairKind::dc_target;
  std::memcpy(&options.key, adapter_.options.key.data(), sizeof options.key);  // keeps strangers out
  targets_.resize(targets_of(initiators, uint32_t(adapter_.options.peers->size())));
  for (auto& target : targets_) {
    if (Error error = adapter_.hca->make_queue_pair(options, target)) return error;
  }
  options.kind = rdma::QueuePairKind::dc_initiator;
  options.receives = nullptr;
  options.srq = nullptr;
  initiators_.resize(initiators);
  for (Initiator& initiator : initiators_) {
    if (Error error = adapter_.hca->make_queue_pair(options, initiator.pair)) return error;
    by_number_[initiator.pair->number()] = uint32_t(&initiator - initiators_.data());
  }
  return {};
}

uint32_t DcEndpoint::join() {
  auto fewer = [](const Initiator& a, const Initiator& b) { return a.streams < b.streams; };
  auto least = std::min_element(initiators_.begin(), initiators_.end(), fewer);
  TERN_DEBUG_ASSERT(least != initiators_.end());
  ++least->streams;
  return uint32_t(least - initiators_.begin());
}

bool DcEndpoint::room(const RdmaPeer& peer, uint32_t requests, uint32_t index) const {
  const Initiator& initiator = initiators_[index];
  return !initiator.failed && initiator.posted.size() + requests <= adapter_.send_depth &&
         adapter_.room(peer, requests);
}

void DcEndpoint::post(RdmaPeer& peer, const rdma::WorkRequest& work, uint32_t index) {
  Posted item{work, {}, peer.id};
  TERN_ASSERT(work.piece_count <= 1);
  if (work.piece_count != 0) item.piece = work.pieces[0];
  TERN_DEBUG_ASSERT(index < initiators_.size() && !initiators_[index].failed);
  adapter_.sent(peer);
  hand_over(initiators_[index], item);
}

void DcEndpoint::hand_over(Initiator& initiator, const Posted& item) {
  Posted& kept = initiator.posted.emplace_back(item);
  TERN_DEBUG_ASSERT(initiator.posted.size() <= adapter_.send_depth);
  kept.work.pieces = &kept.piece;  // elements of a deque stay where they are
  [[maybe_unused]] const size_t taken = initiator.pair->post({&kept.work, 1});
  TERN_ASSERT(taken == 1);  // `posted` is never longer than its depth
}

bool DcEndpoint::on_completion(const RdmaPeer& peer, const rdma::Completion& completion) {
  auto found = by_number_.find(completion.queue_pair);
  if (found == by_number_.end()) return true;
  Initiator& initiator = initiators_[found->second];
  TERN_ASSERT(!initiator.posted.empty() && initiator.posted.front().work.id == completion.id);
  Posted item = initiator.posted.front();
  initiator.posted.pop_front();
  if (completion.status == rdma::Status::success) return true;
  initiator.failed = true;
  TERN_DEBUG_ASSERT(!initiator.again.empty() || initiator.posted.size() <= adapter_.send_depth);
  const bool again = completion.status == rdma::Status::flushed && usable(peer);
  if (again) initiator.again.push_back(item);
  if (initiator.posted.empty()) recover(initiator);
  return !again;
}

void DcEndpoint::recover(Initiator& initiator) {
  TERN_DEBUG_ASSERT(initiator.posted.empty());
  Error error = initiator.pair->reset();
  initiator.failed = bool(error);
  for (std::deque<Posted> again = std::exchange(initiator.again, {}); !again.empty(); again.pop_front()) {
    const Posted& item = again.front();
    RdmaPeer& peer = *peers_.find(item.peer);
    if (error) peers_.break_peer(peer, "a DC queue pair cannot be reset: " + std::string(error.text()));
    if (usable(peer)) {
      hand_over(initiator, item);
      continue;
    }
    rdma::Completion completion;
    completion.id = item.work.id;
    completion.status = rdma::Status::flushed;
    arrivals_.on_completion(completion);
  }
}

void DcEndpoint::forget_all() {
  for (Initiator& initiator : initiators_) {
    initiator.posted.clear();
    initiator.again.clear();
  }
}

}  // namespace tern
