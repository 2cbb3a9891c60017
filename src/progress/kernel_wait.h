// KernelWait: waiting on a real machine (wait_port.h): sched_yield, epoll on the descriptors of all paths, and an
// eventfd that ends a sleep.
#pragma once

#include "progress/wait_port.h"

namespace tern {

/// Runnable tasks of this machine, this one included, from /proc/loadavg; INT_MAX if that cannot be read.
int runnable_tasks();
/// How often the kernel has preempted this thread to run another.
int64_t preemptions_of_this_thread();

class KernelWait : public WaitPort {
 public:
  KernelWait();
  ~KernelWait() override;
  KernelWait(const KernelWait&) = delete;
  KernelWait& operator=(const KernelWait&) = delete;

  void yield() override;
  int runnable_tasks() override { return tern::runnable_tasks(); }
  int64_t preemptions() override { return preemptions_of_this_thread(); }
  void sleep(uint64_t deadline_ns, uint64_t now_ns) override;
  void wake() override;
  void forget_wake() override;
  void watch(int descriptor) override;

 private:
  int epoll_ = -1, wake_fd_ = -1;
};

}  // namespace tern
