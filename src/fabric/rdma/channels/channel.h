// Channel: the sender's end of what carries the frames of one ordered pair of ranks, and the transfers between them. A
// channel belongs to one peer and knows how to reach it. The stream decides which frame goes next (message_streams.h),
// the receiver which channel carries a stream (channel_switches.h).
//
//   kind      queue pair                        a frame arrives by
//   rc        connected, one a peer             a receive of the shared queue
//   dc        one of a pool of DC initiators    a receive of the shared queue
//   rc_rdma   connected, one a peer             a write into a ring, which its owner polls
//   dc_rdma   one of a pool of DC initiators    a write into a ring, which its owner polls
//   xrc       connected, one a node             a receive of the shared queue that has a number
//   ud        one for datagrams to all peers    a receive of the shared queue, as part of a reliable stream
//
// Source: Takagi et al. 2015, section 3.1 (rc, xrc and ud: beyond it, as Koop et al. 2008). Units: bytes. Thread rule:
// the rank's lock.
#pragma once

#include <cstddef>
#include <cstdint>

#include "fabric/rdma/verbs/hca.h"

namespace tern {

struct RdmaPeer;

enum class ChannelKind : uint8_t { rc, dc, rc_rdma, dc_rdma, ud, xrc };
inline constexpr size_t kChannelKinds = 6;  ///< of ChannelKind
/// As TERN_RDMA_CHANNELS has them.
inline constexpr const char* kChannelNames[kChannelKinds] = {"rc", "dc", "rc-rdma", "dc-rdma", "ud", "xrc"};
inline const char* channel_name(ChannelKind kind) { return kChannelNames[size_t(kind)]; }
inline bool has_ring(ChannelKind kind) { return kind == ChannelKind::rc_rdma || kind == ChannelKind::dc_rdma; }

/// What is true of a channel. Constant.
struct ChannelTraits {
  ChannelKind kind = ChannelKind::rc;
  size_t frame_bytes = 0;  ///< longest frame that it carries
  size_t tail_bytes = 0;   ///< free memory needed behind a frame
  uint32_t requests = 1;   ///< requests of the adapter per frame
  /// Even an inlined frame stays in its slot until it is over, because it may be posted again.
  bool keeps_memory = false;
  /// Not null: frames are built here, without a slot, since the channel copies them. Room for the longest.
  std::byte* scratch = nullptr;
  /// False: `post` cannot be used; transfers go by another channel, and frames wait for puts that were begun before.
  bool carries_transfers = true;
};

class Channel {
 public:
  virtual ~Channel() = default;
  const ChannelTraits& traits() const { return traits_; }

  /// Whether there is room for `requests` more.
  virtual bool room(const RdmaPeer& peer, uint32_t requests) const = 0;
  /// Posts a frame, which is `piece`; id and `inlined` of `work` are set, the channel sets the rest. There is room.
  /// Frames arrive in this order, and after the transfers posted before.
  virtual void post_frame(RdmaPeer& peer, rdma::WorkRequest& work, rdma::Piece& piece) = 0;
  /// Posts a read, write or atomic. False: no room; nothing has happened.
  virtual bool post(RdmaPeer& peer, rdma::WorkRequest& work) = 0;
  /// Sends something that the peer's side answers if it is alive.
  virtual void probe(RdmaPeer& peer);

 protected:
  explicit Channel(const ChannelTraits& traits) : traits_(traits) {}

 private:
  const ChannelTraits traits_;
};

}  // namespace tern
