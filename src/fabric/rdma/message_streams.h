// MessageStreams: messages as frames over each peer's channel, and back.
//
// A message is one frame (wire/rdma.h), or a first one and more, sent from a slot of registered memory (or inlined).
// Frames need credit, so that a peer that does not poll is not flooded; the adapter's receiver-not-ready retries handle
// the case that many peers use their credit at one time. Credits come back in frames of the other direction, or alone
// when half are due.
//
// Units: bytes. Thread rule: the rank's lock; calls the sink from `on_frame` and `fail_all` only, done-functions from
// `complete` and `fail_all`.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "fabric/path.h"
#include "fabric/rdma/channels/channel.h"
#include "fabric/rdma/rdma_adapter.h"
#include "fabric/reception.h"
#include "wire/rdma.h"

namespace tern {

class ChannelSwitches;
class RdmaPeers;

class MessageStreams {
 public:
  /// Both streams with a peer.
  struct OfPeer {
    std::unique_ptr<Channel> base;        ///< ours to the peer, what streams begin with; null: not connected
    Channel* channel = nullptr;           ///< what carries our frames now; null exactly when `base` is
    uint8_t out_epoch = 0, in_epoch = 0;  ///< channels that our stream, and the peer's, have had
    uint32_t received = 0;                ///< messages (modulo 2^32)
    uint32_t sent = 0;                    ///< frames of messages (modulo 2^32)
    /// Frames of the peer's next epoch that came before the last of this one. Copies, at most a window of them: the
    /// frames still missing may need the receives.
    std::vector<std::vector<std::byte>> held;
    uint32_t credits = 0;        ///< frames that we may send
    uint32_t owed = 0;           ///< frames of the peer that were taken and whose credit is not yet returned
    uint32_t written_early = 0;  ///< receives that writes of the peer's next epoch have taken
    uint32_t window = 0;         ///< ours, as granted to the peer
    IntrusiveList<SendOperation> queue;
    Reception reception;

    bool has_credit() const { return credits != 0; }
    /// A write that takes a receive of the peer, as a frame does.
    void use_credit() { --credits; }
  };

  /// All outlive this.
  MessageStreams(RdmaAdapter& adapter, RdmaPeers& peers, ChannelSwitches& switches, Sink& sink)
      : adapter_(adapter), peers_(peers), switches_(switches), sink_(sink) {}
  /// The peer is connected; how many frames it grants, and over which channel it takes them.
  void begin(RdmaPeer& peer, std::unique_ptr<Channel> base, uint32_t credits);

  /// See Path. An operation for a lost peer ends in the next poll.
  bool try_send(RdmaPeer& peer, const wire::Header& header, const void* payload, size_t bytes);
  void enqueue(RdmaPeer& peer, SendOperation& operation);
  bool withdraw(SendOperation& operation);
  /// Sends from the queue what credit, slots and the send queue allow.
  void pump(RdmaPeer& peer);
  size_t queued() const { return queued_; }

  /// What a receive of the shared queue got: `frame`, parsed from `data`.
  void on_shared_frame(RdmaPeer& peer, const wire::RdmaFrame& frame, const std::byte* data, size_t bytes);
  /// What was in the peer's ring.
  void on_ring_frame(RdmaPeer& peer, const std::byte* data, size_t bytes);
  /// A write of that epoch has taken a receive.
  void on_written(RdmaPeer& peer, uint8_t epoch);
  /// Returns credit to the peer if there is enough of it; `now`: in any case.
  void give_credit(RdmaPeer& peer, bool now = false);

  // --- For ChannelSwitches.
  /// Ends this epoch of our stream. False: there is no room, or no credit.
  bool post_last(RdmaPeer& peer);
  /// False: there is no room.
  bool post_change(RdmaPeer& peer, const wire::RdmaChange& change);
  /// Our next frames go by that channel; how many it grants.
  void change_out(RdmaPeer& peer, Channel& channel, uint32_t credits);
  /// The peer's next frames come by a channel with this grant; handles the frames held for it.
  void change_in(RdmaPeer& peer, uint32_t window);

  uint64_t credit_frames() const { return credit_frames_; }

  /// Calls `done` of what has left, and of what was begun for lost peers. Returns how many.
  int complete();
  bool anything_to_complete() const { return !finished_.empty() || !failed_.empty(); }
  /// The peer is lost: waiting operations, and a message that has partly arrived, end with an error.
  void fail_all(RdmaPeer& peer);
  /// The peer's streams restart.
  void reset(RdmaPeer& peer);

 private:
  static bool waits_for_puts(const RdmaPeer& peer);
  bool post_frame(RdmaPeer& peer, Channel& channel, wire::RdmaFrame& frame, const void* flat, Cursor* cursor);
  void on_frame(RdmaPeer& peer, const wire::RdmaFrame& frame);
  void take_credits(RdmaPeer& peer, const wire::RdmaFrame& frame);
  void on_message_frame(RdmaPeer& peer, const wire::RdmaFrame& frame);
  void take_into_account(RdmaPeer& peer);

  RdmaAdapter& adapter_;
  RdmaPeers& peers_;
  ChannelSwitches& switches_;
  Sink& sink_;
  uint64_t credit_frames_ = 0;
  size_t queued_ = 0;                      ///< operations in the peers' queues, and in `failed_`
  IntrusiveList<SendOperation> finished_;  ///< copied completely; `done` is due
  IntrusiveList<SendOperation> failed_;    ///< for lost peers
};

}  // namespace tern
