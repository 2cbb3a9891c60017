// A clock that stands still, and a port that fails the test when somebody sleeps.
#pragma once

#include <gtest/gtest.h>

#include "base/clock.h"
#include "progress/wait_port.h"

namespace tern::test {

struct StillClock final : Clock {
  uint64_t now_ns() override { return 0; }
};
struct NobodyWaits final : WaitPort {
  bool virtual_time() const override { return true; }
  void sleep(uint64_t, uint64_t) override { FAIL() << "nobody waits here"; }
};

}  // namespace tern::test
