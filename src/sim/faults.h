// Faults of a simulated world: a wrapper around any Path, and faults of the network. Production code has
// no branch for any of them.
// Probabilities are parts of 1024 per occasion. Thread rule: one scheduler.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include "base/clock.h"
#include "base/rng.h"
#include "fabric/path.h"
#include "sim/network.h"
#include "sim/poll_cost.h"
#include "sim/scheduler.h"

namespace tern::sim {

struct Faults {
  // Of the network.
  uint32_t delay_in_1024 = 0;  ///< packets that come later, by up to delay_ns; the order of a pair is kept
  uint64_t delay_ns = 0;
  uint32_t stall_in_1024 = 0;  ///< packets after which their pair's way is closed for up to stall_ns
  uint64_t stall_ns = 0;
  // Of each rank's path.
  uint32_t refuse_in_1024 = 0;    ///< try_send returns false
  uint32_t get_fail_in_1024 = 0;  ///< get ends with an error, having overwritten its target; put likewise
  uint32_t misjudge_in_1024 = 0;  ///< whether a peer is in its library is answered at random
  uint32_t doze_in_1024 = 0;      ///< polls after which the rank does not poll for up to doze_ns
  uint64_t doze_ns = 0;
  uint32_t cut_in_65536 = 0;  ///< polls at which a lane of a path that can be replaced is lost
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

/// Wraps a path's remote memory: gets and puts that fail.
class FaultMemory final : public RemoteMemory {
 public:
  /// None is owned; all outlive this.
  FaultMemory(RemoteMemory& inner, const Faults& faults, Rng& rng) : inner_(inner), faults_(faults), rng_(rng) {
    remote_properties_ = inner.remote_properties();
  }
  RemoteKey expose(const void* address, size_t bytes, RemoteAccess access) override {
    return inner_.expose(address, bytes, access);
  }
  void conceal(const RemoteKey& key) override { inner_.conceal(key); }
  bool can_get(Lane& lane) override { return inner_.can_get(lane); }
  void get(TransferOperation& operation) override;
  bool can_put(Lane& lane) override { return inner_.can_put(lane); }
  void put(TransferOperation& operation) override;
  void atomic(AtomicOperation& operation) override { inner_.atomic(operation); }
  Lane* own_lane() override { return inner_.own_lane(); }
  void flush(FlushOperation& operation) override { inner_.flush(operation); }

  /// In a poll: ends the transfers whose errors are still to be told. Returns how many.
  int tell_errors();
  bool has_errors() const { return !failing_.empty(); }

 private:
  void fail(TransferOperation& operation);

  RemoteMemory& inner_;
  const Faults& faults_;
  Rng& rng_;
  IntrusiveList<TransferOperation> failing_;  ///< told from the next poll
};

/// Wraps a path's copy arbiter: questions about a peer are answered at random.
class FaultArbiter final : public CopyArbiter {
 public:
  /// None is owned; all outlive this.
  FaultArbiter(CopyArbiter& inner, const Faults& faults, Rng& rng) : inner_(inner), faults_(faults), rng_(rng) {
    arbiter_properties_ = inner.arbiter_properties();
  }
  bool add_copy_lock(RemoteKey& key) override { return inner_.add_copy_lock(key); }
  bool try_lock_copy(Lane* owner, const RemoteKey& key) override { return inner_.try_lock_copy(owner, key); }
  std::byte* lend(size_t bytes, RemoteKey& key) override { return inner_.lend(bytes, key); }
  bool can_get_lent(Lane& lane) override { return inner_.can_get_lent(lane); }
  void publish_heartbeat() override { inner_.publish_heartbeat(); }
  bool stream_is_faster(Lane& lane, size_t bytes, Traffic traffic) override {
    return misjudged(inner_.stream_is_faster(lane, bytes, traffic));
  }
  bool peer_is_polling(Lane& lane, bool stays) override { return misjudged(inner_.peer_is_polling(lane, stays)); }
  bool peer_has_polled(Lane& lane) override { return misjudged(inner_.peer_has_polled(lane)); }

 private:
  bool misjudged(bool truth) { return rng_.chance(faults_.misjudge_in_1024, 1024) ? rng_.chance(1, 2) : truth; }

  CopyArbiter& inner_;
  const Faults& faults_;
  Rng& rng_;
};

/// Wraps a Path and uses all the freedom of its contract. Arrivals and completions come from the inner path directly.
class FaultPath final : public Path {
 public:
  /// What a poll takes, of a path that does not know: real ones do not.
  struct Pace {
    Strand* strand = nullptr;
    uint64_t poll_ns = 0;  ///< 0: it knows
  };
  FaultPath(std::unique_ptr<Path> inner, Clock& clock, const Faults& faults, uint64_t seed, Pace pace);
  FaultPath(std::unique_ptr<Path> inner, Clock& clock, const Faults& faults, uint64_t seed)
      : FaultPath(std::move(inner), clock, faults, seed, Pace{}) {}

  bool reaches(PeerId peer) const override { return inner_->reaches(peer); }
  Lane& lane(PeerId peer) override;
  bool try_send(Lane& lane, const wire::Header& header, const void* payload, size_t bytes) override;
  bool try_post(Lane& lane, const wire::Header& header, const void* payload, size_t bytes) override;
  void enqueue(SendOperation& operation) override { inner_->enqueue(operation); }
  bool withdraw(SendOperation& operation) override { return inner_->withdraw(operation); }
  bool peek(Lane& lane, PeekedMessage& message) override { return inner_->peek(lane, message); }
  void take(Lane& lane) override { inner_->take(lane); }
  void give_up(Lane& lane) override { inner_->give_up(lane); }
  bool reopen(Lane& lane, uint32_t incarnation) override { return inner_->reopen(lane, incarnation); }
  void set_replaceable() override {
    replaceable_ = true;
    inner_->set_replaceable();
  }
  bool has_unsent() const override { return inner_->has_unsent(); }
  Need unsent_hint() const override { return inner_->unsent_hint(); }

  RemoteMemory* remote_memory() override { return memory_ ? &*memory_ : nullptr; }
  CopyArbiter* copy_arbiter() override { return arbiter_ ? &*arbiter_ : nullptr; }
  TupleQueues* tuple_queues() override { return inner_->tuple_queues(); }

  const PollHints& hints() const override { return inner_->hints(); }
  int poll() override;
  int poll_lane(Lane& lane) override;
  int wait_fd() const override { return inner_->wait_fd(); }
  bool arm() override;
  void disarm() override;
  uint64_t next_deadline_ns() const override;
  bool arriving() const override { return inner_->arriving(); }
  void set_helped(bool helped) override { inner_->set_helped(helped); }
  void count_into(Counters& counters) override { inner_->count_into(counters); }

 private:
  void take_time();

  std::unique_ptr<Path> inner_;
  Clock& clock_;
  const Faults faults_;
  Rng rng_;
  std::optional<FaultMemory> memory_;    ///< none: the inner path has none
  std::optional<FaultArbiter> arbiter_;  ///< none: it has none
  const Pace pace_;
  PollCost cost_;
  std::vector<Lane*> lanes_;  ///< given out
  bool replaceable_ = false;
  uint64_t awake_at_ns_ = 0;
  uint32_t arms_dozing_ = 0;  ///< calls of `arm` not passed to the inner path
};

}  // namespace tern::sim
