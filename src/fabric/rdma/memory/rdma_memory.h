// RdmaMemory: get, put, atomics and flush as RemoteMemory: connects on first use, and ends the operations for lost
// peers. What is posted, and when, is RdmaTransfers'. Thread rule: as Path.
#pragma once

#include "base/counters.h"
#include "fabric/rdma/memory/rdma_transfers.h"
#include "fabric/rdma/rdma_peer_table.h"
#include "fabric/remote_memory.h"

namespace tern {

class RdmaMemory final : public RemoteMemory {
 public:
  /// All outlive this.
  RdmaMemory(const rdma::Capabilities& able, const Tunables& tunables, RdmaPeerTable& table, RdmaPeers& peers,
             RdmaConnections& connections, RdmaTransfers& transfers, Counters& counters);
  void count_into(Counters& counters) { counters_ = &counters; }

  RemoteKey expose(const void* address, size_t bytes, RemoteAccess access) override;
  void conceal(const RemoteKey& key) override { transfers_.conceal(key); }
  bool can_get(Lane&) override { return true; }
  void get(TransferOperation& operation) override { transfer(operation, false); }
  bool can_put(Lane&) override { return true; }
  void put(TransferOperation& operation) override { transfer(operation, true); }
  Lane* own_lane() override { return &table_.me(); }
  void atomic(AtomicOperation& operation) override { begin(operation); }
  void flush(FlushOperation& operation) override { begin(operation); }

  bool anything_to_complete() const { return !failed_.empty(); }
  /// In a poll: ends what was begun for lost peers. Returns how many.
  int complete();

 private:
  void transfer(TransferOperation& operation, bool is_put);
  /// Of an atomic or a flush.
  template <typename Operation>
  void begin(Operation& operation) {
    auto& peer = static_cast<RdmaPeer&>(*operation.lane);
    if (peer.state == RdmaPeer::State::lost) {
      operation.done(operation, peers_.reason(peer));
      return;
    }
    transfers_.begin(operation);
    if (peer.state == RdmaPeer::State::fresh && transfers_.waiting(peer)) connections_.contact(peer);
  }
  void count_registrations();

  RdmaPeerTable& table_;
  RdmaPeers& peers_;
  RdmaConnections& connections_;
  RdmaTransfers& transfers_;
  Counters* counters_;
  IntrusiveList<TransferOperation> failed_;  ///< for lost peers
};

}  // namespace tern
