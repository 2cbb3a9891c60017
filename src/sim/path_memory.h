// SimMemory: gets and puts of SimPath: by an adapter that moves data without either CPU, or by the CPU of the rank that
// asks, as cross-memory attach does. Also what a rank of a node sees of another: copy locks, whether it is polling.
//
// Owns the exposures of this rank's memory and the transfers that it has begun. Invariant: a transfer is in one list
// from its begin until its done-function is called. Every access to memory that is not exposed fails the run.
//
// Units: nanoseconds, bytes. Thread rule: the rank's strand, and network events (which come when no strand runs).
#pragma once

#include <unordered_map>

#include "base/rng.h"
#include "fabric/copy_arbiter.h"
#include "fabric/path.h"
#include "fabric/remote_memory.h"
#include "sim/network.h"
#include "sim/scheduler.h"

namespace tern::sim {

/// Of operations that end because that peer is lost.
Error lost_error(PeerId peer);

/// Wakes the rank of a path when something has come.
class SimWaker {
 public:
  explicit SimWaker(Strand& strand) : strand_(strand) {}
  /// Something may come while other paths are armed, which takes time.
  void wake() {
    if (armed) strand_.notify();
    else strand_.wake(0);
  }
  bool armed = false;

 private:
  Strand& strand_;
};

class SimMemory final : public RemoteMemory, public CopyArbiter, public NetworkMemory {
 public:
  /// None is owned; all outlive this.
  SimMemory(Network& network, Strand& strand, SimWaker& waker, Rng& rng);

  RemoteKey expose(const void* address, size_t bytes, RemoteAccess access) override;
  void conceal(const RemoteKey& key) override;
  bool can_get(Lane& lane) override;
  void get(TransferOperation& operation) override { begin(operation, false); }
  bool can_put(Lane& lane) override { return model_.put && can_get(lane); }
  void put(TransferOperation& operation) override { begin(operation, true); }
  bool add_copy_lock(RemoteKey& key) override;
  bool try_lock_copy(Lane* owner, const RemoteKey& key) override;
  bool can_get_lent(Lane& lane) override { return can_get(lane); }
  bool stream_is_faster(Lane& lane, size_t bytes, Traffic traffic) override;
  bool peer_is_polling(Lane& lane, bool stays) override;

  bool read(uint64_t key, uint64_t address, std::byte* out, size_t bytes) override;
  bool write(uint64_t key, uint64_t address, const std::byte* in, size_t bytes) override;
  bool read_put(const Packet& packet, std::byte* out) override;
  bool attending(uint64_t now_ns) const override;
  bool take_copy_lock(uint64_t key) override;

  /// This node's adapter takes a get_request or a put: no CPU is involved.
  void on_request(const Packet& packet);
  /// In a poll: a get_reply or put_done.
  void on_reply(const Packet& packet);
  /// Completes what ended at once. Returns how many.
  int finish();
  /// A put has come since the last call.
  bool take_landed() { return std::exchange(landed_, false); }
  bool idle() const { return !landed_ && over_.empty() && failed_.empty(); }
  void lose(PeerId peer);
  /// Memory still exposed.
  size_t exposed() const { return exposures_.size(); }

 private:
  struct Exposure {
    uint64_t address;
    size_t bytes;
    bool lock_open = false;
  };
  struct Peer {
    bool lost = false;
    IntrusiveList<TransferOperation> gets;  ///< by the adapter, replies come in this order
    IntrusiveList<TransferOperation> puts;  ///< by the adapter, not yet confirmed
  };

  void begin(TransferOperation& operation, bool is_put);
  void copy_by_cpu(TransferOperation& operation, bool is_put);
  std::unique_ptr<Packet> packet_to(PeerId to, Packet::Kind kind, size_t message_bytes) const;
  void put_by_adapter(TransferOperation& operation);
  void get_by_adapter(TransferOperation& operation);
  void answer_get(const Packet& request);
  void land_put(const Packet& packet);
  void confirm_put(Peer& peer, const Packet& packet);
  void fail_run(PeerId who, const char* does, PeerId whose);
  const std::byte* find(uint64_t key, uint64_t address, size_t bytes) const;

  Network& network_;
  const NetworkModel& model_;
  Strand& strand_;
  SimWaker& waker_;
  Rng& rng_;
  const PeerId rank_;
  std::unordered_map<PeerId, Peer> peers_;  ///< only those with transfers; references stay valid
  IntrusiveList<TransferOperation> over_, failed_;
  std::unordered_map<uint64_t, Exposure> exposures_;
  uint64_t next_key_ = 1;
  std::unordered_map<TransferOperation*, size_t> put_landed_;  ///< confirmed bytes of each put
  bool landed_ = false;
};

}  // namespace tern::sim
