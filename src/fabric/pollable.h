// Pollable: what a rank can wait for (paths, files, listeners, windows). The progress engine polls it; a rank that
// sleeps arms it and waits for its descriptor.
//
// Thread rule: everything here is called under the rank's lock, from inside the library, never concurrently.
#pragma once

#include <cstdint>

#include "base/counters.h"

namespace tern {

/// What the engine reads before each poll, without a call.
struct PollHints {
  bool dormant = false;  ///< poll would find nothing: all arrivals come through calls of this rank
  bool holding = false;  ///< small messages are held back, to be sent together with others in the next poll
  bool rung = false;     ///< wait_fd may be readable although nothing is here; the next `arm` and `disarm` end that
};

class Pollable {
 public:
  virtual ~Pollable() = default;

  /// Moves everything that can move; calls its owner back. Returns how many messages or completions it handled.
  virtual int poll() = 0;
  /// The address is constant; the hints are valid whenever poll is not running.
  virtual const PollHints& hints() const {
    static constexpr PollHints kNone;
    return kNone;
  }

  // --- Sleeping (progress/waiting.cc). A rank that has polled empty arms everything, looks once more, then sleeps on
  // the descriptors.

  /// A descriptor that becomes readable when poll would find something after `arm`; -1: there is nothing to wait for.
  /// Constant after start.
  virtual int wait_fd() const { return -1; }
  /// Asks to be woken through wait_fd. False: something is here already (poll again instead of sleeping).
  virtual bool arm() { return true; }
  virtual void disarm() {}
  /// The rest of an arriving message is expected within the time of a wake-up: an idle rank should poll on.
  virtual bool arriving() const { return false; }
  /// Other ranks of this machine that sleep until something comes for them, as far as is known.
  virtual int ranks_asleep() const { return 0; }
  /// When poll must be called although nothing arrives (retransmission, connect timeout): clock time, or ~0.
  virtual uint64_t next_deadline_ns() const { return ~uint64_t{0}; }

  /// Whether a thread of this rank polls while the application is outside the library.
  virtual void set_helped(bool helped) {}
  /// Where it counts from now on: the rank's table (not owned). Called once, before the first poll.
  virtual void count_into(Counters& counters) {}
};

}  // namespace tern
