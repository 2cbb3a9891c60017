#include "sim/shared_memory.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>

#include "base/assert.h"

namespace tern::sim {
namespace {

constexpr uint64_t kClock_ns = 28;  // as SimClock

/// One rank's.
class SimPort final : public shm::NodePort {
 public:
  SimPort(Network& network, const SharedMemoryModel& model, PeerId first, const std::vector<Strand*>& strands,
          uint32_t slot, uint64_t seed)
      : network_(network), model_(model), first_(first), strands_(strands), strand_(*strands[slot]), rng_(seed) {}

  // Its place in the node, from 1 on, is a rank's process id.
  pid_t probe(uint32_t slot, const shm::RankBlock&, int, bool& writable) override {
    writable = !rng_.chance(model_.refuse_in_8, 8);
    return rng_.chance(model_.refuse_in_8, 8) ? 0 : pid_t(slot) + 1;
  }
  Error read(pid_t pid, Cursor& local, uint64_t address, size_t bytes) override {
    return copy(pid, bytes, [&](size_t at, size_t piece) {
      return local.unpack(reinterpret_cast<const std::byte*>(address) + at, piece);
    });
  }
  Error write(pid_t pid, Cursor& local, uint64_t address, size_t bytes) override {
    return copy(pid, bytes,
                [&](size_t at, size_t piece) { return local.pack(reinterpret_cast<std::byte*>(address) + at, piece); });
  }
  uint64_t now_ns() override {
    strand_.charge_ns(kClock_ns);
    return strand_.now_ns();
  }
  void rung(uint32_t slot) override { strands_[slot]->notify(strand_.now_ns()); }

 private:
  template <typename Piece>
  Error copy(pid_t pid, size_t bytes, Piece&& copy_piece) {
    strand_.charge_ns(network_.model().get_ns);
    for (size_t at = 0; at < bytes;) {
      if (rng_.chance(model_.pause_in_8, 8)) strand_.catch_up();
      if (network_.is_lost(first_ + PeerId(pid) - 1)) return Error(ErrorClass::other, "the peer has ended");
      const size_t piece = std::min<size_t>(bytes - at, 1 + size_t(rng_.below(16384)));
      if (copy_piece(at, piece) != piece) return Error(ErrorClass::intern, "the buffer is shorter than the transfer");
      strand_.charge_ns(network_.model().copy_ns(piece));
      at += piece;
    }
    return {};
  }

  Network& network_;
  const SharedMemoryModel& model_;
  const PeerId first_;
  const std::vector<Strand*>& strands_;
  Strand& strand_;
  Rng rng_;
};

}  // namespace

SharedMemory::SharedMemory(Network& network, const SharedMemoryModel& model, PeerId first,
                           const std::vector<Strand*>& strands, uint64_t seed)
    : first_(first), strands_(strands) {
  std::vector<int> ranks;
  ShmNode::Local local;
  local.spill_cells = model.spill_cells;
  for (uint32_t slot = 0; slot < strands_.size(); ++slot) {
    ranks.push_back(int(first + slot));
    local.ports.push_back(std::make_shared<SimPort>(network, model, first, strands_, slot, seed + slot));
    life_lines_.emplace_back(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    local.life_lines.push_back(life_lines_.back().get());
  }
  nodes_ = ShmNode::create_local(ranks, model.ring_bytes, local);
}

void SharedMemory::lose(PeerId rank) {
  const uint64_t one = 1;
  const ssize_t written = write(life_lines_[rank - first_].get(), &one, sizeof one);
  TERN_ASSERT(written == sizeof one);
  for (Strand* strand : strands_) strand->notify(0);
}

}  // namespace tern::sim
