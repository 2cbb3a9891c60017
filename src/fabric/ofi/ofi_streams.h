// OfiStreams: messages as frames, and back (wire/ofi.h). A message is one frame, or a first one and more, each sent
// from a buffer of the library. The receiver puts frames into the order of their numbers: a provider's order of
// completions need not be that of sending.
//
// Units: bytes. Thread rule: the rank's lock; calls the sink from `on_frame` and `fail_all` only, done-functions from
// `complete` and `fail_all`.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

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
    OfiBuffer* staged = nullptr;      ///< a frame that the port has not taken yet: before all others
    IntrusiveList<SendOperation> queue;
    /// Frames whose turn has not come, by number; null: none so far. Copies: the frames still missing may need the
    /// receives.
    std::unique_ptr<std::map<uint32_t, std::vector<std::byte>>> held;
    Reception reception;
  };

  /// All outlive this.
  OfiStreams(OfiAdapter& adapter, OfiPeers& peers, Sink& sink) : adapter_(adapter), peers_(peers), sink_(sink) {}

  /// See Path; the peer's lane is not lost.
  bool try_send(OfiPeer& peer, const wire::Header& header, const void* payload, size_t bytes);
  void enqueue(OfiPeer& peer, SendOperation& operation);
  bool withdraw(SendOperation& operation);
  /// Sends from the queue what the port takes. False: something is left.
  bool pump(OfiPeer& peer);
  /// A frame without a number, which may overtake others. False, and nothing has happened: there is no room.
  bool send_sign(OfiPeer& peer, wire::OfiFrameType type, const void* payload = nullptr, size_t bytes = 0);
  size_t queued() const { return queued_; }

  /// An authentic frame of this incarnation, with a number.
  void on_frame(OfiPeer& peer, const wire::OfiFrame& frame, const std::byte* data, size_t bytes);
  /// The port is through with a frame.
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
  bool may_leave(const OfiPeer& peer) const;
  OfiBuffer* build(OfiPeer& peer, wire::OfiFrame& frame, const void* flat, Cursor* cursor);
  bool push(OfiPeer& peer);
  bool stage_next(OfiPeer& peer, SendOperation& operation);
  void deliver(OfiPeer& peer, const wire::OfiFrame& frame);

  OfiAdapter& adapter_;
  OfiPeers& peers_;
  Sink& sink_;
  size_t queued_ = 0;                      ///< operations in the peers' queues
  IntrusiveList<SendOperation> finished_;  ///< copied completely; `done` is due
};

}  // namespace tern
