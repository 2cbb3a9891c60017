// NapTimer: the descriptor of a port whose provider has none to wait for. It becomes readable a moment after `arm`, so
// that a rank that sleeps polls now and then.
//
// Thread rule: the rank's lock.
#pragma once

#include <sys/timerfd.h>
#include <unistd.h>

namespace tern::ofi {

class NapTimer {
 public:
  NapTimer() : descriptor_(timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC)) {}
  ~NapTimer() {
    if (descriptor_ >= 0) close(descriptor_);
  }
  NapTimer(const NapTimer&) = delete;
  NapTimer& operator=(const NapTimer&) = delete;

  int descriptor() const { return descriptor_; }
  /// False: no sleep is possible, since nothing would end it.
  bool arm() {
    const itimerspec moment{{}, {0, kNap_ns}};
    return descriptor_ >= 0 && timerfd_settime(descriptor_, 0, &moment, nullptr) == 0;
  }

 private:
  /// A poll of a provider in software takes about 1 us: 2 % of a core. Waking a sleeper takes as long (40 us).
  static constexpr long kNap_ns = 50'000;
  const int descriptor_;
};

}  // namespace tern::ofi
