// Path: the only way bytes leave a rank (LA-MPI's word). A path offers, for each peer it reaches, a lane: a reliable
// ordered stream of messages (header + payload). It may also offer get, put and atomics on the peer's memory
// (remote_memory.h), the arbitration of copies (copy_arbiter.h), and queues of posted receives (tuple_queues.h). It
// says what it can do and what is true of it; protocols ask for properties, never for a path's name.
//
// Every function is virtual, so that a wrapper (faults, several paths as one) can stand before any path.
//
// Thread rule: everything here is called under the rank's lock, from inside the library, never concurrently.
// Re-entrance: a path may call its Sink from `poll` only (self also from `try_send`/`enqueue`); the sink may call
// `try_send`, `enqueue`, `get` from there. A path never calls the sink or a done-function from `try_send`, with the
// named exception of the self path.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "base/error.h"
#include "base/intrusive_list.h"
#include "base/need.h"
#include "base/types.h"
#include "datatype/cursor.h"
#include "fabric/copy_arbiter.h"
#include "fabric/lane.h"
#include "fabric/pollable.h"
#include "fabric/remote_memory.h"
#include "fabric/tuple_queues.h"
#include "wire/header.h"

namespace tern {

/// What a path is. Constant after the path is started.
struct PathProperties {
  const char* name = "";
  size_t eager_bytes = 0;          ///< largest message worth sending without asking; also the largest try_send takes
  bool peek = false;               ///< `peek` works
  bool needs_cpu = true;           ///< messages arrive only while this rank (or its event thread) polls
  size_t announce_from_bytes = 0;  ///< shortest receive worth announcing to its sender; 0: none
  size_t hybrid_bytes = 0;         ///< longest message that the library copies so that the sender is free; 0: none
  /// Shortest message that is better enqueued by a sender that does not need its memory back at once: of others
  /// try_send keeps a copy until they have arrived; 0: none.
  size_t keep_from_bytes = 0;
};

/// A message on its way that could not (or should not) leave at once. Lives in the sender's request; the path keeps
/// a link to it from `enqueue` until `done` is called, and reads the user's memory through `payload` meanwhile.
struct SendOperation : ListHook<SendOperation> {
  Lane* lane = nullptr;
  wire::Header header{};
  Cursor payload;            ///< advances as bytes leave
  size_t total_bytes = 0;    ///< of payload, set by the path at enqueue
  bool header_sent = false;  ///< the path's own state
  /// Called once, from poll: the memory may be reused (no error) or the lane is lost (error).
  void (*done)(SendOperation&, Error) = nullptr;
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

/// Arrivals climb through this one interface (p2p implements it). Per lane the calls come in the order of sending.
class Sink {
 public:
  /// A whole message is here; `payload` is valid during the call only.
  virtual void on_message(Lane& from, const wire::Header& header, const std::byte* payload, size_t bytes) = 0;
  /// A header is here, its payload of `bytes` still arriving: where should it go? Paths call this instead of on_message
  /// when the payload is not yet whole; later arrivals from that peer wait until it is landed. Never for a contiguous
  /// payload of at most kAlwaysWholeBytes: protocols' own bodies come whole.
  virtual Landing on_header(Lane& from, const wire::Header& header, size_t bytes) = 0;
  /// The payload announced by on_header has all arrived (or the lane is lost: error).
  virtual void on_landed(Lane& from, const wire::Header& header, Landing& landing, size_t bytes, Error error) = 0;
  /// The peer cannot be reached any more over this lane; queued operations have been completed with the error.
  virtual void on_peer_lost(Lane& from, Error error) = 0;

 protected:
  ~Sink() = default;
};

class Path : public Pollable {
 public:
  const PathProperties& properties() const { return properties_; }

  /// Whether this path can carry messages to `peer`. Constant once start-up is over.
  virtual bool reaches(PeerId peer) const = 0;
  /// The lane to a peer that it reaches; made when first asked for. Owned by the path.
  virtual Lane& lane(PeerId peer) = 0;
  /// Sends a whole contiguous message now, copying what it must: true; or takes nothing: false (the way is full, or
  /// earlier messages are queued), and the caller uses `enqueue`. bytes <= properties().eager_bytes, or
  /// kAlwaysWholeBytes.
  virtual bool try_send(Lane& lane, const wire::Header& header, const void* payload, size_t bytes) = 0;
  /// Queues a message of any size behind everything sent on its lane before, and sends what it can. `done` is called
  /// later, from poll (never from here).
  virtual void enqueue(SendOperation& operation) = 0;
  /// Takes an operation back if none of it has left yet.
  virtual bool withdraw(SendOperation& operation) { return false; }

  /// Looks at the next message on a lane without taking it: true when it is here as a whole. A receiver that waits for
  /// just this one saves its way through the sink; any other is left for poll. Only where properties().peek says so.
  virtual bool peek(Lane& lane, PeekedMessage& message) { return false; }
  /// Takes the message that peek has just shown.
  virtual void take(Lane& lane) {}

  // --- Several paths to one peer (fabric/scheduler/path_scheduler.h).

  /// Gives a lane up: its operations are completed with an error and Sink::on_peer_lost is called, both from a later
  /// poll; what has arrived whole is delivered before that, nothing afterwards.
  virtual void give_up(Lane& lane) {}
  /// A lane that is lost begins anew, as if it had never been used. Both sides do this, with the same `incarnation`,
  /// which they have never used before for this lane: what the network still holds of earlier ones is not believed.
  /// False: it cannot.
  virtual bool reopen(Lane& lane, uint32_t incarnation) { return false; }
  /// Another path reaches the same peers: a silent peer is given up sooner, since nothing is lost by it.
  virtual void set_replaceable() {}

  /// Null: none. Constant; as long-lived as the path.
  virtual RemoteMemory* remote_memory() { return nullptr; }
  virtual CopyArbiter* copy_arbiter() { return nullptr; }
  /// Made when first asked for: who does not use them does not pay for them.
  virtual TupleQueues* tuple_queues() { return nullptr; }

  /// True while this rank may still have to do something for bytes handed over: they have not left, or may have to be
  /// sent again. A rank that leaves the library for long waits for that.
  virtual bool has_unsent() const = 0;
  /// The same without a look at the kernel, asked each time the application leaves the library: `now`: something may be
  /// left that only polls bring to an end; `later`: only if a connection breaks (`arm` looks closer).
  virtual Need unsent_hint() const { return has_unsent() ? Need::now : Need::nothing; }

 protected:
  PathProperties properties_;
};

/// What the hints and counts of most paths need.
class CountingPath : public Path {
 public:
  const PollHints& hints() const override { return hints_; }
  void set_helped(bool helped) override { helped_ = helped; }
  void count_into(Counters& counters) override {
    counters_ = &counters;
    own_counters_.reset();
  }
  /// A path that nobody has told where to count counts for itself.
  Counters& counters() const {
    if (!counters_) [[unlikely]] {
      own_counters_ = std::make_unique<Counters>();
      counters_ = own_counters_.get();
    }
    return *counters_;
  }

 protected:
  PollHints hints_;
  bool helped_ = false;

 private:
  mutable Counters* counters_ = nullptr;
  mutable std::unique_ptr<Counters> own_counters_;
};

}  // namespace tern
