// The inside of PointToPoint: request types, peers, the sink that arrivals climb into. One file per subject:
//   send.cc        a send from the call to the path, and its completion
//   receive.cc     posting, delivery, probes
//   eager.cc       arrivals of eager messages, credits
//   large.cc       which protocol a large message takes
//   rendezvous.cc  the sender first: rts, cts, data, fin
//   deferred.cc    who copies is decided when one of the two has time
//   transfer.cc    puts and gets, in pieces where a CPU copies
//   receiver_initiated.cc  the receiver first: ready, and what the sender does about it
//   withdraw.cc    announcements taken back
//   hybrid.cc      library buffers
//   tuples.h       queues of posted receives, a part of its own
//   cancel.cc      taking back sends and receives; lost peers
// Thread rule: under the rank's lock.
#pragma once

#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/pool.h"
#include "datatype/predefined.h"
#include "p2p/endpoint.h"
#include "p2p/matching.h"
#include "p2p/point_to_point.h"
#include "p2p/protocol.h"
#include "p2p/tokens.h"

namespace tern {

class Tuples;
struct TupleMessage;
struct TupleOwed;

/// Memory for hybrid sends; peers get from it. Lives as long as its path.
struct LibraryBuffer {
  RemoteMemory* memory_of;  ///< through which peers get from it
  std::byte* memory;
  RemoteKey key;
  std::unique_ptr<std::byte[]> own;  ///< null: lent by the path
};

/// A send in progress. Completes when nothing in `waits` is left.
class SendRequest final : public Request, public SendOperation {
 public:
  SendRequest(PointToPoint::Impl& owner, Endpoint& to, const SendArguments& a)
      : Request(Kind::send),
        impl(owner),
        endpoint(to),
        // Member by member, as wire::make_header explains: a copy in larger pieces would wait for the caller's stores.
        arguments{a.buffer, a.count, a.type, a.peer, a.source, a.tag, a.context, a.mode, a.attended, a.requested} {}
  Error start() override;
  void cancel() override;

  enum Wait : uint8_t {
    kPath = 1,    ///< the path still holds the operation
    kMatch = 2,   ///< synchronous: the receiver has not answered yet
    kData = 4,    ///< rendezvous: neither cts nor fin has come yet
    kAnswer = 8,  ///< a cancel was sent, its answer is out
    kPut = 16,    ///< a put is on its way
  };
  PointToPoint::Impl& impl;
  Endpoint& endpoint;  ///< of arguments.peer
  SendArguments arguments;
  Ref<Datatype> type;  ///< keeps a user's datatype alive; null for predefined ones
  wire::RendezvousBody body{};
  RemoteKey exposed;
  uint32_t token = 0;     ///< 0: none given out
  uint32_t sequence = 0;  ///< an eager message's name at the receiver, see cancel.cc; 0: none
  uint8_t waits = 0;
  bool clear_pending = false;        ///< a cts came while the path still held the rts
  wire::ClearBody clear{};           ///< deferred: where it may be put
  uint64_t clear_offset = 0;         ///< so much of it is with the receiver already
  bool deferred = false;             ///< in Impl::deferred
  uint32_t idle_polls = 0;           ///< and since then so many polls have passed
  bool asked = false;                ///< counted in Impl::attention
  TupleMessage* tuple = nullptr;     ///< in a tuple queue
  uint32_t copy = 0;                 ///< hybrid: token of the request that carries the copy, for MPI_Cancel
  LibraryBuffer* library = nullptr;  ///< the data lies there: this request is the library's own, for a hybrid send

 protected:
  friend class SentRequest;
  friend struct PointToPoint::Impl;
  void destroy() override;
};

/// A send that was over when it began: the path took the whole eager message. What is left is the user's handle, and
/// MPI_Cancel, which may still take the message back (cancel.cc). Recycled: between two uses only `handle` and what
/// names the message change.
class SentRequest final : public Request {
 public:
  explicit SentRequest(PointToPoint::Impl& owner) : Request(Kind::send), impl(owner) { complete_ = true; }
  void cancel() override;

  PointToPoint::Impl& impl;
  SentRequest* next_free = nullptr;
  Endpoint* receiver = nullptr;
  uint32_t sequence = 0;  ///< the message's name at the receiver, see cancel.cc
  uint64_t context = 0;

 protected:
  friend struct PointToPoint::Impl;
  void destroy() override;
};

/// A receive: posted, or being filled. Recycled: between two uses it is as after construction, but for what
/// make_receive and a match set.
class ReceiveRequest final : public Request, public PostedReceive {
 public:
  explicit ReceiveRequest(PointToPoint::Impl& owner) : Request(Kind::receive), impl(owner) {}
  Error start() override;
  void cancel() override;
  size_t capacity() const { return size_t(count) * type->size(); }
  Cursor target() const { return Cursor(buffer, count, *type); }

  PointToPoint::Impl& impl;
  ReceiveRequest* next_free = nullptr;
  void* buffer = nullptr;
  Count count = 0;
  const Datatype* type = nullptr;
  Endpoint* from = nullptr;    ///< the only one it takes a message of; null: any
  Ref<Datatype> held_type;     ///< keeps a user's datatype alive; null for predefined ones
  Endpoint* sender = nullptr;  ///< set when matched
  uint64_t matched_ns = 0;     ///< only when events are recorded
  bool unexpected = false;     ///< the same
  uint32_t sender_token = 0;   ///< rendezvous: the sender's name for it
  uint32_t token = 0;          ///< our name for it, where the sender knows one: announced, or cleared
  bool posted = false;
  bool attended = false;
  bool stays = false;
  uint8_t marks = 0;
  enum Mark : uint8_t {
    kAnnounced = 1,     ///< and still posted, or served by it
    kBinding = 2,       ///< and not withdrawn: the sender may use it without asking
    kWatched = 4,       ///< in Impl::watched
    kExposed = 8,       ///< `exposed` is valid
    kCancelling = 16,   ///< will be cancelled when its announcement, or those behind it, are withdrawn
    kFromLibrary = 32,  ///< fetches from a library buffer
    kAsked = 64,        ///< counted in Impl::attention
  };
  // Valid by `marks` only: a receive that is not announced does not pay for them.
  uint8_t last_byte;
  uint32_t serial;
  uint64_t exposed[2];

 protected:
  friend struct PointToPoint::Impl;
  void destroy() override;
  [[gnu::cold, gnu::noinline]] void renew();
};

/// A transfer by get for a receive.
struct Fetch final : TransferOperation {
  ReceiveRequest* receive = nullptr;
  uint64_t address = 0;   ///< of the whole data
  size_t offset = 0;      ///< so much of it is here; `bytes` more are on their way
  size_t piece = 0;       ///< longest next piece; 0: all at once
  bool in_call = false;   ///< RemoteMemory::get has not returned
  bool finished = false;  ///< done was called meanwhile
  Error error;
};

/// What MPI_Mprobe hands out: an unexpected message that is out of matching.
class MatchedMessage {};

/// A message without its receive: eager data kept for it, or the announcement of a rendezvous.
struct UnexpectedMessage final : WaitingMessage, MatchedMessage {
  static constexpr size_t kInlineBytes = 128;
  Endpoint* from = nullptr;
  wire::Header header{};
  size_t bytes = 0;                    ///< of the whole message
  wire::RendezvousBody body{};         ///< rts only
  ReceiveRequest* receiver = nullptr;  ///< matched while its data was still arriving
  bool arriving = false;
  uint32_t number = 0;        ///< among its sender's messages (MessageCount::arrived); of a tuple queue's: TupleOwed's
  uint32_t order = 0;         ///< tuple queues: the same
  bool by_queue = false;      ///< tuple queues: it has come by one
  TupleOwed* owed = nullptr;  ///< tuple queues: its data is in one
  std::unique_ptr<std::byte[]> heap;
  std::byte inline_data[kInlineBytes];
  std::byte* data() { return heap ? heap.get() : inline_data; }
  /// Of its data that are kept here.
  size_t kept() const {
    return header.kind == wire::Kind::eager || header.kind == wire::Kind::eager_sync ||
                   header.kind == wire::Kind::direct
               ? bytes
               : 0;
  }
};

/// A put on its way.
struct Put final : TransferOperation {
  SendRequest* send;
  wire::ClearBody to{};
  uint64_t total = 0;     ///< bytes of the message
  size_t wanted = 0;      ///< of which the receive has room for so many
  size_t offset = 0;      ///< so many are there; `bytes` more are on their way
  size_t piece = 0;       ///< longest next piece; 0: all at once
  uint8_t tell = 0;       ///< flags of `filled` that the receiver has not been told yet
  bool begun = false;     ///< the first piece has not failed at once
  bool in_call = false;   ///< RemoteMemory::put has not returned
  bool finished = false;  ///< done was called meanwhile
  Error error;
};

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

struct PointToPoint::Impl final : Sink {
  Impl(ProgressEngine& p, const Tunables& t);
  ~Impl();

  enum LandingKind { kLandReceive, kLandUnexpected, kLandNowhere };

  // send.cc
  Request* make_send(Endpoint& peer, const SendArguments& a, bool persistent, bool blocking = false);
  void begin(SendRequest& send, bool blocking = false);
  void begin_eager(SendRequest& send, size_t bytes, bool blocking);
  Request* send_at_once(Endpoint& peer, const SendArguments& a);
  void queue(SendRequest& send, const wire::Header& header, const Cursor& payload);
  void push(SendRequest& send, const wire::Header& header, const void* payload, size_t bytes);
  void path_done(SendRequest& send, Error error);
  void settle(SendRequest& send, uint8_t waited);
  void fail(SendRequest& send, Error error);
  uint32_t next_sequence() {
    if (++eager_sequence == 0) eager_sequence = 1;
    return eager_sequence;
  }
  void count_sent(Protocol protocol, size_t bytes) {
    const size_t size = size_class(bytes);
    const SentCounters& row = kSentCounters[size_t(protocol)];
    ++(counts.*row.messages)[size];
    (counts.*row.bytes)[size] += bytes;
  }
  /// A message begins to leave. `began_ns`: when, if that was before.
  void note_sent(Protocol protocol, const SendArguments& a, size_t bytes, uint64_t began_ns = 0) {
    count_sent(protocol, bytes);
    if (tracer) [[unlikely]]
      trace_sent(protocol, a, bytes, began_ns);
  }
  [[gnu::cold]] void trace_sent(Protocol protocol, const SendArguments& a, size_t bytes, uint64_t began_ns);
  [[gnu::cold, gnu::noinline]] void trace_received(ReceiveRequest& receive);
  uint64_t trace_time() const { return tracer ? Recorder::now_ns() : 0; }
  /// `waited`: it was here before its receive.
  void count_received(bool waited, size_t bytes) {
    const size_t size = size_class(bytes);
    ++(waited ? counts.received_unexpected : counts.received_expected)[size];
    (waited ? counts.received_unexpected_bytes : counts.received_expected_bytes)[size] += bytes;
  }

  // receive.cc
  ReceiveRequest* make_receive(const ReceiveArguments& a);
  void begin(ReceiveRequest& receive);
  bool receive_at_once(const ReceiveArguments& a, Status& status);
  /// `unexpected`: the message was here, or announced, before the receive.
  void match(ReceiveRequest& receive, Endpoint& peer, const wire::Header& header, size_t bytes, bool waited = false);
  [[gnu::cold, gnu::noinline]] void refuse_lost(ReceiveRequest& receive);
  // Out of line, so that receives without it have no frame for its strings.
  [[gnu::cold, gnu::noinline]] static Error truncation(const wire::Header& header, size_t bytes, size_t capacity);
  void unwait(UnexpectedMessage& message);
  [[gnu::noinline]] void take(ReceiveRequest& receive, UnexpectedMessage& message);
  void complete(ReceiveRequest& receive);
  void drop(UnexpectedMessage& message);
  Status status_of(const UnexpectedMessage& message) const;
  UnexpectedMessage* look(int source, int tag, uint64_t context);
  UnexpectedMessage* await(int source, int tag, uint64_t context);
  MatchedMessage* take_waiting(UnexpectedMessage& message, Status& status);

  // eager.cc
  [[gnu::noinline]] void keep_eager(Endpoint& peer, const wire::Header& header, const std::byte* payload, size_t bytes);
  [[gnu::noinline]] static void unpack(ReceiveRequest& receive, const std::byte* payload, size_t bytes);
  UnexpectedMessage* keep(Endpoint& peer, const wire::Header& header, size_t bytes);
  /// So much of the peer's eager data has been taken out of the way.
  void consumed(Endpoint& peer, size_t bytes) {
    if (peer.credit.consume(bytes)) [[unlikely]]
      send_credit(peer);
  }
  void send_credit(Endpoint& peer);
  void acknowledge(Endpoint& peer, const wire::Header& header);

  // large.cc
  void begin_large(SendRequest& send, size_t bytes, bool blocking);
  SendSituation situation(Endpoint& peer, const SendArguments& a, size_t bytes, const Ready* ready, bool blocking);
  void look_around();
  int do_chores();
  void update_chores();

  // receiver_initiated.cc
  void announce(ReceiveRequest& receive);
  void on_ready(Endpoint& peer, const wire::Header& header, const std::byte* payload, size_t bytes);
  void begin_direct(SendRequest& send);
  void begin_put(SendRequest& send, size_t bytes, Ready ready);
  void on_filled(Endpoint& peer, const wire::Header& header, const std::byte* payload, size_t bytes);
  void fill(ReceiveRequest& receive, size_t bytes);
  uint64_t expose_target(ReceiveRequest& receive, uint64_t (&key)[2]);
  [[gnu::noinline]] void retire(ReceiveRequest& receive);
  int check_watched();
  /// The receive that an arriving message matches; null: none.
  ReceiveRequest* matching_receive(const wire::Header& header) {
    auto* receive = static_cast<ReceiveRequest*>(matching.match_arrival(header.context, header.source, header.tag));
    if (receive && (receive->marks & ReceiveRequest::kWatched)) [[unlikely]]
      return rematch(*receive, header);
    return receive;
  }
  ReceiveRequest* rematch(ReceiveRequest& receive, const wire::Header& header);

  // withdraw.cc
  bool withdraw(ReceiveRequest& receive);
  void on_withdraw(Endpoint& peer, const wire::Header& header);
  void on_withdrawn(Endpoint& peer, const wire::Header& header);
  void recount(Endpoint& peer);
  void on_recount(Endpoint& peer, const wire::Header& header);

  // hybrid.cc
  LibraryBuffer* borrow(Endpoint& peer);
  bool buffer_left(Endpoint& peer);
  void begin_hybrid(SendRequest& send, size_t bytes, bool blocking);
  void cancel_copy(SendRequest& send);
  void give_release(ReceiveRequest& receive);
  void owe_release(Endpoint& peer, uint16_t name);
  void flush_releases(Endpoint& peer);
  bool flush_all_releases();
  void released(Endpoint& peer, uint16_t name);
  void on_release(Endpoint& peer, const std::byte* payload, size_t bytes);
  uint16_t carry_release(Endpoint& peer);

  // rendezvous.cc
  void begin_rendezvous(SendRequest& send, size_t bytes, Protocol protocol, const Ready* ready);
  void on_rts(Endpoint& peer, const wire::Header& header, const std::byte* payload, size_t bytes);
  void answer(ReceiveRequest& receive, const wire::RendezvousBody& body, uint8_t flags, Arrival arrival);
  void count_received(Protocol protocol, Arrival arrival) { ++counters.received[size_t(protocol)][size_t(arrival)]; }
  bool clear_to_send(ReceiveRequest& receive, size_t offset);
  void fetched(ReceiveRequest& receive);
  void on_cts(Endpoint& peer, const wire::Header& header, const std::byte* payload, size_t bytes);
  void clear_now(SendRequest& send, const wire::ClearBody& clear, uint64_t offset);
  void send_data(SendRequest& send);
  void stream_rest(SendRequest& send, uint32_t receiver_token, size_t end, size_t offset);
  /// data and direct: as if it came in pieces.
  void on_data(Endpoint& peer, const wire::Header& header, const std::byte* payload, size_t bytes);
  void on_fin(Endpoint& peer, const wire::Header& header);

  // transfer.cc
  void fetch(ReceiveRequest& receive, const wire::RendezvousBody& body);
  void run(Fetch& fetch);
  bool piece_done(Fetch& fetch);
  bool put(SendRequest& send, const wire::ClearBody& to, size_t total, uint8_t tell, bool quiet);
  bool run(Put& put);
  bool piece_done(Put& put);
  void tell(Put& put, uint8_t flags);
  size_t first_piece(const Endpoint& peer, bool either) const;
  static size_t next_piece(const Endpoint& peer, size_t& piece, size_t left);

  // deferred.cc
  void defer(SendRequest& send, size_t bytes, const Ready& ready);
  int advance_deferred();
  void forget_deferred(SendRequest& send);

  // cancel.cc
  void on_cancel(Endpoint& peer, const wire::Header& header);
  void on_cancel_answer(Endpoint& peer, const wire::Header& header);

  /// Sends a message of the protocol's own (no request waits for it), queued if it must be.
  void control(Endpoint& peer, const wire::Header& header, const void* payload = nullptr, size_t bytes = 0);
  SendRequest* sender(Endpoint& peer, uint32_t token);

  // Sink
  [[gnu::noinline]] void on_other(Endpoint& from, const wire::Header& header, const std::byte* payload, size_t bytes);
  void on_control(Endpoint& from, const wire::Header& header, const std::byte* payload, size_t bytes);
  Landing landing_of(Endpoint& from, const wire::Header& header, size_t bytes);
  void landed(Endpoint& from, const wire::Header& header, Landing& landing, size_t bytes, Error error);
  void on_message(Lane& lane, const wire::Header& header, const std::byte* payload, size_t bytes) override;
  Landing on_header(Lane& lane, const wire::Header& header, size_t bytes) override;
  void on_landed(Lane& lane, const wire::Header& header, Landing& landing, size_t bytes, Error error) override;
  void on_peer_lost(Lane& lane, Error error) override;

  ProgressEngine& progress;
  Counters& counts;        ///< the rank's
  Recorder* const tracer;  ///< null: no events are recorded
  Tunables tunables;
  Endpoints endpoints;
  Matching matching;
  Pool<SendRequest> sends;
  Recycler<SentRequest> sent;
  Recycler<ReceiveRequest> receives;
  Pool<Fetch, 16> fetches;
  Pool<UnexpectedMessage, 16> unexpected;
  Tokens<SendRequest> send_tokens;
  Tokens<ReceiveRequest> receive_tokens;
  uint32_t eager_sequence = 0;  ///< of the last eager message that can be cancelled
  uint32_t sends_open = 0;      ///< sends begun and not complete
  uint32_t receives_open = 0;   ///< the same of receives

  std::unique_ptr<Tuples> tuples;  ///< null: the mode is another

  // --- Announcements, hybrid sends.
  RendezvousMode mode = RendezvousMode::customised;
  bool by_write = false;              ///< sender first: put rather than get
  size_t announce_from = ~size_t{0};  ///< shortest receive that may be worth announcing, over all paths
  ProtocolCounters counters;
  Pool<Put, 16> puts;
  std::vector<SendRequest*> deferred;    ///< whose data this rank may put when it has time
  std::vector<ReceiveRequest*> watched;  ///< their last byte tells that they are filled
  std::vector<std::unique_ptr<LibraryBuffer>> library;
  std::vector<LibraryBuffer*> library_free;
  std::vector<Endpoint*> owing_releases;   ///< peers whose Endpoint::owed_releases is not empty
  std::unique_ptr<PredefinedTypes> types;  ///< made when first used
  /// What must be done in every poll, while there is any of it.
  struct Chores final : Advanceable {
    explicit Chores(Impl& i) : impl(i) {}
    int advance() override { return impl.do_chores(); }
    Impl& impl;
  } chores{*this};
  CopyArbiter* heartbeat = nullptr;  ///< whose peers ask whether this rank is in its library
  uint32_t attention = 0;            ///< for so many operations peers may ask
  uint32_t chore_rounds = 0;         ///< polls since the last release became due
};

// --- What every receive goes through, inlined where it is used.

inline ReceiveRequest* PointToPoint::Impl::make_receive(const ReceiveArguments& a) {
  ReceiveRequest* receive = receives.take(*this);
  receive->buffer = a.buffer;
  receive->count = a.count;
  receive->type = a.type;
  receive->from = a.peer == kNoPeer ? nullptr : &endpoints.at(a.peer);
  receive->context = a.context;
  receive->source = a.source;
  receive->tag = a.tag;
  receive->attended = a.attended;
  receive->stays = a.stays;
  if (!a.type->is_predefined()) receive->held_type = Ref<Datatype>::share(const_cast<Datatype*>(a.type));
  return receive;
}

// Fixes what the status will say; truncation is an error of the receive (MPI 5.0, 3.2.4), the head is still stored.
inline void PointToPoint::Impl::match(ReceiveRequest& receive, Endpoint& peer, const wire::Header& header, size_t bytes,
                                      bool waited) {
  count_received(waited, bytes);
  if (tracer) [[unlikely]] {
    receive.matched_ns = Recorder::now_ns();
    receive.unexpected = waited;
  }
  receive.posted = false;
  receive.sender = &peer;
  receive.status.source = header.source;
  receive.status.tag = header.tag;
  size_t capacity = receive.capacity();
  receive.status.bytes = Count(std::min(bytes, capacity));
  if (bytes > capacity) [[unlikely]]
    receive.error = truncation(header, bytes, capacity);
}

inline void PointToPoint::Impl::complete(ReceiveRequest& receive) {
  if (receive.matched_ns != 0) [[unlikely]]
    trace_received(receive);
  if (receive.token != 0) [[unlikely]]
    retire(receive);
  --receives_open;
  receive.set_complete();
  progress.notify();
}

/// Reads the tunables `rendezvous` and `sender_rendezvous`; an error names what they may be.
Error parse_rendezvous(const Tunables& tunables, RendezvousMode& mode, bool& by_write);

}  // namespace tern
