// The ofi path: messages, get and put over reliable datagram endpoints of libfabric: EFA, Slingshot (cxi), Omni-Path
// (opx, psm2), PSM3, and providers in software. It owns the lanes and its parts, each of which keeps its own state:
//
//   OfiStreams     messages as frames                    -> Sink
//   OfiTransfers   get, put, atomics and flush
//   OfiTuples      queues of posted receives, by the provider's tag matching
//   OfiAdapter     buffers, receives                     -> ofi::Port
//
// There is no connection. A rank that knows a peer's card has its address and may send at once; a frame is believed if
// it has the proof for its sender, its receiver and the lane's incarnation (wire/ofi.h), and is counted and dropped
// otherwise.
//
// Loss: a provider repeats what the network loses, and reports by an error that a peer is not reached any more. A peer
// that only receives notices that by pings to silent peers. Where another path reaches the same peers, a peer that
// leaves pings unanswered for TERN_OFI_FAILOVER_MS is given up, too.
//
// ofi_path.cc: the data's way; ofi_peers.cc: first contact, silence, loss. Units: bytes, nanoseconds. Thread rule: as
// Path.
#pragma once

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "fabric/ofi/ofi_peer.h"
#include "fabric/ofi/ofi_tuples.h"
#include "fabric/path.h"

namespace tern {

class OfiPath final : public CountingPath, private OfiPeers {
 public:
  /// Gets what `peer` published as its card; called on first contact only. May block.
  using Lookup = std::function<Error(PeerId peer, std::string& card)>;

  /// Clock and sink outlive the path. Null exactly when `error` is set.
  static std::unique_ptr<OfiPath> create(const OfiOptions& options, const Tunables& tunables,
                                         std::unique_ptr<ofi::Port> port, Clock& clock, Sink& sink, Lookup lookup,
                                         Error& error);
  ~OfiPath() override;

  const std::string& card() const { return card_; }
  const ofi::Capabilities& capabilities() const { return adapter_.able(); }

  bool reaches(PeerId peer) const override;
  Lane& lane(PeerId peer) override { return peer_at(peer); }
  bool try_send(Lane& lane, const wire::Header& header, const void* payload, size_t bytes) override;
  void enqueue(SendOperation& operation) override;
  bool withdraw(SendOperation& operation) override;
  void give_up(Lane& lane) override;
  bool reopen(Lane& lane, uint32_t incarnation) override;
  void set_replaceable() override { replaceable_ = true; }

  /// None where another path takes over: libfabric does not say when a peer that was given up has stopped writing into
  /// memory that is not exposed any more.
  RemoteMemory* remote_memory() override {
    return transfers_.remote_properties().get && !replaceable_ ? &transfers_ : nullptr;
  }
  TupleQueues* tuple_queues() override;

  int poll() override;
  int wait_fd() const override { return adapter_.port->descriptor(); }
  bool arm() override;
  void disarm() override { streams_.set_armed(false); }
  uint64_t next_deadline_ns() const override {
    return tuples_ ? std::min(next_look_ns_, tuples_->next_word_ns()) : next_look_ns_;
  }
  bool has_unsent() const override { return anything_now() || (tuples_ && tuples_->owes_ever()); }
  Need unsent_hint() const override { return anything_now() ? Need::now : Need::nothing; }

 private:
  OfiPath(const OfiOptions& options, const Tunables& tunables, std::unique_ptr<ofi::Port> port, Clock& clock,
          Sink& sink, Lookup lookup);

  // ofi_path.cc
  bool anything_now() const;
  int take_completions();
  void handle(const ofi::Completion& completion);
  void on_receive(const ofi::Completion& completion);
  void on_frame(const wire::OfiFrame& frame, const std::byte* data);
  void pump_busy();
  void keep_busy(OfiPeer& peer) override;

  // ofi_peers.cc
  Error start();
  OfiPeer& peer_at(PeerId id);
  OfiPeer& own() override { return peer_at(adapter_.options.peers->me()); }
  Error read_card(PeerId id, wire::OfiCard& card) const;
  Error insert(OfiPeer& peer);
  bool meet(OfiPeer& peer) override;
  void doom(OfiPeer& peer, std::string trouble) override;
  Error reason(const OfiPeer& peer) const override;
  int lose_doomed();
  void look_after(uint64_t now_ns);
  void look_after(OfiPeer& peer, uint64_t now_ns);

  Sink& sink_;
  const Lookup lookup_;
  OfiAdapter adapter_;
  OfiStreams streams_;
  OfiTransfers transfers_;
  const Tunables tunables_;            ///< for what is made later
  std::unique_ptr<OfiTuples> tuples_;  ///< null: nobody has asked, or the provider matches no tags
  std::array<uint8_t, 16> salt_{};
  std::string card_;
  const uint64_t keepalive_ns_, failover_ns_;
  bool replaceable_ = false;                     ///< another path reaches the same peers
  std::vector<std::unique_ptr<OfiPeer>> peers_;  ///< by PeerId; null: never heard of
  mutable std::vector<uint8_t> reached_;         ///< options.optional: by PeerId, see reaches
  std::vector<OfiPeer*> busy_, doomed_;
  IntrusiveList<SendOperation> unsendable_;  ///< for lost peers
  uint64_t next_look_ns_ = ~uint64_t{0};     ///< ~0: no peer was heard or spoken to
  uint32_t polls_ = 0;
};

}  // namespace tern
