// Sends: the requests of sends from their creation to their completion, the names that peers know them by, and what is
// counted of them. The protocols say what a request waits for; this part completes it.
// Thread rule: under the rank's lock.
#pragma once

#include <cstdint>
#include <utility>

#include "base/assert.h"
#include "base/counters.h"
#include "base/pool.h"
#include "base/recorder.h"
#include "p2p/core/request_actions.h"
#include "p2p/core/send_request.h"
#include "p2p/core/tokens.h"
#include "p2p/protocols/protocol.h"
#include "progress/engine.h"

namespace tern {

/// Where messages sent by each protocol are counted.
struct SentCounters {
  SizedCounter Counters::*messages;
  SizedCounter Counters::*bytes;
};
inline constexpr SentCounters kSentCounters[kProtocolCount] = {
    {&Counters::sent_eager, &Counters::sent_eager_bytes},
    {&Counters::sent_tuple, &Counters::sent_tuple_bytes},
    {&Counters::sent_receiver_put, &Counters::sent_receiver_put_bytes},
    {&Counters::sent_receiver_stream, &Counters::sent_receiver_stream_bytes},
    {&Counters::sent_hybrid, &Counters::sent_hybrid_bytes},
    {&Counters::sent_sender_put, &Counters::sent_sender_put_bytes},
    {&Counters::sent_sender_get, &Counters::sent_sender_get_bytes},
    {&Counters::sent_sender_data, &Counters::sent_sender_data_bytes},
};

class alignas(64) Sends {
 public:
  Sends(ProgressEngine& progress, RequestActions& actions, Counters& counts)
      : progress_(progress), counts_(counts), tracer_(progress.tracer()), actions_(actions) {}

  // --- Requests.
  /// Owned by the caller, until it is released. Not begun.
  SendRequest& create(Endpoint& peer, const SendArguments& a);
  /// A send that is over already.
  SentRequest& sent(Endpoint& peer, uint32_t sequence, uint64_t context) {
    SentRequest* request = sent_.take(*this);
    request->receiver = &peer;
    request->sequence = sequence;
    request->context = context;
    return *request;
  }
  void destroy(SendRequest& send) { requests_.destroy(&send); }
  void recycle(SentRequest& request) { sent_.give_back(&request); }
  RequestActions& actions() { return actions_; }

  /// It is in progress from now on, and waits for nothing yet.
  void open(SendRequest& send) {
    TERN_DEBUG_ASSERT(!send.complete() && !send.rendezvous() && !send.linked());
    ++open_;
    send.waits = 0;
    send.large = false;
    send.state = {};
  }
  /// Complete already, it waits for something again (MPI_Cancel).
  void reopen(SendRequest& send) {
    TERN_ASSERT(send.complete() && send.waits == 0);
    send.complete_ = false;
    ++open_;
  }
  /// Complete already, a hybrid send waits again; it counts by the request that carries its copy.
  void reopen_uncounted(SendRequest& send) {
    TERN_ASSERT(send.complete());
    send.complete_ = false;
  }
  void set_complete_unbegun(SendRequest& send) { send.complete_ = true; }
  /// Its state is that of a rendezvous, until completion.
  RendezvousSend& begin_rendezvous(SendRequest& send, RendezvousSender& by) {
    TERN_ASSERT(!send.rendezvous() && !send.tuple());
    RendezvousSend* state = rendezvous_.create(by);
    send.state = state;
    return *state;
  }
  /// Its receiver is about to be told of it.
  void count_fetchable(const RendezvousSend& state) { fetchable_bytes_ += state.fetchable_bytes(); }
  /// Of all in progress.
  size_t fetchable_bytes() const { return fetchable_bytes_; }
  /// Gives back what it holds of others.
  void end_rendezvous(SendRequest& send) {
    RendezvousSend* state = send.rendezvous();
    TERN_ASSERT(state && fetchable_bytes_ >= state->fetchable_bytes());
    fetchable_bytes_ -= state->fetchable_bytes();
    send.state = {};
    rendezvous_.destroy(state);
  }
  /// One of the things this send waited for has happened; the last completes it.
  void settle(SendRequest& send, uint8_t waited) {
    send.waits &= uint8_t(~waited);
    if (send.waits == 0) complete(send);
  }
  /// Its path has given it up.
  void fail(SendRequest& send, Error error);
  /// A message that its request does not wait for is on its way (tuple queues).
  void open_copy() { ++open_; }
  void close_copy() {
    TERN_ASSERT(open_ != 0);
    --open_;
    progress_.notify();
  }
  /// Begun and not complete.
  uint32_t open() const { return open_; }

  // --- Handing over to the path.
  using Left = void (*)(SendOperation&, Error);
  /// kPath is waited for until the path has taken all of it; `left` is called then.
  void enqueue(SendRequest& send, const wire::Header& header, const Cursor& payload, Left left = settle_path);
  /// A message of the protocol's own, of at most kAlwaysWholeBytes that stay valid: at once if there is room.
  void push(SendRequest& send, const wire::Header& header, const void* payload, size_t bytes, Left left = settle_path);
  /// The receive is matched: its data, from `offset` on, up to `end`.
  void stream(SendRequest& send, uint32_t receiver_token, size_t end, size_t offset);
  static void settle_path(SendOperation& operation, Error error);

  // --- Names.
  /// Gives it one, if it has none.
  uint32_t name(SendRequest& send) {
    if (send.token == 0) send.token = tokens_.add(send);
    return send.token;
  }
  /// Peers that know `from` by its name now mean `to`, which has none yet.
  void rename(SendRequest& from, SendRequest& to) {
    TERN_ASSERT(from.token != 0 && to.token == 0);
    to.token = std::exchange(from.token, 0);
    tokens_.rename(to.token, to);
  }
  /// What a peer calls by a token; null: nothing of that peer's.
  SendRequest* find(const Endpoint& peer, uint32_t token) const {
    SendRequest* send = tokens_.find(token);
    return send && &send->endpoint == &peer ? send : nullptr;
  }
  /// By the low 16 bits of a token for which has_short_name is true.
  SendRequest* find_short(const Endpoint& peer, uint16_t name) const {
    SendRequest* send = tokens_.find_by_name(name);
    return send && &send->endpoint == &peer ? send : nullptr;
  }
  static bool has_short_name(uint32_t token) { return Tokens<SendRequest>::has_name(token); }
  template <typename Visitor>
  void for_each_named(Visitor&& visit) {
    tokens_.for_each(visit);
  }
  uint32_t named() const { return tokens_.live(); }
  /// Of the next eager message that can be taken back; never 0.
  uint32_t next_sequence() {
    if (++sequence_ == 0) sequence_ = 1;
    return sequence_;
  }

  // --- Counting.
  /// A message begins to leave. `began_ns`: when, if that was before.
  void note(Protocol protocol, const Endpoint& to, const SendArguments& a, size_t bytes, uint64_t began_ns = 0) {
    count(protocol, bytes);
    if (counts_.watched != 0) [[unlikely]]
      watch_send(protocol, to, a, bytes, began_ns);
  }
  /// An eager message has left, and its request is complete by that.
  void note_sent(const Endpoint& to, const SendArguments& a, size_t bytes, uint64_t began_ns) {
    count(Protocol::eager, bytes);
    if (counts_.watched != 0) [[unlikely]] {
      watch_send(Protocol::eager, to, a, bytes, began_ns);
      counts_.tell(Event::request_completed, {int32_t(a.peer), a.tag});
    }
  }
  uint64_t trace_time_ns() const { return tracer_ ? Recorder::now_ns() : 0; }
  Counters& counts() { return counts_; }

 private:
  friend struct DebugLayout;  // capi/debug_view.h
  void complete(SendRequest& send);
  void count(Protocol protocol, size_t bytes) {
    const size_t size = size_class(bytes);
    const SentCounters& row = kSentCounters[size_t(protocol)];
    ++(counts_.*row.messages)[size];
    (counts_.*row.bytes)[size] += bytes;
  }
  [[gnu::cold]] void watch_send(Protocol protocol, const Endpoint& to, const SendArguments& a, size_t bytes,
                                uint64_t began_ns);
  [[gnu::cold]] void watch_complete(const SendRequest& send);

  ProgressEngine& progress_;
  Counters& counts_;        ///< not owned
  Recorder* const tracer_;  ///< null: no events are recorded
  Tokens<SendRequest> tokens_;
  uint32_t sequence_ = 0;
  uint32_t open_ = 0;
  size_t fetchable_bytes_ = 0;
  Pool<SendRequest> requests_;
  Pool<RendezvousSend, 16> rendezvous_;
  Recycler<SentRequest> sent_;
  RequestActions& actions_;
};

}  // namespace tern
