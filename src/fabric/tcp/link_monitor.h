// LinkMonitor: finds connections whose network is lost. The kernel would repeat for a quarter of an hour; a living
// peer's kernel answers every repetition, even if its rank computes or does not read.
//
// Units: nanoseconds. Thread rule: under the rank's lock.
#pragma once

#include <cstdint>

#include "fabric/ip/stream_port.h"
#include "fabric/tcp/links.h"

namespace tern::tcp {

class LinkMonitor {
 public:
  /// How often connections with unacknowledged data are checked: the kernel's shortest repetition (TCP_RTO_MIN).
  static constexpr uint64_t kInterval_ns = 200'000'000;

  /// The port is not owned, and outlives this.
  explicit LinkMonitor(StreamPort& port) : port_(port) {}
  /// Whether it is time to look again; the next time is an interval later.
  bool due(uint64_t now_ns) {
    if (now_ns < next_ns_) return false;
    next_ns_ = now_ns + kInterval_ns;
    return true;
  }
  /// Whether the peer's host has been silent for too long. `other_network`: there is another one to use.
  bool stalled(const Watched& watched, bool other_network) {
    StreamPort::Silence silence;
    return port_.silence(watched.handle.get(), silence) &&
           silence.repetitions >= (other_network ? kRepetitions : kRepetitionsAlone) &&
           silence.silent_ms >= kSilence_ms;
  }

 private:
  // The kernel repeats after 0.2 s (or three round trips), then after twice the time before. After two unanswered
  // repetitions and half a second of silence another network is tried; without another one, after five (some seconds).
  static constexpr uint32_t kRepetitions = 2, kRepetitionsAlone = 5;
  static constexpr uint32_t kSilence_ms = 500;

  StreamPort& port_;
  uint64_t next_ns_ = 0;
};

}  // namespace tern::tcp
