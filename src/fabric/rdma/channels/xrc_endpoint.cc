#include "fabric/rdma/channels/xrc_endpoint.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "base/assert.h"
#include "fabric/rdma/rdma_peer.h"

namespace tern {

/// The sender's end for one peer.
class XrcChannel final : public Channel {
 public:
  XrcChannel(XrcEndpoint& endpoint, size_t frame_bytes)
      : Channel({.kind = ChannelKind::xrc, .frame_bytes = frame_bytes, .carries_transfers = false}),
        endpoint_(endpoint) {}

  bool room(const RdmaPeer& peer, uint32_t requests) const override { return endpoint_.room(peer, requests); }
  void post_frame(RdmaPeer& peer, rdma::WorkRequest& work, rdma::Piece& piece) override {
    work.verb = rdma::Verb::send;
    work.pieces = &piece;
    work.piece_count = 1;
    [[maybe_unused]] const bool posted = endpoint_.post(peer, work);
    TERN_ASSERT(posted);  // the caller has checked for room
  }
  bool post(RdmaPeer&, rdma::WorkRequest&) override {
    TERN_ASSERT(false);  // carries_transfers
    return false;
  }
  // An empty write, which the adapter of its node answers.
  void probe(RdmaPeer& peer) override {
    rdma::WorkRequest work;
    work.verb = rdma::Verb::write;
    work.id = RdmaAdapter::id_of(RdmaTag::inlined, peer.id);
    endpoint_.post(peer, work);
  }

 private:
  XrcEndpoint& endpoint_;
};

void XrcEndpoint::describe(wire::RdmaCard& card) const {
  rdma::QueuePairAddress queue;
  queue.port = adapter_.hca->port();
  queue.number = adapter_.addressed_receives().number();
  card.messages = std::bit_cast<wire::RdmaAddress>(queue);
}

XrcEndpoint::Node& XrcEndpoint::node_of(RdmaPeer& peer) {
  if (peer.xrc.node) return *peer.xrc.node;
  const auto queue = std::bit_cast<rdma::QueuePairAddress>(peer.connection.card.messages);
  std::string name(reinterpret_cast<const char*>(queue.port.bytes), sizeof queue.port.bytes);
  if (!adapter_.hca->capabilities().shared_xrc) name += std::to_string(peer.id);
  peer.xrc.node = &nodes_[name];
  return *peer.xrc.node;
}

bool XrcEndpoint::hello(RdmaPeer& peer, rdma::QueuePairAddress& initiator) {
  Node& node = node_of(peer);
  initiator = {};
  if (node.connected) return true;
  if (node.failed || (node.asked && node.asked != &peer)) return false;
  if (!node.initiator) {
    rdma::QueuePairOptions options = adapter_.connected_options();
    options.kind = rdma::QueuePairKind::xrc_initiator;
    options.receives = nullptr;
    options.srq = nullptr;
    if (Error error = adapter_.hca->make_queue_pair(options, node.initiator)) {
      peers_.break_peer(peer, std::string(error.text()));
      return false;
    }
  }
  node.asked = &peer;
  initiator = node.initiator->address();
  return true;
}

Error XrcEndpoint::on_hello(RdmaPeer& peer, const rdma::QueuePairAddress& initiator) {
  peer.xrc.target = {};
  if (initiator.number == 0) return {};
  auto known =
      std::find_if(targets_.begin(), targets_.end(), [&](const Target& t) { return t.initiator == initiator; });
  if (known == targets_.end()) {
    rdma::QueuePairOptions options = adapter_.connected_options();
    options.kind = rdma::QueuePairKind::xrc_target;
    options.sends = options.receives = nullptr;
    options.srq = nullptr;
    Target made;
    made.initiator = initiator;
    if (Error error = adapter_.hca->make_queue_pair(options, made.pair)) return error;
    if (Error error = made.pair->connect(initiator)) return error;
    known = targets_.insert(targets_.end(), std::move(made));
  }
  peer.xrc.target = known->pair->address();
  return {};
}

Error XrcEndpoint::on_welcome(RdmaPeer& peer, const rdma::QueuePairAddress& target, bool& news) {
  Node& node = node_of(peer);
  news = false;
  if (!node.connected) {
    if (target.number == 0 || node.asked != &peer || !node.initiator)
      return Error(ErrorClass::other, "it has no target for the queue pair of its node");
    if (Error error = node.initiator->connect(target)) return error;
    TERN_DEBUG_ASSERT(!node.connected);
    node.connected = news = true;
    node.asked = nullptr;
  }
  if (std::find(node.peers.begin(), node.peers.end(), &peer) == node.peers.end()) node.peers.push_back(&peer);
  return {};
}

std::unique_ptr<Channel> XrcEndpoint::make_channel(RdmaPeer& peer) {
  return std::make_unique<XrcChannel>(*this, peer.connection.frame_bytes);
}

bool XrcEndpoint::room(const RdmaPeer& peer, uint32_t requests) const {
  const Node* node = peer.xrc.node;
  return node && node->connected && !node->failed && node->outstanding + requests <= adapter_.send_depth &&
         adapter_.room(peer, requests);
}

bool XrcEndpoint::post(RdmaPeer& peer, rdma::WorkRequest& work) {
  if (!room(peer, 1)) return false;
  work.remote_srq = std::bit_cast<rdma::QueuePairAddress>(peer.connection.card.messages).number;
  if (!adapter_.post(peer, *peer.xrc.node->initiator, work)) return false;
  ++peer.xrc.node->outstanding;
  TERN_DEBUG_ASSERT(peer.xrc.node->outstanding <= adapter_.send_depth);
  return true;
}

void XrcEndpoint::on_completion(const rdma::Completion& completion) {
  for (auto& [name, node] : nodes_) {
    if (!node.initiator || node.initiator->number() != completion.queue_pair) continue;
    TERN_DEBUG_ASSERT(node.outstanding != 0);
    --node.outstanding;
    if (completion.status != rdma::Status::success && !std::exchange(node.failed, true)) {
      for (RdmaPeer* peer : std::vector<RdmaPeer*>(node.peers)) {
        peers_.break_peer(*peer, std::string("the queue pair for all ranks of its node has failed: ") +
                                     rdma::status_name(completion.status));
      }
    }
    renew(node);
    return;
  }
}

// After a failure; lanes that are restarted then connect it again.
void XrcEndpoint::renew(Node& node) {
  if (!node.failed || node.outstanding != 0) return;
  node.initiator.reset();
  node.connected = node.failed = false;
}

void XrcEndpoint::forget(RdmaPeer& peer) {
  if (Node* node = std::exchange(peer.xrc.node, nullptr)) {
    std::erase(node->peers, &peer);
    if (node->asked == &peer) node->asked = nullptr;
  }
  peer.xrc.target = {};
}

}  // namespace tern
