// RdmaTransfers: get and put (rdma_transfers.cc), atomics and flush (rdma_atomic.cc): RDMA read and write between a
// peer's exposed memory and this rank's. Contiguous local memory is registered and moved at once; other memory goes
// part by part through slots. Transfers of one peer are posted in the order of the calls, on the queue pair that
// carries the messages to that peer, so a message posted later arrives later.
//
// Source: Small and Yuan 2009 (what rendezvous needs of get and put). Units: bytes. Thread rule: the rank's lock.
#pragma once

#include <memory>
#include <vector>

#include "base/pool.h"
#include "fabric/rdma/memory/hca_registrar.h"
#include "fabric/rdma/rdma_adapter.h"
#include "fabric/remote_memory.h"

namespace tern {

struct RdmaPeer;
class Channel;
class RdmaPeers;

class RdmaTransfers {
 public:
  struct Transfer : ListHook<Transfer> {  // hook: in its peer's `waiting`, then in its `posted`
    explicit Transfer(RdmaPeer& its) : peer(its) {}
    RdmaPeer& peer;
    TransferOperation* operation = nullptr;  ///< one of these three is set
    AtomicOperation* atomic = nullptr;
    FlushOperation* flush = nullptr;
    Registration* registration = nullptr;  ///< of the local memory; null: through slots
    size_t posted = 0;
    uint32_t outstanding = 0;
    uint32_t answer = 0;  ///< of a posted atomic: the word for its answer
    bool is_put = false;
    bool all_posted = false;
    bool failed = false;
  };
  struct OfPeer {
    IntrusiveList<Transfer> waiting, posted;  ///< to be posted, perhaps in part; posted completely
    uint32_t puts = 0;                        ///< that are not over
  };

  /// Both outlive this.
  RdmaTransfers(RdmaAdapter& adapter, RdmaPeers& peers, const Tunables& tunables);

  RemoteKey expose(const void* address, size_t bytes, RemoteAccess access);
  void conceal(const RemoteKey& key);
  /// The peer is not lost. Posts what it can; `pump` posts the rest.
  void begin(TransferOperation& operation, bool is_put);
  void begin(AtomicOperation& operation);
  void begin(FlushOperation& operation);
  void pump(RdmaPeer& peer);
  bool waiting(const RdmaPeer& peer) const;
  /// Completions: of a part in that slot, of a transfer in place (or an atomic).
  void on_part(uint32_t slot, bool ok);
  void on_transfer(Transfer& transfer, bool ok);
  /// The peer is lost: what is left of its transfers ends with an error.
  void fail_all(RdmaPeer& peer);

  RegistrationCache& registration_cache() { return *registrations_; }
  const RegistrationCache& registrations() const { return *registrations_; }

 private:
  static bool is_exposed(const RemoteKey& key);
  bool post_part(RdmaPeer& peer, Transfer& transfer, Channel& channel);
  void part_done(Transfer& transfer, bool ok);
  void finish(Transfer& transfer);
  void finish_transfer(Transfer& transfer);

  // rdma_atomic.cc
  Error make_answers();
  Error check(const AtomicOperation& operation) const;
  bool post_atomic(Transfer& transfer, Channel& channel);
  void finish_atomic(Transfer& transfer);
  void finish_flush(Transfer& transfer);
  void finish_flushes(RdmaPeer& peer, bool failed);

  RdmaAdapter& adapter_;
  RdmaPeers& peers_;
  rdma::HcaRegistrar registrar_;
  std::unique_ptr<RegistrationCache> registrations_;
  Pool<Transfer> pool_;
  std::unique_ptr<uint64_t[]> answers_;  ///< of atomics; null before the first
  std::unique_ptr<rdma::MemoryRegion> answer_region_;
  std::vector<uint32_t> free_answers_;
};

}  // namespace tern
