#include "fabric/rdma/memory/rdma_memory.h"

#include "base/assert.h"

namespace tern {

RdmaMemory::RdmaMemory(const rdma::Capabilities& able, const Tunables& tunables, RdmaPeerTable& table, RdmaPeers& peers,
                       RdmaConnections& connections, RdmaTransfers& transfers, Counters& counters)
    : table_(table), peers_(peers), connections_(connections), transfers_(transfers), counters_(&counters) {
  remote_properties_.get = remote_properties_.put = true;
  remote_properties_.autonomous = able.autonomous;
  remote_properties_.atomics = able.atomics;
  remote_properties_.atomic_swap = able.atomic_swap;
  remote_properties_.atomics_with_cpu = able.atomics_with_cpu;
  remote_properties_.ordered_atomics = able.atomics;
  // A queue pair delivers in the order of posting, and no message is posted before an earlier put.
  remote_properties_.puts_before_messages = true;
  remote_properties_.ordered_writes = able.ordered_writes && tunables.rdma_ordered_writes != 0;
}

RemoteKey RdmaMemory::expose(const void* address, size_t bytes, RemoteAccess access) {
  RemoteKey key = transfers_.expose(address, bytes, access);
  count_registrations();
  return key;
}

void RdmaMemory::transfer(TransferOperation& operation, bool is_put) {
  auto& peer = static_cast<RdmaPeer&>(*operation.lane);
  if (peer.state == RdmaPeer::State::lost) {
    TERN_DEBUG_ASSERT(!operation.linked());
    failed_.push_back(&operation);
    return;
  }
  if (peer.state == RdmaPeer::State::fresh) connections_.contact(peer);
  transfers_.begin(operation, is_put);
  count_registrations();
}

void RdmaMemory::count_registrations() {
  counters_->rdma_registration_hits = transfers_.registrations().hits();
  counters_->rdma_registration_misses = transfers_.registrations().misses();
}

int RdmaMemory::complete() {
  int handled = 0;
  while (TransferOperation* operation = failed_.pop_front()) {
    ++handled;
    operation->done(*operation, peers_.reason(static_cast<RdmaPeer&>(*operation->lane)));
  }
  return handled;
}

}  // namespace tern
