#include "io/uring.h"

#include <algorithm>
#include <cerrno>
#include <climits>

namespace tern::io {

namespace {
// Jobs at the kernel at a time; as many completions and more fit its queue, so none is lost.
constexpr unsigned kEntries = 128;
// From this size on a read is better copied by a worker of the kernel, on another core, than by the call that begins it
// (page cache, 1 MiB: the call takes 240 us without and 20 with; to hand the work over costs 10 to 16 us).
constexpr size_t kWorthAWorker = 128 * 1024;
}  // namespace

std::unique_ptr<Uring> Uring::create() {
  std::unique_ptr<Uring> uring(new Uring);
  if (io_uring_queue_init(kEntries, &uring->ring_, 0) != 0) {
    uring->ring_.ring_fd = -1;
    return nullptr;
  }
  return uring;
}

Uring::~Uring() {
  if (ring_.ring_fd >= 0) io_uring_queue_exit(&ring_);
}

bool Uring::submit(Job& job) {
  if (in_flight_ == kEntries) return false;
  io_uring_sqe* entry = io_uring_get_sqe(&ring_);
  if (!entry) return false;
  const auto count = unsigned(std::min(job.count, IOV_MAX));
  if (job.work == Job::Work::read) {
    io_uring_prep_readv(entry, job.file, job.pieces, count, uint64_t(job.offset));
    size_t bytes = 0;
    for (unsigned i = 0; i < count && bytes < kWorthAWorker; ++i) bytes += job.pieces[i].iov_len;
    if (bytes >= kWorthAWorker) entry->flags |= IOSQE_ASYNC;
  } else {
    io_uring_prep_writev(entry, job.file, job.pieces, count, uint64_t(job.offset));
  }
  io_uring_sqe_set_data(entry, &job);
  ++in_flight_;
  ++unsubmitted_;
  return true;
}

void Uring::begin(Job& job) {
  job.next = nullptr;
  if (!waiting_ && submit(job)) return;
  *waiting_end_ = &job;
  waiting_end_ = &job.next;
}

// What the kernel does not take now (for lack of memory, say) is submitted again by the next poll.
void Uring::flush() {
  if (unsubmitted_ == 0) return;
  int taken;
  do taken = io_uring_submit(&ring_);
  while (taken == -EINTR);
  if (taken > 0) unsubmitted_ -= std::min(unsigned(taken), unsubmitted_);
}

Job* Uring::take() {
  Job* done = nullptr;
  io_uring_cqe* entry;
  bool again = unsubmitted_ != 0;
  while (io_uring_peek_cqe(&ring_, &entry) == 0) {
    auto* job = static_cast<Job*>(io_uring_cqe_get_data(entry));
    const int result = entry->res;
    io_uring_cqe_seen(&ring_, entry);
    --in_flight_;
    if (job->note(result)) {
      job->next = done;
      done = job;
    } else {
      again = true;
      begin(*job);
    }
  }
  while (waiting_ && submit(*waiting_)) {
    again = true;
    waiting_ = waiting_->next;
    if (!waiting_) waiting_end_ = &waiting_;
  }
  if (again) flush();
  return done;
}

}  // namespace tern::io
