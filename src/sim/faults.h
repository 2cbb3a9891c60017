// What goes wrong in a simulated world: a wrapper around any Path, and the weather of the network. Production code has
// no branch for any of it.
// Probabilities are parts of 1024 per occasion. Thread rule: one scheduler.
#pragma once

#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "base/clock.h"
#include "base/rng.h"
#include "fabric/path.h"
#include "sim/network.h"

namespace tern::sim {

struct Faults {
  // Of the network.
  uint32_t delay_in_1024 = 0;  ///< packets that come later, by up to delay_ns; the order of a pair is kept
  uint64_t delay_ns = 0;
  uint32_t stall_in_1024 = 0;  ///< packets at which their pair's way closes for up to stall_ns
  uint64_t stall_ns = 0;
  // Of each rank's path.
  uint32_t refuse_in_1024 = 0;    ///< try_send says no
  uint32_t get_fail_in_1024 = 0;  ///< get ends with an error, having scribbled over its target; put likewise
  uint32_t misjudge_in_1024 = 0;  ///< whether a peer is in its library is answered by chance
  uint32_t doze_in_1024 = 0;      ///< polls at which the rank stops looking for up to doze_ns
  uint64_t doze_ns = 0;
  // Of the ranks.
  uint32_t slow_in_1024 = 0;  ///< ranks whose CPU is slower by slow_factor
  uint64_t slow_factor = 1;
  uint32_t early_in_8 = 0;     ///< sleeps that end before their time (parts of 8)
  uint64_t start_skew_ns = 0;  ///< ranks begin at moments spread over so long
  struct Loss {
    uint32_t rank;
    uint64_t at_ns;
    uint64_t notice_ns;  ///< how much later the others are told
  };
  std::vector<Loss> losses;

  /// Some of everything but losses, mild or harsh, as `rng` draws.
  static Faults random(Rng& rng);
};

class FaultyWeather final : public NetworkWeather {
 public:
  FaultyWeather(const Faults& faults, uint64_t seed) : faults_(faults), rng_(seed) {}
  uint64_t extra_delay_ns(uint64_t now_ns, PeerId from, PeerId to) override;

 private:
  const Faults faults_;
  Rng rng_;
  std::unordered_map<uint64_t, uint64_t> closed_until_ns_;  ///< by pair
};

/// Wraps a Path and misbehaves within its contract. Arrivals and completions come from the inner path directly.
class FaultPath final : public Path {
 public:
  FaultPath(std::unique_ptr<Path> inner, Clock& clock, const Faults& faults, uint64_t seed);

  bool reaches(PeerId peer) const override { return inner_->reaches(peer); }
  bool try_send(PeerId peer, const wire::Header& header, const void* payload, size_t bytes) override;
  void enqueue(SendOperation& operation) override { inner_->enqueue(operation); }
  bool withdraw(SendOperation& operation) override { return inner_->withdraw(operation); }
  RemoteKey expose(const void* address, size_t bytes) override { return inner_->expose(address, bytes); }
  void conceal(const RemoteKey& key) override { inner_->conceal(key); }
  void make_claim(RemoteKey& key) override { inner_->make_claim(key); }
  bool claim(PeerId owner, const RemoteKey& key) override { return inner_->claim(owner, key); }
  bool can_get(PeerId peer) const override { return inner_->can_get(peer); }
  void get(TransferOperation& operation) override;
  bool can_put(PeerId peer) const override { return inner_->can_put(peer); }
  void put(TransferOperation& operation) override;
  bool attentive(PeerId peer, bool stays) override;
  void show_attention() override { inner_->show_attention(); }
  std::byte* lend(size_t bytes, RemoteKey& key) override { return inner_->lend(bytes, key); }
  bool can_get_lent(PeerId peer) const override { return inner_->can_get_lent(peer); }
  int poll() override;
  int wait_fd() const override { return inner_->wait_fd(); }
  bool arm() override;
  void disarm() override { inner_->disarm(); }
  uint64_t next_deadline_ns() const override;
  bool has_unsent() const override { return inner_->has_unsent(); }
  bool arriving() const override { return inner_->arriving(); }
  Need unsent_at_a_glance() const override { return inner_->unsent_at_a_glance(); }

 private:
  void fail(TransferOperation& operation);

  std::unique_ptr<Path> inner_;
  Clock& clock_;
  const Faults faults_;
  Rng rng_;
  uint64_t awake_at_ns_ = 0;
  IntrusiveList<TransferOperation> failing_;  ///< gets whose error is told from the next poll
};

}  // namespace tern::sim
