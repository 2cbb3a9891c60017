// The RDMA path: messages over reliable queue pairs, get and put by RDMA read and write, over any adapter that provides
// Hca. It owns the lanes and its parts, each of which keeps its own state. The path itself decides what a completion is
// about and what happens to a peer after a failed request:
//
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
#include "fabric/rdma/rdma_peer.h"
#include "fabric/rdma/tuples/rdma_tuples.h"

namespace tern {

class RdmaPath final : public CountingPath, public RemoteMemory, private RdmaPeers {
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

  bool reaches(PeerId peer) const override {
    return peer != adapter_.options.peers->me() && peer < adapter_.options.peers->size();
  }
  Lane& lane(PeerId peer) override { return peer_at(peer); }
  bool try_send(Lane& lane, const wire::Header& header, const void* payload, size_t bytes) override {
    const bool sent = streams_.try_send(static_cast<RdmaPeer&>(lane), header, payload, bytes);
    if (ud_) hints_.holding = ud_->holding();
    return sent;
  }
  void enqueue(SendOperation& operation) override;
  bool withdraw(SendOperation& operation) override;
  RemoteMemory* remote_memory() override { return this; }
  RemoteKey expose(const void* address, size_t bytes, RemoteAccess access) override;
  void conceal(const RemoteKey& key) override { transfers_.conceal(key); }
  bool can_get(Lane&) override { return true; }
  void get(TransferOperation& operation) override { transfer(operation, false); }
  bool can_put(Lane&) override { return true; }
  void put(TransferOperation& operation) override { transfer(operation, true); }
  Lane* own_lane() override;
  TupleQueues* tuple_queues() override;
  void atomic(AtomicOperation& operation) override { begin(operation); }
  void flush(FlushOperation& operation) override { begin(operation); }
  void give_up(Lane& lane) override;
  bool reopen(Lane& lane, uint32_t incarnation) override;
  int poll() override;
  int wait_fd() const override { return adapter_.wait_fd(); }
  bool arm() override;
  uint64_t next_deadline_ns() const override;
  bool has_unsent() const override {
    return streams_.queued() != 0 || adapter_.outstanding() != 0 || (tuples_ && tuples_->has_unsent()) ||
           (ud_ && ud_->has_unsent());
  }

  /// Connections that are up. For tests.
  size_t connections() const { return connections_.count(); }
  const RegistrationCache& registrations() const { return transfers_.registrations(); }
  const ChannelSwitches& switches() const { return switches_; }
  /// Null: no messages go by datagrams.
  const UdEndpoint* datagrams() const { return ud_.get(); }
  /// Lets a peer's messages come by another channel from now on. False: impossible, or another change is under way.
  bool change_channel(Lane& lane, ChannelKind kind) { return switches_.request(static_cast<RdmaPeer&>(lane), kind); }
  /// The channel of the peer's messages to this rank.
  ChannelKind channel(const Lane& lane) const { return static_cast<const RdmaPeer&>(lane).switching.kind; }

 private:
  RdmaPath(const RdmaOptions& options, const Tunables& tunables, std::unique_ptr<rdma::Hca> hca, Clock& clock,
           Sink& sink, Lookup lookup);
  Error start(const Tunables& tunables);
  RdmaPeer& peer_at(PeerId id);
  /// The lane to this rank's own memory.
  bool is_me(const RdmaPeer& peer) const { return peer.id == adapter_.options.peers->me(); }
  void transfer(TransferOperation& operation, bool is_put);
  template <typename Operation>
  void begin(Operation& operation);
  void count_registrations();

  int take_completions();
  void handle(const rdma::Completion& completion);
  void on_receive(const rdma::Completion& completion);
  bool hears(RdmaPeer& peer);
  bool returned(RdmaPeer& peer, const rdma::Completion& completion);
  bool anything_to_complete() const {
    return streams_.anything_to_complete() || !unsendable_.empty() || !untransferable_.empty();
  }
  int complete_finished();
  void pump_blocked();
  void run_timers();
  void apply_policy(uint64_t now_ns);
  void publish_counters();
  bool arm_rings();

  // RdmaPeers.
  RdmaPeer* find(PeerId peer) override { return reaches(peer) ? &peer_at(peer) : nullptr; }
  void on_connected(RdmaPeer& peer, uint32_t window) override;
  void on_ready(RdmaPeer& peer, bool tell) override;
  void on_stream_frame(RdmaPeer& peer, const std::byte* data, size_t bytes) override;
  Channel* transfer_channel(RdmaPeer& peer) override { return switches_.transfer_channel(peer); }
  void break_peer(RdmaPeer& peer, std::string trouble) override;
  void on_completion(const rdma::Completion& completion) override { handle(completion); }
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
  ChannelPolicy policy_;
  const Tunables tunables_;                       ///< for what is made later
  std::unique_ptr<rdma::RdmaTuples> tuples_;      ///< null: nobody has asked, or the adapter has no XRC
  std::vector<std::unique_ptr<RdmaPeer>> peers_;  ///< by PeerId; null: never heard of
  std::vector<RdmaPeer*> broken_;
  IntrusiveList<SendOperation> unsendable_;  ///< for lost peers
  IntrusiveList<TransferOperation> untransferable_;
  uint64_t napping_until_ns_ = ~uint64_t{0};  ///< asleep with rings that do not wake
  uint32_t polls_ = 0;
  rdma::Completion batch_[RdmaAdapter::kBatch];  ///< being handled; poll is never called from itself
};

}  // namespace tern
