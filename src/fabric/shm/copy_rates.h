// CopyRates: the speed of long messages between two ranks in each of two ways. A stream goes through the ring, and both
// ranks copy it at the same time. Cross-memory attach copies once, by one rank. Which way is faster depends on the
// machine and on the content of the caches: on one machine a stream of 512 KiB took 26 us and attach 63, on another 58
// and 18. So both are measured on the messages themselves: each way at first, then the faster one, and the other one
// again now and then.
//
// PairRates is what both ranks of a pair share, so that they have one answer for a size. (When each measured for
// itself, a ping-pong of 1 MiB could take one way forth and the other one back; each way then finds the caches as the
// other has left them, and both are slow.)
//
// Units: bytes, nanoseconds. Thread rule: CopyRates has one owner at a time; PairRates may be used by two processes.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "base/assert.h"
#include "fabric/copy_arbiter.h"

namespace tern::shm {

/// Zero bytes are a new one: it may lie in memory that nobody has touched.
class CopyRates {
 public:
  enum class Kind : uint8_t { stream, attach };

  /// Lengths are judged apart by powers of 2: up to 16 KiB, 32 KiB, ... 4 MiB, more.
  static constexpr size_t kClasses = 10;
  static size_t class_of(size_t bytes) {
    const int log = std::bit_width(bytes > 1 ? bytes - 1 : 1);
    return size_t(std::clamp(log - 14, 0, int(kClasses) - 1));
  }

  /// Whether a message of that length should be streamed, if both ranks have time to copy. In an exchange two streams
  /// take twice the time of one, and two copies by attach the time of one, since each rank makes one of them. (512 KiB
  /// each way took 85 us as streams of 42, and 52 by attach.)
  bool prefers_stream(size_t bytes, Traffic traffic) const {
    const Class& c = classes_[class_of(bytes)];
    const Record &stream = c[size_t(Kind::stream)], &attach = c[size_t(Kind::attach)];
    if (due(stream)) return true;
    if (due(attach)) return false;
    const float streams = traffic == Traffic::exchange ? 2 : 1;
    return !attach.measured || (stream.measured && streams * stream.ns_per_kib <= attach.ns_per_kib);
  }

  /// `bytes` of a message of `of_bytes` were transferred in `ns`.
  void took(Kind kind, size_t of_bytes, size_t bytes, uint64_t ns) {
    Class& c = classes_[class_of(of_bytes)];
    TERN_DEBUG_ASSERT(bytes != 0 && bytes <= of_bytes);
    Record &mine = c[size_t(kind)], &other = c[size_t(kind) ^ 1];
    const float sample = float(ns) * 1024 / float(bytes);
    const float share = float(bytes) / float(of_bytes);
    const bool was_faster = mine.ns_per_kib < other.ns_per_kib;
    mine.in_a_row += share;
    other.in_a_row = 0;
    // The shortest times count: longer ones contain waiting for a processor, and the first ones in a row find the
    // caches as the other way has left them. A way that has become slower is noticed after some tens of messages.
    if (!mine.measured || sample < mine.ns_per_kib) mine.ns_per_kib = sample;
    else if (mine.in_a_row > kWarm) mine.ns_per_kib += (std::min(sample, 2 * mine.ns_per_kib) - mine.ns_per_kib) / 64;
    mine.measured = true;
    // The one that was faster until now has perhaps had a bad moment.
    if (mine.known && other.known && (mine.ns_per_kib < other.ns_per_kib) != was_faster)
      (was_faster ? mine : other).set_interval(kAgain);
    if (!due(mine)) {
      mine.skipped = kTries;
    } else if ((mine.tried += share) >= kBurst) {
      if (mine.known) mine.ask_later(other);
      mine.known = true;
      mine.tried = 0;
      mine.skipped = kTries;
    } else if (!mine.known) {
      mine.skipped = 0;
    }
    if ((other.skipped += share) >= other.interval() + kTries) {
      other.skipped = kTries;
      other.ask_later(mine);
    }
  }

 private:
  /// Messages in a row that measure one way. The first ones find other data in the caches, or memory that was never
  /// touched: a copy of 1 MiB by attach, where a core's own cache holds 2, takes 140, 130, 100, 90, 65, 60, 60 us.
  static constexpr float kBurst = 8, kWarm = 5;
  /// Messages to which a way is offered: for some of them it may be impossible (another datatype, say).
  static constexpr float kTries = 16;
  /// Messages of the faster way after which the slower one is measured again: early at first, and after they have
  /// changed places; later and later if they do not again. If the slower one takes less than twice the time, that costs
  /// less than 1 % in the end.
  static constexpr float kAgain = 64, kAtFirst = 512, kNearInterval = 1024, kFarInterval = 4096;

  struct Record {
    float ns_per_kib = 0;
    bool measured = false, known = false;  ///< at all; often enough to begin with
    float in_a_row = 0;                    ///< messages since the other way was last used
    float tried = 0;                       ///< messages of the present burst
    float skipped = 0;                     ///< messages sent the other way since this one was last measured or offered
    float later = 0;                       ///< interval() is kAtFirst and this

    /// Of `skipped`, after which it is measured again.
    float interval() const { return kAtFirst + later; }
    void set_interval(float messages) { later = messages - kAtFirst; }
    void ask_later(const Record& other) {
      const bool near = measured && ns_per_kib < 2 * other.ns_per_kib;
      set_interval(std::min(2 * interval(), near ? kNearInterval : kFarInterval));
    }
  };
  using Class = std::array<Record, 2>;  ///< by Kind

  static bool due(const Record& way) { return (!way.known && way.skipped < kTries) || way.skipped >= way.interval(); }

  std::array<Class, kClasses> classes_{};
};

/// Zero bytes are a new one.
class alignas(64) PairRates {
 public:
  bool prefers_stream(size_t bytes, Traffic traffic) const {
    return (attached_.load(std::memory_order_relaxed) & bit_of(bytes, traffic)) == 0;
  }
  /// As CopyRates::took. Does nothing while the other rank notes a time: the next message has one, too.
  void took(CopyRates::Kind kind, size_t of_bytes, size_t bytes, uint64_t ns) {
    if (noting_.exchange(1, std::memory_order_acquire) != 0) return;
    rates_.took(kind, of_bytes, bytes, ns);
    uint32_t attached = attached_.load(std::memory_order_relaxed);
    for (const Traffic traffic : {Traffic::one_way, Traffic::exchange}) {
      const uint32_t bit = bit_of(of_bytes, traffic);
      attached = rates_.prefers_stream(of_bytes, traffic) ? attached & ~bit : attached | bit;
    }
    attached_.store(attached, std::memory_order_relaxed);
    noting_.store(0, std::memory_order_release);
  }

 private:
  static uint32_t bit_of(size_t bytes, Traffic traffic) {
    static_assert(2 * CopyRates::kClasses <= 32);
    return uint32_t{1} << (CopyRates::class_of(bytes) + (traffic == Traffic::exchange ? CopyRates::kClasses : 0));
  }

  std::atomic<uint32_t> noting_;    ///< 1: one of the two changes `rates_`; a rank that ends meanwhile leaves it so
  std::atomic<uint32_t> attached_;  ///< a bit for each class of lengths and kind of traffic: 1: attach is faster
  CopyRates rates_;
};

}  // namespace tern::shm
