// A small number for each thread of the process that asks for one: the lowest that no other living thread has. For
// tables with a place for each thread. Thread rule: any thread.
#pragma once

#include <atomic>
#include <bit>
#include <cstdint>

namespace tern {

class ThreadNumber {
 public:
  static constexpr uint32_t kNone = 64;  ///< there is none left: 64 threads have the numbers below

  /// Of the calling thread.
  static uint32_t get() {
    if (mine_ == kUnknown) [[unlikely]]
      take();
    return mine_;
  }

 private:
  static constexpr uint32_t kUnknown = ~uint32_t{0};  ///< none was asked for yet; no number

  static inline std::atomic<uint64_t> used_{0};  ///< a bit for each number
  // Apart from the holder, so that a look needs no guard.
  static inline thread_local constinit uint32_t mine_ = kUnknown;

  [[gnu::noinline]] static void take() {
    static thread_local const ThreadNumber holder;  // gives it back when the thread ends
    mine_ = holder.number_;
  }
  ThreadNumber() {
    uint64_t used = used_.load(std::memory_order_relaxed);
    do {
      number_ = uint32_t(std::countr_one(used));
    } while (number_ != kNone && !used_.compare_exchange_weak(used, used | uint64_t{1} << number_,
                                                              std::memory_order_acquire, std::memory_order_relaxed));
  }
  ~ThreadNumber() {
    mine_ = kNone;  // what ends after this has none
    if (number_ != kNone) used_.fetch_and(~(uint64_t{1} << number_), std::memory_order_release);
  }

  uint32_t number_ = kNone;
};

}  // namespace tern
