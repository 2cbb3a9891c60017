// OfiStreams: messages as frames, and back (wire/ofi.h). A message is one frame, or a first one and more. Frames are
// sent from buffers of the library; those that wait (for the port, or for each other: coalescing.h) share a buffer if
// they have room in it. The receiver puts frames into the order of their numbers: a provider's order of completions
// need not be that of sending.
//
// Units: bytes. Thread rule: the rank's lock; calls the sink from `on_frame` and `fail_all` only, done-functions from
// `complete` and `fail_all`.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "fabric/bursts.h"
#include "fabric/ofi/ofi_adapter.h"
#include "fabric/path.h"
#include "fabric/reception.h"
#include "wire/ofi.h"

namespace tern {

class OfiPeers;

class OfiStreams {
 public:
  /// Both streams with a peer.
  struct OfPeer {
    uint32_t sent = 0, received = 0;  ///< numbered frames of this incarnation (modulo 2^32)
    OfiBuffer* staged = nullptr;      ///< frames that the port has not taken yet: before all others
    IntrusiveList<SendOperation> queue;
    /// Frames whose turn has not come, by number; null: none so far. Copies: the frames still missing may need the
    /// receives.
    std::unique_ptr<std::map<uint32_t, std::vector<std::byte>>> held;
    Reception reception;
  };

  /// All outlive this. `hints`: of the path; `helped`: whether a thread of this rank polls.
  OfiStreams(OfiAdapter& adapter, OfiPeers& peers, Sink& sink, PollHints& hints, const bool& helped)
      : adapter_(adapter), peers_(peers), sink_(sink), hints_(hints), helped_(helped) {}

  /// See Path; the peer's lane is not lost.
  bool try_send(OfiPeer& peer, const wire::Header& header, const void* payload, size_t bytes);
  void enqueue(OfiPeer& peer, SendOperation& operation);
  bool withdraw(SendOperation& operation);
  /// Sends from the queue what the port takes. False: something is left.
  bool pump(OfiPeer& peer);
  /// A frame without a number, which may overtake others. False, and nothing has happened: there is no room.
  bool send_sign(OfiPeer& peer, wire::OfiFrameType type, const void* payload = nullptr, size_t bytes = 0);
  /// Hands the staged frames to the port. False: they are still here (or the peer is doomed).
  bool push(OfiPeer& peer);
  size_t queued() const { return queued_; }

  /// A poll begins: what has waited for the next messages leaves.
  void end_bursts();
  /// This rank is about to sleep, or its thread is: nothing waits.
  void set_armed(bool armed) { armed_ = armed; }

  /// An authentic frame of this incarnation, with a number; it begins at `data`.
  void on_frame(OfiPeer& peer, const wire::OfiFrame& frame, const std::byte* data);
  /// The port is through with a buffer.
  void on_sent(OfiBuffer& buffer, int error);

  /// Calls `done` of what has left. Returns how many.
  int complete();
  bool anything_to_complete() const { return !finished_.empty(); }
  /// The peer is lost: waiting operations, and a message that has partly arrived, end with an error.
  void fail_all(OfiPeer& peer);
  /// The peer's streams restart.
  void reset(OfiPeer& peer);
  /// Operations that are still here belong to requests that are being destroyed too.
  void forget(OfiPeer& peer);

 private:
  bool may_wait(OfiPeer& peer, const wire::Header& header, size_t bytes);
  bool may_leave(const OfiPeer& peer) const;
  OfiBuffer* room_for(OfiPeer& peer, size_t bytes);
  bool stage(OfiPeer& peer, wire::OfiFrame& frame, const void* flat, Cursor* cursor);
  bool stage_next(OfiPeer& peer, SendOperation& operation);
  bool stage_queue(OfiPeer& peer);
  void deliver(OfiPeer& peer, const wire::OfiFrame& frame);

  OfiAdapter& adapter_;
  OfiPeers& peers_;
  Sink& sink_;
  PollHints& hints_;
  const bool& helped_;
  Bursts<OfiPeer> bursts_;
  bool armed_ = false;
  size_t queued_ = 0;                      ///< operations in the peers' queues
  IntrusiveList<SendOperation> finished_;  ///< copied completely; `done` is due
};

}  // namespace tern
