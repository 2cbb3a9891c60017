// Background with the kernel's means: io_uring for reads and writes, threads for the rest and where there is none.
#include "io/background.h"
#include "io/threads.h"
#include "io/uring.h"

namespace tern::io {

namespace {

class KernelBackground final : public Background {
 public:
  KernelBackground(bool kernel_files, const Tunables& tunables) : threads_(int(tunables.io_threads)) {
    if (kernel_files && tunables.io_uring != 0) uring_ = Uring::create();
    wait_fds_[0] = threads_.descriptor();
    if (uring_) wait_fds_[1] = uring_->descriptor();
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
  std::span<const int> wait_fds() const override { return std::span(wait_fds_).first(uring_ ? 2 : 1); }

 private:
  static int complete(Job*& job, size_t& pending) {
    Job* finished = job;
    job = job->next;
    --pending;
    finished->settle();
    finished->set_complete();
    return 1;
  }

  Threads threads_;
  std::unique_ptr<Uring> uring_;
  int wait_fds_[2] = {-1, -1};
  size_t uring_pending_ = 0, threads_pending_ = 0;
};

}  // namespace

std::unique_ptr<Background> make_background(FileSystem& files, const Tunables& tunables) {
  return std::make_unique<KernelBackground>(files.is_kernel(), tunables);
}

}  // namespace tern::io
