// Path: the only way bytes leave a rank (the word is LA-MPI's; Majumder 2004, chapter 2). A path offers, for each peer
// it reaches, a lane: a reliable ordered stream of messages (header + payload). It may also offer get, put and atomics
// on the peer's memory (remote_memory.h), arbitration of copies (copy_arbiter.h), and queues of posted receives
// (tuple_queues.h). It states its properties; protocols ask for properties, never for a path's name.
//
// Every function is virtual, so that a wrapper (faults, several paths as one) can stand before any path.
//
// Thread rule: everything here is called under the rank's lock, from inside the library, never concurrently. A message
// engine's paths (p2p/engines.h) are also called inside of its gate, without that lock: try_send, peek, take,
// poll_shortly, may_send_shortly. There, "the rank's lock" in the parts of a path means the gate.
// Re-entrance: a path may call its Sink from `poll` only (self also from `try_send`/`enqueue`); the sink may call
// `try_send`, `enqueue`, `get` from there. A path never calls the sink or a done-function from `try_send`, with the
// named exception of the self path.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

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

/// What is on its way to or from a peer by one path, for the hang report.
struct InTransit {
  static constexpr uint64_t kUnknown = ~uint64_t{0};  ///< no count or time is so large
  PeerId peer = kNoPeer;
  const char* path = "";
  uint64_t bytes = 0;             ///< from here, not known to have arrived; kUnknown: some
  bool arriving = false;          ///< a message from there has begun to arrive
  uint64_t silent_ms = kUnknown;  ///< since the peer's host was last heard
};

/// What a path is. Constant after the path is started.
struct PathProperties {
  const char* name = "";
  size_t eager_bytes = 0;          ///< largest message worth sending without asking; also the limit of try_send
  bool peek = false;               ///< `peek` and `poll_lane` work
  bool needs_cpu = true;           ///< messages arrive only while this rank (or its event thread) polls
  size_t announce_from_bytes = 0;  ///< shortest receive worth announcing to its sender; 0: none
  size_t hybrid_bytes = 0;         ///< longest message that the library copies so that the sender is free; 0: none
  /// From this size on a sender that does not need its memory back at once should use enqueue: try_send keeps a copy
  /// until the message has arrived; 0: never.
  size_t keep_from_bytes = 0;
  /// Shortest part of a vector that is worth a message of its own, where processes of a node share the work of it: the
  /// processor takes as long for the part as for the message.
  size_t part_bytes = 2048;
};

/// PathProperties::part_bytes of the kernel's sockets, where a message costs system calls, interrupts and wake-ups
/// (reduce and broadcast over 2 and 4 hosts of 4 and 2 ranks that share 2 cores: parts of 4 to 32 KiB take 1.2 to 1.4
/// times as long as the whole, parts of 64 KiB 0.9 to 1.06).
inline constexpr size_t kSocketPartBytes = 64 * 1024;

/// A message that could not (or should not) leave at once. Lives in the sender's request; the path keeps a link to it
/// from `enqueue` until `done` is called, and reads the user's memory through `payload` meanwhile.
struct SendOperation : ListHook<SendOperation> {
  Lane* lane = nullptr;
  wire::Header header{};
  /// Called once, from poll: the memory may be reused (no error) or the lane is lost (error).
  void (*done)(SendOperation&, Error) = nullptr;
  size_t total_bytes = 0;    ///< of payload, set by the path at enqueue
  bool header_sent = false;  ///< the path's own state
  Cursor payload;            ///< advances as bytes leave
};

/// Where the payload of an arriving message goes.
struct Landing {
  Cursor target;          ///< the first `target.remaining()` bytes go here; the rest is dropped
  void* token = nullptr;  ///< the sink's; paths pass it back unchanged
  int token_kind = 0;     ///< the sink's
};

/// A whole message that poll would deliver next from a peer; valid until it is taken or poll is called.
struct PeekedMessage {
  const wire::Header* header = nullptr;
  const std::byte* payload = nullptr;
  size_t bytes = 0;
};

/// Contiguous payloads up to this size always come whole, see Sink::on_header.
inline constexpr size_t kAlwaysWholeBytes = 64;

/// Arrivals go up through this one interface (p2p implements it). Per lane the calls come in the order of sending.
class Sink {
 public:
  /// A whole message is here; `payload` is valid during the call only.
  virtual void on_message(Lane& from, const wire::Header& header, const std::byte* payload, size_t bytes) = 0;
  /// A header is here, its payload of `bytes` is still arriving: returns where it goes. Paths call this instead of
  /// on_message when the payload is not yet complete; later arrivals from that peer wait until it has landed. Never
  /// called for a contiguous payload of at most kAlwaysWholeBytes, so protocols' bodies come whole.
  virtual Landing on_header(Lane& from, const wire::Header& header, size_t bytes) = 0;
  /// The payload announced by on_header has arrived completely (or the lane is lost: error).
  virtual void on_landed(Lane& from, const wire::Header& header, Landing& landing, size_t bytes, Error error) = 0;
  /// The peer cannot be reached any more over this lane; queued operations have been completed with the error.
  virtual void on_peer_lost(Lane& from, Error error) = 0;
  /// The lane goes on by another path, which has none of its tuple queues: they carry nothing any more. What they have
  /// delivered was told before, on both sides: the peer's messages that come from now on were sent after its own call.
  virtual void on_queues_lost(Lane& from) {}

 protected:
  ~Sink() = default;
};

class Path : public Pollable {
 public:
  const PathProperties& properties() const { return properties_; }

  /// Whether this path can carry messages to `peer`. Constant after start-up.
  virtual bool reaches(PeerId peer) const = 0;
  /// The lane to a peer that it reaches; made on the first call. Owned by the path.
  virtual Lane& lane(PeerId peer) = 0;
  /// Sends a whole contiguous message now, copying what it must: true. Or takes nothing: false (the way is full, or
  /// earlier messages are queued); the caller then uses `enqueue`. bytes <= properties().eager_bytes, or
  /// kAlwaysWholeBytes.
  virtual bool try_send(Lane& lane, const wire::Header& header, const void* payload, size_t bytes) = 0;
  /// As try_send, for a message of at most kAlwaysWholeBytes whose rank may go off computing for long: what does not
  /// leave now would have to wait for that. So the path may have room for it that it has not for other messages.
  virtual bool try_post(Lane& lane, const wire::Header& header, const void* payload, size_t bytes) {
    return try_send(lane, header, payload, bytes);
  }
  /// Queues a message of any size behind everything sent on its lane before, and sends what it can. `done` is called
  /// from a later poll, never from here.
  virtual void enqueue(SendOperation& operation) = 0;
  /// Takes an operation back if none of it has left yet.
  virtual bool withdraw(SendOperation& operation) { return false; }

  /// Shows the next message on a lane without taking it: true when it is here as a whole. A receiver that waits for
  /// exactly this message takes it without going through the sink; other messages are left for poll. Only where
  /// properties().peek says so.
  virtual bool peek(Lane& lane, PeekedMessage& message) { return false; }
  /// Takes the message that peek has just shown.
  virtual void take(Lane& lane) {}
  /// The part of poll that concerns what has come from one peer; as poll.
  virtual int poll_lane(Lane& lane) { return poll(); }

  // --- For a thread that has this path alone, and not the rank (p2p/engines.h): calls that need nothing of the rank
  // but what the path and its sink own.
  /// Sends what is held back or blocked, and takes messages from lanes in use to the sink, which keeps those that need
  /// the rank (later_sink.h). Reads no card, loses no peer, ends no operation. Returns how many messages came. -1:
  /// something is left to poll, or may be.
  virtual int poll_shortly() { return -1; }
  /// Whether try_send on this lane needs nothing of the rank for a message of `bytes` bytes.
  virtual bool may_send_shortly(const Lane& lane, size_t bytes) const { return true; }

  // --- Several paths to one peer (fabric/scheduler/path_scheduler.h).

  /// Gives a lane up: its operations are completed with an error and Sink::on_peer_lost is called, both from a later
  /// poll. What has arrived completely is delivered before that, nothing afterwards.
  virtual void give_up(Lane& lane) {}
  /// Restarts a lost lane as if it had never been used. Both sides call this with the same `incarnation`, which they
  /// have never used before for this lane; the path drops what the network still holds of earlier ones. False: it
  /// cannot.
  virtual bool reopen(Lane& lane, uint32_t incarnation) { return false; }
  /// Another path reaches the same peers: this path may give up a silent peer sooner, since nothing is lost by it.
  /// Called before the path is used, and before it is asked for its remote memory.
  virtual void set_replaceable() {}

  /// Null: none. Constant; as long-lived as the path.
  virtual RemoteMemory* remote_memory() { return nullptr; }
  virtual CopyArbiter* copy_arbiter() { return nullptr; }
  /// Made on the first call: ranks that do not use them do not pay for them.
  virtual TupleQueues* tuple_queues() { return nullptr; }

  /// True while this rank may still have to do something for bytes handed over: they have not left, or may have to be
  /// sent again. A rank that leaves the library for a long time waits until this is false.
  virtual bool has_unsent() const = 0;
  /// What has left and is not known to have arrived, or has arrived in part; asks the kernel. Added to `all`.
  virtual void tell_on_the_way(std::vector<InTransit>& all) {}
  /// As has_unsent without asking the kernel; called each time the application leaves the library. `now`: only polls
  /// can finish what may be left. `later`: polls are needed only if a connection breaks (`arm` checks more closely).
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
  /// Where the path counts until count_into is called.
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
