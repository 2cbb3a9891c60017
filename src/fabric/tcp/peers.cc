#include "fabric/tcp/peers.h"

#include <algorithm>

namespace tern::tcp {

Peer& Peers::at(PeerId id) {
  TERN_ASSERT(reaches(id));
  if (peers_.size() <= id) peers_.resize(table_.size());
  std::unique_ptr<Peer>& slot = peers_[id];
  if (!slot) slot = std::make_unique<Peer>(id, sink_, sending_);
  TERN_DEBUG_ASSERT(slot->id == id);
  return *slot;
}

Stream& Peers::stream(Peer& peer, size_t index) {
  TERN_ASSERT(index < wire::kMaxStreams);
  std::unique_ptr<Stream>& slot = peer.streams[index];
  if (!slot) slot = std::make_unique<Stream>(peer, uint8_t(index), sending_);
  TERN_DEBUG_ASSERT(slot->index == index && &slot->peer == &peer);
  return *slot;
}

void Peers::reopen(Peer& peer) {
  TERN_DEBUG_ASSERT(peer.state == PeerState::lost && !peer.doomed && !peer.streams[0]);
  (void)stream(peer, 0);
  peer.state = PeerState::open;
  peer.announced = peer.given_up = false;
  peer.trouble.clear();
}

void Peers::doom(Peer& peer, int error_class, std::string trouble) {
  if (peer.trouble != trouble) peer.trouble = std::move(trouble);
  peer.error_class = error_class;
  if (peer.doomed) return;
  peer.doomed = true;
  TERN_DEBUG_ASSERT(std::find(doomed_.begin(), doomed_.end(), &peer) == doomed_.end());
  doomed_.push_back(&peer);
}

}  // namespace tern::tcp
