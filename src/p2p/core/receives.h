// Receives: the requests of receives from their creation to their completion, and what their senders know of them.
// Thread rule: under the rank's lock.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/assert.h"
#include "base/counters.h"
#include "base/pool.h"
#include "base/recorder.h"
#include "p2p/core/receive_request.h"
#include "p2p/core/request_actions.h"
#include "p2p/core/tokens.h"
#include "p2p/matching/matching.h"
#include "progress/engine.h"

namespace tern {

class alignas(64) Receives {
 public:
  Receives(ProgressEngine& progress, RequestActions& actions, Heartbeat& heartbeat, Counters& counts)
      : progress_(progress), counts_(counts), tracer_(progress.tracer()), heartbeat_(heartbeat), actions_(actions) {}

  // --- Requests.
  /// `from`: of a.peer; null: any. Owned by the caller, until it is released. Not begun.
  ReceiveRequest& make(const ReceiveArguments& a, Endpoint* from);
  void recycle(ReceiveRequest& receive) { requests_.give_back(&receive); }
  RequestActions& actions() { return actions_; }
  /// It is in progress from now on.
  void open(ReceiveRequest&) { ++open_; }
  /// Not yet, after all: it will be begun again.
  void put_back(ReceiveRequest& receive) {
    TERN_ASSERT(open_ != 0 && !receive.posted());
    --open_;
  }
  uint32_t open() const { return open_; }

  void post(ReceiveRequest& receive) {
    TERN_DEBUG_ASSERT(!receive.posted() && !receive.complete());
    receive.place = ReceiveRequest::Place::posted;
    matching.post(receive);
  }
  void unpost(ReceiveRequest& receive) {
    TERN_ASSERT(receive.posted());
    matching.unpost(receive);
    receive.place = ReceiveRequest::Place::outside;
  }
  /// The receive has met its message. `waited`: that was here, or announced, before the receive. Fixes what the status
  /// will say; truncation is an error of the receive (MPI 5.0, 3.2.4), the head is still stored.
  void match(ReceiveRequest& receive, Endpoint& peer, const wire::Header& header, size_t bytes, bool waited = false);
  void complete(ReceiveRequest& receive);
  void fail(ReceiveRequest& receive, Error error) {
    receive.error = std::move(error);
    complete(receive);
  }
  /// Posted: completes it as cancelled.
  void complete_cancelled(ReceiveRequest& receive);
  /// Contiguous or not.
  [[gnu::noinline]] static void unpack(ReceiveRequest& receive, const std::byte* payload, size_t bytes);
  /// `waited`: as of match.
  void count(bool waited, size_t bytes) {
    const size_t size = size_class(bytes);
    ++(waited ? counts_.received_unexpected : counts_.received_expected)[size];
    (waited ? counts_.received_unexpected_bytes : counts_.received_expected_bytes)[size] += bytes;
  }
  /// A receive that needed no request.
  void count_direct(PeerId peer, int tag, uint64_t context, size_t bytes) {
    count(false, bytes);
    if (counts_.watched != 0) [[unlikely]]
      watch_direct(peer, tag, context, bytes);
  }

  // --- What a sender knows of a receive.
  /// Makes it, with a name, if there is none.
  ReceiveOffer& offer(ReceiveRequest& receive);
  /// Makes its receive's buffer puttable, if the path can; its address, or 0.
  uint64_t expose(ReceiveOffer& offer, uint64_t (&key)[2]);
  /// By the name that a sender knows; null: none.
  ReceiveRequest* find(uint32_t token) const {
    ReceiveOffer* offer = tokens_.find(token);
    return offer ? &offer->receive : nullptr;
  }
  /// How many their senders know of.
  uint32_t offered() const { return tokens_.live(); }
  /// What the buffers of those hold.
  size_t offered_bytes() const { return offered_bytes_; }
  template <typename Visitor>
  void for_each_offered(Visitor&& visit) {
    tokens_.for_each([&](ReceiveOffer& offer) { visit(offer.receive); });
  }

  Matching matching;

 private:
  // Out of line, so that receives without them have no frame for their strings.
  [[gnu::cold, gnu::noinline]] static Error truncation(const wire::Header& header, size_t bytes, size_t capacity);
  [[gnu::cold, gnu::noinline]] void watch_direct(PeerId peer, int tag, uint64_t context, size_t bytes);
  [[gnu::cold, gnu::noinline]] void watch_match(ReceiveRequest& receive, PeerId peer, const wire::Header& header,
                                                size_t bytes, bool waited);
  [[gnu::cold, gnu::noinline]] void watch_complete(ReceiveRequest& receive);
  [[gnu::noinline]] void end_offer(ReceiveRequest& receive);

  ProgressEngine& progress_;
  Counters& counts_;        ///< the rank's
  Recorder* const tracer_;  ///< null: no events are recorded
  Heartbeat& heartbeat_;
  Tokens<ReceiveOffer> tokens_;
  uint32_t open_ = 0;
  size_t offered_bytes_ = 0;
  Recycler<ReceiveRequest> requests_;
  Pool<ReceiveOffer, 16> offers_;
  RequestActions& actions_;
};

// --- What every receive goes through, inlined where it is used.

inline ReceiveRequest& Receives::make(const ReceiveArguments& a, Endpoint* from) {
  ReceiveRequest* receive = requests_.take(*this);
  receive->buffer = a.buffer;
  receive->count = a.count;
  receive->type = a.type;
  receive->capacity = size_t(a.count) * a.type->size();
  receive->from = from;
  receive->context = a.context;
  receive->source = a.source;
  receive->tag = a.tag;
  receive->attended = a.attended;
  receive->stay = a.stay;
  if (!a.type->is_predefined()) receive->held_type = Ref<Datatype>::share(const_cast<Datatype*>(a.type));
  return *receive;
}

inline void Receives::match(ReceiveRequest& receive, Endpoint& peer, const wire::Header& header, size_t bytes,
                            bool waited) {
  TERN_DEBUG_ASSERT(!receive.complete());
  count(waited, bytes);
  if (counts_.watched != 0) [[unlikely]]
    watch_match(receive, peer.peer, header, bytes, waited);
  receive.place = ReceiveRequest::Place::outside;
  receive.sender = &peer;
  receive.number = peer.messages.arrived();
  receive.status.source = header.source;
  receive.status.tag = header.tag;
  receive.status.bytes = Count(std::min(bytes, receive.capacity));
  if (bytes > receive.capacity) [[unlikely]]
    receive.error = truncation(header, bytes, receive.capacity);
}

inline void Receives::complete(ReceiveRequest& receive) {
  if (receive.matched_ns != 0) [[unlikely]]
    watch_complete(receive);
  if (receive.offer) [[unlikely]]
    end_offer(receive);
  TERN_DEBUG_ASSERT(open_ != 0 && !receive.posted());
  --open_;
  receive.set_complete();
  progress_.notify();
}

}  // namespace tern
