// MessageStreams: messages as frames over each peer's channel, and back.
//
// A message is one frame (wire/rdma.h), or a first one and more, sent from a slot of registered memory (or inlined).
// Frames need credit, so that a peer that does not look is not flooded; the adapter's receiver-not-ready retries take
// care of many peers that use their credit at one time. Credits come back on frames of the other direction, or alone
// when half are due.
//
// Units: bytes. Thread rule: the rank's lock; calls the sink from `on_frame` and `fail_all` only, done-functions from
// `complete` and `fail_all`.
#pragma once

#include <cstdint>
#include <memory>

#include "fabric/path.h"
#include "fabric/rdma/channels/channel.h"
#include "fabric/rdma/rdma_adapter.h"
#include "wire/rdma.h"

namespace tern {

class RdmaPeers;

class MessageStreams {
 public:
  /// A message of several frames, between its first and its last.
  struct Reception {
    bool active = false;
    wire::Header header{};
    Landing landing;
    uint64_t bytes = 0, received = 0;
  };
  /// Both streams with a peer.
  struct OfPeer {
    std::unique_ptr<Channel> channel;  ///< ours to the peer; null: not connected
    uint32_t credits = 0;              ///< frames that we may send
    uint32_t owed = 0;                 ///< frames of the peer that were taken and not yet told
    uint32_t window = 0;               ///< ours, as the peer was told
    IntrusiveList<SendOperation> queue;
    Reception reception;

    bool has_credit() const { return credits != 0; }
    /// A write that takes a receive of the peer, as a frame does.
    void use_credit() { --credits; }
  };

  /// All outlive this.
  MessageStreams(RdmaAdapter& adapter, RdmaPeers& peers, Sink& sink) : adapter_(adapter), peers_(peers), sink_(sink) {}

  /// See Path; the peer's lane is not lost.
  bool try_send(RdmaPeer& peer, const wire::Header& header, const void* payload, size_t bytes);
  void enqueue(RdmaPeer& peer, SendOperation& operation);
  bool withdraw(SendOperation& operation);
  /// Sends of the queue what credit, slots and the send queue allow.
  void pump(RdmaPeer& peer);
  size_t queued() const { return queued_; }

  /// What a receive of the shared queue got. False: it is no frame, or out of step, and the stream is broken.
  void on_frame(RdmaPeer& peer, const std::byte* data, size_t bytes);
  /// A write has taken a receive.
  void on_written(RdmaPeer& peer) { take_into_account(peer); }
  /// Tells the peer what it may send, if that is worth it; `now`: anyway.
  void give_credit(RdmaPeer& peer, bool now = false);

  /// Calls `done` of what has left. How many.
  int complete();
  bool anything_to_complete() const { return !finished_.empty(); }
  /// The peer is lost: what waits, and what has half arrived, ends with an error.
  void fail_all(RdmaPeer& peer);
  /// The peer's streams begin anew.
  void reset(RdmaPeer& peer);

 private:
  bool post_frame(RdmaPeer& peer, wire::RdmaFrameType type, const wire::Header& header, uint64_t message_bytes,
                  const void* flat, Cursor* cursor, size_t bytes);
  void on_message_frame(RdmaPeer& peer, const wire::RdmaFrame& frame);
  void take_into_account(RdmaPeer& peer);

  RdmaAdapter& adapter_;
  RdmaPeers& peers_;
  Sink& sink_;
  size_t queued_ = 0;                      ///< operations in the peers' queues
  IntrusiveList<SendOperation> finished_;  ///< copied altogether; `done` is due
};

}  // namespace tern
