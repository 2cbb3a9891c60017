#include "fabric/rdma/channels/ud_endpoint.h"

#include <sodium.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/assert.h"
#include "fabric/rdma/rdma_peer.h"

namespace tern {
namespace {

constexpr uint32_t kNoSlot = ~uint32_t{0};  // of a datagram that was inlined

// What a posted datagram's completion names: the peer above, the slot below.
uint64_t id_of(PeerId peer, uint32_t slot) {
  return RdmaAdapter::id_of(RdmaTag::datagram, uint64_t{peer} << 32 | slot);
}

// Unacknowledged bytes of one peer: as many as a window of 32 frames of 8 KB has.
constexpr size_t kWindowBytes = 256 * 1024;
// What sealing or checking a datagram takes a simulated CPU (fabric/udp/seal.h).
constexpr uint64_t kSeal_ns = 41;

// Frames are all the streams carry; their kind means nothing here.
constexpr wire::Header kFrameHeader{wire::Kind::eager};

/// The sender's end for one peer.
class UdChannel final : public Channel {
 public:
  UdChannel(UdEndpoint& endpoint, size_t frame_bytes, std::byte* scratch)
      : Channel({.kind = ChannelKind::ud, .frame_bytes = frame_bytes, .scratch = scratch, .carries_transfers = false}),
        endpoint_(endpoint) {}

  bool room(const RdmaPeer& peer, uint32_t) const override { return endpoint_.may_send(peer, traits().frame_bytes); }
  void post_frame(RdmaPeer& peer, rdma::WorkRequest&, rdma::Piece& piece) override {
    endpoint_.send_frame(peer, reinterpret_cast<const std::byte*>(piece.address), piece.bytes);
  }
  bool post(RdmaPeer&, rdma::WorkRequest&) override {
    TERN_ASSERT(false);  // carries_transfers
    return false;
  }
  void probe(RdmaPeer& peer) override { endpoint_.probe(peer); }

 private:
  UdEndpoint& endpoint_;
};

UdpSalt salt_of(UdpSalt salt, uint32_t incarnation) {
  for (size_t i = 0; i < sizeof incarnation; ++i) salt[i] ^= uint8_t(incarnation >> (8 * i));
  return salt;
}

}  // namespace

UdEndpoint::UdEndpoint(RdmaAdapter& adapter, RdmaPeers& peers, RdmaArrivals& arrivals, const Tunables& tunables)
    : adapter_(adapter),
      peers_(peers),
      arrivals_(arrivals),
      timeout_ns_(uint64_t(tunables.rdma_ud_timeout_s) * 1'000'000'000),
      shared_{.self = adapter.options.peers->my_name(),
              .port = *this,
              .sink = *this,
              .clock = adapter.clock,
              .counters = &counters_,
              .window_bytes = kWindowBytes},
      scratch_(adapter.slot_bytes) {}

Error UdEndpoint::start() {
  if (sodium_init() < 0) return Error(ErrorClass::other, "libsodium found no source of randomness");
  // From the system, not from the rank's seeded generator: keys must not repeat.
  randombytes_buf(salt_.data(), salt_.size());
  aes_ = DatagramSeal::can_aes();
  rdma::QueuePairOptions options;
  options.kind = rdma::QueuePairKind::ud;
  options.sends = options.receives = &adapter_.completions();
  options.srq = &adapter_.shared_receives();
  options.send_depth = adapter_.send_depth;
  options.inline_bytes = uint32_t(adapter_.inline_bytes);
  // Keeps stray datagrams of strangers out; a datagram is accepted by its seal.
  std::memcpy(&options.key, adapter_.options.key.data(), 4);
  options.key &= 0x7fffffff;  // the upper half is for privileged consumers
  return adapter_.hca->make_queue_pair(options, pair_);
}

void UdEndpoint::describe(wire::RdmaCard& card) const {
  card.datagrams = true;
  card.aes = aes_;
  std::memcpy(card.messages.bytes, &address(), sizeof card.messages.bytes);
  card.salt = salt_;
}

// --- Conversations.

UdEndpoint::Conversation::Conversation(UdpShared& shared, RdmaPeer& peer, const Keys& keys, size_t datagram_bytes)
    : link{shared,
           peer,
           peer.id,
           DatagramSeal(keys.job, keys.me, keys.ours, keys.name, keys.theirs, nullptr, keys.aes),
           DatagramSeal(keys.job, keys.name, keys.theirs, keys.me, keys.ours, nullptr, keys.aes),
           1,
           {}},
      stream(link, datagram_bytes),
      waiting_since_ns(shared.clock.now_ns()) {}

UdEndpoint::Conversation& UdEndpoint::conversation(RdmaPeer& peer) {
  if (peer.datagrams.conversation) [[likely]]
    return *peer.datagrams.conversation;
  const RdmaConnections::OfPeer& its = peer.connection;
  const PeerTable& table = *adapter_.options.peers;
  // A restarted lane has keys of its own, so that old datagrams still in the network are not accepted.
  const Keys keys{adapter_.options.key,
                  table.my_name(),
                  table.name(peer.id),
                  salt_of(salt_, peer.incarnation),
                  salt_of(its.card.salt, peer.incarnation),
                  aes_ && its.card.aes};
  const size_t slot = std::min<size_t>(adapter_.slot_bytes, its.frame_bytes) - rdma::kUdHeaderBytes;
  const size_t longest = std::min<size_t>(slot, adapter_.hca->capabilities().mtu_bytes);
  TERN_DEBUG_ASSERT(its.address_handle && longest != 0);
  peer.datagrams.conversation = std::make_unique<Conversation>(shared_, peer, keys, longest);
  return *peer.datagrams.conversation;
}

std::unique_ptr<Channel> UdEndpoint::make_channel(RdmaPeer& peer) {
  conversation(peer);
  return std::make_unique<UdChannel>(*this, std::min<size_t>(adapter_.slot_bytes, peer.connection.frame_bytes),
                                     scratch_.data());
}

bool UdEndpoint::may_send(const RdmaPeer& peer, size_t bytes) const {
  return peer.datagrams.conversation->stream.may_send(bytes);
}

void UdEndpoint::send_frame(RdmaPeer& peer, const std::byte* frame, size_t bytes) {
  keep_busy(peer);
  peer.datagrams.conversation->stream.send(kFrameHeader, frame, bytes, adapter_.clock.now_ns());
}

void UdEndpoint::probe(RdmaPeer& peer) {
  keep_busy(peer);
  peer.datagrams.conversation->stream.ask(adapter_.clock.now_ns());
}

void UdEndpoint::keep_busy(RdmaPeer& peer) {
  if (std::exchange(peer.datagrams.conversation->busy, true)) return;
  TERN_DEBUG_ASSERT(std::find(busy_.begin(), busy_.end(), &peer) == busy_.end());
  busy_.push_back(&peer);
}

void UdEndpoint::advance(bool all) {
  const uint64_t now_ns = adapter_.clock.now_ns();
  shared_.holding = false;
  for (size_t i = 0; i < busy_.size();) {
    RdmaPeer& peer = *busy_[i];
    if (advance(peer, now_ns, all)) {
      ++i;
      continue;
    }
    peer.datagrams.conversation->busy = false;
    busy_[i] = busy_.back();
    busy_.pop_back();
  }
}

// False: nothing is left to do for that peer.
bool UdEndpoint::advance(RdmaPeer& peer, uint64_t now_ns, bool all) {
  Conversation& its = *peer.datagrams.conversation;
  if (peer.state == RdmaPeer::State::broken) return true;  // it is forgotten soon
  its.stream.advance(now_ns, all);
  if (!its.stream.unacknowledged()) {
    its.waiting_since_ns = now_ns;
    return its.stream.unsent();
  }
  if (timeout_ns_ != 0 && now_ns >= its.waiting_since_ns + timeout_ns_) {
    peers_.break_peer(
        peer, "it has not answered for " + std::to_string(timeout_ns_ / 1'000'000'000) + " s (TERN_RDMA_UD_TIMEOUT_S)");
  }
  return true;
}

uint64_t UdEndpoint::next_deadline_ns() const {
  uint64_t earliest = ~uint64_t{0};
  for (const RdmaPeer* peer : busy_) {
    if (peer->state != RdmaPeer::State::broken)
      earliest = std::min(earliest, peer->datagrams.conversation->stream.deadline_ns());
  }
  return earliest;
}

bool UdEndpoint::has_unsent() const {
  return std::any_of(busy_.begin(), busy_.end(), [](const RdmaPeer* peer) {
    const StreamChannel& stream = peer->datagrams.conversation->stream;
    return stream.unsent() || stream.unacknowledged();
  });
}

void UdEndpoint::forget(RdmaPeer& peer) {
  std::erase(busy_, &peer);
  peer.datagrams.conversation.reset();
}

// --- The queue pair.

size_t UdEndpoint::send(PeerId id, int, const iovec* datagrams, size_t count) {
  RdmaPeer& peer = *peers_.find(id);
  for (size_t i = 0; i < count; ++i) {
    if (!post(peer, datagrams[i])) return i;
  }
  return count;
}

bool UdEndpoint::post(RdmaPeer& peer, const iovec& datagram) {
  if (failed_ || adapter_.failed() || under_way_ == adapter_.send_depth || !adapter_.room(peer)) return false;
  const bool inlined = datagram.iov_len <= adapter_.inline_bytes;
  RdmaSlots& slots = adapter_.slots;
  if (!inlined && !slots.any()) return false;
  rdma::Piece piece{reinterpret_cast<uint64_t>(datagram.iov_base), uint32_t(datagram.iov_len), 0};
  rdma::WorkRequest work;
  work.id = id_of(peer.id, inlined ? kNoSlot : slots.next());
  if (!inlined) {
    piece = slots.piece(slots.next(), datagram.iov_len);
    std::memcpy(slots.memory(slots.next()), datagram.iov_base, datagram.iov_len);
    adapter_.clock.charge_copy(datagram.iov_len);
  }
  adapter_.charge(kSeal_ns);
  work.verb = rdma::Verb::send;
  work.inlined = inlined;
  work.pieces = &piece;
  work.piece_count = 1;
  rdma::QueuePairAddress to;
  std::memcpy(&to, peer.connection.card.messages.bytes, sizeof to);
  work.address_handle = peer.connection.address_handle.get();
  work.remote_number = to.number;
  work.remote_key_of_queue = to.key;
  if (pair_->post({&work, 1}) == 0) return false;
  if (!inlined) slots.take({peer.id, nullptr, piece.bytes});
  TERN_DEBUG_ASSERT(under_way_ < adapter_.send_depth);
  ++under_way_;
  adapter_.sent(peer);
  return true;
}

void UdEndpoint::on_sent(const rdma::Completion& completion) {
  const uint64_t value = RdmaAdapter::value_of(completion.id);
  if (uint32_t(value) != kNoSlot) adapter_.slots.give_back(uint32_t(value));
  TERN_DEBUG_ASSERT(under_way_ != 0);
  --under_way_;
  adapter_.returned(*peers_.find(PeerId(value >> 32)));
  if (completion.status != rdma::Status::success || failed_) on_failure();
}

void UdEndpoint::on_failure() {
  if (!std::exchange(failed_, true)) pair_->fail();
  if (under_way_ != 0) return;
  if (Error error = pair_->reset()) return;  // no datagram leaves any more: as without a network
  failed_ = false;
  TERN_DEBUG_ASSERT(under_way_ == 0);
}

void UdEndpoint::on_arrival(std::byte* data, size_t bytes) {
  wire::Datagram datagram;
  if (!wire::parse_datagram_head(data, bytes, datagram.head)) return;
  RdmaPeer* peer = peers_.find(adapter_.options.peers->find({datagram.head.job, datagram.head.from}));
  if (!peer || !peer->connection.connected || !peer->connection.card.datagrams) return;
  if (peer->state == RdmaPeer::State::broken || peer->state == RdmaPeer::State::lost) return;
  Conversation& its = conversation(*peer);
  adapter_.charge(kSeal_ns);
  const uint64_t number = datagram.head.number;
  if (!its.link.checking.open(data, bytes, number) || !wire::parse_datagram(data, bytes, datagram) ||
      its.link.received.contains(number))
    return;
  const uint64_t now_ns = adapter_.clock.now_ns();
  its.waiting_since_ns = now_ns;
  peer->heard = true;
  keep_busy(*peer);
  int handled = 0;
  if (!its.stream.on_datagram(datagram, now_ns, handled)) peers_.break_peer(*peer, "the peer sent what is no frame");
}

// --- Frames.

void UdEndpoint::on_message(Lane& from, const wire::Header&, const std::byte* frame, size_t bytes) {
  arrivals_.on_stream_frame(static_cast<RdmaPeer&>(from), frame, bytes);
}

Landing UdEndpoint::on_header(Lane& from, const wire::Header&, size_t bytes) {
  auto& peer = static_cast<RdmaPeer&>(from);
  std::vector<std::byte>& landing = peer.datagrams.conversation->landing;
  Landing result;
  if (bytes > adapter_.slot_bytes) {
    peers_.break_peer(peer, "the peer sent a frame that is too long");
  } else {
    landing.resize(bytes);
    result.target = Cursor::bytes(landing.data(), bytes);
  }
  return result;
}

void UdEndpoint::on_landed(Lane& from, const wire::Header&, Landing&, size_t bytes, Error error) {
  auto& peer = static_cast<RdmaPeer&>(from);
  if (!error && bytes <= adapter_.slot_bytes)
    arrivals_.on_stream_frame(peer, peer.datagrams.conversation->landing.data(), bytes);
}

}  // namespace tern
