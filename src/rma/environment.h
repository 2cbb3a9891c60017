// What all windows of a rank share: the way of their messages, datatypes, operators. Made by the first call about
// windows. Thread rule: under the rank's lock.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/assert.h"
#include "comm/communicator.h"
#include "datatype/op.h"
#include "datatype/predefined.h"
#include "p2p/core/message_handler.h"
#include "p2p/point_to_point.h"
#include "rma/lock_design.h"

namespace tern::rma {

class Window;

/// Gives what waits for words in node memory or at adapters (lock designs, epochs; of all windows) its turns; asleep
/// while none has anything to do.
class WordPoller final : public Pollable {
 public:
  void add(Pollable& waiter) { waiters_.push_back({&waiter, &waiter.hints()}); }
  void remove(Pollable& waiter) {
    std::erase_if(waiters_, [&](const Waiter& one) { return one.pollable == &waiter; });
  }
  /// One of them may have something to do.
  void wake() { hints_.dormant = false; }

  int poll() override;
  const PollHints& hints() const override { return hints_; }
  bool arm() override;
  void disarm() override;
  uint64_t next_deadline_ns() const override;

 private:
  struct Waiter {
    Pollable* pollable;
    const PollHints* hints;
  };
  std::vector<Waiter> waiters_;
  PollHints hints_{.dormant = true};
};

class Environment final : public MessageHandler {
 public:
  /// Nothing is owned. `new_context` as in coll/create/channel.h. `shares_cores`: with other ranks of its node.
  Environment(PointToPoint& p2p, std::function<uint64_t()> new_context, bool shares_cores);
  ~Environment();
  Environment(const Environment&) = delete;
  Environment& operator=(const Environment&) = delete;

  PointToPoint& p2p() { return p2p_; }
  Endpoints& endpoints() { return p2p_.endpoints(); }
  ProgressEngine& progress() const { return p2p_.progress(); }
  Counters& counters() { return p2p_.progress().counters(); }
  const Datatype& byte() { return types_.get(type_id::kByte); }
  PredefinedTypes& types() { return types_; }
  const Op& op(OpId id) { return ops_.get(id); }
  bool knows_op(OpId id) { return ops_.find(int(id)) != nullptr; }
  uint64_t new_context() { return new_context_(); }
  WordPoller& word_poller() { return word_poller_; }
  /// Counts the locks that this rank holds or has asked for, of all windows. True: there is another one.
  bool add_lock() { return locks_++ != 0; }
  void remove_lock() {
    TERN_DEBUG_ASSERT(locks_ != 0);
    --locks_;
  }
  /// True once: a warning about designs of locks has not been given yet.
  bool may_warn() { return std::exchange(may_warn_, false); }
  /// Shortest put or get that this rank's CPU carries out, if it can, while the target is inside MPI.
  size_t transfer_from_bytes() const { return transfer_from_bytes_; }

  void add(Window& window);
  void remove(Window& window);
  /// Some window is open whose operations need this rank's processor.
  bool serves() const { return serving_ != 0; }
  /// A thread of this rank may poll all the time: where ranks share cores it would only keep others from running.
  bool may_poll() const { return !shares_cores_; }
  /// Some window's locks are kept by a thread of this rank that polls all the time.
  bool wants_polls() const { return progress().kept_awake(); }
  /// Of all windows (window_gate.h): what short calls did is counted.
  void close_gates();
  /// What windows wait for, in words; lines.
  std::string report() const;

  // --- MessageHandler.
  void on_message(Endpoint& from, const wire::Header& header, const std::byte* payload, size_t bytes) override;
  Landing on_header(Endpoint& from, const wire::Header& header, size_t bytes) override;
  void on_landed(Endpoint& from, const wire::Header& header, Landing& landing, size_t bytes, Error error) override;
  void on_peer_lost(Endpoint& peer, const Error& error) override;

 private:
  /// The window of a message, if the sender is the rank of it that it claims to be; else null.
  Window* window_of(const Endpoint& from, const wire::Header& header);

  PointToPoint& p2p_;
  std::function<uint64_t()> new_context_;
  PredefinedTypes types_;
  PredefinedOps ops_;
  std::unordered_map<uint64_t, Window*> windows_;  ///< by id
  Window* last_ = nullptr;                         ///< whose message was the last; null: none
  const size_t transfer_from_bytes_;
  const bool shares_cores_;
  WordPoller word_poller_;
  size_t serving_ = 0;
  size_t locks_ = 0;
  bool may_warn_ = true;
};

}  // namespace tern::rma
