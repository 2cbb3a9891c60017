#include "io/threads.h"

#include <pthread.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <deque>
#include <system_error>

#include "base/descriptor.h"
#include "base/helper_signals.h"

namespace tern::io {

struct Threads::Shared {
  std::mutex mutex;
  std::condition_variable work;
  std::deque<Job*> waiting;
  Job* finished = nullptr;
  int idle = 0;
  bool stop = false;
  Descriptor signal{eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)};  ///< not 0 while there is one finished; with the mutex
  std::vector<char> busy;                                     ///< by thread
};

Threads::Threads(int most) : shared_(std::make_shared<Shared>()), most_(most) {}

int Threads::descriptor() const { return shared_->signal.get(); }

Threads::~Threads() {
  std::vector<char> busy;
  {
    const std::lock_guard lock(shared_->mutex);
    shared_->stop = true;
    shared_->waiting.clear();
    busy = shared_->busy;
  }
  shared_->work.notify_all();
  for (size_t i = 0; i < threads_.size(); ++i) {
    if (busy[i]) threads_[i].detach();
    else threads_[i].join();
  }
}

// False: the system gives no more threads.
bool Threads::start_one() {
  const HelperSignals signals;
  shared_->busy.push_back(0);
  try {
    threads_.emplace_back(run, shared_, shared_->busy.size() - 1);
    pthread_setname_np(threads_.back().native_handle(), "tern-io");  // base/program_threads.h
  } catch (const std::system_error&) {
    shared_->busy.pop_back();
  }
  return !threads_.empty();
}

void Threads::begin(Job& job) {
  {
    const std::lock_guard lock(shared_->mutex);
    shared_->waiting.push_back(&job);
    const bool somebody = int(shared_->waiting.size()) <= shared_->idle;
    const bool more = job.work == Job::Work::call || int(threads_.size()) < most_;
    if (!somebody && more && !start_one()) {
      // The caller's own thread is the last resort.
      shared_->waiting.pop_back();
      job.carry_out();
      finish(*shared_, job);
      return;
    }
  }
  shared_->work.notify_one();
}

// With the mutex.
void Threads::finish(Shared& shared, Job& job) {
  job.next = shared.finished;
  shared.finished = &job;
  if (job.next) return;
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = write(shared.signal.get(), &one, sizeof one);
}

Job* Threads::take() {
  const std::lock_guard lock(shared_->mutex);
  Job* jobs = shared_->finished;
  if (!jobs) return nullptr;
  shared_->finished = nullptr;
  uint64_t one;
  [[maybe_unused]] const ssize_t got = read(shared_->signal.get(), &one, sizeof one);
  return jobs;
}

void Threads::run(std::shared_ptr<Shared> shared, size_t index) {
  std::unique_lock lock(shared->mutex);
  for (;;) {
    ++shared->idle;
    shared->work.wait(lock, [&] { return shared->stop || !shared->waiting.empty(); });
    --shared->idle;
    if (shared->stop) return;
    Job* job = shared->waiting.front();
    shared->waiting.pop_front();
    shared->busy[index] = 1;
    lock.unlock();
    job->carry_out();
    lock.lock();
    shared->busy[index] = 0;
    if (shared->stop) return;  // its result is not wanted any more
    finish(*shared, *job);
  }
}

}  // namespace tern::io
