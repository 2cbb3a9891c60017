// When a wait has begun, for the report of what a rank waits for (process/hang_monitor.h).
#include "process/hang_monitor.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <string>
#include <vector>

#include "base/tunables.h"

namespace tern {
namespace {

struct HandClock final : Clock {
  uint64_t now_ns() override { return now; }
  uint64_t now = 1'000'000'000;
};

class HangWatchTest : public ::testing::Test {
 protected:
  HangWatchTest() {
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends_), 0);
    watch_.set_surroundings(
        {ends_[0], [] { return std::string("main (a.c:7)"); }, nullptr, nullptr, [] { return true; }});
  }
  ~HangWatchTest() override {
    close(ends_[0]);
    close(ends_[1]);
  }
  std::string told() {
    char text[4096];
    const ssize_t n = read(ends_[1], text, sizeof text);
    return std::string(text, n > 0 ? size_t(n) : 0);
  }
  static constexpr uint64_t kSecond = 1'000'000'000;

  int ends_[2] = {-1, -1};
  HandClock clock_;
  Driving driving_;
  NoWaiting port_;
  ProgressEngine engine_{clock_, driving_, port_};
  Tunables tunables_;
  PointToPoint p2p_{engine_, tunables_};
  HangMonitor watch_{0, clock_, p2p_, 0};
};

// Where strangers need the cores, a rank sleeps after its first empty poll: that is where its wait begins.
TEST_F(HangWatchTest, AWaitBeginsWithItsFirstSleep) {
  watch_.on_empty_polls(1);
  watch_.on_sleep();
  clock_.now += 5 * kSecond;
  watch_.ask(HangMonitor::To::mpiexec);
  watch_.on_empty_polls(2);
  EXPECT_NE(told().find("ms=5000"), std::string::npos);
}

// Where many ranks compute on few cores, each yield takes some 0.1 s: the wait begins long before its 64th empty poll.
TEST_F(HangWatchTest, AWaitBeginsWithTheFirstLookAtTheClock) {
  watch_.on_empty_polls(1);
  watch_.on_clock(clock_.now);
  clock_.now += 5 * kSecond;
  watch_.on_clock(clock_.now);
  watch_.ask(HangMonitor::To::mpiexec);
  watch_.on_empty_polls(2);
  EXPECT_NE(told().find("ms=5000"), std::string::npos);
}

TEST_F(HangWatchTest, ALongSleepIsToldOnceAndItsEndToo) {
  watch_.on_empty_polls(1);
  watch_.on_sleep();
  EXPECT_EQ(watch_.next_deadline_ns(), clock_.now + HangMonitor::kTell_ns);
  clock_.now += HangMonitor::kTell_ns - 1;
  watch_.on_empty_polls(2);
  EXPECT_EQ(told(), "");
  watch_.on_sleep();
  clock_.now += 1;
  watch_.on_empty_polls(3);
  EXPECT_NE(told().find("told=1 certain=1 ms=10000"), std::string::npos);
  EXPECT_EQ(watch_.next_deadline_ns(), ~uint64_t{0});
  watch_.on_sleep();
  clock_.now += 100 * kSecond;
  watch_.on_empty_polls(4);
  EXPECT_EQ(told(), "");
  watch_.on_wait_over();
  EXPECT_EQ(told(), "cmd=tern_going\n");
  watch_.on_wait_over();
  EXPECT_EQ(told(), "");
}

// A tool that listens hears of it when mpiexec does, once for each wait.
TEST_F(HangWatchTest, ALongSleepIsAnEvent) {
  struct Heard final : EventTap {
    void on_event(Event event, const EventData& data) override {
      EXPECT_EQ(event, Event::hang_suspected);
      waited_ns.push_back(data.x);
    }
    std::vector<int64_t> waited_ns;
  } heard;
  engine_.counters().tap = &heard;
  engine_.counters().watched |= Counters::kListened;
  for (int wait : {1, 2}) {
    watch_.on_empty_polls(1);
    watch_.on_sleep();
    clock_.now += HangMonitor::kTell_ns - 1;
    watch_.on_empty_polls(2);
    EXPECT_EQ(int(heard.waited_ns.size()), wait - 1);
    watch_.on_sleep();
    clock_.now += 1;
    watch_.on_empty_polls(3);
    watch_.on_sleep();
    clock_.now += 100 * kSecond;
    watch_.on_empty_polls(4);
    EXPECT_EQ(heard.waited_ns, std::vector<int64_t>(size_t(wait), int64_t(HangMonitor::kTell_ns)));
    watch_.on_wait_over();
  }
}

// Something has come, though not what the rank waits for: the count begins anew.
TEST_F(HangWatchTest, WhateverComesBeginsTheWaitAnew) {
  watch_.on_empty_polls(1);
  watch_.on_sleep();
  clock_.now += 9 * kSecond;
  watch_.on_empty_polls(1);
  watch_.on_sleep();
  clock_.now += 9 * kSecond;
  watch_.on_empty_polls(2);
  EXPECT_EQ(told(), "");
}

}  // namespace
}  // namespace tern
