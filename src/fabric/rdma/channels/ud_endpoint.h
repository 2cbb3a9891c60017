// UdEndpoint: a rank's unreliable datagrams: one queue pair for all peers, which feeds the shared receive queue. Frames
// travel in a reliable stream for each peer, by the protocol of the UDP path (fabric/udp/stream_channel.h: seals,
// acknowledgements, repetition, pacing), for which this is the way out. A frame is a message of that stream:
//
//   frame --> StreamChannel --> datagram in a send slot --> UD queue pair ... shared receive --> StreamChannel -->
//   frame
//
// So it takes about 2 KB for each peer that is spoken to, no queue pair, and no memory of the adapter. Datagrams may be
// lost (a receiver without receives drops them), doubled, or come out of order. A conversation begins without a
// greeting of its own: the addresses and salts of both are on their cards, and each makes its end when it first sends
// or hears.
//
// A peer's adapter does not answer datagrams. So a peer that computes is silent, and a dead one is known only by a
// silence of TERN_RDMA_UD_TIMEOUT_S.
//
// Units: bytes, nanoseconds. Thread rule: the rank's lock.
#pragma once

#include <memory>
#include <vector>

#include "fabric/rdma/channels/channel.h"
#include "fabric/rdma/rdma_adapter.h"
#include "fabric/udp/stream_channel.h"
#include "wire/rdma.h"

namespace tern {

class RdmaArrivals;
class RdmaPeers;

class UdEndpoint final : public DatagramOutlet, private Sink {
 public:
  /// Of the seals of both directions (fabric/udp/seal.h).
  struct Keys {
    UdpKey job;
    RankName me, name;
    UdpSalt ours, theirs;
    bool aes = false;
  };
  /// With one peer.
  struct Conversation {
    Conversation(UdpShared& shared, RdmaPeer& peer, const Keys& keys, size_t datagram_bytes);
    UdpLink link;
    StreamChannel stream;
    std::vector<std::byte> landing;  ///< a frame that comes in several datagrams
    uint64_t waiting_since_ns = 0;   ///< when it was heard last, or owed no acknowledgement
    bool busy = false;               ///< in busy_
  };
  struct OfPeer {
    std::unique_ptr<Conversation> conversation;  ///< null: it has not begun
  };

  /// Both outlive this.
  UdEndpoint(RdmaAdapter& adapter, RdmaPeers& peers, RdmaArrivals& arrivals, const Tunables& tunables);
  /// Error: the adapter has no queue pair left.
  Error start();
  const rdma::QueuePairAddress& address() const { return pair_->address(); }
  uint32_t number() const { return pair_->number(); }
  /// What peers must know.
  void describe(wire::RdmaCard& card) const;

  /// The sender's end for that peer's frames, which must have datagrams, too.
  std::unique_ptr<Channel> make_channel(RdmaPeer& peer);
  bool may_send(const RdmaPeer& peer, size_t bytes) const;
  /// A frame, for which may_send is true.
  void send_frame(RdmaPeer& peer, const std::byte* frame, size_t bytes);
  /// See Channel.
  void probe(RdmaPeer& peer);

  /// What a receive of the shared queue got from our queue pair, without the adapter's head. May be changed.
  void on_arrival(std::byte* data, size_t bytes);
  void on_sent(const rdma::Completion& completion);
  /// The queue pair has failed (a software adapter whose link is down): what was under way is lost, and repeated.
  void on_failure();
  /// Sends what time and windows allow; `all`: also acknowledgements that could wait (before sleeping).
  void advance(bool all);
  bool busy() const { return !busy_.empty(); }
  /// Frames are held back until the next poll, to be sent together with others.
  bool holding() const { return shared_.holding; }
  uint64_t next_deadline_ns() const;
  bool has_unsent() const;
  /// Nothing of that peer is outstanding, or expected any more.
  void forget(RdmaPeer& peer);

  uint64_t datagrams() const { return counters_.udp_sent; }
  uint64_t repeated() const { return counters_.udp_repeated; }

 private:
  size_t send(PeerId peer, int channel, const iovec* datagrams, size_t count) override;
  bool post(RdmaPeer& peer, const iovec& datagram);
  Conversation& conversation(RdmaPeer& peer);
  void keep_busy(RdmaPeer& peer);
  bool advance(RdmaPeer& peer, uint64_t now_ns, bool all);

  // Sink: frames come out of the streams as messages.
  void on_message(Lane& from, const wire::Header&, const std::byte* frame, size_t bytes) override;
  Landing on_header(Lane& from, const wire::Header&, size_t bytes) override;
  void on_landed(Lane& from, const wire::Header&, Landing&, size_t bytes, Error error) override;
  void on_peer_lost(Lane&, Error) override {}

  RdmaAdapter& adapter_;
  RdmaPeers& peers_;
  RdmaArrivals& arrivals_;
  const uint64_t timeout_ns_;
  UdpShared shared_;
  Counters counters_;  ///< of the streams: they count as the UDP path does
  UdpSalt salt_{};
  bool aes_ = false;
  std::unique_ptr<rdma::QueuePair> pair_;
  std::vector<std::byte> scratch_;
  std::vector<RdmaPeer*> busy_;  ///< with running timers, or something to send
  uint32_t under_way_ = 0;       ///< posted datagrams
  bool failed_ = false;          ///< the queue pair: it is reset when everything posted has come back
};

}  // namespace tern
