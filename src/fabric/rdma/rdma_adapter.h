// RdmaAdapter: what all parts of the rdma path share of the rank's adapter: the completion queue and its event channel,
// the shared receive queue, the slots, and how much may be outstanding. It keeps no state of peers but counts their
// outstanding requests.
//
// A completion names what it is about in its id: a tag in the low bits, above them a slot, a peer, or an address.
//
// Units: bytes, nanoseconds. Thread rule: the rank's lock.
#pragma once

#include <array>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/peer_table.h"
#include "base/tunables.h"
#include "base/types.h"
#include "fabric/adapter_share.h"
#include "fabric/rdma/memory/rdma_slots.h"
#include "fabric/rdma/verbs/hca.h"
#include "fabric/registration/registration_cache.h"

namespace tern {

struct RdmaPeer;

struct RdmaOptions {
  const PeerTable* peers = nullptr;  ///< not owned: greetings of ranks that are not in it are ignored
  std::array<uint8_t, 32> key{};     ///< the job's secret
  // Simulated ranks: what the CPU's work costs in virtual time (copies: Clock::charge_copy).
  uint64_t send_ns = 0, receive_ns = 0;  ///< a frame's way through the library, besides the adapter's own costs
  uint64_t ring_poll_ns = 0;             ///< an empty poll of a ring
  Keep keep = Keep::watched;
  /// Nodes of the job, if the launcher says how many, equal at all ranks; 0: it does not.
  uint32_t nodes = 0;
  bool of_engine = false;  ///< of a message engine, beside the rank's own path
  /// Told which channel a peer's messages come by from now on (a name of channel.h); may be empty.
  std::function<void(PeerId peer, const char* channel)> channel_changed;
};

/// `slot`: a frame in a slot; `inlined`: a request without memory of ours, by peer; `part`: of a transfer, in a slot;
/// `transfer`: of a transfer, in the user's memory, by its address; `datagram`: of the UD channel, in a slot or
/// inlined.
enum class RdmaTag : uint64_t { receive, slot, inlined, part, transfer, greeting_in, greeting_out, datagram };

/// TERN_RDMA_CHANNELS, or what stands for it where it is empty. The same at all ranks, if their adapters are alike.
std::string channels_in_use(const Tunables& tunables, const rdma::Capabilities& able, uint32_t ranks, uint32_t nodes);

class RdmaAdapter {
 public:
  static constexpr size_t kBatch = 16;            ///< completions taken at a time: 1 KiB, what fits a few cache lines
  static constexpr size_t kMaxInlineBytes = 512;  ///< adapters offer 64 to 1024; a copy of more saves no time

  /// The clock outlives this.
  RdmaAdapter(const RdmaOptions& options, const Tunables& tunables, std::unique_ptr<rdma::Hca> hca, Clock& clock);
  /// Makes the queues and the slots. Error: the adapter lacks something.
  Error start();

  static uint64_t id_of(RdmaTag tag, uint64_t value) { return value << 3 | uint64_t(tag); }
  static uint64_t id_of(RdmaTag tag, const void* address) {
    return reinterpret_cast<uintptr_t>(address) | uint64_t(tag);
  }
  static RdmaTag tag_of(uint64_t id) { return RdmaTag(id & 7); }
  static uint64_t value_of(uint64_t id) { return id >> 3; }
  static void* address_of(uint64_t id) { return reinterpret_cast<void*>(id & ~uint64_t{7}); }

  /// Of a queue pair for messages, get and put with one peer.
  rdma::QueuePairOptions connected_options() const;

  // --- Sending.
  bool room(const RdmaPeer& peer, uint32_t requests = 1) const;
  /// False: there is no room; nothing has happened.
  bool post(RdmaPeer& peer, rdma::QueuePair& pair, const rdma::WorkRequest& work);
  /// A request to that peer was posted, by the caller itself.
  void sent(RdmaPeer& peer);
  /// One request to that peer is over.
  void returned(RdmaPeer& peer);
  /// That peer's requests will not come back (the adapter has failed).
  void forget(RdmaPeer& peer);
  uint32_t outstanding() const { return outstanding_; }
  /// There was no room for something for that peer: the path tries again in the next poll.
  void block(RdmaPeer& peer);
  bool any_blocked() const { return !blocked_.empty(); }
  std::vector<RdmaPeer*> take_blocked();

  // --- Completions. At most kBatch at a time; those found while arming come first.
  size_t take(rdma::Completion* completions) {
    if (stashed_ != 0 || failed_) [[unlikely]]
      return take_stash(completions);
    return completions_->poll(completions, kBatch);
  }
  /// The last ones of those that were taken just now: the next call of `take` gives them.
  void put_back(std::span<const rdma::Completion> completions);
  bool any_stashed() const { return stashed_ != 0; }
  /// False: something is there already; poll instead of sleeping.
  bool arm();
  /// After sleeping; true: it had been armed.
  bool drain_events() {
    if (!armed_) return false;
    armed_ = false;
    channel_->drain();
    return true;
  }
  int wait_fd() const { return channel_->descriptor(); }

  // --- Receives.
  /// The frame in that slot was handled: it is posted again by the next `repost`.
  void receive_taken(uint32_t slot) { taken_receives_.push_back(slot); }
  void repost() {
    if (!taken_receives_.empty() && !failed_) repost_slow();
  }

  /// The adapter must not be used any more.
  bool failed() const { return failed_; }
  void fail();

  void charge(uint64_t ns) {
    if (ns != 0) clock.charge_ns(ns);
  }

  const RdmaOptions options;
  Clock& clock;
  const std::unique_ptr<rdma::Hca> hca;
  RdmaSlots slots;
  AdapterShare share;
  // From the tunables, within the adapter's limits; constant.
  size_t slot_bytes = 0, inline_bytes = 0;
  uint32_t receives = 0, sends = 0;
  uint32_t window = 0;           ///< frames that a peer is granted
  uint32_t send_depth = 0;       ///< of one queue pair
  uint32_t max_outstanding = 0;  ///< of all: what the completion queue has room for

  rdma::EventChannel& channel() { return *channel_; }
  rdma::CompletionQueue& completions() { return *completions_; }
  rdma::SharedReceiveQueue& shared_receives() { return *receives_; }
  /// Of XRC; only where that is used.
  rdma::SharedReceiveQueue& addressed_receives() const { return *addressed_receives_; }

 private:
  size_t take_stash(rdma::Completion* completions);
  void repost_slow();

  const bool addressed_;  ///< XRC is used: slots from `receives` on are for its queue, which has as many
  uint64_t rnr_wait_ns_ = 0, timeout_ns_ = 0;
  uint8_t retries_ = 0;
  // The order matters: all queue pairs go before these, these in the reverse order.
  std::unique_ptr<rdma::EventChannel> channel_;
  std::unique_ptr<rdma::CompletionQueue> completions_;
  std::unique_ptr<rdma::SharedReceiveQueue> receives_, addressed_receives_;
  std::vector<uint32_t> taken_receives_;
  std::vector<RdmaPeer*> blocked_;
  uint32_t outstanding_ = 0;
  rdma::Completion stash_[kBatch];  ///< found while arming, or put back
  size_t stashed_ = 0;
  bool armed_ = false;
  bool failed_ = false;
};

}  // namespace tern
