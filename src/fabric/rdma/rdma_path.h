// The RDMA path: messages over reliable queue pairs, get and put by RDMA read and write, over any adapter that provides
// Hca. It owns its parts, each of which keeps its own state, and says itself what happens to a peer after a failed
// request:
//
//   RdmaPeerTable     all peers
//   RdmaCompletions   what a completion is about
//   RdmaMemory        gets, puts and atomics, as RemoteMemory
//   RdmaConnections   greetings, queue pairs of peers, signs of life
//   MessageStreams    messages as frames, credit         -> Channel: what carries them (channels/)
//   ChannelSwitches   changes of channels, rings
//   UdEndpoint        frames by datagrams
//   XrcEndpoint       frames by a queue pair for each node
//   RdmaTransfers     get, put, atomics and flush, registered user memory
//   RdmaAdapter       queues, slots, what is outstanding -> rdma::Hca
//
// Errors: a request that fails breaks the connection; when everything outstanding on it has come back, waiting
// operations for that peer are completed with an error and the sink is told.
//
// Source: Takagi et al. 2015, section 2.1 (channels); Small and Yuan 2009 (what rendezvous needs of get and put).
// Units: bytes, nanoseconds. Thread rule: as Path.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "fabric/path.h"
#include "fabric/rdma/channels/channel_policy.h"
#include "fabric/rdma/channels/dc_endpoint.h"
#include "fabric/rdma/memory/rdma_memory.h"
#include "fabric/rdma/rdma_completions.h"
#include "fabric/rdma/rdma_peer_table.h"
#include "fabric/rdma/tuples/rdma_tuples.h"

namespace tern {

class RdmaPath final : public CountingPath, private RdmaPeers {
 public:
  using Lookup = RdmaConnections::Lookup;

  /// Clock and sink outlive the path. Null exactly when `error` is set.
  static std::unique_ptr<RdmaPath> create(const RdmaOptions& options, const Tunables& tunables,
                                          std::unique_ptr<rdma::Hca> hca, Clock& clock, Sink& sink, Lookup lookup,
                                          Error& error);
  ~RdmaPath() override;

  /// What peers need to greet this rank.
  const std::string& card() const { return connections_.card(); }
  const rdma::Hca& hca() const { return *adapter_.hca; }
  /// The node's memory has a word for each of its ranks (AdapterShare::join).
  void share_adapter(std::vector<AdapterUse*> all, AdapterUse& mine);

  bool reaches(PeerId peer) const override { return table_.reaches(peer); }
  Lane& lane(PeerId peer) override { return table_.at(peer); }
  bool try_send(Lane& lane, const wire::Header& header, const void* payload, size_t bytes) override {
    const bool sent = streams_.try_send(static_cast<RdmaPeer&>(lane), header, payload, bytes);
    if (ud_) hints_.holding = ud_->holding();
    return sent;
  }
  void enqueue(SendOperation& operation) override;
  bool withdraw(SendOperation& operation) override;
  RemoteMemory* remote_memory() override { return &memory_; }
  TupleQueues* tuple_queues() override;
  void give_up(Lane& lane) override;
  bool reopen(Lane& lane, uint32_t incarnation) override;
  int poll() override;
  int poll_shortly() override;
  int wait_fd() const override { return adapter_.wait_fd(); }
  bool arm() override;
  uint64_t next_deadline_ns() const override;
  bool has_unsent() const override {
    return adapter_.any_stashed() || streams_.queued() != 0 || adapter_.outstanding() != 0 ||
           (tuples_ && tuples_->has_unsent()) || (ud_ && ud_->has_unsent());
  }

  void count_into(Counters& counters) override {
    CountingPath::count_into(counters);
    memory_.count_into(counters);
  }

  /// Connections that are up. For tests.
  size_t connections() const { return connections_.count(); }
  const RegistrationCache& registrations() const { return transfers_.registrations(); }
  /// Its requests let a peer's messages come by another channel.
  ChannelSwitches& switches() { return switches_; }
  /// Null: no messages go by datagrams.
  const UdEndpoint* datagrams() const { return ud_.get(); }
  /// The channel of the peer's messages to this rank.
  ChannelKind channel(const Lane& lane) const { return static_cast<const RdmaPeer&>(lane).switching.kind; }

 private:
  RdmaPath(const RdmaOptions& options, const Tunables& tunables, std::unique_ptr<rdma::Hca> hca, Clock& clock,
           Sink& sink, Lookup lookup);
  Error start(const Tunables& tunables);
  void pump();
  void publish_counters();

  // RdmaPeers.
  RdmaPeer* find(PeerId peer) override { return reaches(peer) ? &table_.at(peer) : nullptr; }
  void on_connected(RdmaPeer& peer, uint32_t window) override;
  void on_ready(RdmaPeer& peer, bool tell) override;
  Channel* transfer_channel(RdmaPeer& peer) override { return switches_.transfer_channel(peer); }
  void break_peer(RdmaPeer& peer, std::string trouble) override;
  Error reason(const RdmaPeer& peer) const override;

  // rdma_close.cc
  int bury_broken();
  void lose(RdmaPeer& peer);
  void take_events();
  void lose_adapter();

  Sink& sink_;
  // The order matters: queue pairs, which peers and connections own, go before the adapter's queues.
  RdmaAdapter adapter_;
  RdmaTransfers transfers_;
  std::unique_ptr<DcEndpoint> dc_;    ///< null: DC is not used
  std::unique_ptr<UdEndpoint> ud_;    ///< null: no messages go by datagrams
  std::unique_ptr<XrcEndpoint> xrc_;  ///< null: XRC is not used
  RdmaConnections connections_;
  MessageStreams streams_;
  ChannelSwitches switches_;
  RdmaPeerTable table_;
  RdmaMemory memory_;
  RdmaCompletions completions_;
  ChannelPolicy policy_;
  const Tunables tunables_;                   ///< for what is made later
  std::unique_ptr<rdma::RdmaTuples> tuples_;  ///< null: nobody has asked, or the adapter has no XRC
  std::vector<RdmaPeer*> broken_;
  uint32_t polls_ = 0;
};

}  // namespace tern
