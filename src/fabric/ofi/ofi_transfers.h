// OfiTransfers: get, put, atomics and flush on peers' exposed memory, by the provider's reads, writes and atomics.
//
// Contiguous memory is used in place, registered first where the provider asks for that; other memory, and pieces that
// fit a frame where registering takes long, go through the library's buffers. Parts of a transfer may be done in any
// order.
//
// A key is the provider's, and what peers subtract from an address: the begin of the registered memory, or nothing
// where the provider takes addresses.
//
// Units: bytes. Thread rule: the rank's lock. Re-entrance: as RemoteMemory.
#pragma once

#include <memory>
#include <unordered_map>

#include "base/pool.h"
#include "fabric/ofi/ofi_adapter.h"
#include "fabric/remote_memory.h"

namespace tern {

class OfiPeers;
class OfiStreams;

class OfiTransfers final : public RemoteMemory {
 public:
  struct Part;
  struct Transfer : ListHook<Transfer> {  // hook: in its peer's `waiting`, then in its `posted`
    explicit Transfer(OfiPeer& its) : peer(its) {}
    OfiPeer& peer;
    TransferOperation* operation = nullptr;  ///< one of these two is set
    AtomicOperation* atomic = nullptr;
    HeldRegistration registration;  ///< of the local memory, if it needed one
    uint64_t order = 0;             ///< among the calls for this peer
    size_t posted = 0, begin = 0;   ///< bytes; `begin`: position of `local` at first
    IntrusiveList<Part> parts;      ///< that the port has
    uint32_t under_way = 0;         ///< their number
    bool is_put = false, in_place = false, all_posted = false;
    int error = 0;
  };
  struct Flush : ListHook<Flush> {
    FlushOperation* operation = nullptr;
    uint64_t order = 0;
    bool failed = false;  ///< an operation before it
  };
  /// One operation of the port.
  struct Part final : OfiOperation, ListHook<Part> {
    Part() : OfiOperation(Kind::transfer) {}
    Transfer* transfer = nullptr;  ///< null: it was given up
    OfiBuffer* buffer = nullptr;   ///< null: in place
    size_t offset = 0, bytes = 0;
    Part* next_free = nullptr;
  };
  struct OfPeer {
    IntrusiveList<Transfer> waiting, posted;  ///< to be posted, perhaps in part; posted completely; both by order
    IntrusiveList<Flush> flushes;             ///< by order
    uint64_t calls = 0;
    uint32_t waiting_puts = 0;
    bool wake_due = false;  ///< a put that the peer waits for is there, and no frame has told it
  };

  /// All outlive this.
  OfiTransfers(OfiAdapter& adapter, OfiStreams& streams, OfiPeers& peers);

  RemoteKey expose(const void* address, size_t bytes, RemoteAccess access) override;
  void conceal(const RemoteKey& key) override;
  bool can_get(Lane&) override { return remote_properties_.get; }
  void get(TransferOperation& operation) override { begin(operation, false); }
  bool can_put(Lane&) override { return remote_properties_.put; }
  void put(TransferOperation& operation) override { begin(operation, true); }
  Lane* own_lane() override;
  void atomic(AtomicOperation& operation) override;
  void flush(FlushOperation& operation) override;

  // --- The path's.
  /// False: something is left to be posted, or said.
  bool pump(OfiPeer& peer);
  /// The port is through with a part.
  void on_part(OfiOperation& part, int error);
  /// The peer is lost: what is left of its transfers ends with an error.
  void fail_all(OfiPeer& peer);
  void forget(OfiPeer& peer);

 private:
  void begin(TransferOperation& operation, bool is_put);
  void start(OfiPeer& peer, Transfer& transfer);
  void choose_place(Transfer& transfer);
  bool post_waiting(OfiPeer& peer);
  bool send_wake(OfiPeer& peer);
  static bool window_is_full(const Transfer& transfer);
  bool post_some(Transfer& transfer);
  int post_part(Transfer& transfer, Part& part);
  int post_atomic(Transfer& transfer, Part& part);
  void take_answer(Transfer& transfer, const Part& part);
  void recycle(Part& part);
  void finish(Transfer& transfer);
  void finish_flushes(OfiPeer& peer);

  OfiAdapter& adapter_;
  OfiStreams& streams_;
  OfiPeers& peers_;
  Pool<Transfer> pool_;
  Pool<Flush, 16> flushes_;
  Recycler<Part> parts_;
  std::unordered_multimap<uint64_t, Registration*> exposed_;  ///< by the provider's key
};

}  // namespace tern
