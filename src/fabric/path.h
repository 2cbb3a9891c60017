// Path: the only way bytes leave a rank (DESIGN.md 3; LA-MPI's word). A path offers, for each peer it reaches, a
// reliable ordered stream of messages (header + payload), and optionally get/put on the peer's memory. It says what it
// can do and what is true of it; protocols ask for properties, never for a path's name.
//
// Thread rule: everything here is called under the rank's lock, from inside the library, never concurrently.
// Re-entrance: a path may call its Sink from `poll` only (self also from `try_send`/`enqueue`); the sink may call
// `try_send`, `enqueue`, `get` from there. A path never calls the sink or a done-function from `try_send`, with the
// named exception of the self path.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "base/counters.h"
#include "base/error.h"
#include "base/intrusive_list.h"
#include "base/need.h"
#include "base/types.h"
#include "datatype/cursor.h"
#include "wire/header.h"

namespace tern {

/// What a path is. Constant after the path is started.
struct PathProperties {
  const char* name = "";
  size_t eager_bytes = 0;     ///< largest message worth sending without asking; also the largest try_send takes
  bool get = false;           ///< `get` works (contiguous local or not), for peers that `can_get` confirms
  size_t get_from_bytes = 0;  ///< shortest transfer for which get is better than sending the data as a message
  bool put = false;
  bool peek = false;        ///< `peek` works
  bool autonomous = false;  ///< get/put move data without the CPU of either side
  /// The bytes of a put become visible before a message that is handed over after the put was issued (done or not). A
  /// put then fails only because the peer is lost, or at once.
  bool puts_before_messages = false;
  bool ordered_writes = false;  ///< the same, and the bytes of one put become visible in address order
  bool attention = false;       ///< `attentive` knows
  bool claims = false;          ///< `make_claim` works
  /// Where get and put are copies by this rank's CPU: after so many bytes it is worth looking whether the peer has come
  /// to take its part of a stream instead; 0: never. `first_piece_bytes`: the first time, if the peer may come at any
  /// moment.
  size_t piece_bytes = 0, first_piece_bytes = 0;
  uint32_t idle_polls = 0;  ///< a rank that polls so often in vain has time for a copy that its peer would have to make
  size_t announce_from_bytes = 0;  ///< shortest receive worth announcing to its sender; 0: none
  size_t hybrid_bytes = 0;     ///< longest message that the library copies, so that the sender is free at once; 0: none
  size_t keep_from_bytes = 0;  ///< shortest message that is better enqueued by who need not have its memory back at
                               ///< once: of others try_send keeps a copy until they have arrived; 0: none
  uint64_t latency_ns = 0;     ///< estimate for a small message, one way
  uint64_t bytes_per_us = 0;   ///< estimate for a large one
};

/// Names memory of this rank to its peers; opaque to protocols, travels in their headers.
struct RemoteKey {
  uint64_t words[2] = {0, 0};
};

/// A message on its way that could not (or should not) leave at once. Lives in the sender's request; the path keeps
/// a link to it from `enqueue` until `done` is called, and reads the user's memory through `payload` meanwhile.
struct SendOperation : ListHook<SendOperation> {
  PeerId peer = kNoPeer;
  wire::Header header{};
  Cursor payload;            ///< advances as bytes leave
  size_t total_bytes = 0;    ///< of payload, set by the path at enqueue
  bool header_sent = false;  ///< the path's own state
  /// Called once, from poll: the memory may be reused (no error) or the peer is lost (error).
  void (*done)(SendOperation&, Error) = nullptr;
};

/// A transfer: get (remote memory to `local`) or put (`local` to remote memory).
struct TransferOperation : ListHook<TransferOperation> {
  PeerId peer = kNoPeer;
  Cursor local;
  uint64_t remote_address = 0;
  RemoteKey key;
  size_t bytes = 0;
  /// Of a put: no message tells of it, but its peer, should it sleep, shall wake up when the bytes are there.
  bool wakes = false;
  /// Called once, possibly before `get` returns. An error means nothing is known of the local bytes; the caller
  /// falls back to messages.
  void (*done)(TransferOperation&, Error) = nullptr;
};

/// Where the payload of an arriving message goes.
struct Landing {
  Cursor target;          ///< the first `target.remaining()` bytes go here; the rest is thrown away
  void* token = nullptr;  ///< the sink's; paths only keep it
  int token_kind = 0;     ///< the sink's
};

/// A whole message that poll would deliver next from a peer; valid until it is taken or poll is called.
struct PeekedMessage {
  const wire::Header* header = nullptr;
  const std::byte* payload = nullptr;
  size_t bytes = 0;
};

/// See Sink::on_header.
inline constexpr size_t kAlwaysWholeBytes = 64;

/// Arrivals climb through this one interface (p2p implements it). Per peer the calls come in the order of sending.
class Sink {
 public:
  /// A whole message is here; `payload` is valid during the call only.
  virtual void on_message(PeerId peer, const wire::Header& header, const std::byte* payload, size_t bytes) = 0;
  /// A header is here, its payload of `bytes` still arriving: where should it go? Paths call this instead of on_message
  /// when the payload is not yet whole; later arrivals from that peer wait until it is landed. Never for a contiguous
  /// payload of at most kAlwaysWholeBytes: protocols' own bodies come whole.
  virtual Landing on_header(PeerId peer, const wire::Header& header, size_t bytes) = 0;
  /// The payload announced by on_header has all arrived (or its sender is lost: error).
  virtual void on_landed(PeerId peer, const wire::Header& header, Landing& landing, size_t bytes, Error error) = 0;
  /// The peer cannot be reached any more; queued operations to it have been completed with the error.
  virtual void on_peer_lost(PeerId peer, Error error) = 0;

 protected:
  ~Sink() = default;
};

class Path {
 public:
  virtual ~Path() = default;
  const PathProperties& properties() const { return properties_; }

  /// Whether this path can carry messages to `peer`. Constant once start-up is over.
  virtual bool reaches(PeerId peer) const = 0;
  /// Sends a whole contiguous message now, copying what it must: true; or takes nothing: false (the way is full, or
  /// earlier messages are queued), and the caller uses `enqueue`. bytes <= properties().eager_bytes, or
  /// kAlwaysWholeBytes.
  virtual bool try_send(PeerId peer, const wire::Header& header, const void* payload, size_t bytes) = 0;
  /// Queues a message of any size behind everything sent to that peer before, and sends what it can. `done` is called
  /// later, from poll (never from here).
  virtual void enqueue(SendOperation& operation) = 0;
  /// Takes an operation back if none of it has left yet.
  virtual bool withdraw(SendOperation& operation) { return false; }

  /// Makes memory of this rank gettable (puttable) by peers until `conceal`; a zero key where that is impossible.
  virtual RemoteKey expose(const void* address, size_t bytes) { return {}; }
  virtual void conceal(const RemoteKey& key) {}
  /// Adds to the key of memory that is exposed here a claim, which the first who asks gets: whether the owner puts what
  /// is there or the peer gets it is decided when one of them has time. Given back by `conceal`. A key may stay
  /// without.
  virtual void make_claim(RemoteKey& key) {}
  /// Whether whoever asks may transfer that memory. `owner`: whose it is; kNoPeer: this rank's. Keys without a claim:
  /// yes.
  virtual bool claim(PeerId owner, const RemoteKey& key) { return true; }
  /// Memory of the path's own, as long-lived as the path, from which peers that `can_get_lent` confirms can get; null:
  /// there is none (any more), and what the caller allocates can be exposed instead.
  virtual std::byte* lend(size_t bytes, RemoteKey& key) { return nullptr; }
  virtual bool can_get_lent(PeerId peer) const { return can_get(peer); }
  /// Whether get works with this peer (shared memory: whether the kernel allows cross-memory attach, really tried).
  virtual bool can_get(PeerId peer) const { return false; }
  virtual void get(TransferOperation& operation) {
    operation.done(operation, Error(ErrorClass::intern, "path has no get"));
  }
  /// Whether put works with this peer.
  virtual bool can_put(PeerId peer) const { return false; }
  /// Writes `local` into the peer's exposed memory. Done without error: the bytes are there, and a message sent to that
  /// peer from now on is seen after them.
  virtual void put(TransferOperation& operation) {
    operation.done(operation, Error(ErrorClass::intern, "path has no put"));
  }

  /// Looks at the next message from `peer` without taking it: true when it is here as a whole. A receiver that waits
  /// for just this one saves its way through the sink; any other is left for poll. Only where properties().peek says
  /// so.
  virtual bool peek(PeerId peer, PeekedMessage& message) { return false; }
  /// Takes the message that peek has just shown.
  virtual void take(PeerId peer) {}

  /// For peers that must decide whose CPU copies: this rank is in its library now. Called in every round of progress
  /// while that may be asked.
  virtual void show_attention() {}
  /// Whether the peer is in its library just now, so that it would take its part of a copy. May look for a moment (0.5
  /// us), which is saved if the peer `stays`: it has said that it does not leave before it has what this is about.
  virtual bool attentive(PeerId peer, bool stays = false) { return false; }
  /// After a get or put: whether the peer is in its library now, or has been while that lasted. Costs less.
  virtual bool came_back(PeerId peer) { return attentive(peer); }

  /// poll would find nothing: all arrivals come through calls of this rank, and none has left work behind.
  bool dormant() const { return dormant_; }
  /// Moves everything that can move; calls the sink and done-functions. Returns how many messages or completions it
  /// handled.
  virtual int poll() = 0;

  // --- Sleeping (progress/idle.h). A rank that has polled in vain arms every path, looks once more, then sleeps on the
  // file descriptors.
  /// A descriptor that becomes readable when poll would find something after `arm`; -1 when there is nothing to wait
  /// for. Constant after start.
  virtual int wait_fd() const { return -1; }
  /// Asks to be woken through wait_fd. False: something is here already (poll again instead of sleeping).
  virtual bool arm() { return true; }
  virtual void disarm() {}
  /// The next bytes of a message that is arriving are expected sooner than a sleep is worth: who has nothing better to
  /// do polls on.
  virtual bool arriving() const { return false; }
  /// When poll wants to be called although nothing arrives (retransmission, connect timeout): clock time, or ~0.
  virtual uint64_t next_deadline_ns() const { return ~uint64_t{0}; }

  /// True while this rank may still have to do something for bytes handed over: they have not left, or may have to be
  /// sent again. Who leaves the library for long waits for that.
  virtual bool has_unsent() const = 0;
  /// The same at a glance, asked each time the application leaves the library: `now`: something may be left that only
  /// polls bring to an end; `later`: only if a connection breaks (`arm` looks closer). Costs no system call.
  virtual Need unsent_at_a_glance() const { return has_unsent() ? Need::now : Need::nothing; }

  /// Small messages wait in this rank for company until the next poll.
  bool holding() const { return holding_; }
  /// Whether a thread of this rank's polls while the application is away from the library.
  void set_helped(bool helped) { helped_ = helped; }
  /// Where this path counts from now on; the rank's (not owned). A path that nobody told counts for itself.
  void count_into(Counters& counters) {
    counters_ = &counters;
    own_counters_.reset();
  }
  Counters& counters() const {
    if (!counters_) [[unlikely]] {
      own_counters_ = std::make_unique<Counters>();
      counters_ = own_counters_.get();
    }
    return *counters_;
  }

 protected:
  PathProperties properties_;
  bool dormant_ = false;
  bool helped_ = false;
  bool holding_ = false;

 private:
  mutable Counters* counters_ = nullptr;
  mutable std::unique_ptr<Counters> own_counters_;
};

}  // namespace tern
