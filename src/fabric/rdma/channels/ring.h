// A ring of entries in the receiver's memory, which one peer fills by RDMA writes and the receiver polls.
//
// A frame stands at the end of its entry, just before the arrival word (wire/rdma.h), so that one write carries both
// and the receiver polls one place for frames of any length:
//
//   entry   | free ................ | frame, rounded up to 8 bytes | arrival word |
//
// Where the bytes of one write do not become visible in order (rdma::Capabilities::ordered_writes) the word has a write
// of its own behind the frame's. Arrival words count, so nothing has to be cleared after a frame was taken.
//
// Source: Takagi et al. 2015, sections 2.1 and 3.1; Liu et al. 2003 for the layout's idea. Units: bytes. Thread rule:
// the rank's lock.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "fabric/rdma/channels/channel.h"
#include "fabric/rdma/rdma_adapter.h"
#include "wire/rdma.h"

namespace tern {

/// The receiver's end: registered memory.
class Ring {
 public:
  /// Null exactly when `error` is set.
  static std::unique_ptr<Ring> make(rdma::Hca& hca, uint32_t entries, size_t entry_bytes, Error& error);
  ~Ring();
  Ring(const Ring&) = delete;
  Ring& operator=(const Ring&) = delete;

  uint32_t entries() const { return entries_; }
  size_t entry_bytes() const { return entry_bytes_; }
  size_t memory_bytes() const { return entries_ * entry_bytes_; }
  uint64_t address() const { return reinterpret_cast<uintptr_t>(memory_); }
  uint32_t remote_key() const { return region_->remote_key(); }

  /// The next frame; false: it is not here yet. Valid until `pop`. A frame longer than its entry is returned with
  /// length 0, which the parser rejects.
  bool front(const std::byte*& frame, size_t& bytes) const {
    const std::byte* end = memory_ + at_ * entry_bytes_ + entry_bytes_ - wire::kRdmaArrivalBytes;
    const uint64_t word =
        std::atomic_ref(*reinterpret_cast<uint64_t*>(const_cast<std::byte*>(end))).load(std::memory_order_acquire);
    if (uint32_t(word >> 32) != count_) return false;
    bytes = uint32_t(word);
    if (bytes > entry_bytes_ - wire::kRdmaArrivalBytes) bytes = 0;
    frame = end - (bytes + 7) / 8 * 8;
    return true;
  }
  void pop() {
    ++count_;
    if (++at_ == entries_) at_ = 0;
  }
  /// Resets it for another peer; the old one no longer writes there.
  void clear();

 private:
  Ring(uint32_t entries, size_t entry_bytes) : entries_(entries), entry_bytes_(entry_bytes) {}

  const uint32_t entries_;
  const size_t entry_bytes_;
  std::byte* memory_ = nullptr;
  std::unique_ptr<rdma::MemoryRegion> region_;
  uint32_t count_ = 1;  ///< of the next frame
  uint32_t at_ = 0;     ///< its entry
};

/// The sender's end: kinds rc_rdma and dc_rdma. It posts its writes on another channel to the same peer.
class RingChannel final : public Channel {
 public:
  struct Remote {
    uint64_t address = 0;
    uint32_t key = 0;
    uint32_t entries = 0;
    size_t entry_bytes = 0;
  };
  /// `carrier`: whose requests carry the ring's messages; outlives this, or is `own_carrier`.
  RingChannel(ChannelKind kind, Channel& carrier, std::unique_ptr<Channel> own_carrier, const Remote& remote,
              size_t slot_bytes, bool ordered_writes);

  bool room(const RdmaPeer& peer, uint32_t requests) const override { return carrier_.room(peer, requests); }
  void post_frame(RdmaPeer& peer, rdma::WorkRequest& work, rdma::Piece& piece) override;
  bool post(RdmaPeer& peer, rdma::WorkRequest& work) override { return carrier_.post(peer, work); }

 private:
  const std::unique_ptr<Channel> own_carrier_;  ///< null: `carrier_` belongs to another object
  Channel& carrier_;
  const Remote remote_;
  uint32_t count_ = 1;  ///< of the next frame
  uint32_t at_ = 0;     ///< its entry
};

}  // namespace tern
