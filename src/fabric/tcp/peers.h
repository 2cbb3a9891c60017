// Peers: what the TCP path knows of each peer, with its streams, and which peers are lost in the next poll.
//
// Invariant: a peer is in the list of the doomed exactly when its `doomed` is set. A peer and its streams stay where
// they are until they are dropped. Thread rule: under the rank's lock.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/assert.h"
#include "base/peer_table.h"
#include "fabric/tcp/links.h"

namespace tern::tcp {

class Peers {
 public:
  /// None is owned; all outlive this.
  Peers(const PeerTable& table, Sink& sink, TcpOutbound::Shared& sending)
      : table_(table), sink_(sink), sending_(sending) {}

  const PeerTable& table() const { return table_; }
  bool reaches(PeerId id) const { return id != table_.me() && id < table_.size(); }
  /// Made on the first call.
  Peer& at(PeerId id);
  Stream& stream(Peer& peer, size_t index);
  /// Calls `visit` with each that was ever asked for.
  template <typename Visit>
  void each(Visit&& visit) const {
    for (const auto& peer : peers_) {
      if (peer) visit(*peer);
    }
  }
  template <typename Visit>
  void each_stream(Visit&& visit) const {
    each([&](Peer& peer) {
      for (const auto& stream : peer.streams) {
        if (stream) visit(*stream);
      }
    });
  }
  /// Of a lost peer, whose streams are dropped: its stream restarts at its first byte, and so does the peer's.
  void reopen(Peer& peer);

  /// For places that must not call the sink: the peer is lost in the next poll. If it is lost already, what is queued
  /// for it fails in that poll.
  void doom(Peer& peer, int error_class, std::string trouble);
  bool any_doomed() const { return !doomed_.empty(); }
  /// Calls `visit` with each that was doomed so far. It may doom others, for the next poll.
  template <typename Visit>
  void visit_doomed(Visit&& visit) {
    for (Peer* peer : std::exchange(doomed_, {})) {
      TERN_DEBUG_ASSERT(peer->doomed);
      peer->doomed = false;
      visit(*peer);
    }
  }

 private:
  const PeerTable& table_;
  Sink& sink_;
  TcpOutbound::Shared& sending_;
  std::vector<std::unique_ptr<Peer>> peers_;  ///< by PeerId; null: never heard of
  std::vector<Peer*> doomed_;
};

}  // namespace tern::tcp
