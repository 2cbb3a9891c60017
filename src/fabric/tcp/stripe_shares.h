// How a long message is divided among the networks to a peer: so that all parts end at the same time, given what each network
// still has to carry and how fast it has carried the latest parts.
//
//   first network   ..... backlog ..... | part 0      |
//   second network  . backlog . | part 1              |
//                                                     ^ both end here
//
// Who looks at rates alone divides a stream of messages badly: a network that once is ahead stays ahead, has all its parts done
// and stands still while the other works off its queue.
//
// Units: bytes, nanoseconds. Thread rule: values of their owner.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "wire/frame.h"

namespace tern {

/// Bytes per nanosecond that a network carries while it is busy, by the parts that it has carried lately.
class ServiceRate {
 public:
  /// A part handed over at `begin_ns` has left. Before the one in front of it had, it only waited.
  void on_carried(size_t bytes, uint64_t begin_ns, uint64_t now_ns) {
    const uint64_t from_ns = std::max(begin_ns, last_ns_);
    // The longer it has stood still since, the less says what it did before.
    const double memory = bytes_ == 0 ? 0 : kMemory * ns_ / (ns_ + double(from_ns - last_ns_) + 1);
    bytes_ = memory * bytes_ + double(bytes);
    ns_ = memory * ns_ + double(now_ns - std::min(now_ns, from_ns));
    last_ns_ = now_ns;
  }
  /// 0: not measured.
  double now() const { return bytes_ == 0 ? 0 : bytes_ / std::max(ns_, 1.0); }

 private:
  // (Sums, not the mean of rates: of parts that are found to have left in the same poll all but one took no time.)
  static constexpr double kMemory = 0.75;
  double bytes_ = 0, ns_ = 0;
  uint64_t last_ns_ = 0;
};

struct StripeLane {
  double rate;       ///< bytes per nanosecond; 0: not measured
  uint64_t backlog;  ///< bytes before the part
};

/// A part shorter than this is not worth a lane's system calls.
inline constexpr size_t kLeastPart = 64 * 1024;

/// Divides `total` bytes. `probe`: an idle lane that gets nothing is tried with the least part; it may have become faster.
inline void share_out(std::span<const StripeLane> lanes, size_t total, bool probe, size_t* shares) {
  constexpr size_t kGrain = 4096;   // shares are cut at pages
  constexpr double kWorthIt = 0.1;  // a lane slower than this, compared to the fastest, is left out
  const size_t count = std::min(lanes.size(), wire::kMaxLanes);
  double rates[wire::kMaxLanes], fastest = 0;
  for (size_t i = 0; i < count; ++i) fastest = std::max(fastest, lanes[i].rate);
  if (fastest == 0) fastest = 1;
  for (size_t i = 0; i < count; ++i) {
    rates[i] = lanes[i].rate == 0 ? fastest : lanes[i].rate;
    if (rates[i] < kWorthIt * fastest) rates[i] = 0;
    shares[i] = 0;
  }
  // Whoever would get too little is left out, one by one, and the others end later.
  double wanted[wire::kMaxLanes];
  for (;;) {
    double work = double(total), rate = 0;
    for (size_t i = 0; i < count; ++i) {
      if (rates[i] == 0) continue;
      work += double(lanes[i].backlog);
      rate += rates[i];
    }
    size_t least = count, left = 0;
    for (size_t i = 0; i < count; ++i) {
      if (rates[i] == 0) continue;
      wanted[i] = rates[i] * (work / rate) - double(lanes[i].backlog);
      ++left;
      if (least == count || wanted[i] < wanted[least]) least = i;
    }
    if (left <= 1 || wanted[least] >= double(kLeastPart)) break;
    rates[least] = 0;
  }
  size_t rest = total, most = 0;
  for (size_t i = 0; i < count; ++i) {
    if (rates[i] == 0) continue;
    shares[i] = std::min(rest, size_t(std::max(wanted[i], 0.0)) / kGrain * kGrain);
    rest -= shares[i];
    if (rates[most] == 0 || shares[i] > shares[most]) most = i;
  }
  shares[most] += rest;
  for (size_t i = 0; probe && i < count; ++i) {
    if (shares[i] != 0 || lanes[i].backlog != 0 || shares[most] < 2 * kLeastPart) continue;
    shares[i] = kLeastPart;
    shares[most] -= kLeastPart;
  }
}

}  // namespace tern
