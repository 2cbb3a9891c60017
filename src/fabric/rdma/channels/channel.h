// Channel: the sender's end of what carries the frames of one ordered pair of ranks, and the transfers between them. A
// channel belongs to one peer and knows how to reach it; which frame goes next is the stream's business
// (message_streams.h).
//
//   kind          queue pair                 a frame arrives by
//   rc            connected, one a peer      a receive of the shared queue
//
// Source: Takagi et al. 2015, section 3.1 (rc: beyond it, as Koop et al. 2008). Units: bytes. Thread rule: the rank's
// lock.
#pragma once

#include <cstddef>
#include <cstdint>

#include "fabric/rdma/hca.h"

namespace tern {

struct RdmaPeer;

enum class ChannelKind : uint8_t { rc };

class Channel {
 public:
  virtual ~Channel() = default;
  ChannelKind kind() const { return kind_; }
  /// Longest frame that it carries.
  size_t frame_bytes() const { return frame_bytes_; }

  /// Posts a frame, which is the one piece of `work`; id and `inlined` are set, the verb and addresses are the
  /// channel's. Frames arrive in this order, and after the transfers posted before. False: no room; nothing has
  /// happened.
  virtual bool post_frame(RdmaPeer& peer, rdma::WorkRequest& work) = 0;
  /// Posts a read, write or atomic; likewise.
  virtual bool post(RdmaPeer& peer, rdma::WorkRequest& work) = 0;

 protected:
  Channel(ChannelKind kind, size_t frame_bytes) : kind_(kind), frame_bytes_(frame_bytes) {}

 private:
  const ChannelKind kind_;
  const size_t frame_bytes_;
};

}  // namespace tern
