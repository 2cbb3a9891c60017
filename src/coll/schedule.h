// Schedule: a collective operation as a list of steps, and the request that the user waits for. An algorithm writes the
// steps through a Builder (builder.h); then
//   nonblocking   the list is kept and the progress engine drives it
//   persistent    the same, started again and again
//   blocking      no list: each step is executed as it is written ("immediate"), a fence waits at once
//
//   send ─┐ receive ─┐   begin at once, together
//   fence ───────────┴── waits for all of them (fence_receives: for the receives only)
//   reduce, copy         executed in their order
//
// Storage: a schedule comes from its communicator's pool with room for a small collective inside; more comes
// in blocks of the rank's scratch memory and goes back with the schedule.
// Source: the schedules of LibNBC (Hoefler, Lumsdaine, Rehm, SC 2007), with two kinds of fences.
// Thread rule: under the rank's lock.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/object.h"
#include "coll/operands.h"
#include "comm/communicator.h"
#include "p2p/point_to_point.h"
#include "progress/engine.h"

namespace tern {

struct CollectiveEnvironment;

/// How a collective is to run.
enum class Mode : uint8_t { blocking, nonblocking, persistent };

/// One step. Which fields mean something depends on the kind.
struct Step {
  enum class Kind : uint8_t { send, receive, reduce, copy, fence, fence_receives, jump, end };
  Kind kind;
  int source;  ///< rank that the receiver matches
  PeerId peer;
  uint64_t context;
  const void* from;  ///< send, copy, reduce (its left operand)
  Count from_count;
  const Datatype* from_type;
  void* to;  ///< receive, copy, reduce (its right operand and its result); jump: the next Step
  Count to_count;
  const Datatype* to_type;
};

class Schedule final : public Request, public Advanceable {
 public:
  Schedule(CollectiveEnvironment& environment, Communicator& communicator, Mode mode, int tag);
  ~Schedule() override;

  // --- Building (Builder).
  /// Executes the step (immediate) or appends it.
  void emit(const Step& step) {
    if (mode_ == Mode::blocking) {
      if (!failed_ || step.kind == Step::Kind::send) carry_out(step);  // its memory may be missing
    } else {
      append(step);
    }
  }
  /// Memory that lives as long as the schedule, aligned to 64 bytes; null (and the schedule failed) when
  /// there is none.
  std::byte* allocate(size_t bytes);
  void hold(const Datatype* type);
  void hold(const Op* op) {
    op_ = op;
    held_op_ = Ref<Op>::share(const_cast<Op*>(op));
  }
  /// The operator of reduce steps, without holding it (immediate schedules).
  void use(const Op* op) { op_ = op; }
  void fail(Error why) {
    if (!error) error = std::move(why);
    failed_ = true;
  }
  bool failed() const { return failed_; }
  /// Whether each step is carried out as it is written.
  bool immediate() const { return mode_ == Mode::blocking; }

  /// What those who listen are told of it (base/events.h).
  void name(Operation operation, int algorithm) {
    operation_ = operation;
    algorithm_ = int16_t(algorithm);
  }

  // --- Running.
  /// Nonblocking: the list is complete, begin.
  void begin();
  Error start() override;
  int advance() override;
  /// Immediate: waits for all open messages, returns the schedule to its pool, returns its error.
  Error finish_immediate();

  Communicator& communicator() const { return communicator_; }
  int tag() const { return tag_; }

 protected:
  void destroy() override;

 private:
  // Enough for the logarithmic algorithms on 16 ranks without an allocation; larger ones take chunks of some 4 KiB.
  static constexpr size_t kInlineSteps = 12;
  static constexpr size_t kInlineBytes = 1024;
  static constexpr size_t kStepsPerChunk = 64;
  static constexpr size_t kBlockBytes = 8192;  ///< smallest block of `extra_`: several results share one
  struct alignas(64) Extra {
    Extra* next;
    size_t bytes;
  };
  struct Held {
    Datatype* type;
    Held* next;
  };

  void append(const Step& step);
  void carry_out(const Step& step);
  void post(Request* request, uint32_t& outstanding);
  void note_end(Request& request, bool received);
  void check_received();
  void wait_for(bool sends);
  bool may_go_on() const { return receives_out_ == 0 && (sends_out_ == 0 || waits_for_receives_only_); }
  void run();
  void tell(Event event) const;
  void reduce(const Step& step);
  void copy(const Step& step);
  static void on_message_complete(Request& request);

  CollectiveEnvironment& environment_;
  Communicator& communicator_;
  PointToPoint& p2p_;
  Scratch& scratch_;
  Mode mode_;
  bool failed_ = false;
  bool running_ = false;  ///< inside run() or immediate: completions need not activate
  bool waits_for_receives_only_ = false;
  Operation operation_{};
  int16_t algorithm_ = -1;  ///< -1: none has a name, or nobody listened when it was chosen
  int tag_;
  uint32_t sends_out_ = 0, receives_out_ = 0;
  uint64_t missing_bytes_ = 0;  ///< of receives: expected and not received; not 0 at a fence: a peer has had an error
  const Op* op_ = nullptr;
  const Step* next_step_ = nullptr;
  Step* write_ = steps_;                         ///< where the next step goes
  Step* write_end_ = steps_ + kInlineSteps - 1;  ///< this place is reserved for a jump
  std::byte* free_ = inline_;
  std::byte* free_end_ = inline_ + kInlineBytes;
  Extra* extra_ = nullptr;
  Held* held_ = nullptr;
  Ref<Op> held_op_;
  Ref<Communicator> held_communicator_;
  // Left uninitialised: written before read.
  Step steps_[kInlineSteps];
  alignas(64) std::byte inline_[kInlineBytes];
};

}  // namespace tern
