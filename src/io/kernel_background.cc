// Background with the kernel's means: io_uring for reads and writes, threads for the rest and where there is none.
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/descriptor.h"
#include "io/background.h"
#include "io/threads.h"
#include "io/uring.h"

namespace tern::io {

namespace {

class KernelBackground final : public Background {
 public:
  KernelBackground(bool kernel_files, const Tunables& tunables)
      : finished_(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)), threads_(int(tunables.io_threads), finished_.get()) {
    if (kernel_files && tunables.io_uring != 0) uring_ = Uring::create(finished_.get());
  }

  void begin(Job& job) override {
    // The end of a pipe may come at any time; io_uring would use a worker for it as well, but cannot be left behind.
    if (uring_ && job.work != Job::Work::call && job.offset != FileSystem::kStream) {
      ++uring_pending_;
      uring_->begin(job);
    } else {
      ++threads_pending_;
      threads_.begin(job);
    }
  }
  void flush() override {
    if (uring_) uring_->flush();
  }
  size_t pending() const override { return uring_pending_ + threads_pending_; }

  int poll() override {
    int done = 0;
    for (Job* job = uring_pending_ != 0 ? uring_->take() : nullptr; job;) done += complete(job, uring_pending_);
    for (Job* job = threads_pending_ != 0 ? threads_.take() : nullptr; job;) done += complete(job, threads_pending_);
    return done;
  }
  int wait_fd() const override { return finished_.get(); }
  bool arm() override {
    uint64_t count;
    [[maybe_unused]] const ssize_t got = read(finished_.get(), &count, sizeof count);
    return true;
  }

 private:
  static int complete(Job*& job, size_t& pending) {
    Job* finished = job;
    job = job->next;
    --pending;
    finished->settle();
    finished->set_complete();
    return 1;
  }

  Descriptor finished_;
  Threads threads_;
  std::unique_ptr<Uring> uring_;
  size_t uring_pending_ = 0, threads_pending_ = 0;
};

}  // namespace

std::unique_ptr<Background> make_background(FileSystem& files, const Tunables& tunables) {
  return std::make_unique<KernelBackground>(files.is_kernel(), tunables);
}

}  // namespace tern::io
