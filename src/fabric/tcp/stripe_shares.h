// How a long message is divided among the networks to a peer: so that all parts end at the same time, given the backlog
// of each network and how fast it has carried the latest parts.
//
//   first network   ..... backlog ..... | part 0      |
//   second network  . backlog . | part 1              |
//                                                     ^ both end here
//
// Dividing by rates alone is bad for a stream of messages: a network that is ahead once stays ahead; its parts are done
// and it stands idle while the other network works off its queue.
//
// Units: bytes, nanoseconds. Thread rule: values of their owner.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "wire/frame.h"

namespace tern {

/// Bytes per nanosecond that a network carries while it is busy, measured on the latest parts.
class ServiceRate {
 public:
  /// So many bytes are known to have arrived, at that time.
  struct Mark {
    uint64_t bytes = 0, ns = 0;
  };

  /// A part handed over at `begin` is done. Until the part before it was done, it only waited.
  void on_done(Mark begin, Mark now) {
    const Mark from = begin.ns < last_.ns ? last_ : begin;
    // A part that is done because its end was copied has hardly arrived: it measures nothing.
    if (now.bytes - from.bytes < kMinBytes) return;
    // The longer the network was idle, the less its earlier speed counts.
    const double memory = kMemory * kStale_ns / (kStale_ns + double(from.ns - last_.ns));
    bytes_ = memory * bytes_ + double(now.bytes - from.bytes);
    ns_ = memory * ns_ + double(now.ns - std::min(now.ns, from.ns));
    last_ = now;
  }
  /// 0: not measured.
  double now() const { return bytes_ == 0 ? 0 : bytes_ / std::max(ns_, 1.0); }

 private:
  // (Sums, not the mean of rates: of parts that are found to have left in the same poll all but one took no time.)
  // The memory is long (ten parts), since a network that carries a burst faster (a shaper's bucket, an empty queue)
  // has one part go ten times as fast as the next. With a memory of a few parts the lucky network got whole messages,
  // and the other one stood idle. A measurement fades in 0.1 s without parts.
  static constexpr double kMemory = 0.9, kStale_ns = 100e6;
  static constexpr uint64_t kMinBytes = 32 * 1024;  ///< less is in sockets' buffers, and measures nothing
  double bytes_ = 0, ns_ = 0;
  Mark last_;
};

struct StreamLoad {
  double rate;       ///< bytes per nanosecond; 0: not measured
  uint64_t backlog;  ///< bytes to be carried before the part
};

/// A part shorter than this is not worth a stream's system calls (some 5 us, 64 KiB at 100 Gbit/s).
inline constexpr size_t kMinPart = 64 * 1024;
/// A part that measures a stream's speed: the arrival of a part's last 64 KiB is not seen (kTailBytes are copied).
inline constexpr size_t kProbePart = 128 * 1024;

/// Divides `total` bytes. `probe`: try an idle stream that gets nothing; it may have become faster.
inline void share_out(std::span<const StreamLoad> streams, size_t total, bool probe, size_t* shares) {
  constexpr size_t kGrain = 4096;  // shares are cut at pages
  // a stream slower than a tenth of the fastest is left out: it gains less than its cost
  constexpr double kWorthIt = 0.1;
  const size_t count = std::min(streams.size(), wire::kMaxStreams);
  double rates[wire::kMaxStreams], fastest = 0;
  for (size_t i = 0; i < count; ++i) fastest = std::max(fastest, streams[i].rate);
  if (fastest == 0) fastest = 1;
  for (size_t i = 0; i < count; ++i) {
    rates[i] = streams[i].rate == 0 ? fastest : streams[i].rate;
    if (rates[i] < kWorthIt * fastest) rates[i] = 0;
    shares[i] = 0;
  }
  // Streams that would get too little are left out, one by one; the others end later.
  double wanted[wire::kMaxStreams];
  for (;;) {
    double work = double(total), rate = 0;
    for (size_t i = 0; i < count; ++i) {
      if (rates[i] == 0) continue;
      work += double(streams[i].backlog);
      rate += rates[i];
    }
    size_t least = count, left = 0;
    for (size_t i = 0; i < count; ++i) {
      if (rates[i] == 0) continue;
      wanted[i] = rates[i] * (work / rate) - double(streams[i].backlog);
      ++left;
      if (least == count || wanted[i] < wanted[least]) least = i;
    }
    if (left <= 1 || wanted[least] >= double(kMinPart)) break;
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
    if (shares[i] != 0 || streams[i].backlog != 0 || shares[most] < 2 * kProbePart) continue;
    shares[i] = kProbePart;
    shares[most] -= kProbePart;
  }
}

}  // namespace tern
