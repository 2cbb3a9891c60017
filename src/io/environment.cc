#include "io/environment.h"

#include <algorithm>

#include "io/kernel_file_system.h"

namespace tern::io {

namespace {
// A blocking transfer polls for messages after so many bytes: about a millisecond.
constexpr size_t kPieceBytes = size_t{4} << 20;
// Up to here a nonblocking transfer is done at once, where that does not wait for a device: to hand it over costs more
// (page cache, 16 KiB: 3 to 8 us; through io_uring or a thread 20 to 30 us).
constexpr size_t kAtOnceBytes = 16 * 1024;

size_t bytes_of(const iovec* pieces, int count) {
  size_t bytes = 0;
  for (int i = 0; i < count; ++i) bytes += pieces[i].iov_len;
  return bytes;
}

bool is_aligned(const iovec* pieces, int count, int64_t offset) {
  uintptr_t bits = uintptr_t(offset);
  for (int i = 0; i < count; ++i) bits |= reinterpret_cast<uintptr_t>(pieces[i].iov_base) | pieces[i].iov_len;
  return bits % kDirectAlignment == 0;
}
}  // namespace

/// The background's part of every poll while it has work.
class Environment::BackgroundPolls final : public Advanceable {
 public:
  BackgroundPolls(ProgressEngine& progress, Background& background) : progress_(progress), background_(background) {
    for (const int descriptor : background.wait_fds()) progress.watch(descriptor);
  }
  ~BackgroundPolls() {
    if (linked()) progress_.deactivate(*this);
  }
  void wanted() {
    if (!linked()) progress_.activate(*this);
  }
  int advance() override {
    const int done = background_.poll();
    if (background_.pending() == 0) progress_.deactivate(*this);
    return done;
  }

 private:
  ProgressEngine& progress_;
  Background& background_;
};

Environment::Environment(PointToPoint& p2p, const Tunables& tunables, const PeerTable& peers, const RankName& node,
                         std::function<uint64_t()> new_context)
    : p2p_(p2p),
      tunables_(tunables),
      new_context_(std::move(new_context)),
      peers_(peers),
      node_(hash_of(node)),
      byte_(Ref<Datatype>::share(&types_.get(type_id::kByte))),
      files_(std::make_unique<KernelFileSystem>()) {}

Environment::~Environment() = default;

void Environment::use(std::unique_ptr<FileSystem> files, std::unique_ptr<Background> background) {
  polls_.reset();
  background_ = std::move(background);
  files_ = std::move(files);
}

void Environment::begin(Job& job) {
  if (!background_) background_ = make_background(*files_, tunables_);
  if (!polls_) polls_ = std::make_unique<BackgroundPolls>(progress(), *background_);
  background_->begin(job);
  polls_->wanted();
}

void Environment::flush() {
  if (background_) background_->flush();
}

// During a blocking transfer the other threads of this rank go on, and messages between the pieces. One that does not
// block may be a step of a request that a poll advances, and no other thread may find it half done.
void Environment::carry_out(Job& job, bool blocking) {
  Driving& driving = progress().driving();
  for (;;) {
    const uint32_t depth = blocking ? driving.give_way() : 0;
    const bool over = job.carry_out(kPieceBytes);
    driving.come_back(depth);
    if (over) break;
    if (!driving.in_round()) progress().poll();
  }
  job.settle();
  job.set_complete();
}

Request* Environment::transfer(OpenFile& file, bool write, iovec* pieces, int count, int64_t offset, bool blocking) {
  const bool direct = file.direct >= 0 && is_aligned(pieces, count, offset);
  auto* job =
      new Job(write ? Job::Work::write : Job::Work::read, *files_, direct ? file.direct : file.descriptor, file.path);
  job->pieces = pieces;
  job->count = count;
  job->offset = offset;
  const size_t bytes = bytes_of(pieces, count);
  Counters& counted = counters();
  ++(write ? counted.io_written : counted.io_read)[size_class(bytes)];
  (write ? counted.io_written_bytes : counted.io_read_bytes)[size_class(bytes)] += bytes;
  if (counted.watched != 0) [[unlikely]]
    counted.tell(Event::file_access, {write, blocking, offset, int64_t(bytes)});
  const bool quick = file.facts.regular && !file.facts.remote;
  if (blocking && offset != FileSystem::kStream) {
    carry_out(*job, true);
    return job;
  }
  if (quick && bytes <= kAtOnceBytes) {
    if (write) {
      carry_out(*job, false);
      return job;
    }
    if (job->note(files_->read_cached(job->file, job->pieces, job->count, job->offset))) {
      job->settle();
      job->set_complete();
      return job;
    }
  }
  ++counted.io_background;
  begin(*job);
  if (blocking) {
    flush();
    wait(*job);
  }
  return job;
}

Request* Environment::call_elsewhere(const std::string& path, const char* what, std::function<int64_t()> work,
                                     bool blocking) {
  auto* job = new Job(Job::Work::call, *files_, -1, path);
  job->call = std::move(work);
  job->what = what;
  begin(*job);
  flush();
  if (blocking) wait(*job);
  return job;
}

Error Environment::call_here(const std::string& path, const char* what, const std::function<int64_t()>& work) {
  Job job(Job::Work::call, *files_, -1, path);
  job.call = work;
  job.what = what;
  job.carry_out();
  job.settle();
  return std::move(job.error);
}

}  // namespace tern::io
