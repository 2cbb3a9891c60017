// The lock of one rank: recursive, taken by entry points only at MPI_THREAD_MULTIPLE, given up entirely while waiting.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <thread>

#include "progress/idle.h"

namespace tern {

class RankLock final : public Releasable {
 public:
  /// Before any second thread may enter; never turned off again.
  void enable() { enabled_ = true; }
  bool enabled() const { return enabled_; }

  void acquire() {
    if (owner_.load(std::memory_order_relaxed) == std::this_thread::get_id()) {
      ++depth_;
      return;
    }
    mutex_.lock();
    owner_.store(std::this_thread::get_id(), std::memory_order_relaxed);
    depth_ = 1;
  }
  void release() {
    if (--depth_ != 0) return;
    owner_.store(std::thread::id(), std::memory_order_relaxed);
    mutex_.unlock();
  }
  uint32_t release_all() override {
    if (!enabled_ || owner_.load(std::memory_order_relaxed) != std::this_thread::get_id()) return 0;
    uint32_t depth = depth_;
    owner_.store(std::thread::id(), std::memory_order_relaxed);
    mutex_.unlock();
    return depth;
  }
  void reacquire(uint32_t depth) override {
    if (depth == 0) return;
    mutex_.lock();
    owner_.store(std::this_thread::get_id(), std::memory_order_relaxed);
    depth_ = depth;
  }

  /// Holds the lock for a scope; costs one predicted branch when not enabled.
  class Guard {
   public:
    explicit Guard(RankLock& lock) : lock_(lock.enabled_ ? &lock : nullptr) {
      if (lock_) lock_->acquire();
    }
    ~Guard() {
      if (lock_) lock_->release();
    }
    Guard(const Guard&) = delete;
    Guard& operator=(const Guard&) = delete;

   private:
    RankLock* lock_;
  };

 private:
  bool enabled_ = false;
  std::mutex mutex_;
  std::atomic<std::thread::id> owner_{};
  uint32_t depth_ = 0;
};

}  // namespace tern
