// AdapterMemory: the memory that a simulated adapter knows: what the ranks of its node have registered. The only place
// where it is read and written.
//
// Atomics exclude each other in the adapter. What they store is in memory some time later, over whatever the CPU has
// stored there meanwhile, unless the machine's adapter excludes the CPU.
//
// Units: bytes. Thread rule: as AdapterNode.
#pragma once

#include <algorithm>
#include <cstring>
#include <unordered_map>
#include <utility>
#include <vector>

#include "fabric/rdma/verbs/hca.h"

namespace tern::sim {

class SimHca;

class SimMemoryRegion final : public rdma::MemoryRegion {
 public:
  SimMemoryRegion(SimHca& hca, uint64_t address, size_t bytes, const rdma::Access& access);
  ~SimMemoryRegion() override;
  bool holds(uint64_t at, uint64_t count) const {
    return at >= address && at - address <= bytes && count <= bytes - (at - address);
  }

  SimHca& hca;
  const uint64_t address;
  const uint64_t bytes;
  const rdma::Access access;
};

class AdapterMemory {
 public:
  using Pieces = std::vector<rdma::Piece>;

  /// The keys of a region are one number.
  void add(SimMemoryRegion& region) { regions_[region.remote_key()] = &region; }
  void remove(const SimMemoryRegion& region) { regions_.erase(region.remote_key()); }

  /// Null: that rank has not registered these bytes under this key.
  SimMemoryRegion* find(const SimHca& owner, uint32_t key, uint64_t address, uint64_t bytes) const {
    auto found = regions_.find(key);
    const bool its = found != regions_.end() && &found->second->hca == &owner && found->second->holds(address, bytes);
    return its ? found->second : nullptr;
  }
  /// Whether that rank has registered all of them; `written`: so that the adapter may write there.
  bool covers(const SimHca& owner, const Pieces& pieces, bool written) const {
    for (const rdma::Piece& piece : pieces) {
      if (piece.bytes == 0) continue;
      const SimMemoryRegion* region = find(owner, piece.local_key, piece.address, piece.bytes);
      if (!region || (written && !region->access.local_write)) return false;
    }
    return true;
  }

  static void read(uint64_t address, std::byte* data, size_t bytes) {
    if (bytes != 0) std::memcpy(data, reinterpret_cast<const void*>(address), bytes);
  }
  static void write(uint64_t address, const std::byte* data, size_t bytes) {
    if (bytes != 0) std::memcpy(reinterpret_cast<void*>(address), data, bytes);
  }
  /// From and to the bytes of the pieces that begin at `offset`.
  static void read(const Pieces& pieces, uint64_t offset, std::byte* data, size_t bytes) {
    each_part(pieces, offset, bytes, [&](uint64_t address, size_t at, size_t part) { read(address, data + at, part); });
  }
  static void write(const Pieces& pieces, uint64_t offset, const std::byte* data, size_t bytes) {
    each_part(pieces, offset, bytes,
              [&](uint64_t address, size_t at, size_t part) { write(address, data + at, part); });
  }

  /// Of atomics. What is stored is in memory after `settle_word` only.
  uint64_t load_word(uint64_t address) {
    if (held_word_.address != address) settle_word();
    return held_word_.address == address ? held_word_.value : *reinterpret_cast<uint64_t*>(address);
  }
  void store_word(const SimMemoryRegion& region, uint64_t address, uint64_t value) {
    held_word_ = {address, value, region.remote_key()};
  }
  void settle_word() {
    const HeldWord held = std::exchange(held_word_, {});
    if (held.address != 0 && regions_.contains(held.region)) *reinterpret_cast<uint64_t*>(held.address) = held.value;
  }

 private:
  /// What the last atomic has stored, as long as it is only in the adapter, which reads it from there.
  struct HeldWord {
    uint64_t address = 0;  ///< 0: none
    uint64_t value = 0;
    uint32_t region = 0;
  };

  /// Calls `copy(address, at, bytes)`; `at`: from the first of these bytes.
  template <typename Copy>
  static void each_part(const Pieces& pieces, uint64_t offset, size_t bytes, Copy&& copy) {
    size_t at = 0;
    for (const rdma::Piece& piece : pieces) {
      if (at == bytes) return;
      if (offset >= piece.bytes) {
        offset -= piece.bytes;
        continue;
      }
      const size_t part = std::min<uint64_t>(bytes - at, piece.bytes - offset);
      copy(piece.address + offset, at, part);
      at += part;
      offset = 0;
    }
  }

  std::unordered_map<uint32_t, SimMemoryRegion*> regions_;
  HeldWord held_word_;
};

}  // namespace tern::sim
