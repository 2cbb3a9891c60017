// RdmaSlots: the path's own registered memory, in equal slots: receives first, then sends, then greetings in and out.
// One registration for all of them. A send slot is taken for one frame (or one part of a transfer) and returned when
// the adapter has finished with it.
//
// Units: bytes. Thread rule: the rank's lock.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/types.h"
#include "fabric/rdma/verbs/hca.h"

namespace tern {

class RdmaSlots {
 public:
  /// The use of a taken slot.
  struct Use {
    PeerId peer = kNoPeer;
    void* owner = nullptr;  ///< the transfer; null: a frame
    uint32_t bytes = 0;
  };

  RdmaSlots() = default;
  RdmaSlots(const RdmaSlots&) = delete;
  RdmaSlots& operator=(const RdmaSlots&) = delete;
  ~RdmaSlots();

  /// Once. Error: no memory, or the adapter does not register it.
  Error make(rdma::Hca& hca, uint32_t receives, uint32_t sends, uint32_t greetings, size_t slot_bytes);

  size_t slot_bytes() const { return slot_bytes_; }
  uint32_t receives() const { return receives_; }
  /// Greetings have slots of their own, so many each way.
  uint32_t greetings() const { return greetings_; }
  uint32_t greeting_in(uint32_t i) const { return receives_ + sends_ + i; }
  uint32_t greeting_out(uint32_t i) const { return greeting_in(i) + greetings_; }
  size_t memory_bytes() const { return memory_bytes_; }

  std::byte* memory(size_t slot) const { return memory_ + slot * slot_bytes_; }
  rdma::Piece piece(size_t slot, size_t bytes) const {
    return {reinterpret_cast<uint64_t>(memory(slot)), uint32_t(bytes), local_key_};
  }

  // Send slots. `next` is the one that `take` will return; it may be filled before, and need not be taken.
  bool any() const { return !free_.empty(); }
  uint32_t next() const { return free_.back(); }
  void take(const Use& use) {
    uses_[free_.back()] = use;
    free_.pop_back();
  }
  Use& use(size_t slot) { return uses_[slot]; }
  void give_back(uint32_t slot) { free_.push_back(slot); }

 private:
  size_t slot_bytes_ = 0, memory_bytes_ = 0;
  uint32_t receives_ = 0, sends_ = 0, greetings_ = 0;
  uint32_t local_key_ = 0;
  std::byte* memory_ = nullptr;
  std::unique_ptr<rdma::MemoryRegion> region_;
  std::vector<Use> uses_;  ///< by slot
  std::vector<uint32_t> free_;
};

}  // namespace tern
