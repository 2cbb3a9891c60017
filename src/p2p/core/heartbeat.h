// Heartbeat: while an operation is open whose peer may ask whether this rank is in its library (CopyArbiter), every
// poll says so. Thread rule: under the rank's lock.
#pragma once

#include <cstdint>
#include <utility>

#include "base/assert.h"
#include "fabric/copy_arbiter.h"
#include "p2p/core/chore.h"

namespace tern {

class Heartbeat final : Chore {
 public:
  using Chore::is_idle;
  explicit Heartbeat(ProgressEngine& progress) : Chore(progress) {}

  /// Whose peers ask. Not owned; before the first Hold.
  void set_arbiter(CopyArbiter& arbiter) { arbiter_ = &arbiter; }

  /// One such operation, for as long as it is open.
  class Hold {
   public:
    Hold() = default;
    explicit Hold(Heartbeat& of) { begin(of); }
    Hold(Hold&& other) noexcept : of_(std::exchange(other.of_, nullptr)) {}
    Hold& operator=(Hold&& other) noexcept {
      std::swap(of_, other.of_);
      return *this;
    }
    /// Not begun as yet.
    void begin(Heartbeat& of) {
      TERN_ASSERT(!of_ && of.arbiter_);
      of_ = &of;
      if (++of.open_ == 1) of.progress_.activate(of);
    }
    ~Hold() {
      TERN_DEBUG_ASSERT(!of_ || of_->open_ != 0);
      if (of_ && --of_->open_ == 0) of_->progress_.deactivate(*of_);
    }

   private:
    Heartbeat* of_ = nullptr;
  };

 private:
  int advance() override {
    arbiter_->publish_heartbeat();
    return 0;
  }

  CopyArbiter* arbiter_ = nullptr;
  uint32_t open_ = 0;
};

}  // namespace tern
