// The ofi path: messages, get and put over reliable datagram endpoints of libfabric: EFA, Slingshot (cxi), Omni-Path
// (opx, psm2), PSM3, and providers in software. It owns the lanes and its parts, each of which keeps its own state:
//
//   OfiStreams     messages as frames                    -> Sink
//   OfiTransfers   get, put, atomics and flush
//   OfiTuples      queues of posted receives, by the provider's tag matching
//   OfiSilence     pings
//   OfiAdapter     buffers, receives                     -> ofi::Port
//
// There is no connection. A rank that knows a peer's card has its address and may send at once; a frame is believed if
// it has the proof for its sender, its receiver and the lane's incarnation (wire/ofi.h), and is counted and dropped
// otherwise.
//
// Loss: a provider repeats what the network loses, and reports by an error that a peer is not reached any more.
//
// ofi_path.cc: the data's way; ofi_peers.cc: first contact, loss. Units: bytes, nanoseconds. Thread rule: as
// Path.
#pragma once

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "fabric/ofi/ofi_peer.h"
#include "fabric/ofi/ofi_silence.h"
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
  void set_replaceable() override { silence_.set_replaceable(); }

  /// None where another path takes over: libfabric does not say when a peer that was given up has stopped writing into
  /// memory that is not exposed any more.
  RemoteMemory* remote_memory() override {
    return transfers_.remote_properties().get && !silence_.is_replaceable() ? &transfers_ : nullptr;
  }
  TupleQueues* tuple_queues() override;

  int poll() override;
  int poll_shortly() override;
  bool may_send_shortly(const Lane& lane, size_t bytes) const override { return static_cast<const OfiPeer&>(lane).met; }
  int wait_fd() const override { return adapter_.port->descriptor(); }
  bool arm() override;
  void disarm() override { streams_.set_armed(false); }
  uint64_t next_deadline_ns() const override {
    return tuples_ ? std::min(silence_.next_look_ns(), tuples_->next_word_ns()) : silence_.next_look_ns();
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

  Sink& sink_;
  const Lookup lookup_;
  OfiAdapter adapter_;
  OfiStreams streams_;
  OfiTransfers transfers_;
  OfiSilence silence_;
  const Tunables tunables_;            ///< for what is made later
  std::unique_ptr<OfiTuples> tuples_;  ///< null: nobody has asked, or the provider matches no tags
  std::array<uint8_t, 16> salt_{};
  std::string card_;
  std::vector<std::unique_ptr<OfiPeer>> peers_;  ///< by PeerId; null: never heard of
  mutable std::vector<uint8_t> reached_;         ///< options.optional: by PeerId, see reaches
  std::vector<OfiPeer*> busy_, doomed_;
  IntrusiveList<SendOperation> unsendable_;  ///< for lost peers
  uint32_t polls_ = 0;
};

}  // namespace tern
