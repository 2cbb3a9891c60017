// Random point-to-point programs and the checkers that judge their runs. A plan says which messages exist; every rank
// sends its part and receives what is for it, in ways drawn from the seed (all modes, blocking and not, persistent,
// probes, wildcards, noncontiguous data, short buffers, cancels). What each receive got is judged at the end, by one
// rule for all ways:
//
//   among the receives of a rank in posting order, those that met messages of one (context, source, tag) got them in
//   the order of sending; and no receive got a message while an earlier sent one of the same sender, that it fits, went
//   to a later receive (MPI 5.0, 3.5, "Order").
//
// Units: bytes. Thread rule: one world.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/rng.h"
#include "datatype/datatype.h"
#include "datatype/predefined.h"
#include "sim/world.h"

namespace tern::sim {

/// How messages are received; each has a context of its own, so that every program can end.
enum class Use {
  exact,       ///< source and tag given
  any_source,  ///< the tag given
  any_tag,     ///< the source given
  any_any,     ///< neither
  mixed,       ///< anything, also cancels; what is left over is cancelled or drained at the end
};

struct PlannedMessage {
  uint32_t from = 0, to = 0;
  Use use = Use::exact;
  int tag = 0;
  size_t bytes = 0;
  bool synchronous = false;
  bool truncated = false;  ///< exact only: its receive is too short
  bool cancelled = false;  ///< set by the sender in the run
  int received = 0;        ///< how many receives got it; set by the checker
};

struct Plan {
  uint32_t ranks = 0;
  std::vector<PlannedMessage> messages;  ///< those of one sender in the order of sending

  /// `thresholds`: sizes at which something changes; many messages are about as long.
  static Plan random(Rng& rng, uint32_t ranks, const std::vector<size_t>& thresholds = {});
};

uint64_t context_of(Use use);
std::byte byte_of(const PlannedMessage& message, size_t id, size_t at);

/// What a receive has got, in posting order.
struct Receipt {
  Use use = Use::exact;
  int source = kAnySource, tag = kAnyTag;  ///< as asked for
  size_t capacity = 0;
  bool probed = false;  ///< source and tag come from a matched probe
  Status status;
  int error_class = 0;
  bool complete = false;
  std::vector<std::byte> data;  ///< packed, `capacity` bytes
};

/// A buffer of user data in some layout, fenced by guard bytes.
class LaidOut {
 public:
  /// Room for `bytes` of data; `type` is bytes or strided.
  LaidOut(PredefinedTypes& types, size_t bytes, bool strided);
  void fill(const std::vector<std::byte>& packed);
  std::vector<std::byte> packed() const;
  /// Whether nothing outside the data was touched.
  bool intact() const;
  void* buffer() { return memory_.data() + kGuard; }
  Count count() const { return count_; }
  const Datatype& type() const { return *type_; }

 private:
  static constexpr size_t kGuard = 32;
  Ref<Datatype> held_;
  const Datatype* type_;
  Count count_ = 0;
  size_t bytes_;
  std::vector<std::byte> memory_, untouched_;
};

/// Runs one rank's part of the plan.
class Actor {
 public:
  Actor(Process& process, Plan& plan);
  void run();
  std::vector<Receipt>& receipts() { return receipts_; }
  /// What is still open, for people.
  std::string describe() const;

 private:
  struct Sending {
    size_t id;
    Request* request;
    std::unique_ptr<LaidOut> data;
    bool cancel_asked = false;
    int completions = 0;
  };
  struct Receiving {
    size_t receipt;
    Request* request;
    std::unique_ptr<LaidOut> data;
    bool cancel_asked = false;
    int completions = 0;
  };
  struct Wanted {
    Use use;
    int source, tag;
    size_t capacity;
  };

  void step();
  void cancel(Sending& sending);
  void cancel_any();
  void send_next();
  void receive_next();
  void receive_matched(MatchedMessage* message, const Status& status, Use use);
  void probe();
  void watch(Request& request, int& counter);
  void reap();
  void drain_mixed();
  bool mixed_over() const;
  bool blocking_allowed(uint32_t peer) const { return rank_ % 3 == 0 && peer % 3 != 0; }
  SendArguments arguments(const PlannedMessage& message, LaidOut& data) const;
  ReceiveArguments arguments(const Wanted& wanted, LaidOut& data) const;
  std::unique_ptr<LaidOut> lay_out(size_t bytes);
  void finish(Receiving& receiving);
  void finish(Sending& sending);

  Process& process_;
  PointToPoint& p2p_;
  Plan& plan_;
  Rng rng_;
  uint32_t rank_;
  PredefinedTypes types_;
  std::deque<size_t> to_send_;
  std::deque<Wanted> to_receive_;
  std::deque<Sending> sending_;  // elements stay where they are: completions are counted in them
  std::deque<Receiving> receiving_;
  std::vector<Receipt> receipts_;
};

/// Whether many programs together have met every protocol for large messages and every special case of them.
void expect_every_protocol(const ProtocolCounters& counters);

/// Runs a plan in such a world, and judges what all ranks have got; reports through GoogleTest. Each rank calls
/// `before` and `after` around its part.
using OnRank = std::function<void(Process&)>;
Report run_plan(const WorldOptions& options, Plan& plan, const OnRank& after, const OnRank& before = {});

/// Judges what all ranks have got; reports through GoogleTest.
void check_receipts(Plan& plan, std::vector<std::vector<Receipt>>& receipts);

}  // namespace tern::sim
