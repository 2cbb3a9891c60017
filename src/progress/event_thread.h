// EventThread: the event handler's port on a real machine (event_port.h): a thread, asleep in epoll on a timer and the
// paths' descriptors.
//
// It usually wakes up on the core on which the application computes, and should get it at once. So it asks for a short
// time slice: Linux (6.12 and later) lets a woken thread with a shorter slice interrupt another one's; and it does not
// go to sleep just before the next message comes (adaptive_linger.h).
// Thread rule: as EventPort.
#pragma once

#include <atomic>
#include <cstdint>
#include <thread>

#include "progress/engine.h"
#include "progress/event_port.h"

struct epoll_event;

namespace tern {

class EventThread final : public EventPort {
 public:
  /// `lingers`: it may keep polling up to 50 us before it sleeps; not where ranks share cores, and those that send
  /// may be waiting for this one. Throws std::system_error where there is no descriptor left; so does `start` where
  /// there is no thread.
  explicit EventThread(ProgressEngine& engine, bool lingers = true);
  /// `stop` has been called if `start` was.
  ~EventThread() override;
  EventThread(const EventThread&) = delete;
  EventThread& operator=(const EventThread&) = delete;

  void start(EventClient& turns) override;
  void stop() override;
  void set_timer(uint64_t after_ns) override;
  void watch_paths(bool on) override;
  void poll_always(bool on) override;
  void barrier() override;
  bool has_barrier() const override { return has_barrier_; }

 private:
  void close_descriptors();
  void call();
  void run(EventClient& turns);
  int look(epoll_event* events, int most, uint64_t until_ns);
  void take_turns(EventClient& turns);

  ProgressEngine& engine_;
  const bool lingers_;
  int epoll_ = -1;  ///< what the thread sleeps on: timer_, call_fd_, and when watched the paths' descriptors, once
  int timer_ = -1;
  int call_fd_ = -1;  ///< stop_ or polls_ has changed
  bool has_barrier_ = false;
  size_t watched_ = 0;  ///< number of paths, from the first on, that epoll_ watches; under the rank's lock
  std::atomic<bool> stop_{false}, polls_{false};
  std::thread thread_;
};

}  // namespace tern
